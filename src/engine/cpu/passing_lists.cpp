// See passing_lists.hpp.
#include "engine/cpu/passing_lists.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::engine
{
namespace
{

// If so many times more lists hold the rows than if these were spread evenly, they lie away from the query, where the
// order of the lists says little about the order of their rows.
constexpr double kMostUneven = 2;

} // namespace

uint32_t
choose_lists(const RowsView &view, uint32_t n_probes, std::span<Neighbor> ranked)
{
	const uint64_t *const offsets = view.lists->offsets();
	const double n_lists = static_cast<double>(ranked.size());
	const double n_rows = static_cast<double>(view.rows.last);
	const double n_pass = static_cast<double>(view.passing->n_pass());
	const size_t most = static_cast<size_t>(std::min(n_lists, std::ceil(kMostUneven * n_probes * n_rows / n_pass)));
	double wanted = 0;
	double held = 0;

	if (most < ranked.size())
		std::nth_element(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(most), ranked.end(), neighbor_less);
	std::sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(most), neighbor_less);
	for (uint32_t i = 0; i < n_probes; i++)
		wanted += static_cast<double>(offsets[ranked[i].row + 1] - offsets[ranked[i].row]);
	wanted = std::max(wanted, n_probes * n_rows / n_lists);
	if (wanted >= n_pass)
		return 0;
	for (size_t i = 0; i < most; i++)
	{
		held += view.passing->places->n_in_list[ranked[i].row];
		if (held >= wanted)
			return static_cast<uint32_t>(i + 1);
	}
	return 0;
}

} // namespace vectorgpu::engine

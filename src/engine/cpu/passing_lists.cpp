// See passing_lists.hpp.
#include "engine/cpu/passing_lists.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::engine
{
namespace
{

// Where one row in m passes, the k-th nearest of these is the k * m-th nearest of all, and lists that hold it lie
// farther away: m^.3 times as many keep recall .95 (README.md, "Conditions").
constexpr double kMoreLists = .3;

// If so many times more lists hold the rows than if these were spread evenly, they lie away from the query, where the
// order of the lists says little about the order of their rows.
constexpr double kMostUneven = 1.5;

} // namespace

uint32_t
choose_lists(const RowsView &view, uint32_t n_probes, std::span<Neighbor> ranked)
{
	const double n_lists = static_cast<double>(ranked.size());
	const double n_rows = static_cast<double>(view.rows.last);
	const double n_pass = static_cast<double>(view.passing->n_pass());
	const double even_lists = n_probes * std::pow(n_rows / n_pass, kMoreLists);
	const double wanted = even_lists * n_pass / n_lists;
	const size_t most = static_cast<size_t>(std::min(n_lists, std::ceil(kMostUneven * even_lists)));
	double held = 0;

	if (2 * even_lists >= n_lists) // then most rows are scored anyway
		return 0;
	if (most < ranked.size())
		std::nth_element(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(most), ranked.end(), neighbor_less);
	std::sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(most), neighbor_less);
	for (uint32_t i = 0; i < most; i++)
	{
		held += view.passing->places->n_in_list[ranked[i].row];
		if (i + 1 >= n_probes && held >= wanted)
			return i + 1;
	}
	return 0;
}

} // namespace vectorgpu::engine

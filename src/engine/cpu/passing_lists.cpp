// See passing_lists.hpp.
#include "engine/cpu/passing_lists.hpp"

#include <algorithm>

#include "engine/ivf/passing_probes.hpp"

namespace vectorgpu::engine
{
namespace
{

// If this many times more lists hold the rows than if these were spread evenly, they lie away from the query, where the
// order of the lists may say little about the order of their rows: the search finds out.
constexpr double kUneven = 1.5;

constexpr double kStageGrowth = 1.5; // of the rows held, between two marks

/// Rows held at the second mark, where a search may end first, over those wanted: the more rows pass, the less it
/// matters where they lie.
double
more_of_uneven(double share)
{
	return std::max(3., 5 - 2 * share);
}

} // namespace

uint32_t
choose_lists(const RowsView &view, uint32_t n_probes, std::span<Neighbor> ranked, std::vector<uint32_t> *marks)
{
	const double n_lists = static_cast<double>(ranked.size());
	const double n_pass = static_cast<double>(view.passing->n_pass());
	const double even_lists = ivf::even_lists(n_probes, view.rows.last, view.passing->n_pass());
	const double wanted = even_lists * n_pass / n_lists;
	const double share = n_pass / static_cast<double>(view.rows.last);
	double next_mark = more_of_uneven(share) * wanted / kStageGrowth;
	double held = 0;
	double n_held = 0; // lists with rows that pass; one where fewer pass than on average counts in part

	marks->clear();
	if (2 * even_lists >= n_lists) // then most rows are scored anyway
		return 0;
	std::sort(ranked.begin(), ranked.end(), neighbor_less);
	for (uint32_t i = 0; i < ranked.size(); i++)
	{
		const uint32_t list = static_cast<uint32_t>(ranked[i].row);
		const double n_in_list = view.passing->places->n_in_list[list];
		const double n_rows = static_cast<double>(view.lists->offsets()[list + 1] - view.lists->offsets()[list]);

		held += n_in_list;
		n_held += n_rows > 0 ? std::min(1., n_in_list / (share * n_rows)) : 0;
		if (n_held >= n_probes && held >= wanted && i + 1 <= kUneven * even_lists)
		{
			marks->clear();
			return i + 1;
		}
		if (held < next_mark || 2 * held >= n_pass)
			continue;
		marks->push_back(i + 1);
		next_mark = std::max(next_mark * kStageGrowth, held);
	}
	return marks->size() > 1 ? static_cast<uint32_t>(ranked.size()) : 0;
}

} // namespace vectorgpu::engine

// How many inverted lists a query with conditions searches, in every engine.
#pragma once

#include <cmath>
#include <cstdint>

namespace vectorgpu::engine::ivf
{

/// The lists of a query that would search n_probes without conditions, if n_pass of n_rows rows pass and are spread
/// evenly over the lists. Where one row in m passes, the k-th nearest of these is the k * m-th nearest of all, and
/// lists that hold it lie farther away: m^.46 (11 % pass) to m^.3 times as many (half of the rows) keep recall .95
/// (../cpu/README.md, "Conditions").
inline double
even_lists(uint32_t n_probes, uint64_t n_rows, uint64_t n_pass)
{
	const double share = static_cast<double>(n_pass) / static_cast<double>(n_rows);

	return n_probes * std::pow(share, .4 * share - .5);
}

} // namespace vectorgpu::engine::ivf

// From counts to scores. See gpumatch.hpp.
#include "am/gpumatch/gpumatch.hpp"

#include <cmath>

#include "types/match/gram_bound.hpp"

namespace vectorgpu::am
{

double
match_score(const MatchSearch *query, Metric metric, uint64 count, uint64 size)
{
	if (metric != Metric::kEdit)
		return count == 0 ? 0.0 : -static_cast<double>(count);

	// A size that is only known to be so large: any such size gives a bound that is not too high if it is no smaller than the
	// query's.
	const int64 own = static_cast<int64>(query->parts.size);
	const int64 other = size < kMaxValueSize ? static_cast<int64>(size) : Max(own, static_cast<int64>(size));

	return static_cast<double>(
		types::edit_distance_bound(own, other, static_cast<int64>(count), query->options.elements.gram_length));
}

uint64
match_least_count(const MatchSearch *query, Metric metric, double worst)
{
	if (metric != Metric::kEdit)
		return worst < 0 ? static_cast<uint64>(-worst) : 0;

	// Theorem V.1 with max(|Q|, |S|) >= |Q|.
	const int64 n = query->options.elements.gram_length;
	const double least = static_cast<double>(query->parts.size) - static_cast<double>(n) + 1 - worst * static_cast<double>(n);

	return least > 0 ? static_cast<uint64>(least) : 0;
}

} // namespace vectorgpu::am

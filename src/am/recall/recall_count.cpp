// See recall_count.hpp.
#include "am/recall/recall_count.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vectorgpu::am
{

RecallInterval
recall_interval(const RecallCount *count)
{
	constexpr double kZ = 1.959963984540054; // of 95 %
	const double nan = std::numeric_limits<double>::quiet_NaN();
	const double queries = count->n_queries;
	double trials = count->wanted;
	double recall;

	if (!(count->wanted > 0))
		return {nan, nan, nan};
	recall = count->found / trials;
	if (count->n_queries > 1 && recall > 0 && recall < 1)
	{
		const double mean = count->sum / queries;
		const double variance = (count->sum_squares - queries * mean * mean) / (queries - 1);
		const double independent =
			recall * (1 - recall) * queries / trials; // of a query's mean of trials / queries rows

		trials /= std::max(1.0, variance / independent);
	}

	const double spread = kZ * std::sqrt(recall * (1 - recall) / trials + kZ * kZ / (4 * trials * trials));
	const double centre = recall + kZ * kZ / (2 * trials);
	const double scale = 1 + kZ * kZ / trials;

	// At 0 and 1 the interval ends exactly there; computed in floating point it would only nearly.
	return {recall, recall <= 0 ? 0 : (centre - spread) / scale, recall >= 1 ? 1 : (centre + spread) / scale};
}

} // namespace vectorgpu::am

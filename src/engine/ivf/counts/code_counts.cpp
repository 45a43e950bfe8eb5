// See code_counts.hpp.
#include "engine/ivf/counts/code_counts.hpp"

#include <algorithm>
#include <cmath>

namespace vectorgpu::engine::ivf
{

double
worst_estimate(const CountedNeighbors &neighbors)
{
	double worst = -std::numeric_limits<double>::infinity();

	for (uint32_t j = 0; j < neighbors.n; j++)
		worst = std::fmax(worst, neighbors.limits[j]); // which passes NaN over
	return worst;
}

void
score_counted(const CountedQuery &query, const CountedRows &rows, double limit, double *scores)
{
	for (size_t i = 0; query.constants != nullptr && i < rows.n; i++)
		rows.constants[i] = static_cast<double>(query.constants[rows.labels[i]]);
	mixed_code_scores(query.codes, rows.constants, rows.codes, rows.terms, rows.n, scores, limit);
}

void
count_better(CountedQuery *query, const CountedRows &rows, double worst, const CountWeights &weights, double *scores)
{
	const CountedNeighbors &neighbors = query->neighbors;
	const uint64_t *copies_end = neighbors.copies + neighbors.n_copies;

	score_counted(*query, rows, worst, scores);
	for (size_t i = 0; i < rows.n; i++)
	{
		const uint64_t number = rows.numbers[i];

		if (!(scores[i] <= worst) || std::find(neighbors.copies, copies_end, number) != copies_end)
			continue;

		const uint32_t weight = is_near(*query, rows.labels[i]) ? weights.near : weights.far;
		const uint8_t point = query->points[rows.labels[i]];

		for (uint32_t j = 0; j < neighbors.n; j++)
			if (scores[i] < neighbors.limits[j] || // the query's own row, too: one candidate more than needed
				(scores[i] == neighbors.limits[j] && number < neighbors.numbers[j]))
				query->better[j][point] += weight;
	}
}

} // namespace vectorgpu::engine::ivf

// From counts to scores. See gpumatch.hpp.
#include "am/gpumatch/gpumatch.hpp"

#include "engine/match/gram_bound.hpp"

namespace vectorgpu::am
{

namespace
{

engine::match::GramQuery
gram_query(const MatchSearch *query)
{
	return {static_cast<int64_t>(query->parts.size), query->options.elements.gram_length};
}

} // namespace

double
match_score(const MatchSearch *query, Metric metric, uint64 count, uint64 size)
{
	if (metric != Metric::kEdit)
		return count == 0 ? 0.0 : -static_cast<double>(count);
	return engine::match::gram_bound(gram_query(query), count, static_cast<uint16>(Min(size, kMaxValueSize)));
}

uint64
match_least_count(const MatchSearch *query, Metric metric, double worst)
{
	if (metric != Metric::kEdit)
		return worst < 0 ? static_cast<uint64>(-worst) : 0;
	return engine::match::gram_least_count(gram_query(query), worst);
}

void
match_scores(const MatchSearch *query, const void *counters, Size width, uint64 first, uint64 n, uint64 least, const uint16 *sizes,
	double *scores)
{
	engine::match::gram_scores(gram_query(query), counters, width, first, n, least, sizes, scores);
}

} // namespace vectorgpu::am

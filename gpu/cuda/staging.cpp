// See staging.hpp.
#include "cuda/staging.hpp"

#include <algorithm>
#include <atomic>

#include "cuda/host_team.hpp"

namespace vectorgpu::cuda
{

bool
put_bytes(const float *query, uint32_t n, uint8_t *to, int32_t *norm)
{
	uint32_t others = 0;
	int32_t sum = 0;

	for (uint32_t e = 0; e < n; e++) // no branches, so that the loop is vectorised
	{
		const float x = query[e];
		const float clamped = x > 0.0f ? (x < 255.0f ? x : 255.0f) : 0.0f; // NaN: 0
		const int32_t whole = static_cast<int32_t>(clamped);

		others |= static_cast<float>(whole) != x ? 1 : 0;
		to[e] = static_cast<uint8_t>(whole);
		sum += whole * whole;
	}
	*norm = sum;
	return others == 0;
}

bool
stage_queries(const engine::DistanceSpec &spec, const Shape &shape, std::span<const engine::SearchQuery> queries,
	std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes, int32_t *norms)
{
	std::atomic<bool> all_bytes{bytes != nullptr};

	HostTeam::get().share(numbers.size(), numbers.size() * shape.query_bytes,
		[&](size_t first, size_t last)
		{
			int32_t norm = 0;

			for (size_t i = first; i < last; i++)
			{
				uint8_t *query = to + i * shape.query_bytes;

				put_query(spec, shape, queries[numbers[i]].query, query);
				if (all_bytes.load(std::memory_order_relaxed) &&
					!put_bytes(reinterpret_cast<const float *>(query), shape.dim_pad, bytes + i * shape.dim_pad, norms != nullptr ? norms + i : &norm))
					all_bytes.store(false, std::memory_order_relaxed);
			}
		});
	return all_bytes.load(std::memory_order_relaxed);
}

void
take_results(std::span<const uint32_t> numbers, const uint32_t *counts, const kernels::Entry *entries, size_t stride, const uint8_t *skip,
	std::vector<std::vector<engine::Neighbor>> *results)
{
	HostTeam::get().share(numbers.size(), numbers.size() * stride * sizeof(kernels::Entry),
		[&](size_t first, size_t last)
		{
			for (size_t i = first; i < last; i++)
			{
				if (skip != nullptr && skip[i] != 0)
					continue;

				std::vector<engine::Neighbor> &result = (*results)[numbers[i]];
				const kernels::Entry *from = entries + i * stride;

				result.resize(counts[i]);
				std::transform(from, from + counts[i], result.begin(),
					[](const kernels::Entry &entry) { return engine::Neighbor{kernels::key_to_score(entry.key), entry.row}; });
			}
		});
}

} // namespace vectorgpu::cuda

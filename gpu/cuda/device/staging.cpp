// See staging.hpp.
#include "cuda/device/staging.hpp"

#include <algorithm>
#include <atomic>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cuda/device/host_team.hpp"

namespace vectorgpu::cuda
{

#if defined(__SSE2__)
namespace
{

/// The first n elements, n a multiple of 16, with intrinsics: the compiler does not vectorize comparisons of floats,
/// since they may trap.
bool
put_many_bytes(const float *query, uint32_t n, uint8_t *to, int32_t *norm, const float *ahead)
{
	const __m128 zero = _mm_setzero_ps();
	const __m128 most = _mm_set1_ps(255.0f);
	__m128 others = zero;
	__m128i sums = _mm_setzero_si128();

	for (uint32_t e = 0; e < n; e += 16)
	{
		__m128i whole[4];

		_mm_prefetch(reinterpret_cast<const char *>(ahead + e), _MM_HINT_T0); // 64 bytes
		for (uint32_t i = 0; i < 4; i++)
		{
			const __m128 x = _mm_loadu_ps(query + e + size_t{4} * i);

			whole[i] = _mm_cvttps_epi32(_mm_min_ps(_mm_max_ps(x, zero), most)); // NaN: 0
			others = _mm_or_ps(others, _mm_cmpneq_ps(_mm_cvtepi32_ps(whole[i]), x));
		}

		const __m128i low = _mm_packs_epi32(whole[0], whole[1]);
		const __m128i high = _mm_packs_epi32(whole[2], whole[3]);

		_mm_storeu_si128(reinterpret_cast<__m128i *>(to + e), _mm_packus_epi16(low, high));
		sums = _mm_add_epi32(sums, _mm_add_epi32(_mm_madd_epi16(low, low), _mm_madd_epi16(high, high)));
	}

	alignas(16) int32_t parts[4];

	_mm_store_si128(reinterpret_cast<__m128i *>(parts), sums);
	*norm = parts[0] + parts[1] + parts[2] + parts[3];
	return _mm_movemask_ps(others) == 0;
}

} // namespace
#endif

bool
put_bytes(const float *query, uint32_t n, uint8_t *to, int32_t *norm, [[maybe_unused]] const float *ahead)
{
	uint32_t others = 0;
	int32_t sum = 0;
	uint32_t e = 0;

#if defined(__SSE2__)
	e = n / 16 * 16;
	others = put_many_bytes(query, e, to, &sum, ahead != nullptr ? ahead : query) ? 0 : 1;
#endif
	for (; e < n; e++)
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
is_bytes(const engine::DistanceSpec &spec, const engine::SearchQuery &query, const engine::SearchQuery &ahead,
	std::vector<uint8_t> *scratch)
{
	int32_t norm = 0;

	if (spec.element != ElementType::kFloat32)
		return false;
	scratch->resize(spec.dim);
	return put_bytes(static_cast<const float *>(query.query), spec.dim, scratch->data(), &norm,
		static_cast<const float *>(ahead.query));
}

namespace
{

/// What stage_queries does, for some of the queries at a time and from several threads.
class QueryStaging
{
public:
	QueryStaging(const engine::DistanceSpec &spec, const Shape &shape, std::span<const engine::SearchQuery> queries,
		std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes, int32_t *norms)
		: spec_(spec), shape_(shape), queries_(queries), numbers_(numbers), to_(to), bytes_(bytes), norms_(norms),
		  all_bytes_(bytes != nullptr)
	{
	}

	void put(size_t first, size_t last)
	{
		int32_t norm = 0;

		for (size_t i = first; i < last; i++)
		{
			uint8_t *query = to_ + i * shape_.query_bytes;

			put_query(spec_, shape_, queries_[numbers_[i]].query, query);
			if (all_bytes_.load(std::memory_order_relaxed) &&
				!put_bytes(reinterpret_cast<const float *>(query), shape_.dim_pad, bytes_ + i * shape_.dim_pad,
					norms_ != nullptr ? norms_ + i : &norm))
				all_bytes_.store(false, std::memory_order_relaxed);
		}
	}

	bool all_bytes() const { return all_bytes_.load(std::memory_order_relaxed); }

private:
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	const std::span<const engine::SearchQuery> queries_;
	const std::span<const uint32_t> numbers_;
	uint8_t *const to_;
	uint8_t *const bytes_;
	int32_t *const norms_;
	std::atomic<bool> all_bytes_;
};

} // namespace

bool
stage_queries(const engine::DistanceSpec &spec, const Shape &shape, std::span<const engine::SearchQuery> queries,
	std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes, int32_t *norms)
{
	QueryStaging staging(spec, shape, queries, numbers, to, bytes, norms);

	HostTeam::get().share(numbers.size(), numbers.size() * shape.query_bytes,
		[&](size_t first, size_t last) { staging.put(first, last); });
	return staging.all_bytes();
}

bool
stage_queries_in_order(const engine::DistanceSpec &spec, const Shape &shape,
	std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes,
	const std::function<void(size_t)> &staged)
{
	QueryStaging staging(spec, shape, queries, numbers, to, bytes, nullptr);

	HostTeam::get().share_in_order(
		numbers.size(), numbers.size() * shape.query_bytes,
		[&](size_t first, size_t last) { staging.put(first, last); }, [&](size_t, size_t last) { staged(last); });
	return staging.all_bytes();
}

void
take_results(std::span<const uint32_t> numbers, const uint32_t *counts, const kernels::Entry *entries, size_t stride,
	const uint8_t *skip, std::vector<std::vector<engine::Neighbor>> *results)
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
				std::transform(from, from + counts[i], result.begin(), [](const kernels::Entry &entry)
					{ return engine::Neighbor{kernels::key_to_score(entry.key), entry.row}; });
			}
		});
}

} // namespace vectorgpu::cuda

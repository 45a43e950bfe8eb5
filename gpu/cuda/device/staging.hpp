// The host's part of every search: queries into pinned memory, in the kernels' form, and results out of it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cuda/device/block.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Convert n elements to bytes and sum their squares; false if one is no byte. ahead: null, or n elements needed soon,
/// which are prefetched: queries come from memory that is not in this core's caches.
bool put_bytes(const float *query, uint32_t n, uint8_t *to, int32_t *norm, const float *ahead = nullptr);

/// True if all elements of the query are float32 and bytes. scratch: a buffer of the caller's. ahead: as in put_bytes.
bool is_bytes(const engine::DistanceSpec &spec, const engine::SearchQuery &query, const engine::SearchQuery &ahead,
	std::vector<uint8_t> *scratch);

/// Write queries[numbers[i]] to `to` [numbers.size(), shape.query_bytes] (put_query). bytes: null, or their elements as
/// bytes [numbers.size(), shape.dim_pad], padded with 0; norms: null, or the sums of the squares of those. True if
/// bytes is not null and every element is a byte.
bool stage_queries(const engine::DistanceSpec &spec, const Shape &shape, std::span<const engine::SearchQuery> queries,
	std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes, int32_t *norms);

/// The same, and call staged(last) in the caller for ever more of the queries 0 ... last - 1, once they are written.
bool stage_queries_in_order(const engine::DistanceSpec &spec, const Shape &shape,
	std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes,
	const std::function<void(size_t)> &staged);

/// Set results[numbers[i]] to the first counts[i] of entries [numbers.size(), stride]. skip: null, or the results whose
/// entry is not 0 are left unchanged.
void take_results(std::span<const uint32_t> numbers, const uint32_t *counts, const kernels::Entry *entries,
	size_t stride, const uint8_t *skip, std::vector<std::vector<engine::Neighbor>> *results);

} // namespace vectorgpu::cuda

// What every search does on the host: queries into pinned memory, as the kernels read them, and results out of it.
#pragma once

#include <span>
#include <vector>

#include "cuda/device/block.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// n elements as bytes, and the sum of their squares; false if one is something else. ahead: null, or n elements that
/// are wanted soon: they are fetched meanwhile, since queries come from memory that nobody on this core has touched.
bool put_bytes(const float *query, uint32_t n, uint8_t *to, int32_t *norm, const float *ahead = nullptr);

/// Queries queries[numbers[i]] go to to [numbers.size(), shape.query_bytes] (put_query). bytes: null, or
/// [numbers.size(), shape.dim_pad]: their elements as bytes too, 0 behind them; norms: null, or the sums of the squares
/// of those. True if bytes were wanted and every element is one.
bool stage_queries(const engine::DistanceSpec &spec, const Shape &shape, std::span<const engine::SearchQuery> queries,
	std::span<const uint32_t> numbers, uint8_t *to, uint8_t *bytes, int32_t *norms);

/// results[numbers[i]] becomes the counts[i] first of entries [numbers.size(), stride]; left alone where skip, unless
/// it is null, is not 0.
void take_results(std::span<const uint32_t> numbers, const uint32_t *counts, const kernels::Entry *entries,
	size_t stride, const uint8_t *skip, std::vector<std::vector<engine::Neighbor>> *results);

} // namespace vectorgpu::cuda

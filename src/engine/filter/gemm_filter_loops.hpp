// The loops of the filter's kernels, included by gemm_filter_avx2.cpp and gemm_filter_avx512.cpp after they have
// defined, in the anonymous namespace of vectorgpu::engine:
//
//   struct Vec          kWidth floats, with zero(), load(p), broadcast(p), store(p), multiply_add(a, b, c) = a * b + c,
//                       bound(offset, term, slope, norm) = offset + term - slope * norm, and
//                       not_below(a, b): bit i is set unless a[i] < b[i]
//   constexpr kGroups   a tile has 3 * kGroups rows and 2 * kWidth queries: as many sums as fit the registers
//
// Rows are read in place, one element broadcast at a time, and only the queries are packed: with few queries and many
// rows, packing the rows would cost too much. Products stay in registers, and almost all of them are discarded there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/filter/gemm_filter_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kPanel = 2 * Vec::kWidth;

/// Record the pairs of one row whose bits are set.
inline FilterHit *
note(FilterHit *hits, const FilterCall &call, uint32_t mask, Vec products, size_t row, size_t first_query)
{
	float values[Vec::kWidth];

	products.store(values);
	for (; mask != 0; mask &= mask - 1)
	{
		const size_t i = static_cast<size_t>(__builtin_ctz(mask));

		if (first_query + i >= call.n_queries)
			break;
		*hits++ = {static_cast<uint16_t>(row), static_cast<uint16_t>(first_query + i), values[i]};
	}
	return hits;
}

/// Compare 3 * n_groups rows from first_row on with one panel; with `single`, the first row only.
template <int n_groups, bool single>
inline __attribute__((always_inline)) FilterHit *
run_tile(const FilterCall &call, size_t panel, size_t first_row, FilterHit *hits)
{
	const size_t stride = single ? 0 : call.dim;
	const float *query = call.panels + panel * kPanel * call.dim;
	const float *group[n_groups];
	Vec sums[3 * n_groups][2];

	for (int g = 0; g < n_groups; g++)
		group[g] = call.rows + first_row * call.dim + static_cast<size_t>(3 * g) * stride;
	for (int r = 0; r < 3 * n_groups; r++)
		sums[r][0] = sums[r][1] = Vec::zero();
	for (size_t d = 0; d < call.dim; d++, query += kPanel)
	{
		const Vec low = Vec::load(query);
		const Vec high = Vec::load(query + Vec::kWidth);

		for (int g = 0; g < n_groups; g++)
		{
			for (int r = 0; r < 3; r++)
			{
				const Vec element = Vec::broadcast(group[g] + static_cast<size_t>(r) * stride);

				sums[3 * g + r][0] = Vec::multiply_add(element, low, sums[3 * g + r][0]);
				sums[3 * g + r][1] = Vec::multiply_add(element, high, sums[3 * g + r][1]);
			}
			group[g]++;
		}
	}

	const size_t first_query = panel * kPanel;

	for (int r = 0; r < (single ? 1 : 3 * n_groups); r++)
	{
		const size_t row = first_row + static_cast<size_t>(r);
		const Vec term = Vec::broadcast(call.terms + row);
		const Vec norm = Vec::broadcast(call.norms + row);

		for (size_t half = 0; half < 2; half++)
		{
			const size_t at = first_query + half * Vec::kWidth;
			const Vec bound = Vec::bound(Vec::load(call.offsets + at), term, Vec::load(call.slopes + at), norm);
			const uint32_t mask = Vec::not_below(sums[r][half], bound);

			if (__builtin_expect(mask != 0, 0))
				hits = note(hits, call, mask, sums[r][half], row, at);
		}
	}
	return hits;
}

size_t
run_filter(const FilterCall &call)
{
	constexpr size_t kTile = 3 * kGroups;
	FilterHit *hits = call.hits;

	for (size_t panel = 0; panel * kPanel < call.n_queries; panel++)
	{
		size_t row = 0;

		for (; row + kTile <= call.n_rows; row += kTile)
			hits = run_tile<kGroups, false>(call, panel, row, hits);
		for (; row + 3 <= call.n_rows; row += 3)
			hits = run_tile<1, false>(call, panel, row, hits);
		for (; row < call.n_rows; row++)
			hits = run_tile<1, true>(call, panel, row, hits);
	}
	return static_cast<size_t>(hits - call.hits);
}

double
sum_squares(const float *vector, size_t n)
{
	constexpr size_t kSums = 32; // kept in registers by the compiler
	double sums[kSums] = {};
	double sum = 0;
	size_t i = 0;

	for (; i + kSums <= n; i += kSums)
		for (size_t j = 0; j < kSums; j++)
			sums[j] += static_cast<double>(vector[i + j]) * static_cast<double>(vector[i + j]); // an exact product
	for (; i < n; i++)
		sum += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
	for (size_t j = 0; j < kSums; j++)
		sum += sums[j];
	return sum;
}

} // namespace
} // namespace vectorgpu::engine

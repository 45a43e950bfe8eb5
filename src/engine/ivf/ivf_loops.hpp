// The loops of the kernels, included by ivf_scalar.cpp, ivf_avx2.cpp and ivf_avx512.cpp after each has defined, in the
// anonymous namespace of vectorgpu::engine::ivf:
//
//   struct Vec          kWidth floats: zero(), load(p), broadcast(x), store(p), load_bytes(p) as floats,
//                       gather(table, p) = table[byte at p + i], fma(a, b, c) = a b + c rounded once,
//                       loose_fma(a, b, c) = a b + c rounded once or twice, fnma(a, b, c) = c - a b rounded once,
//                       add, subtract, absolute,
//                       keep_smaller(value, group, best, which, second), see NearestState
//   constexpr kGroups   a tile has 3 * kGroups rows and 2 * kWidth columns: as many sums as fit the registers
//   float reduce(const Vec *lanes)  32 lanes to their sum: lane j += lane j + 16, then 8, 4, 2, 1
//   void sum_nibbles(...)           IvfKernels::pq4
//   int32_t dot_planes(...)         IvfKernels::plane_dot
//   uint32_t not_above(scores, limit)  the bits of scores [32] that are not above the limit
//
// Everything is in an anonymous namespace and uses no standard template. Loops over registers are unrolled by pragma:
// below -O3 the compiler would keep their arrays in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/rabitq/rabitq_loops.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kPanelWidth = 2 * Vec::kWidth;
constexpr size_t kLanes = 32;
constexpr size_t kLaneVecs = kLanes / Vec::kWidth;
constexpr size_t kBlockRows = 32;

/// A sink for the sums of a tile that keeps the smallest of each lane.
struct KeepSmallest
{
	const float *half_norms;
	NearestState state;

	static VECTORGPU_IVF_INLINE Vec step(Vec a, Vec b, Vec c) { return Vec::loose_fma(a, b, c); }

	VECTORGPU_IVF_INLINE void finish(size_t row, size_t panel, Vec low, Vec high) const
	{
		const size_t at = row * Vec::kWidth;
		const float *norms = half_norms + panel * kPanelWidth;
		Vec best = Vec::load(state.best + at);
		Vec second = Vec::load(state.second + at);
		typename Vec::Index which = Vec::load_index(state.group + at);

		Vec::keep_smaller(Vec::subtract(Vec::load(norms), low), static_cast<uint32_t>(2 * panel), best, which, second);
		Vec::keep_smaller(Vec::subtract(Vec::load(norms + Vec::kWidth), high), static_cast<uint32_t>(2 * panel + 1),
			best, which, second);
		best.store(state.best + at);
		second.store(state.second + at);
		Vec::store_index(state.group + at, which);
	}
};

/// A sink for the sums of a tile that writes a matrix.
struct StoreProducts
{
	float *products;
	size_t stride;

	static VECTORGPU_IVF_INLINE Vec step(Vec a, Vec b, Vec c) { return Vec::fma(a, b, c); }

	VECTORGPU_IVF_INLINE void finish(size_t row, size_t panel, Vec low, Vec high) const
	{
		float *out = products + row * stride + panel * kPanelWidth;

		low.store(out);
		high.store(out + Vec::kWidth);
	}
};

/// Multiply 3 * n_groups rows from first_row on with one panel; with `single` the first of them alone.
template <int n_groups, bool single, class Sink>
static VECTORGPU_IVF_INLINE void
run_tile(const ProductRows &call, const float *panel_values, size_t panel, size_t first_row, const Sink &sink)
{
	const size_t stride = single ? 0 : call.row_stride;
	const float *column = panel_values;
	const float *group[n_groups];
	Vec sums[3 * n_groups][2];

#pragma GCC unroll 16
	for (int g = 0; g < n_groups; g++)
		group[g] = call.rows + first_row * call.row_stride + static_cast<size_t>(3 * g) * stride;
#pragma GCC unroll 16
	for (int r = 0; r < 3 * n_groups; r++)
		sums[r][0] = sums[r][1] = Vec::zero();
	for (size_t d = 0; d < call.depth; d++, column += kPanelWidth)
	{
		const Vec low = Vec::load(column);
		const Vec high = Vec::load(column + Vec::kWidth);

#pragma GCC unroll 16
		for (int g = 0; g < n_groups; g++)
		{
#pragma GCC unroll 16
			for (int r = 0; r < 3; r++)
			{
				const Vec element = Vec::broadcast(group[g][static_cast<size_t>(r) * stride]);

				sums[3 * g + r][0] = Sink::step(element, low, sums[3 * g + r][0]);
				sums[3 * g + r][1] = Sink::step(element, high, sums[3 * g + r][1]);
			}
			group[g] += call.element_stride;
		}
	}
#pragma GCC unroll 16
	for (int r = 0; r < (single ? 1 : 3 * n_groups); r++)
		sink.finish(first_row + static_cast<size_t>(r), panel, sums[r][0], sums[r][1]);
}

/// Loop over panels outside and rows inside: a panel stays in the first cache while the rows come from the second.
template <class Sink>
static VECTORGPU_IVF_INLINE void
run_product(const ProductRows &call, const Panels &panels, const Sink &sink)
{
	constexpr size_t kTile = 3 * kGroups;

	for (size_t panel = 0; panel < panels.n_panels; panel++)
	{
		const float *values = panels.values + panel * call.depth * kPanelWidth;
		size_t row = 0;

		for (; row + kTile <= call.n_rows; row += kTile)
			run_tile<kGroups, false>(call, values, panel, row, sink);
		for (; row + 3 <= call.n_rows; row += 3)
			run_tile<1, false>(call, values, panel, row, sink);
		for (; row < call.n_rows; row++)
			run_tile<1, true>(call, values, panel, row, sink);
	}
}

static void
find_nearest(const ProductRows &call, const Panels &panels, const float *half_norms, const NearestState &state)
{
	const Vec infinity = Vec::broadcast(__builtin_inff());

	for (size_t i = 0; i < call.n_rows * Vec::kWidth; i += Vec::kWidth)
	{
		infinity.store(state.best + i);
		infinity.store(state.second + i);
		memset(state.group + i, 0, Vec::kWidth * sizeof(uint32_t));
	}
	run_product(call, panels, KeepSmallest{half_norms, state});
}

/// The canonical L2 scores of a row and a vector of columns: an element a lane, then the tree over 32 lanes, of which
/// those without an element would add zeros.
template <size_t n_elements>
static VECTORGPU_IVF_INLINE Vec
short_scores(const Vec *row, const float *column)
{
	Vec sums[n_elements];
	size_t n = n_elements;

#pragma GCC unroll 16
	for (size_t d = 0; d < n_elements; d++)
	{
		const Vec difference = Vec::subtract(row[d], Vec::load(column + d * kPanelWidth));

		sums[d] = Vec::loose_fma(difference, difference, Vec::zero()); // with zero both are rounded once
	}
#pragma GCC unroll 16
	for (size_t width = kMostShortElements / 2; width > 0; width /= 2)
	{
#pragma GCC unroll 16
		for (size_t d = 0; d + width < n; d++)
			sums[d] = Vec::add(sums[d], sums[d + width]);
		n = n < width ? n : width;
	}
	return sums[0];
}

template <size_t n_elements>
static void
find_nearest_short(const ProductRows &call, const Panels &panels, size_t n_columns, const NearestState &state)
{
	for (size_t r = 0; r < call.n_rows; r++)
	{
		Vec row[n_elements];
		Vec best = Vec::broadcast(__builtin_inff());
		Vec second = best;
		uint32_t first_group[Vec::kWidth] = {};
		typename Vec::Index which = Vec::load_index(first_group);

#pragma GCC unroll 16
		for (size_t d = 0; d < n_elements; d++)
			row[d] = Vec::broadcast(call.rows[r * call.row_stride + d * call.element_stride]);
		for (size_t group = 0; group < n_columns / Vec::kWidth; group++)
		{
			const float *column = panels.values + group / 2 * (n_elements * kPanelWidth) + group % 2 * Vec::kWidth;

			Vec::keep_smaller(short_scores<n_elements>(row, column), static_cast<uint32_t>(group), best, which, second);
		}
		best.store(state.best + r * Vec::kWidth);
		Vec::store_index(state.group + r * Vec::kWidth, which);
	}
}

static void
nearest_of_short(const ProductRows &call, const Panels &panels, size_t n_columns, const NearestState &state)
{
	switch (call.depth)
	{
		case 1:
			return find_nearest_short<1>(call, panels, n_columns, state);
		case 2:
			return find_nearest_short<2>(call, panels, n_columns, state);
		case 3:
			return find_nearest_short<3>(call, panels, n_columns, state);
		case 4:
			return find_nearest_short<4>(call, panels, n_columns, state);
		case 5:
			return find_nearest_short<5>(call, panels, n_columns, state);
		case 6:
			return find_nearest_short<6>(call, panels, n_columns, state);
		case 7:
			return find_nearest_short<7>(call, panels, n_columns, state);
		default:
			return find_nearest_short<8>(call, panels, n_columns, state);
	}
}

static void
multiply_matrix(const ProductRows &call, const Panels &panels, float *products, size_t stride)
{
	run_product(call, panels, StoreProducts{products, stride});
}

static void
multiply_add_vector(float factor, const float *in, size_t n, float *out)
{
	const Vec factors = Vec::broadcast(factor);

	for (size_t i = 0; i < n; i += Vec::kWidth)
		Vec::fma(factors, Vec::load(in + i), Vec::load(out + i)).store(out + i);
}

static void
add_row_to(const float *row, size_t n, double *sums)
{
	constexpr size_t kStep = 16; // the compiler makes registers of them
	size_t i = 0;

	for (; i + kStep <= n; i += kStep)
		for (size_t j = 0; j < kStep; j++)
			sums[i + j] += static_cast<double>(row[i + j]);
	for (; i < n; i++)
		sums[i] += static_cast<double>(row[i]);
}

static void
multiply_add_doubles(double factor, const double *in, size_t n, double *out)
{
	constexpr size_t kStep = 16;
	size_t i = 0;

	for (; i + kStep <= n; i += kStep)
		for (size_t j = 0; j < kStep; j++)
			out[i + j] += factor * in[i + j];
	for (; i < n; i++)
		out[i] += factor * in[i];
}

static float
rough_sum_squares(const float *row, size_t n)
{
	constexpr size_t kVecs = 4;
	Vec sums[kVecs];
	float parts[Vec::kWidth];
	float sum = 0;
	size_t i = 0;

#pragma GCC unroll 4
	for (size_t v = 0; v < kVecs; v++)
		sums[v] = Vec::zero();
	for (; i + kVecs * Vec::kWidth <= n; i += kVecs * Vec::kWidth)
	{
#pragma GCC unroll 4
		for (size_t v = 0; v < kVecs; v++)
		{
			const Vec x = Vec::load(row + i + v * Vec::kWidth);

			sums[v] = Vec::loose_fma(x, x, sums[v]);
		}
	}
	Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])).store(parts);
	for (; i < n; i++)
		sum += row[i] * row[i];
	for (size_t j = 0; j < Vec::kWidth; j++)
		sum += parts[j];
	return sum;
}

static double
sum_squares(const float *row, size_t n)
{
	constexpr size_t kSums = 32;
	double sums[kSums] = {};
	double sum = 0;
	size_t i = 0;

	for (; i + kSums <= n; i += kSums)
		for (size_t j = 0; j < kSums; j++)
			sums[j] += static_cast<double>(row[i + j]) * static_cast<double>(row[i + j]); // an exact product
	for (; i < n; i++)
		sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
	for (size_t j = 0; j < kSums; j++)
		sum += sums[j];
	return sum;
}

struct Sq8L2
{
	static VECTORGPU_IVF_INLINE Vec step(Vec offset, Vec weight, Vec code, Vec sum)
	{
		const Vec d = Vec::fnma(weight, code, offset);

		return Vec::fma(d, d, sum);
	}
};

struct Sq8L1
{
	static VECTORGPU_IVF_INLINE Vec step(Vec offset, Vec weight, Vec code, Vec sum)
	{
		return Vec::add(sum, Vec::absolute(Vec::fnma(weight, code, offset)));
	}
};

struct Sq8Dot
{
	static VECTORGPU_IVF_INLINE Vec step(Vec, Vec weight, Vec code, Vec sum) { return Vec::fma(weight, code, sum); }
};

/// 32 elements: lane j takes element j.
template <class Op>
static VECTORGPU_IVF_INLINE void
sq8_step(const Sq8Block &block, const uint8_t *codes, size_t at, Vec *sums)
{
#pragma GCC unroll 8
	for (size_t v = 0; v < kLaneVecs; v++)
	{
		const size_t lane = v * Vec::kWidth;

		sums[v] = Op::step(Vec::load(block.offset + at + lane), Vec::load(block.weight + at + lane),
			Vec::load_bytes(codes + lane), sums[v]);
	}
}

template <class Op>
static void
sq8_block(const Sq8Block &block)
{
	constexpr uintptr_t kAhead = 4096; // as in the canonical distance (kReadAheadBytes)

	for (size_t i = 0; i < block.n_rows; i++)
	{
		const uint8_t *codes = block.codes + i * block.dim;
		Vec sums[kLaneVecs];
		size_t at = 0;

#pragma GCC unroll 8
		for (size_t v = 0; v < kLaneVecs; v++)
			sums[v] = Vec::zero();
		for (size_t line = 0; line < block.dim; line += 64)
			// NOLINTNEXTLINE(performance-no-int-to-ptr): beyond the array perhaps, and only prefetched
			__builtin_prefetch(reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(codes) + kAhead + line));
		for (; at + kLanes <= block.dim; at += kLanes)
			sq8_step<Op>(block, codes + at, at, sums);
		if (at < block.dim)
		{
			uint8_t tail[kLanes] = {};

			memcpy(tail, codes + at, block.dim - at);
			sq8_step<Op>(block, tail, at, sums);
		}
		block.sums[i] = reduce(sums);
	}
}

static void
sum_bytes(const uint8_t *codes, size_t code_bytes, const float *table, float *sums)
{
	Vec sum[kBlockRows / Vec::kWidth];

#pragma GCC unroll 8
	for (Vec &s : sum)
		s = Vec::zero();
	for (size_t j = 0; j < code_bytes; j++, codes += kBlockRows, table += 256)
#pragma GCC unroll 8
		for (size_t v = 0; v < kBlockRows / Vec::kWidth; v++)
			sum[v] = Vec::add(sum[v], Vec::gather(table, codes + v * Vec::kWidth));
	for (size_t v = 0; v < kBlockRows / Vec::kWidth; v++)
		sum[v].store(sums + v * Vec::kWidth);
}

/// The table of the including file.
constexpr IvfKernels kKernels = {
	kPanelWidth,
	Vec::kWidth,
	find_nearest,
	nearest_of_short,
	multiply_matrix,
	multiply_add_vector,
	multiply_add_doubles,
	add_row_to,
	rough_sum_squares,
	sum_squares,
	sq8_block<Sq8L2>,
	sq8_block<Sq8L1>,
	sq8_block<Sq8Dot>,
	sum_bytes,
	sum_nibbles,
	flip_signs_of,
	hadamard_transform,
	turn_pairs_of,
	levels_of,
	products_of,
	bounds_of,
	dot_planes,
};

} // namespace
} // namespace vectorgpu::engine::ivf

// The tables of function pointers that the per-ISA files of this folder export. Declarations only, as in
// engine/distance/score_kernels.hpp: nothing that an ISA file compiles may be shared with code for other CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

// Inlined at every level of optimisation: vector registers must not be passed through memory.
#define VECTORGPU_IVF_INLINE inline __attribute__((always_inline))

namespace vectorgpu::engine::ivf
{

/// A matrix that rows are multiplied with, in panels of panel_width columns: panels [n_panels, depth, panel_width].
struct Panels
{
	const float *values;
	size_t n_panels;
};

/// Rows as a product reads them: element d of row r is rows[r * row_stride + d * element_stride].
struct ProductRows
{
	const float *rows;
	size_t row_stride;
	size_t element_stride;
	size_t n_rows;
	size_t depth;
};

/// By row and lane: the smallest of half_norms[c] - x · c over the columns c of the lane, its column (group * lanes +
/// lane), and the smallest of all others. All [n_rows, lanes], set by the kernel.
struct NearestState
{
	float *best;
	uint32_t *group;
	float *second;
};

struct Sq8Block
{
	const uint8_t *codes; // [n_rows, dim] row-major, any alignment
	size_t n_rows;
	size_t dim;
	const float *offset; // [dim rounded up to 32], padded with zeros
	const float *weight; // [dim rounded up to 32], padded with zeros
	float *sums;         // [n_rows]
};

/// Numbers of a row's code below the signs, for a scale (rabitq.cpp).
struct RabitqLevels
{
	const float *magnitudes; // [n], finite, >= 0
	size_t n;                // a multiple of 8
	float inverse;           // level = magnitude * inverse, rounded down, at most `most`; below 2^31 before that
	int32_t most;
	uint8_t *levels;      // [n]
	float *with_residual; // Σ magnitude * (level + 1/2)
	float *norm;          // Σ (level + 1/2)²
};

/// The first pass over a block of RaBitQ codes, after its sums.
struct RabitqBlock
{
	const uint8_t *factors;  // float32 [2 or 3, 32], any alignment: add, scale, error
	const uint32_t *sums;    // [32], below 2^31
	const double *constants; // [32]
	const float *distances;  // [32]; null: no third factor
	float base;
	float scale;
	double limit;
	double *scores; // [32]: constant + (add + scale * (base + this scale * sum) - error * distance), binary32 inside
};

constexpr size_t kMostShortElements = 8; // of rows that are compared with all columns sooner than multiplied

struct IvfKernels
{
	size_t panel_width;
	size_t lanes; // half of panel_width
	/// rows.element_stride has to be 1.
	void (*nearest)(const ProductRows &rows, const Panels &panels, const float *half_norms, const NearestState &state);
	/// For rows of at most kMostShortElements: by row and lane the smallest canonical L2 score of the first n_columns,
	/// a multiple of `lanes`, and the first column that has it; infinity and 0 if none has a score below. Sets neither
	/// state.second nor anything else.
	void (*nearest_short)(const ProductRows &rows, const Panels &panels, size_t n_columns, const NearestState &state);
	/// Set products [n_rows, n_panels * panel_width], rows `stride` floats apart: sums of fma from +0, d ascending. The
	/// same bits at every level.
	void (*multiply)(const ProductRows &rows, const Panels &panels, float *products, size_t stride);
	/// out[i] = fma(factor, in[i], out[i]); n a multiple of 16.
	void (*multiply_add)(float factor, const float *in, size_t n, float *out);
	/// out[i] += factor * in[i], rounded twice.
	void (*multiply_add_double)(double factor, const double *in, size_t n, double *out);
	/// sums[i] += row[i]
	void (*add_row)(const float *row, size_t n, double *sums);
	/// Σ x² in binary32, in any order.
	float (*rough_square_norm)(const float *row, size_t n);
	/// Σ x² in double, within (n + 1) * 2^-53 of it.
	double (*square_norm)(const float *row, size_t n);
	/// 32 lanes and the tree of the canonical distance: Σ (offset - weight code)², Σ |offset - weight code|, Σ weight
	/// code.
	void (*sq8_l2)(const Sq8Block &block);
	void (*sq8_l1)(const Sq8Block &block);
	void (*sq8_dot)(const Sq8Block &block);
	/// One block of 32 rows: codes [code_bytes, 32]; sums [32] of table [code_bytes, 256], added in order of the bytes.
	void (*pq8)(const uint8_t *codes, size_t code_bytes, const float *table, float *sums);
	/// The same with 4 bits: table [2 * code_bytes, 16] of bytes, the low half of a code byte first. Sums cannot
	/// overflow.
	void (*pq4)(const uint8_t *codes, size_t code_bytes, const uint8_t *table, uint32_t *sums);
	/// Change the sign of x [n] where bit i % 32 of word i / 32 is set; n a multiple of 8. The same bits at every
	/// level, as the next ones.
	void (*flip_signs)(const uint32_t *signs, size_t n, float *x);
	/// x [n] times the Hadamard matrix and a factor, in place; n a power of 2 from 8 on.
	void (*hadamard)(float *x, size_t n, float factor);

	/// a [n] becomes (a + b) * factor, b [n] becomes (a - b) * factor.
	void (*turn_pairs)(float *a, float *b, size_t n, float factor);
	void (*rabitq_levels)(const RabitqLevels &call);
	/// products[0] = Σ |rotated| (level + 1/2); [1] = Σ list (level + 1/2), with the sign of rotated. n a multiple
	/// of 8.
	void (*rabitq_products)(const float *rotated, const float *list, const uint8_t *levels, size_t n, double *products);
	/// Return the rows whose score is not above the limit, a bit each; 0 without distances.
	uint32_t (*rabitq_bounds)(const RabitqBlock &block);
	/// Σ number * element: the number of dimension i has bit i % 8 of byte i / 8 of each plane, the lowest plane first.
	/// planes [n_planes, plane_bytes], n_planes at most 7; elements [plane_bytes * 8 rounded up to 64], padded with
	/// zeros, from -127 on.
	int32_t (*plane_dot)(const uint8_t *planes, size_t n_planes, size_t plane_bytes, const int8_t *elements);
};

extern const IvfKernels kScalarIvfKernels;
extern const IvfKernels kAvx2IvfKernels;   // call only on a CPU with AVX2, FMA
extern const IvfKernels kAvx512IvfKernels; // call only on a CPU with AVX-512 F, BW, DQ, VL, FMA

/// The table of the instruction set in use (simd_level()).
const IvfKernels &ivf_kernels();
/// The table whose panels have this width.
const IvfKernels &ivf_kernels_of_width(size_t panel_width);

} // namespace vectorgpu::engine::ivf

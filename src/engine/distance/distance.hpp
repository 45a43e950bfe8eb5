// The canonical distance: the one definition that the SQL functions, the CPU engine and the GPU's final rescoring
// share, bit for bit. See README.md ("Canonical distance") for the exact order of operations.
//
// A *score* is a double that orders rows exactly as the distance does (equal scores if and only if equal distances) and
// that is cheaper to compute: for L2 the sum of squares. distance = finish_score(metric, score).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/types.hpp"

namespace vectorgpu::engine
{

/// The kind of vectors and the metric. `dim` counts elements (bits for ElementType::kBit).
struct DistanceSpec
{
	Metric metric = Metric::kL2;
	ElementType element = ElementType::kFloat32;
	uint32_t dim = 0;
};

/// Whether the metric is defined for the element type (Hamming and Jaccard for bits only, the others for floats only).
bool metric_supports(Metric metric, ElementType element);

/// Prefetch distance in bytes for contiguous rows. Measured in README.md ("Decisions").
constexpr ptrdiff_t kReadAheadBytes = 4096;

/// scores[i] = score(query, rows[i]) for i in [0, n_rows). query: one vector; rows: n_rows vectors, `row_stride` bytes
/// apart, host memory, any alignment; scores [n_rows]. Never fails, allocates nothing; NaN is the quiet positive NaN.
/// read_ahead: offset in bytes, from the byte read to the one prefetched, which need not exist.
void compute_scores(const DistanceSpec &spec, const void *query, const void *rows, size_t row_stride, size_t n_rows,
	double *scores, ptrdiff_t read_ahead = kReadAheadBytes);

/// The distance that belongs to a score. Monotone in the score; NaN stays NaN; never -0.
double finish_score(Metric metric, double score);

/// finish_score(compute_scores) for one pair.
double distance(const DistanceSpec &spec, const void *a, const void *b);

/// floats[i] = halves[i], exactly: halves [n] binary16, any alignment; floats [n]. As fast as the CPU allows.
void widen_halves(const void *halves, size_t n, float *floats);

/// Instruction-set levels of the CPU kernels. All of them give the same bits.
enum class SimdLevel : uint8_t
{
	kAuto = 0, // the best that this CPU has
	kScalar = 1,
	kAvx2 = 2,   // AVX2 + FMA + F16C
	kAvx512 = 3, // AVX-512 F, BW, DQ, VL
};

bool simd_supported(SimdLevel level);

/// Force a level for this process (tests; GUC vectorgpu.simd). Return false, and change nothing, if the CPU lacks it.
bool set_simd_level(SimdLevel level);
SimdLevel simd_level();

} // namespace vectorgpu::engine

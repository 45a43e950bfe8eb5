// The random rotation of RaBitQ: rounds of random signs, a Hadamard transform of the longest power of two that fits
// (from the start in even rounds, at the end in odd ones), and, if that is not all, a half turn of the first half of
// the elements with the second. A round takes n log n additions; no matrix is stored.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::ivf
{

/// Rotate x [n] in place; n a multiple of 8. The same bits at every level.
void rotate_randomly(uint64_t seed, float *x, size_t n);
/// The inverse, but for rounding.
void rotate_back(uint64_t seed, float *x, size_t n);

} // namespace vectorgpu::engine::ivf

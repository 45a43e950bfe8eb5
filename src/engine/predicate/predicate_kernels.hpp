// The tables of function pointers that the per-ISA files of this folder export. Declarations only, as in
// engine/distance/score_kernels.hpp: nothing that an ISA file compiles may be shared with code for other CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

// Inlined at every level of optimisation: vector registers must not be passed through memory.
#define VECTORGPU_PREDICATE_INLINE inline __attribute__((always_inline))

namespace vectorgpu::engine::predicate
{

/// Set bits [ceil(n_rows / 64)] of the rows whose code lies in [low, high], and zero behind the last row. codes
/// [n_rows], any alignment; low <= high <= the greatest code of the width.
using RangeKernel = void (*)(const void *codes, size_t n_rows, uint64_t low, uint64_t high, uint64_t *bits);

/// The same of the rows whose code's bits of `mask` are those of `value`. mask <= the greatest code of the width; value
/// has no bit beyond the mask.
using BitsKernel = void (*)(const void *codes, size_t n_rows, uint64_t mask, uint64_t value, uint64_t *bits);

struct PredicateKernels
{
	RangeKernel range[4]; // codes of 1, 2, 4, 8 bytes
	BitsKernel bits[4];   // likewise
};

extern const PredicateKernels kScalarPredicateKernels;
extern const PredicateKernels kAvx2PredicateKernels;   // call only on a CPU with AVX2
extern const PredicateKernels kAvx512PredicateKernels; // call only on a CPU with AVX-512 F, BW, DQ, VL

/// The table of the instruction set in use (simd_level()).
const PredicateKernels &predicate_kernels();

} // namespace vectorgpu::engine::predicate

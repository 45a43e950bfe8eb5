// The tables of function pointers that the per-ISA files of the canonical distance export to distance.cpp. These files
// are compiled with flags that not every CPU supports, so this header holds declarations only: an inline function here
// would be compiled once per ISA, and the linker could keep the wrong copy.
#pragma once

#include <cstddef>
#include <cstdint>

// Inlined at every level of optimisation: vector registers must not be passed through memory.
#define VECTORGPU_INLINE inline __attribute__((always_inline))

namespace vectorgpu::engine
{

/// One call: a query against a block of rows of the same type and dimension. See compute_scores.
struct ScoreCall
{
	const unsigned char *query; // one vector, any alignment
	const unsigned char *rows;  // [n_rows], row_stride bytes apart, any alignment
	size_t row_stride;          // bytes
	size_t n_rows;
	size_t dim;           // elements, or bits
	double *scores;       // [n_rows]
	ptrdiff_t read_ahead; // bytes
};

using ScoreKernel = void (*)(const ScoreCall &call);

/// One kernel per metric and element type.
struct ScoreKernels
{
	ScoreKernel l2[2]; // [kFloat32, kFloat16]
	ScoreKernel inner_product[2];
	ScoreKernel cosine[2];
	ScoreKernel l1[2];
	ScoreKernel hamming;
	ScoreKernel jaccard;
	void (*widen_halves)(const unsigned char *halves, size_t n, float *floats);
};

extern const ScoreKernels kScalarScoreKernels;
extern const ScoreKernels kAvx2ScoreKernels;   // call only on a CPU with AVX2, FMA, F16C
extern const ScoreKernels kAvx512ScoreKernels; // call only on a CPU with AVX-512 F, BW, DQ, VL, FMA, F16C

} // namespace vectorgpu::engine

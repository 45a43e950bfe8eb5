// The interface between gemm_filter.cpp and its kernels, one file per instruction set. No standard templates: code that
// a kernel's file compiles must not be shared with code for other CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

/// A pair that the quick comparison could not rule out.
struct FilterHit
{
	uint16_t row;
	uint16_t query;
	float product;
};

/// A block of rows against all queries. Queries lie in panels of `width` (the kernel's): panels [n_panels, dim, width],
/// padded with zeros.
struct FilterCall
{
	const float *rows; // [n_rows, dim]
	size_t n_rows;
	size_t dim;
	const float *panels;
	size_t n_queries;
	const float *offsets; // [n_panels * width], +infinity behind n_queries
	const float *slopes;  // [n_panels * width]
	const float *terms;   // [n_rows]
	const float *norms;   // [n_rows]
	FilterHit *hits;      // room for n_rows * n_queries
};

/// Find all pairs except those with x . y < offset + term - slope * norm, all in fp32; return how many. Rows of one
/// query come in ascending order.
struct FilterKernel
{
	size_t width;
	size_t (*run)(const FilterCall &call);

	/// Σ x² in double: [n] floats.
	double (*square_norm)(const float *vector, size_t n);
};

extern const FilterKernel kFilterKernelAvx2;
extern const FilterKernel kFilterKernelAvx512;

} // namespace vectorgpu::engine

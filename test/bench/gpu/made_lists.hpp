// Rows, codes and terms of inverted lists, made by the device (codes_at_scale_bench.cpp).
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace vectorgpu::bench
{

/// Row p of list l is centroid l, plus the codewords of its code, plus noise. All device memory.
struct MadeLists
{
	uint64_t seed = 1;
	uint64_t n_rows = 0;
	uint32_t n_lists = 0;
	uint32_t dim = 0; // a multiple of m
	uint32_t dim_pad = 0;
	uint32_t m = 0;                    // bytes of a code
	uint32_t pitch_bytes = 0;          // of a code on the device
	float noise = 0;                   // largest, of an element
	const uint64_t *offsets = nullptr; // [n_lists + 1]
	const float *centroids = nullptr;  // [n_lists, dim_pad]
	const float *codebook = nullptr;   // [m, dim / m, 256]
	uint8_t *codes = nullptr;          // kernels::CodeForm::kPq8
	float *terms = nullptr;            // [n_rows] |y|² + 2 centroid · y
	float *vectors = nullptr;          // [n_rows, dim_pad]
	uint64_t *row_ids = nullptr;       // [n_rows] ascending
};

/// Codes are drawn evenly from the seed and the place: the same in every run.
[[nodiscard]] cudaError_t launch_make_lists(const MadeLists &made, cudaStream_t stream);

} // namespace vectorgpu::bench

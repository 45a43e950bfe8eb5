// Codes of product quantisers and of SQ8, made on the device: those of src/engine/ivf, bit for bit. See README.md,
// "Making codes".
#pragma once

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kMostEncodedElements = 32; // of a part: its canonical sum has one element a lane

struct EncodeArgs
{
	const float *rows = nullptr;      // [n_rows, dim_pad]
	const uint32_t *labels = nullptr; // [n_rows], below the number of lists
	const float *centroids = nullptr; // [n_lists, dim_pad]
	const float *codebook = nullptr;  // [m, sub_dim, 1 << bits], as PqModel
	uint32_t n_rows = 0;
	uint32_t dim = 0;
	uint32_t dim_pad = 0;
	uint32_t m = 0;
	uint32_t sub_dim = 0;     // at most kMostEncodedElements
	uint32_t bits = 8;        // or 4
	uint8_t *codes = nullptr; // out [n_rows, m], or with 4 bits [n_rows, (m + 1) / 2]
	float *terms = nullptr;   // out [n_rows]; null: none
};

struct EncodeSq8Args
{
	const float *rows = nullptr;   // [n_rows, dim_pad]
	const float *ranges = nullptr; // low [dim], step [dim], as Sq8Ranges
	uint32_t n_rows = 0;
	uint32_t dim = 0;
	uint32_t dim_pad = 0;
	uint8_t *codes = nullptr;  // out [n_rows, dim]
	uint8_t *is_out = nullptr; // out [n_rows]: 1 if an element is beyond its range, else 0
};

/// Reproducible.
[[nodiscard]] cudaError_t launch_encode_sq8(const EncodeSq8Args &args, cudaStream_t stream);

/// Reproducible.
[[nodiscard]] cudaError_t launch_encode_pq(const EncodeArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels

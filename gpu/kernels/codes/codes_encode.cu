// See codes_encode.hpp. Of PQ a thread takes a row and a byte of its code, and compares the row's part with every
// codeword, which all threads of the block read from shared memory at the same time. Of SQ8 a warp takes a row.
#include "kernels/codes/codes_encode.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kTermThreads = 128;
constexpr uint32_t kMostCodewords = 256;
constexpr uint32_t kSq8Rows = 8; // of a block
constexpr uint32_t kWarp = 32;

__host__ __device__ constexpr uint32_t
encoded_bytes(const EncodeArgs &args)
{
	return args.bits == 8 ? args.m : (args.m + 1) / 2;
}

/// Copy the codewords of a part to shared memory [n_codewords, kElements], zeros behind sub_dim.
template <uint32_t kElements>
__device__ __forceinline__ void
take_codewords(const EncodeArgs &args, uint32_t part, float *codewords)
{
	const uint32_t n_codewords = 1u << args.bits;

	for (uint32_t i = threadIdx.x; i < n_codewords * kElements; i += kThreads)
	{
		const uint32_t codeword = i % n_codewords;
		const uint32_t e = i / n_codewords;

		codewords[codeword * kElements + e] = e < args.sub_dim
			? args.codebook[(static_cast<size_t>(part) * args.sub_dim + e) * n_codewords + codeword]
			: 0.0f;
	}
}

/// The canonical L2 score of a part and a codeword: an element a lane, then the tree over 32 lanes, of which those
/// without an element add zeros, which change nothing.
template <uint32_t kElements>
__device__ __forceinline__ float
part_score(const float (&residual)[kElements], const float *codeword)
{
	float sums[kElements];

#pragma unroll
	for (uint32_t e = 0; e < kElements; e++)
	{
		const float difference = __fsub_rn(residual[e], codeword[e]);

		sums[e] = __fmul_rn(difference, difference);
	}
#pragma unroll
	for (uint32_t width = kElements / 2; width >= 1; width /= 2)
#pragma unroll
		for (uint32_t e = 0; e < width; e++)
			sums[e] = __fadd_rn(sums[e], sums[e + width]);
	return sums[0];
}

/// Grid (ceil(n_rows / 256), bytes of a code), block 256. kElements: sub_dim, rounded up to a power of two.
template <uint32_t kElements>
__global__ void __launch_bounds__(kThreads)
encode_pq_kernel(const EncodeArgs args)
{
	__shared__ __align__(16) float codewords[kMostCodewords * kElements];
	const uint32_t row = blockIdx.x * kThreads + threadIdx.x;
	const uint32_t n_codewords = 1u << args.bits;
	const uint32_t n_parts = 8 / args.bits; // of a byte
	const float *vector = args.rows + static_cast<size_t>(min(row, args.n_rows - 1)) * args.dim_pad;
	const float *centroid = args.centroids + static_cast<size_t>(args.labels[min(row, args.n_rows - 1)]) * args.dim_pad;
	uint32_t byte = 0;

	for (uint32_t i = 0; i < n_parts; i++)
	{
		const uint32_t part = blockIdx.y * n_parts + i;
		float residual[kElements];
		uint32_t best = 0xFFFFFFFFu;
		uint32_t code = 0;

		if (part >= args.m) // for the whole block
			break;
		__syncthreads(); // all have left the codewords of the part before
		take_codewords<kElements>(args, part, codewords);
		__syncthreads();
#pragma unroll
		for (uint32_t e = 0; e < kElements; e++)
		{
			const uint32_t at = part * args.sub_dim + e;

			residual[e] = e < args.sub_dim && at < args.dim ? __fsub_rn(vector[at], centroid[at]) : 0.0f;
		}
		// Bits of scores, which are not negative, order as these do, NaN last; the first of equal ones stays.
		for (uint32_t codeword = 0; codeword < n_codewords; codeword++)
		{
			const uint32_t score = __float_as_uint(part_score(residual, codewords + codeword * kElements));

			code = score < best ? codeword : code;
			best = min(score, best);
		}
		byte |= code << (i * args.bits);
	}
	if (row < args.n_rows)
		args.codes[static_cast<size_t>(row) * encoded_bytes(args) + blockIdx.y] = static_cast<uint8_t>(byte);
}

/// Grid ceil(n_rows / 128), block 128: |y|² + 2 z_c·y of a thread's row, in double and in the order of pq_encode.
__global__ void __launch_bounds__(kTermThreads)
encode_terms_kernel(const EncodeArgs args)
{
	const uint32_t row = blockIdx.x * kTermThreads + threadIdx.x;
	const uint32_t n_codewords = 1u << args.bits;
	double sum = 0;

	if (row >= args.n_rows)
		return;

	const float *centroid = args.centroids + static_cast<size_t>(args.labels[row]) * args.dim_pad;
	const uint8_t *codes = args.codes + static_cast<size_t>(row) * encoded_bytes(args);

	for (uint32_t part = 0; part < args.m; part++)
	{
		const uint32_t code = args.bits == 8 ? codes[part] : (codes[part / 2] >> (part % 2 * 4)) & 15;

		for (uint32_t e = 0; e < args.sub_dim; e++)
		{
			const uint32_t at = part * args.sub_dim + e;
			const double y = args.codebook[static_cast<size_t>(at) * n_codewords + code];
			const double c = at < args.dim ? centroid[at] : 0.0f;

			sum = __dadd_rn(sum, __dmul_rn(y, __dadd_rn(y, 2 * c)));
		}
	}
	args.terms[row] = __double2float_rn(sum);
}

/// Grid ceil(n_rows / 8), block (32, 8): the codes of sq8_encode, by its operations in double.
__global__ void __launch_bounds__(kWarp * kSq8Rows)
encode_sq8_kernel(const EncodeSq8Args args)
{
	const uint32_t row = blockIdx.x * kSq8Rows + threadIdx.y;
	bool out = false;

	if (row >= args.n_rows) // for the whole warp
		return;

	const float *vector = args.rows + static_cast<size_t>(row) * args.dim_pad;
	uint8_t *codes = args.codes + static_cast<size_t>(row) * args.dim;

	for (uint32_t d = threadIdx.x; d < args.dim; d += kWarp)
	{
		const double above = __dsub_rn(vector[d], args.ranges[d]);
		const double step = args.ranges[args.dim + d];
		const double level = step > 0 ? __ddiv_rn(above, step) : 0;

		out |= !(above >= -step / 2 && above <= __dmul_rn(255.5, step));
		codes[d] = level > 0 ? static_cast<uint8_t>(rint(fmin(level, 255.0))) : uint8_t{0}; // 0 for NaN
	}
	out = __any_sync(0xFFFFFFFFu, out);
	if (threadIdx.x == 0)
		args.is_out[row] = out ? 1 : 0;
}

} // namespace

cudaError_t
launch_encode_sq8(const EncodeSq8Args &args, cudaStream_t stream)
{
	if (args.n_rows == 0)
		return cudaSuccess;
	encode_sq8_kernel<<<(args.n_rows + kSq8Rows - 1) / kSq8Rows, dim3(kWarp, kSq8Rows), 0, stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_encode_pq(const EncodeArgs &args, cudaStream_t stream)
{
	const dim3 grid((args.n_rows + kThreads - 1) / kThreads, encoded_bytes(args));

	if (args.n_rows == 0)
		return cudaSuccess;
	if (args.sub_dim <= 4)
		encode_pq_kernel<4><<<grid, kThreads, 0, stream>>>(args);
	else if (args.sub_dim <= 8)
		encode_pq_kernel<8><<<grid, kThreads, 0, stream>>>(args);
	else if (args.sub_dim <= 16)
		encode_pq_kernel<16><<<grid, kThreads, 0, stream>>>(args);
	else if (args.sub_dim <= kMostEncodedElements)
		encode_pq_kernel<32><<<grid, kThreads, 0, stream>>>(args);
	else
		return cudaErrorInvalidValue;
	if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || args.terms == nullptr)
		return error;
	encode_terms_kernel<<<(args.n_rows + kTermThreads - 1) / kTermThreads, kTermThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels

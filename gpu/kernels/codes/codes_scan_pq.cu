// Scan of product quantiser's codes. Tables of a query: 8 bits, [m, 256] floats, added in the order of the parts as in
// engine/ivf, so estimates have its bits; 4 bits, [m, 16] bytes by one scale, whose sums are exact.
#include "kernels/codes/codes_scan.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kPqThreads = 512;

/// Entry i of the table of part j: as pq_prepare.
__device__ __forceinline__ float
table_entry(const CodedScanArgs &args, const float *rotated, uint32_t j, uint32_t i, uint32_t n_codewords)
{
	const uint32_t sub_dim = args.codes.sub_dim;
	const float factor = args.metric == Metric::kL2 ? -2.0f : -1.0f;
	float sum = 0.0f;

	for (uint32_t d = j * sub_dim; d < (j + 1) * sub_dim; d++)
		sum = __fmaf_rn(__fmul_rn(factor, __ldg(rotated + d)),
			__ldg(args.codes.model + static_cast<size_t>(d) * n_codewords + i), sum);
	return sum;
}

__device__ __forceinline__ double
with_term(const Codes &codes, double sum, uint32_t place)
{
	sum = __dadd_rn(0.0, sum);
	return codes.terms == nullptr ? sum : __dadd_rn(sum, static_cast<double>(__ldg(codes.terms + place)));
}

struct Pq8
{
	static constexpr int kThreads = kPqThreads;
	static constexpr int kBlocks = 2;

	__device__ __forceinline__ void prepare(const CodedScanArgs &args, uint32_t query, uint8_t *tables)
	{
		float *table = reinterpret_cast<float *>(tables);
		const float *rotated = args.prepared.states + static_cast<size_t>(query) * args.prepared.state_stride;
		const uint32_t n = (args.codes.m + 3) / 4 * 4 * 256;

		for (uint32_t i = threadIdx.x; i < n; i += kThreads)
			table[i] = i < args.codes.m * 256 ? table_entry(args, rotated, i / 256, i % 256, 256) : 0.0f;
		__syncthreads();
	}

	/// sum += the entries of four parts, in their order.
	static __device__ __forceinline__ float add_word(const uint8_t *table, uint32_t word, float sum)
	{
		sum = __fadd_rn(sum, *reinterpret_cast<const float *>(table + ((word << 2) & 0x3FC)));
		sum = __fadd_rn(sum, *reinterpret_cast<const float *>(table + 1024 + ((word >> 6) & 0x3FC)));
		sum = __fadd_rn(sum, *reinterpret_cast<const float *>(table + 2048 + ((word >> 14) & 0x3FC)));
		return __fadd_rn(sum, *reinterpret_cast<const float *>(table + 3072 + ((word >> 22) & 0x3FC)));
	}

	__device__ __forceinline__ double estimate(
		const CodedScanArgs &args, uint32_t, const uint8_t *tables, uint32_t first, uint32_t end, uint32_t lane)
	{
		const uint32_t place = min(first + lane, end - 1);
		const uint32_t n_words = (args.codes.m + 3) / 4;
		const uint4 *codes = reinterpret_cast<const uint4 *>(args.codes.codes +
								 static_cast<size_t>(place / kCodeRows) * kCodeRows * args.codes.pitch_bytes) +
			place % kCodeRows;
		float sum = 0.0f;
		uint32_t w = 0;

#pragma unroll 2
		for (; w + 4 <= n_words; w += 4, codes += kCodeRows, tables += 16384)
		{
			const uint4 four = __ldg(codes);

			sum = add_word(tables, four.x, sum);
			sum = add_word(tables + 4096, four.y, sum);
			sum = add_word(tables + 8192, four.z, sum);
			sum = add_word(tables + 12288, four.w, sum);
		}
		if (w < n_words)
		{
			const uint4 four = __ldg(codes);

			sum = add_word(tables, four.x, sum);
			if (w + 1 < n_words)
				sum = add_word(tables + 4096, four.y, sum);
			if (w + 2 < n_words)
				sum = add_word(tables + 8192, four.z, sum);
		}
		return with_term(args.codes, static_cast<double>(sum), place);
	}
};

/// Tables one after another: [2 * words of codes * 4, 16] bytes, then the smallest entry of each part, floats.
struct Pq4
{
	static constexpr int kThreads = kPqThreads;
	static constexpr int kBlocks = 2;

	double scale;
	double base;

	/// As engine/ivf's make_byte_table.
	__device__ __forceinline__ void prepare(const CodedScanArgs &args, uint32_t query, uint8_t *tables)
	{
		__shared__ double widest_of[kThreads / 32];
		__shared__ double shared_base;
		const float *rotated = args.prepared.states + static_cast<size_t>(query) * args.prepared.state_stride;
		const uint32_t m = args.codes.m;
		const uint32_t n_places = (m + 7) / 8 * 8;
		float *lows = reinterpret_cast<float *>(tables + n_places * 16);
		double widest = 0.0;

		for (uint32_t j = threadIdx.x; j < m; j += kThreads)
		{
			float low = table_entry(args, rotated, j, 0, 16);
			float high = low;

			for (uint32_t i = 1; i < 16; i++)
			{
				const float entry = table_entry(args, rotated, j, i, 16);

				low = entry < low ? entry : low;
				high = high < entry ? entry : high;
			}
			lows[j] = low;

			const double width = __dsub_rn(static_cast<double>(high), static_cast<double>(low));

			widest = widest < width ? width : widest;
		}
#pragma unroll
		for (int offset = 16; offset > 0; offset /= 2)
		{
			const double other = __shfl_xor_sync(0xFFFFFFFFu, widest, offset);

			widest = widest < other ? other : widest;
		}
		if (threadIdx.x % 32 == 0)
			widest_of[threadIdx.x / 32] = widest;
		__syncthreads();
		for (int w = 0; w < kThreads / 32; w++)
			widest = widest < widest_of[w] ? widest_of[w] : widest;
		if (threadIdx.x == 0)
		{
			double sum = 0.0;

			for (uint32_t j = 0; j < m; j++)
				sum = __dadd_rn(sum, static_cast<double>(lows[j]));
			shared_base = sum;
		}
		scale = isfinite(widest) ? __ddiv_rn(widest, 255.0) : 0.0;
		for (uint32_t at = threadIdx.x; at < n_places * 16; at += kThreads)
		{
			uint32_t byte = 0;

			if (scale > 0.0 && at < m * 16)
			{
				const double level =
					rint(__ddiv_rn(__dsub_rn(static_cast<double>(table_entry(args, rotated, at / 16, at % 16, 16)),
									   static_cast<double>(lows[at / 16])),
						scale));

				byte = level < 255.0 ? static_cast<uint32_t>(level) : 255; // NaN: 255
			}
			tables[at] = static_cast<uint8_t>(byte);
		}
		__syncthreads();
		base = shared_base;
	}

	static __device__ __forceinline__ uint32_t add_word(const uint8_t *table, uint32_t word, uint32_t sum)
	{
#pragma unroll
		for (int i = 0; i < 8; i++)
			sum += table[i * 16 + ((word >> (4 * i)) & 15)];
		return sum;
	}

	__device__ __forceinline__ double estimate(
		const CodedScanArgs &args, uint32_t, const uint8_t *tables, uint32_t first, uint32_t end, uint32_t lane)
	{
		const uint32_t place = min(first + lane, end - 1);
		const uint32_t n_words = (args.codes.m + 7) / 8;
		const uint4 *codes = reinterpret_cast<const uint4 *>(args.codes.codes +
								 static_cast<size_t>(place / kCodeRows) * kCodeRows * args.codes.pitch_bytes) +
			place % kCodeRows;
		uint32_t sum = 0;

		for (uint32_t w = 0; w < n_words; w += 4, codes += kCodeRows, tables += 512)
		{
			const uint4 four = __ldg(codes);

			sum = add_word(tables, four.x, sum);
			if (w + 1 < n_words)
				sum = add_word(tables + 128, four.y, sum);
			if (w + 2 < n_words)
				sum = add_word(tables + 256, four.z, sum);
			if (w + 3 < n_words)
				sum = add_word(tables + 384, four.w, sum);
		}
		return with_term(args.codes, __dadd_rn(base, __dmul_rn(scale, static_cast<double>(sum))), place);
	}
};

} // namespace

size_t
pq_table_bytes(const Codes &codes)
{
	if (codes.form == CodeForm::kPq8)
		return (size_t{codes.m} + 3) / 4 * 4 * 256 * sizeof(float);

	const size_t n_places = (size_t{codes.m} + 7) / 8 * 8;

	return n_places * 16 + n_places * sizeof(float);
}

uint32_t
pq_threads()
{
	return kPqThreads;
}

cudaError_t
launch_pq_scan(const CodedScanArgs &args, cudaStream_t stream)
{
	const bool shared = code_table_fits(args.codes, args.stride);

	if (args.codes.form == CodeForm::kPq8)
		return shared ? launch_code_estimator<Pq8, true>(args, stream)
					  : launch_code_estimator<Pq8, false>(args, stream);
	return shared ? launch_code_estimator<Pq4, true>(args, stream) : launch_code_estimator<Pq4, false>(args, stream);
}

cudaError_t
prepare_pq_scan()
{
	cudaError_t error = prepare_code_estimator<Pq8, true>();

	if (error == cudaSuccess)
		error = prepare_code_estimator<Pq8, false>();
	if (error == cudaSuccess)
		error = prepare_code_estimator<Pq4, true>();
	return error != cudaSuccess ? error : prepare_code_estimator<Pq4, false>();
}

} // namespace vectorgpu::kernels

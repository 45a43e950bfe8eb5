// Scan of codes that lie row by row, SQ8 and halves: a warp takes 32 rows, each thread its lane of their sums, in the
// order of the canonical distance. Also the launchers of all scans.
#include "kernels/codes/codes_scan.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kRowThreads = 256;

template <Metric metric>
struct Sq8
{
	static constexpr int kThreads = kRowThreads;
	static constexpr int kBlocks = 2;

	__device__ __forceinline__ void prepare(const CodedScanArgs &, uint32_t, const uint8_t *) {}

	/// As engine/ivf's sq8_scores.
	__device__ __forceinline__ double estimate(
		const CodedScanArgs &args, uint32_t query, const uint8_t *, uint32_t first, uint32_t end, uint32_t lane)
	{
		const uint32_t padded = args.prepared.state_stride / 2;
		const float *offsets = args.prepared.states + static_cast<size_t>(query) * args.prepared.state_stride;
		const float *weights = offsets + padded;
		const uint8_t *block = args.codes.codes;
		const size_t pitch = args.codes.pitch_bytes;
		float sums[32];

#pragma unroll
		for (int r = 0; r < 32; r++)
			sums[r] = 0.0f;
		for (uint32_t at = 0; at < padded; at += kSq8GroupDims)
		{
			float offset[4];
			float weight[4];

#pragma unroll
			for (int s = 0; s < 4; s++)
			{
				offset[s] = __ldg(offsets + at + s * 32 + lane);
				weight[s] = __ldg(weights + at + s * 32 + lane);
			}
#pragma unroll
			for (int r = 0; r < 32; r++)
			{
				const uint32_t word =
					__ldg(reinterpret_cast<const uint32_t *>(block + min(first + r, end - 1) * pitch + at) + lane);

#pragma unroll
				for (int s = 0; s < 4; s++)
				{
					// 2^23 + byte - 2^23: exact, and faster than a conversion.
					const float code =
						__fsub_rn(__uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650u + s)), 8388608.0f);

					if constexpr (metric == Metric::kL2)
					{
						const float d = __fmaf_rn(-weight[s], code, offset[s]);

						sums[r] = __fmaf_rn(d, d, sums[r]);
					}
					else if constexpr (metric == Metric::kL1)
						sums[r] = __fadd_rn(sums[r], fabsf(__fmaf_rn(-weight[s], code, offset[s])));
					else
						sums[r] = __fmaf_rn(weight[s], code, sums[r]);
				}
			}
		}

		const double sum = static_cast<double>(reduce_pairs(sums, lane));

		if constexpr (metric == Metric::kInnerProduct)
			return -__dadd_rn(sum, args.prepared.constants[query]);
		else if constexpr (metric == Metric::kCosine)
			return __dsub_rn(1.0, __dadd_rn(sum, args.prepared.constants[query]));
		else
			return sum;
	}
};

template <Metric metric>
struct Halves
{
	static constexpr int kThreads = kRowThreads;
	static constexpr int kBlocks = 1;

	__device__ __forceinline__ void prepare(const CodedScanArgs &, uint32_t, const uint8_t *) {}

	__device__ __forceinline__ double estimate(
		const CodedScanArgs &args, uint32_t query, const uint8_t *, uint32_t first, uint32_t end, uint32_t lane)
	{
		const float *vector = args.prepared.units + static_cast<size_t>(query) * args.dim_pad;
		const char *block = reinterpret_cast<const char *>(args.codes.codes);
		const float aa = metric == Metric::kCosine ? query_square_sum(vector, args.dim_pad, lane) : 0.0f;

		return score_pairs<metric, Float16Form, 32, 1>([&](int r)
			{ return block + static_cast<size_t>(min(first + r, end - 1)) * args.codes.pitch_bytes; }, vector, 1,
			args.dim_pad, aa, lane);
	}
};

template <template <Metric> class Estimator>
cudaError_t
launch_metric(const CodedScanArgs &args, cudaStream_t stream)
{
	switch (args.metric)
	{
		case Metric::kL2:
			return launch_code_estimator<Estimator<Metric::kL2>, true>(args, stream);
		case Metric::kInnerProduct:
			return launch_code_estimator<Estimator<Metric::kInnerProduct>, true>(args, stream);
		case Metric::kCosine:
			return launch_code_estimator<Estimator<Metric::kCosine>, true>(args, stream);
		case Metric::kL1:
			return launch_code_estimator<Estimator<Metric::kL1>, true>(args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

template <template <Metric> class Estimator>
cudaError_t
prepare_metrics()
{
	cudaError_t error = prepare_code_estimator<Estimator<Metric::kL2>, true>();

	if (error == cudaSuccess)
		error = prepare_code_estimator<Estimator<Metric::kInnerProduct>, true>();
	if (error == cudaSuccess)
		error = prepare_code_estimator<Estimator<Metric::kCosine>, true>();
	return error != cudaSuccess ? error : prepare_code_estimator<Estimator<Metric::kL1>, true>();
}

bool
is_pq(const Codes &codes)
{
	return codes.form == CodeForm::kPq8 || codes.form == CodeForm::kPq4;
}

cudaError_t
launch_scan(const CodedScanArgs &args, cudaStream_t stream)
{
	if (args.codes.form == CodeForm::kRabitq)
		return launch_rabitq_scan(args, stream);
	return is_pq(args.codes) ? launch_pq_scan(args, stream) : launch_row_code_scan(args, stream);
}

} // namespace

cudaError_t
launch_row_code_scan(const CodedScanArgs &args, cudaStream_t stream)
{
	return args.codes.form == CodeForm::kSq8 ? launch_metric<Sq8>(args, stream) : launch_metric<Halves>(args, stream);
}

cudaError_t
prepare_row_code_scan()
{
	const cudaError_t error = prepare_metrics<Sq8>();

	return error != cudaSuccess ? error : prepare_metrics<Halves>();
}

size_t
code_table_bytes(const Codes &codes)
{
	if (codes.form == CodeForm::kRabitq)
		return rabitq_table_bytes(codes);
	return is_pq(codes) ? (pq_table_bytes(codes) + 15) / 16 * 16 : 0;
}

bool
code_table_fits(const Codes &codes, uint32_t stride)
{
	return !is_pq(codes) || // tables of RaBitQ always fit
		code_table_bytes(codes) + code_entries(stride, pq_threads()) * sizeof(Entry) + sizeof(CodeSlots) + 1024 <=
		kCodeSharedBytes;
}

cudaError_t
launch_coded_parts(const CodedScanArgs &args, cudaStream_t stream)
{
	return args.n_queries == 0 ? cudaSuccess : launch_scan(args, stream);
}

cudaError_t
launch_coded_scan(const CodedScanArgs &args, cudaStream_t stream)
{
	const cudaError_t error = launch_coded_parts(args, stream);

	return error != cudaSuccess || args.parts == nullptr ? error : launch_join_parts(args, stream);
}

cudaError_t
prepare_code_kernels()
{
	cudaError_t error = prepare_pq_scan();

	if (error == cudaSuccess)
		error = prepare_row_code_scan();
	if (error == cudaSuccess)
		error = prepare_rabitq_queries();
	if (error == cudaSuccess)
		error = prepare_rabitq_scan();
	if (error == cudaSuccess)
		error = prepare_code_finish();
	return error;
}

} // namespace vectorgpu::kernels

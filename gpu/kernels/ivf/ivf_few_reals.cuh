// Inverted lists of any numbers for few queries (ivf_few_scan.cuh), instantiated per metric by ivf_few_<metric>.cu.
// Scores are canonical. Eight threads take a row, four of every 32 elements each (16 bytes of float32), and so four of
// the canonical lanes.
#pragma once

#include "kernels/ivf/ivf_few_launch.hpp"
#include "kernels/ivf/ivf_few_rank.cuh"
#include "kernels/ivf/ivf_few_scan.cuh"

namespace vectorgpu::kernels
{

/// Four elements of a row in their form.
template <class FormT>
struct FourOf;

template <>
struct FourOf<Float32Form>
{
	using Raw = float4;
	static __device__ __forceinline__ float4 wide(const Raw &raw) { return raw; }
};

template <>
struct FourOf<Float16Form>
{
	using Raw = uint2;
	static __device__ __forceinline__ float half(uint32_t bits)
	{
		return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
	}
	static __device__ __forceinline__ float4 wide(const Raw &raw)
	{
		return make_float4(half(raw.x & 0xFFFF), half(raw.x >> 16), half(raw.y & 0xFFFF), half(raw.y >> 16));
	}
};

template <>
struct FourOf<ByteForm>
{
	using Raw = uint32_t;
	static __device__ __forceinline__ float4 wide(const Raw &raw)
	{
		return make_float4(static_cast<float>(raw & 0xFF), static_cast<float>(raw >> 8 & 0xFF),
			static_cast<float>(raw >> 16 & 0xFF), static_cast<float>(raw >> 24));
	}
};

/// sums[s]: this thread's four lanes, 4 (lane % 8) and the next, of row s of its eight threads. The canonical tree adds
/// lanes 16 apart, then 8, 4, 2, 1: the first three are threads 4, 2 and 1 apart. The butterfly is transposed while
/// there are rows to share out, so the sum returned is that of row lane % 8 (kEach = 8), (lane % 8) / 4 (kEach = 2).
template <int kEach, int width = 4>
__device__ __forceinline__ float
reduce_fours(float (&sums)[kEach][4], uint32_t lane)
{
	const bool upper = (lane & width) != 0;
	constexpr int kLeft = kEach > 1 ? kEach / 2 : 1;
	float left[kLeft][4];

#pragma unroll
	for (int i = 0; i < kLeft; i++)
	{
#pragma unroll
		for (int c = 0; c < 4; c++)
		{
			const float keep = kEach > 1 && upper ? sums[i + kEach / 2][c] : sums[i][c];
			const float send = kEach > 1 && !upper ? sums[i + kEach / 2][c] : sums[i][c];

			left[i][c] = __fadd_rn(keep, __shfl_xor_sync(0xFFFFFFFFu, send, width));
		}
	}
	if constexpr (width > 1)
		return reduce_fours<kLeft, width / 2>(left, lane);
	else
		return __fadd_rn(__fadd_rn(left[0][0], left[0][2]), __fadd_rn(left[0][1], left[0][3]));
}

/// A warp takes kRows rows at a time, 32 or 8: each thread has 8 loads under way, of 8 rows, or of 2 rows and 4 steps
/// of 32 elements. Few rows of many dimensions are done sooner by many warps.
template <Metric metric, class FormT, uint32_t kRows>
class RealScorer
{
public:
	static constexpr uint32_t kChunkRows = kRows;
	static constexpr int kBlocks = kRows == 8 ? 3 : 2;
	static constexpr bool kPairs = metric == Metric::kCosine;

	static __host__ __device__ constexpr uint32_t query_units(uint32_t dim_pad) { return dim_pad / 4; }

	__device__ __forceinline__ RealScorer(
		const IvfFewArgs &args, const uint4 *query, const IvfFewQuery &, uint32_t lane)
		: args_(args), query_(reinterpret_cast<const float4 *>(query)), lane_(lane)
	{
		if constexpr (metric == Metric::kCosine)
			aa_ = shared_square_sum(reinterpret_cast<const float *>(query), args.dim_pad, lane);
	}

	__device__ __forceinline__ uint32_t order(uint32_t first, uint32_t end) const
	{
		return float_to_order(static_cast<float>(score([&](uint32_t r) { return min(first + r, end - 1); })));
	}

	__device__ __forceinline__ uint64_t key(const IvfFewCandidate &candidate) const
	{
		double mine = 0.0;

#pragma unroll 1
		for (uint32_t first = 0; first < 32; first += kRows)
		{
			const double here = score([&](uint32_t r) { return __shfl_sync(0xFFFFFFFFu, candidate.place, first + r); });

			mine = lane_ / kRows == first / kRows ? here : mine;
		}
		return device_score_to_key(mine);
	}

	__device__ __forceinline__ bool is_inexact(uint64_t) const { return false; }

private:
	static constexpr int kEach = kRows / 4;  // rows of a thread
	static constexpr int kSteps = 8 / kEach; // of 32 elements

	static_assert(kEach * 4 == kRows && (kEach == 8 || kEach == 2));

	/// The canonical score of row place_at(lane % kRows). place_at(r), r below kRows: called by all threads of the warp
	/// together, with different r.
	template <class PlaceAt>
	__device__ __forceinline__ double score(const PlaceAt &place_at) const
	{
		constexpr bool kCosine = metric == Metric::kCosine;
		using Four = FourOf<FormT>;
		using Raw = typename Four::Raw;
		const uint32_t part = lane_ % 8;
		const uint32_t dim_pad = args_.dim_pad;
		const char *rows[kEach];
		float sums[kEach][4];
		float squares[kCosine ? kEach : 1][4];

#pragma unroll
		for (int s = 0; s < kEach; s++)
		{
			rows[s] = static_cast<const char *>(args_.rows.vectors) +
				static_cast<size_t>(place_at(lane_ / 8 * kEach + s)) * args_.rows.pitch_bytes + part * sizeof(Raw);
#pragma unroll
			for (int c = 0; c < 4; c++)
				sums[s][c] = 0.0f;
		}
		if constexpr (kCosine)
		{
#pragma unroll
			for (int s = 0; s < kEach; s++)
			{
#pragma unroll
				for (int c = 0; c < 4; c++)
					squares[s][c] = 0.0f;
			}
		}
#pragma unroll 1
		for (uint32_t base = 0; base < dim_pad; base += kSteps * kLanes)
		{
			Raw raw[kSteps][kEach];

#pragma unroll
			for (int j = 0; j < kSteps; j++)
			{
				const uint32_t e = min(base + j * kLanes,
					dim_pad - kLanes); // beyond the end the last row again, which then does not count

#pragma unroll
				for (int s = 0; s < kEach; s++)
					raw[j][s] =
						__ldg(reinterpret_cast<const Raw *>(rows[s] + static_cast<size_t>(e) / 4 * sizeof(Raw)));
			}
#pragma unroll
			for (int j = 0; j < kSteps; j++)
			{
				if (base + j * kLanes >= dim_pad)
					break;

				const float4 x = query_[(base + j * kLanes) / 4 + part];

#pragma unroll
				for (int s = 0; s < kEach; s++)
				{
					const float4 y = Four::wide(raw[j][s]);

					sums[s][0] = canonical_step<metric>(x.x, y.x, sums[s][0]);
					sums[s][1] = canonical_step<metric>(x.y, y.y, sums[s][1]);
					sums[s][2] = canonical_step<metric>(x.z, y.z, sums[s][2]);
					sums[s][3] = canonical_step<metric>(x.w, y.w, sums[s][3]);
					if constexpr (kCosine)
					{
						squares[s][0] = __fmaf_rn(y.x, y.x, squares[s][0]);
						squares[s][1] = __fmaf_rn(y.y, y.y, squares[s][1]);
						squares[s][2] = __fmaf_rn(y.z, y.z, squares[s][2]);
						squares[s][3] = __fmaf_rn(y.w, y.w, squares[s][3]);
					}
				}
			}
		}

		float sum = of_row(reduce_fours(sums, lane_));
		float bb = 0.0f;

		if constexpr (kCosine)
			bb = of_row(reduce_fours(squares, lane_));
		return canonical_score<metric>(sum, aa_, bb);
	}

	/// The result of reduce_fours for row lane % kRows.
	__device__ __forceinline__ float of_row(float value) const
	{
		if constexpr (kEach == 8)
			return value; // of row lane already
		else
			return __shfl_sync(0xFFFFFFFFu, value,
				lane_ % kRows * 4); // rows 2 g and 2 g + 1 lie in threads 8 g ... 8 g + 3 and 8 g + 4 ...
	}

	const IvfFewArgs &args_;
	const float4 *query_; // shared [dim_pad / 4]
	float aa_ = 0.0f;
	uint32_t lane_;
};

/// Call work.template operator()<Scorer>() for the form and dimensions of the rows.
template <Metric metric, class FormT, class Work>
cudaError_t
with_real_scorer(uint32_t dim_pad, const Work &work)
{
	return dim_pad <= kIvfFewNarrowDims ? work.template operator()<RealScorer<metric, FormT, 32>>()
										: work.template operator()<RealScorer<metric, FormT, 8>>();
}

template <Metric metric>
cudaError_t
launch_ivf_few_reals(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream)
{
	const auto scan = [&]<class Scorer>() { return launch_few_scan<Scorer>(args, stream); };
	const cudaError_t error = launch_few_rank<metric, Float32Form>(args, travelling, stream);

	if (error != cudaSuccess)
		return error;
	switch (args.rows.form)
	{
		case Form::kFloat32:
			return with_real_scorer<metric, Float32Form>(args.dim_pad, scan);
		case Form::kFloat16:
			return with_real_scorer<metric, Float16Form>(args.dim_pad, scan);
		case Form::kByte:
			return with_real_scorer<metric, ByteForm>(args.dim_pad, scan);
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

template <Metric metric>
cudaError_t
prepare_ivf_few_reals()
{
	const auto prepare = [&]<class Scorer>() { return prepare_few_scan<Scorer>(kIvfFewMostRealDims); };
	cudaError_t error = prepare_few_rank<metric, Float32Form>(kIvfFewMostRealDims);

	for (const uint32_t dim_pad : {kIvfFewNarrowDims, kIvfFewMostRealDims})
	{
		if (error == cudaSuccess)
			error = with_real_scorer<metric, Float32Form>(dim_pad, prepare);
		if (error == cudaSuccess)
			error = with_real_scorer<metric, Float16Form>(dim_pad, prepare);
		if (error == cudaSuccess)
			error = with_real_scorer<metric, ByteForm>(dim_pad, prepare);
	}
	return error;
}

} // namespace vectorgpu::kernels

// The thread's layer of the filter over scaled rows (scaled.hpp): how sums begin, the estimate of a sum. README.md,
// "Scaled rows". Layout of sums as in filter_sums.cuh.
#pragma once

#include "kernels/filter/filter_sums.cuh"

namespace vectorgpu::kernels
{

/// Turns the place where a sum begins into a whole number without a conversion: a float added to a number this large
/// is rounded to a multiple of 1 << unit_bits, and its bits count these.
struct ScaledStart
{
	float large;
	int offset;    // takes the bits of `large` off, and rounds up: no row is lost
	uint32_t unit; // 1 << unit_bits

	/// kept: kept_scaled_threshold; h: the query's factor.
	__device__ __forceinline__ int of(float kept, float h, const ScaledValue &value) const
	{
		return of(__fmaf_rn(-value.besides, h, kept), value.factor);
	}

	/// The same of rows whose estimate has no part besides products.
	__device__ __forceinline__ int of(float kept, float factor) const
	{
		return static_cast<int>(__float_as_uint(__fmaf_rn(kept, factor, large)) * unit) + offset;
	}
};

__device__ __forceinline__ ScaledStart
scaled_start(const ScaledPass &pass)
{
	const uint32_t bits = (127u + 23u + pass.unit_bits) << 23 | 0x400000u; // 1.5 times a power of two

	return {__uint_as_float(bits), static_cast<int>((3u - bits) << pass.unit_bits), 1u << pass.unit_bits};
}

/// A threshold in units of 1 / h, within the range of sums.
__device__ __forceinline__ float
kept_scaled_threshold(float threshold, float h, float most)
{
	return fminf(fmaxf(__fmul_rn(threshold, h), -most), most);
}

/// Write a candidate's estimate to memory, unless it is dead.
__device__ __forceinline__ void
pass_on_scaled(const FilterArgs &args, const Staged &candidate)
{
	if (row_is_dead(args.rows, candidate.row))
		return;

	const float2 loaded = __ldg(reinterpret_cast<const float2 *>(args.scaled.values) + candidate.row);
	const ScaledValue value{loaded.x, loaded.y};
	const float h = args.scaled.factors[candidate.query];
	const float kept = kept_scaled_threshold(args.thresholds[candidate.query], h, args.scaled.most_kept);
	const int products = static_cast<int>(candidate.sum) - scaled_start(args.scaled).of(kept, h, value);
	const float estimate = value.besides != value.besides
		? value.besides
		: value.besides - static_cast<float>(products) / (h * value.factor);

	append(args.candidates.counts, args.candidates.rows, args.candidates.estimates, args.candidates.capacity,
		candidate.query, candidate.row, estimate);
}

/// Set a thread's sums of two rows of an m to their start. kept: of its queries; factors: shared address of h of its
/// first query, two of each 8 after it, for kBesides; at_zero: sums are the products alone.
template <bool at_zero, bool kBesides, int NT>
__device__ __forceinline__ void
start_scaled_sums(int (&sums)[NT][4], const uint32_t (&kept)[2 * NT], const ScaledValue (&values)[2], uint32_t factors,
	const ScaledStart &start)
{
#pragma unroll
	for (int n = 0; n < NT; n++)
	{
		float h[2] = {0.0f, 0.0f};

		// Read for each tile: registers have no room for them.
		if constexpr (!at_zero && kBesides)
			asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(h[0]), "=f"(h[1]) : "r"(factors + n * 32));
#pragma unroll
		for (int half = 0; half < 2; half++)
#pragma unroll
			for (int j = 0; j < 2; j++)
			{
				int &sum = sums[n][half * 2 + j];
				const float threshold = __uint_as_float(kept[2 * n + j]);

				if constexpr (at_zero)
					sum = 0;
				else if constexpr (kBesides)
					sum = start.of(threshold, h[j], values[half]);
				else
					sum = start.of(threshold, values[half].factor);
			}
	}
}

/// For sums that began at zero: per query, the smaller of `smallest` and the estimates of the thread's row. steps: bits
/// of 1 / h of its queries.
template <int NT>
__device__ __forceinline__ void
take_smallest_scaled(float (&smallest)[2 * NT], const int (&sums)[NT][4], int half, const ScaledValue &value,
	const uint32_t (&steps)[2 * NT], bool counts)
{
	const float step = 1.0f / value.factor; // infinite: its estimates are NaN

#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
	{
		const float products = static_cast<float>(sums[i / 2][half * 2 + i % 2]) * __uint_as_float(steps[i]);
		const float estimate = __fmaf_rn(-products, step, value.besides);

		smallest[i] = counts ? fminf(smallest[i], estimate) : smallest[i]; // fminf ignores NaN
	}
}

} // namespace vectorgpu::kernels

// The warp's layer of the products by warp groups (sm_90a): its part of the shared memory, the values of its rows, and
// how it judges the sums of a tile. A warp has rows 16 w ... 16 w + 15 of both halves of a tile.
#pragma once

#include "kernels/filter/filter_scaled.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kWarpStaged = 128;     // candidates that a warp stages
constexpr uint32_t kFlushWarpStaged = 64; // flushed after a tile once this many wait
constexpr uint32_t kWarpRows = 32;        // of a tile, judged by a warp
constexpr uint32_t kValueSlots = 4; // tiles, a power of two, whose values lie in shared memory or are being loaded

/// The number of this thread's warp, in a form that lets the compiler see that all lanes have the same.
__device__ __forceinline__ uint32_t
uniform_warp()
{
	return __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0);
}

/// The rows and queries of a thread's sums [2][NT][4] of a tile. Of four rows, i / 2 is the half of the tile.
struct GroupThread
{
	uint32_t lane;
	uint32_t warp;
	uint32_t first_query; // of the group

	/// Rows from the thread's first row to its row i.
	static __device__ __forceinline__ constexpr uint32_t rows_to(int i) { return i / 2 * 64 + i % 2 * 8; }

	__device__ __forceinline__ uint32_t row(int i) const { return rows_to(i) + warp % 4 * 16 + lane / 4; }
	__device__ __forceinline__ uint32_t query(int i) const { return first_query + lane % 4 * 2 + i / 2 * 8 + i % 2; }
};

/// What the filter reads of a row besides its elements (launch_row_values, launch_scale_rows).
template <Form form>
struct RowValue
{
	using Type = float;
};
template <>
struct RowValue<Form::kScaled>
{
	using Type = ScaledValue;
};

/// A warp's own part of the shared memory after the pipeline's.
template <class Shape>
struct WarpMemory
{
	using Value = typename RowValue<Shape::form>::Type;

	uint32_t *count; // counts of all warps come first; they have to be cleared
	Staged *staged;  // [kWarpStaged]
	Value *values;   // [kValueSlots, kWarpRows]

	__device__ __forceinline__ WarpMemory(unsigned char *behind, uint32_t warp)
		: count(reinterpret_cast<uint32_t *>(behind) + warp),
		  staged(reinterpret_cast<Staged *>(behind + Shape::kWarps * sizeof(uint32_t)) + warp * kWarpStaged),
		  values(reinterpret_cast<Value *>(behind + Shape::kWarps * (sizeof(uint32_t) + kWarpStaged * sizeof(Staged))) +
			  warp * kValueSlots * kWarpRows)
	{
	}
};

/// The factors of a block's queries [Shape::kQueries], behind all warps' parts; Form::kScaled.
template <class Shape>
__device__ __forceinline__ float *
factors_of_queries(unsigned char *behind)
{
	return reinterpret_cast<float *>(WarpMemory<Shape>(behind, Shape::kWarps).values);
}

/// The values (launch_row_values, launch_scale_rows) of the rows that a warp judges, requested tiles ahead: a load
/// takes longer than a tile while rows come at the memory's bandwidth. Each lane requests one of the 32 rows, 16 w ...
/// 16 w + 15 of both halves of the tile. All lanes call together.
template <class Value>
class ValueRing
{
public:
	__device__ __forceinline__ ValueRing(Value *slots, uint32_t warp, uint32_t lane)
		: own_(static_cast<uint32_t>(__cvta_generic_to_shared(slots)) + lane * kBytes), slots_(slots), lane_(lane),
		  row_(lane / 16 * 64 + warp % 4 * 16 + lane % 16)
	{
	}

	/// The row of a tile that this lane requests.
	__device__ __forceinline__ uint32_t row() const { return row_; }

	/// Request the next tile's value at `from`; 0 if there is no row. Calls of ask are at most kValueSlots - 1 ahead of
	/// take, which assumes exactly that.
	__device__ __forceinline__ void ask(const Value *from, bool is_there)
	{
		asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\ncp.async.commit_group;" ::"r"(
						 own_ + asked_ % kValueSlots * kWarpRows * kBytes),
			"l"(from), "n"(kBytes), "r"(is_there ? kBytes : 0)
			: "memory");
		asked_++;
	}

	/// Get values[i]: of the thread's row lane / 4 + 8 (i mod 2) of the half i / 2.
	__device__ __forceinline__ void take(Value (&values)[4])
	{
		const uint32_t slot = taken_ % kValueSlots * kWarpRows;

		asm volatile("cp.async.wait_group %0;" ::"n"(kValueSlots - 2) : "memory");
		__syncwarp(); // and all lanes have read the slot that is requested next
#pragma unroll
		for (int i = 0; i < 4; i++)
			values[i] = read(slots_ + slot + i / 2 * 16 + i % 2 * 8 + lane_ / 4);
		taken_++;
	}

private:
	static constexpr uint32_t kBytes = sizeof(Value);

	static __device__ __forceinline__ float read(const float *from)
	{
		return *static_cast<const volatile float *>(from);
	}
	static __device__ __forceinline__ ScaledValue read(const ScaledValue *from)
	{
		ScaledValue value;

		asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
			: "=f"(value.besides), "=f"(value.factor)
			: "r"(shared_address(from))
			: "memory");
		return value;
	}

	uint32_t own_; // the lane's place in the first slot
	Value *slots_;
	uint32_t lane_;
	uint32_t row_;
	uint32_t asked_ = 0;
	uint32_t taken_ = 0;
};

/// Candidates that a warp has found and not yet passed on. All of it is the warp's own. pass_on(candidate): write one
/// to memory.
template <class PassOn>
struct WarpStaging
{
	PassOn pass_on;
	Staged *staged;
	uint32_t *n_staged;

	__device__ __forceinline__ void add(const Staged &candidate)
	{
		const uint32_t at = atomicAdd(n_staged, 1u);

		if (at < kWarpStaged)
			staged[at] = candidate;
		else
			pass_on(candidate);
	}

	/// By all lanes.
	__device__ __forceinline__ void flush(uint32_t at_least)
	{
		__syncwarp();

		const uint32_t n = *n_staged;

		if (n <= at_least)
			return;
		for (uint32_t i = threadIdx.x % 32; i < min(n, kWarpStaged); i += 32)
			pass_on(staged[i]);
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			*n_staged = 0;
		__syncwarp();
	}
};

/// Set the values at which the sums of a tile begin (start_sums).
template <Form form, bool kAtZero, bool kByteCosine, int NT, class Sum>
__device__ __forceinline__ void
start_tile(Sum (&sums)[2][NT][4], const uint32_t (&thresholds)[2 * NT], const float (&values)[4], bool is_cosine)
{
#pragma unroll
	for (int m = 0; m < 2; m++)
	{
		const float of[2] = {values[2 * m], values[2 * m + 1]};

		start_sums<form, kAtZero, kByteCosine>(sums[m], thresholds, of, is_cosine);
	}
}

/// A tile whose sums are judged: the number that candidates get for its first row, that row of `rows`.
struct JudgedTile
{
	uint32_t number;
	uint32_t row;
	const Rows &rows;
};

/// The part of a row's estimate without products; NaN: an untrusted row.
__device__ __forceinline__ float
besides_of(float value)
{
	return value;
}

__device__ __forceinline__ float
besides_of(const ScaledValue &value)
{
	return value.besides;
}

/// Stage the rows of a tile that pass, and pass them on if many wait. kDeadEarly: without dead rows. Where conditions
/// leave the rows near a query out, most rows of the filter that pass are dead, and to stage them for each query takes
/// several times as long as to look at their bits; where each row passes for some of many queries, it is the reverse.
template <int NT, bool kDeadEarly, class Sum, class Value, class PassOn>
__device__ __forceinline__ void
judge_tile(const Sum (&sums)[2][NT][4], const Value (&values)[4], const JudgedTile &tile, const GroupThread &thread,
	uint32_t n_queries, WarpStaging<PassOn> &staging)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		find_passed<NT>(
			sums[i / 2], i % 2, besides_of(values[i]),
			[&]
			{
				const uint32_t row = tile.row + thread.row(i);

				return row < tile.rows.n_rows && !(kDeadEarly && row_is_dead(tile.rows, row));
			},
			[&](int hit, Sum sum)
			{
				if (thread.query(hit) < n_queries)
					staging.add({tile.number + thread.row(i), thread.query(hit), sum_bits(sum)});
			});
	staging.flush(kFlushWarpStaged);
}

/// For sums that began at zero: the smaller of `smallest` and the estimates of the thread's rows of a tile.
template <int NT, class Sum>
__device__ __forceinline__ void
take_smallest_of_tile(float (&smallest)[2 * NT], const Sum (&sums)[2][NT][4], const float (&values)[4],
	const JudgedTile &tile, const GroupThread &thread, bool is_cosine)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		const uint32_t row = tile.row + thread.row(i);

		take_smallest<NT>(
			smallest, sums[i / 2], i % 2, values[i], row < tile.rows.n_rows && !row_is_dead(tile.rows, row), is_cosine);
	}
}

/// The same of scaled rows. steps: bits of 1 / h of the thread's queries.
template <int NT>
__device__ __forceinline__ void
take_smallest_of_tile(float (&smallest)[2 * NT], const int (&sums)[2][NT][4], const ScaledValue (&values)[4],
	const JudgedTile &tile, const GroupThread &thread, const uint32_t (&steps)[2 * NT])
{
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		const uint32_t row = tile.row + thread.row(i);

		take_smallest_scaled<NT>(
			smallest, sums[i / 2], i % 2, values[i], steps, row < tile.rows.n_rows && !row_is_dead(tile.rows, row));
	}
}

/// Write the smallest estimates of a warp's rows to minima[query * stride].
template <int NT>
__device__ __forceinline__ void
write_smallest(
	const float (&smallest)[2 * NT], const GroupThread &thread, uint32_t n_queries, float *minima, uint32_t stride)
{
#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
	{
		const float least = smallest_of_rows(smallest[i]);

		if (thread.lane < 4 && thread.query(i) < n_queries)
			minima[static_cast<size_t>(thread.query(i)) * stride] = least;
	}
}

} // namespace vectorgpu::kernels

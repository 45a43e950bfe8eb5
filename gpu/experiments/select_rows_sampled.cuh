// Selection from the rows of a matrix, one block per row, each row read once without a barrier. A sample of the row
// gives a threshold that is likely to pass somewhat more than k numbers; each thread keeps passed numbers in a list of
// its own in shared memory; of these the k smallest are found and sorted. If fewer than k passed, or more than there is
// room for (sorted rows, many ties), the row is selected again by rounds.
#pragma once

#include "experiments/select_rows_block.cuh"
#include "experiments/select_rows_plan.hpp"
#include "experiments/select_rows_rounds.cuh"

namespace vectorgpu::kernels
{

/// Shared memory of a block, before lists and keys.
struct SampledScratch
{
	RoundsScratch rounds;
	uint32_t parts[2][32]; // of each warp, in turn
};

constexpr uint32_t kSelectLoads = 6; // vectors of 16 bytes that a thread has under way

/// Shared bytes of a block.
inline size_t
sampled_shared_bytes(const SelectRowsPlan &plan)
{
	const size_t n_lists = plan.n_sample_vectors == 0 ? 0 : plan.n_slots * size_t{kSelectThreads};

	return sizeof(SampledScratch) +
		std::max(n_lists + std::max(plan.n_sorted, kSelectThreads), size_t{plan.capacity}) * 8;
}

__device__ __forceinline__ float4
load_numbers(const float4 *from)
{
	float4 v;

	asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
		: "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
		: "l"(from));
	return v;
}

/// The numbers that a thread has found so far: a list in shared memory, a number and its column kSelectThreads words
/// after it, the next 2 kSelectThreads words on, so that no two threads meet in a bank. The last slot of a full list is
/// overwritten, and marks it as full. Places are addresses of shared memory, 32 bits each.
struct FoundList
{
	static constexpr uint32_t kStep = 8 * kSelectThreads;

	uint32_t begin;
	uint32_t next;
	uint32_t last;   // overwritten repeatedly: the list is full
	float threshold; // NaN: nothing passes

	__device__ __forceinline__ FoundList(uint32_t *first, uint32_t n_slots, float threshold_)
		: begin(static_cast<uint32_t>(__cvta_generic_to_shared(first))), next(begin),
		  last(begin + (n_slots - 1) * kStep), threshold(threshold_)
	{
	}

	__device__ __forceinline__ void take(float value, uint32_t column)
	{
		if (value <= threshold)
		{
			asm volatile("st.shared.f32 [%0], %1;" ::"r"(next), "f"(value) : "memory");
			asm volatile("st.shared.u32 [%0], %1;" ::"r"(next + 4 * kSelectThreads), "r"(column) : "memory");
			next = min(next + kStep, last);
		}
	}

	/// Look at four numbers from `column` on.
	__device__ __forceinline__ void look_at(const float4 &v, uint32_t column)
	{
		if (fminf(fminf(v.x, v.y), fminf(v.z, v.w)) <= threshold) // false for NaN
		{
			take(v.x, column);
			take(v.y, column + 1);
			take(v.z, column + 2);
			take(v.w, column + 3);
		}
	}

	__device__ __forceinline__ bool is_full() const { return next == last; }

	__device__ __forceinline__ uint32_t size() const { return (next - begin) / kStep; }
};

/// A row as vectors of 16 bytes, with up to three numbers before and after them.
struct RowVectors
{
	const float *row;
	const float4 *vectors;
	uint32_t n_head;
	uint32_t n_vectors;
	uint32_t n_tail;

	__device__ __forceinline__ RowVectors(const float *row_, uint32_t n) : row(row_)
	{
		n_head = (4 - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) / 4 % 4)) % 4;
		vectors = reinterpret_cast<const float4 *>(row + n_head);
		n_vectors = (n - n_head) / 4;
		n_tail = n - n_head - 4 * n_vectors;
	}
};

/// The place of the j-th vector of a thread's sample: parts of 8 vectors, one in each stretch of the row.
__device__ __forceinline__ uint32_t
sample_vector(uint32_t j, uint32_t n_vectors, const SelectRowsPlan &plan)
{
	const uint32_t stretch =
		n_vectors / (plan.n_sample_vectors * (kSelectThreads / 8)); // 64 and more: kSelectLeastColumnsPerSample
	const uint32_t part = (j * kSelectThreads + threadIdx.x) / 8;

	return part * stretch + (__umulhi(part * 2654435769u, stretch - 7) & ~7u) + threadIdx.x % 8;
}

/// A number up to which rank_least ... rank_most numbers of the sample are; NaN if there is none.
__device__ __forceinline__ float
sample_threshold(const float4 (&sample)[kSelectMostSampleVectors], const SelectRowsPlan &plan, BlockJoin *join)
{
	uint32_t orders[4 * kSelectMostSampleVectors];
	uint32_t least = 0xFFFFFFFFu;
	uint32_t most = 0;
	uint32_t found = 0;

#pragma unroll
	for (uint32_t j = 0; j < kSelectMostSampleVectors; j++)
	{
		const float numbers[] = {sample[j].x, sample[j].y, sample[j].z, sample[j].w};

#pragma unroll
		for (uint32_t l = 0; l < 4; l++)
		{
			const uint32_t i = 4 * j + l;

			orders[i] = 0xFFFFFFFFu; // never counted: halve_block_range asks for numbers below some number
			if (j < plan.n_sample_vectors)
			{
				orders[i] = number_order(numbers[l]);
				least = min(least, orders[i]);
				most = max(most, orders[i]);
			}
		}
	}
	least = join->least(least);
	most = join->most(most);
	return order_to_float(halve_block_range(
		least, most, plan.rank_least, plan.rank_most, &found,
		[&](uint32_t limit)
		{
			uint32_t n_up_to = 0;

#pragma unroll
			for (uint32_t i = 0; i < 4 * kSelectMostSampleVectors; i++)
				n_up_to += orders[i] <= limit;
			return n_up_to;
		},
		join));
}

/// Read the row once; numbers that pass the threshold go to the threads' lists. now: of each thread, the first
/// kSelectLoads vectors.
__device__ __forceinline__ void
filter_row(const RowVectors &in, float4 (&now)[kSelectLoads], FoundList *list)
{
	constexpr uint32_t kRound = kSelectThreads * kSelectLoads;
	const uint32_t n_rounds = in.n_vectors / kRound; // at least one: plan_select_rows
	const float4 *from = in.vectors + threadIdx.x;
	uint32_t column = in.n_head + 4 * threadIdx.x;

	if (threadIdx.x < in.n_head)
		list->take(in.row[threadIdx.x], threadIdx.x);
	if (threadIdx.x < in.n_tail)
	{
		const uint32_t last = in.n_head + 4 * in.n_vectors + threadIdx.x;

		list->take(in.row[last], last);
	}
#pragma unroll 1
	for (uint32_t i = 1; i < n_rounds; i++)
	{
		from += kRound;
#pragma unroll
		for (uint32_t j = 0; j < kSelectLoads; j++) // the vector's registers take the one of the next round
		{
			list->look_at(now[j], column + 4 * kSelectThreads * j);
			now[j] = load_numbers(from + j * kSelectThreads);
		}
		column += 4 * kRound;
	}
#pragma unroll
	for (uint32_t j = 0; j < kSelectLoads; j++)
		list->look_at(now[j], column + 4 * kSelectThreads * j);
	for (uint32_t i = n_rounds * kRound + threadIdx.x; i < in.n_vectors; i += kSelectThreads)
		list->look_at(load_numbers(in.vectors + i), in.n_head + 4 * i);
}

/// Set keys[0, k) to the k smallest of the threads' numbers, in any order. False if there are fewer, or if a list is
/// full.
__device__ __forceinline__ bool
pick_k(const FoundList &list, uint32_t *first, uint32_t n_columns, uint32_t k, uint64_t *keys, BlockJoin *join)
{
	constexpr uint32_t kFull = 1u << 20; // more than all lists together hold
	const uint32_t n_mine = list.size();
	uint32_t least = 0xFFFFFFFFu;
	uint32_t most = 0;
	auto order_at = [&](uint32_t i) { return first[i * 2 * kSelectThreads]; };
	auto column_at = [&](uint32_t i) { return first[(i * 2 + 1) * kSelectThreads]; };
	auto count = [&](auto counts)
	{
		uint32_t n = 0;

		for (uint32_t i = 0; i < n_mine; i++)
			n += counts(i);
		return n;
	};

	for (uint32_t i = 0; i < n_mine; i++) // numbers become orders
	{
		const uint32_t order = number_order(__uint_as_float(order_at(i)));

		first[i * 2 * kSelectThreads] = order;
		least = min(least, order);
		most = max(most, order);
	}

	const uint32_t total = join->sum(list.is_full() ? kFull : n_mine);

	if (total < k || total >= kFull)
		return false;
	least = join->least(least);
	most = join->most(most);

	uint32_t n_up_to = total;
	const uint32_t bound = halve_block_range(
		least, most, k, k, &n_up_to,
		[&](uint32_t limit) { return count([&](uint32_t i) { return order_at(i) <= limit; }); }, join);
	uint32_t last_column = 0xFFFFFFFFu; // of those that have the bound's order

	if (n_up_to > k)
	{
		uint32_t ties = join->sum(count([&](uint32_t i) { return order_at(i) == bound; }));
		const uint32_t n_wanted = k - (n_up_to - ties);

		last_column = halve_block_range(
			0, n_columns - 1, n_wanted, n_wanted, &ties, [&](uint32_t limit)
			{ return count([&](uint32_t i) { return order_at(i) == bound && column_at(i) <= limit; }); }, join);
	}

	auto is_wanted = [&](uint32_t i)
	{ return order_at(i) < bound || (order_at(i) == bound && column_at(i) <= last_column); };
	uint32_t at = join->sum_before(count(is_wanted));

	for (uint32_t i = 0; i < n_mine; i++)
		if (is_wanted(i))
			keys[at++] = static_cast<uint64_t>(order_at(i)) << 32 | column_at(i);
	return true;
}

/// Grid n_rows, block kSelectThreads, shared: sampled_shared_bytes. Reproducible. Of the four blocks of a processor
/// some read while others look for thresholds or sort.
__global__ void __launch_bounds__(kSelectThreads, 4)
select_rows_sampled_kernel(const SelectRowsArgs args, const SelectRowsPlan plan)
{
	extern __shared__ __align__(16) unsigned char shared[];
	SampledScratch *scratch = reinterpret_cast<SampledScratch *>(shared);
	uint64_t *keys = reinterpret_cast<uint64_t *>(shared + sizeof(SampledScratch));
	const float *row = args.values + static_cast<size_t>(blockIdx.x) * args.n_columns;
	const uint32_t n = args.n_columns;
	const uint32_t k = min(args.k, n);
	bool found = false;

	if (plan.n_sample_vectors != 0)
	{
		const RowVectors in(row, n);
		uint32_t *first = reinterpret_cast<uint32_t *>(keys + max(plan.n_sorted, kSelectThreads)) + threadIdx.x;
		BlockJoin join = {scratch->parts, 0};
		float4 sample[kSelectMostSampleVectors] = {};
		float4 now[kSelectLoads];

#pragma unroll
		for (uint32_t j = 0; j < kSelectMostSampleVectors; j++)
			if (j < plan.n_sample_vectors)
				sample[j] = load_numbers(in.vectors + sample_vector(j, in.n_vectors, plan));
#pragma unroll
		for (uint32_t j = 0; j < kSelectLoads; j++) // under way while the threshold is found
			now[j] = load_numbers(in.vectors + j * kSelectThreads + threadIdx.x);

		FoundList list(first, plan.n_slots, sample_threshold(sample, plan, &join));

		filter_row(in, now, &list);
		found = pick_k(list, first, n, k, keys, &join);
	}
	if (!found)
	{
		__syncthreads(); // the lists are no longer read
		select_row_by_rounds<kSelectThreads>(row, n, k, &scratch->rounds, keys, plan.capacity);
	}
	for (uint32_t i = k + threadIdx.x; i < max(plan.n_sorted, kSelectThreads); i += kSelectThreads)
		keys[i] = ~uint64_t{0};
	__syncthreads();
	switch (plan.n_sorted / kSelectThreads)
	{
		case 2:
			sort_pair_keys<2>(keys, plan.n_sorted);
			break;
		case 4:
			sort_pair_keys<4>(keys, plan.n_sorted);
			break;
		case 8:
			sort_pair_keys<8>(keys, plan.n_sorted);
			break;
		default:
			sort_pair_keys<1>(keys, plan.n_sorted);
	}
	for (uint32_t i = threadIdx.x; i < k; i += kSelectThreads)
	{
		const size_t at = static_cast<size_t>(blockIdx.x) * args.k + i;
		const uint32_t order = static_cast<uint32_t>(keys[i] >> 32);
		const uint32_t column = static_cast<uint32_t>(keys[i]);

		// The order has the number's bits, except for zeros and NaN.
		args.out_values[at] = order == 0x80000000u || order == 0xFFFFFFFFu ? row[column] : order_to_float(order);
		args.out_columns[at] = column;
	}
}

} // namespace vectorgpu::kernels

// See count_pq.hpp.
#include "count_pq/count_pq.hpp"

#include "kernels/match/match_slices.cuh"

namespace vectorgpu::bench
{

namespace
{

using namespace kernels;

constexpr int kCountThreads = 512;
constexpr int kSelectThreads = 256;

/// A value that other threads may be changing, read from L2.
__device__ __forceinline__ uint32_t
load_now(const uint32_t *at)
{
	uint32_t value;

	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
	return value;
}

__device__ __forceinline__ uint64_t
load_now(const uint64_t *at)
{
	uint64_t value;

	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
	return value;
}

/// A query's state.
struct Queue
{
	uint32_t *bitmap;
	uint32_t *zipper;
	uint32_t *threshold;
	uint64_t *table;
	uint32_t *n_overflows;
	uint32_t n_buckets;
	uint32_t k;

	__device__ Queue(const CountPqArgs &args, uint32_t query)
		: bitmap(args.bitmap + static_cast<size_t>(query) * args.n_words),
		  zipper(args.zipper + static_cast<size_t>(query) * (args.max_count + 2)), threshold(args.thresholds + query),
		  table(args.table + static_cast<size_t>(query) * args.n_buckets * kCountBucket),
		  n_overflows(args.n_overflows + query), n_buckets(args.n_buckets), k(args.queries.k[query])
	{
	}

	__device__ void put(uint32_t object, uint32_t count) const
	{
		const uint64_t entry = static_cast<uint64_t>(count) << 32 | object;
		uint64_t *bucket = table + static_cast<size_t>((object * 0x9E3779B1u >> 7) & (n_buckets - 1)) * kCountBucket;

		for (;;)
		{
			const uint32_t least = load_now(threshold);
			uint64_t *place = nullptr;
			uint64_t seen = 0;

			if (count < least)
				return; // expired meanwhile
			for (uint32_t i = 0; i < kCountBucket; i++)
			{
				const uint64_t slot = load_now(bucket + i);

				if (slot != 0 && static_cast<uint32_t>(slot) == object)
				{
					if (slot >= entry)
						return; // a later increment was here first
					place = bucket + i;
					seen = slot;
					break;
				}
				if (place == nullptr && static_cast<uint32_t>(slot >> 32) < least)
				{
					place = bucket + i;
					seen = slot;
				}
			}
			if (place == nullptr)
			{
				atomicAdd(n_overflows, 1u);
				return;
			}
			if (atomicCAS(reinterpret_cast<unsigned long long *>(place), static_cast<unsigned long long>(seen),
					static_cast<unsigned long long>(entry)) == seen)
				return;
		}
	}
};

/// Handle an object that has reached a count not below the audit threshold as the thread knew it. Returns the current
/// threshold. Not inline: it is called in 32 places, rarely once some rows have been counted.
__device__ __noinline__ uint32_t
pass_gate(Queue queue, uint32_t object, uint32_t count)
{
	if (const uint32_t least = load_now(queue.threshold); count < least)
		return least;
	atomicAdd(queue.zipper + count, 1u);
	__threadfence(); // of two threads that count at the same time one sees both, and raises the threshold
	for (uint32_t least = load_now(queue.threshold); load_now(queue.zipper + least) >= queue.k;
		least = load_now(queue.threshold))
		atomicMax(queue.threshold, least + 1);
	queue.put(object, count);
	return load_now(queue.threshold);
}

template <uint32_t kBits>
struct BitmapCounters
{
	static constexpr uint32_t kEach = 32 / kBits;
	static constexpr uint32_t kMost = 0xFFFFFFFFu >> (32 - kBits);

	static __device__ __forceinline__ uint32_t add(uint32_t *words, uint32_t row)
	{
		const uint32_t shift = row % kEach * kBits;

		return (atomicAdd(words + row / kEach, 1u << shift) >> shift & kMost) + 1;
	}

	static __device__ __forceinline__ uint32_t of(uint32_t word, uint32_t place)
	{
		return word >> (place * kBits % 32) & kMost;
	}
};

template <uint32_t kBits>
__global__ void __launch_bounds__(kCountThreads, 2)
count_kernel(CountPqArgs args)
{
	__shared__ MatchSlices slices;
	const uint32_t query = blockIdx.x;
	const MatchTile tile = args.tiles[blockIdx.y];
	const Queue queue(args, query);
	const uint32_t first_range = query == 0 ? 0 : args.queries.range_ends[query - 1];
	const uint32_t n_ranges = args.queries.range_ends[query] - first_range;
	uint32_t threshold = load_now(queue.threshold); // not above the true one

	for (uint32_t done = 0; done < n_ranges; done += kMatchSlices)
	{
		const uint32_t n = min(n_ranges - done, kMatchSlices);
		const uint32_t n_chunks = find_slices(tile, args.queries.ranges + first_range + done, n, &slices);

		for_each_place(tile, slices, n, n_chunks,
			[&](uint32_t place)
			{
				const uint32_t row = tile.first_row + place;
				const uint32_t count = BitmapCounters<kBits>::add(queue.bitmap, row);

				if (count >= threshold)
					threshold = pass_gate(queue, row, count);
			});
		__syncthreads();
	}
}

/// The sum of the block's values before this thread's; *all: of all.
__device__ inline uint32_t
sum_before(uint32_t value, uint32_t *sums, uint32_t *all)
{
	const uint32_t lane = threadIdx.x % 32;
	uint32_t up_to = value;
	uint32_t before = 0;

	for (uint32_t offset = 1; offset < 32; offset *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, up_to, offset);

		if (lane >= offset)
			up_to += other;
	}
	__syncthreads(); // the sums of the round before have been read
	if (lane == 31)
		sums[threadIdx.x / 32] = up_to;
	__syncthreads();
	*all = 0;
	for (uint32_t warp = 0; warp < kSelectThreads / 32; warp++)
	{
		before += warp < threadIdx.x / 32 ? sums[warp] : 0;
		*all += sums[warp];
	}
	return before + up_to - value;
}

template <uint32_t kBits>
__global__ void __launch_bounds__(kSelectThreads)
select_kernel(CountPqArgs args)
{
	using C = BitmapCounters<kBits>;
	constexpr uint32_t kRows = C::kEach * 4; // of a thread at a time
	__shared__ uint32_t sums[kSelectThreads / 32];
	__shared__ uint32_t shared_threshold;
	__shared__ uint32_t n_above;
	const uint32_t query = blockIdx.x;
	const Queue queue(args, query);
	uint64_t *out = args.out + static_cast<size_t>(query) * args.stride;
	const uint4 *vectors = reinterpret_cast<const uint4 *>(queue.bitmap);

	if (threadIdx.x == 0)
	{
		uint32_t threshold = *queue.threshold;

		while (queue.zipper[threshold] >= queue.k)
			threshold++;
		shared_threshold = threshold;
		n_above = 0;
	}
	__syncthreads();

	const uint32_t threshold = shared_threshold; // one more than the k-th count (theorem III.1)
	const bool by_table = *queue.n_overflows == 0;

	for (uint32_t i = threadIdx.x; by_table && i < queue.n_buckets * kCountBucket; i += kSelectThreads)
	{
		const uint64_t entry = queue.table[i];
		const uint32_t row = static_cast<uint32_t>(entry);
		const uint32_t count = static_cast<uint32_t>(entry >> 32);

		// If an object is there twice, one entry has its count.
		if (count >= threshold && C::of(queue.bitmap[row / C::kEach], row % C::kEach) == count)
			if (const uint32_t place = atomicAdd(&n_above, 1u); place < args.stride)
				out[place] = entry;
	}
	for (uint32_t i = threadIdx.x; !by_table && i < args.n_words / 4; i += kSelectThreads)
	{
		const uint32_t words[4] = {vectors[i].x, vectors[i].y, vectors[i].z, vectors[i].w};

#pragma unroll 1
		for (uint32_t j = 0; j < kRows; j++)
			if (const uint32_t count = C::of(words[j / C::kEach], j % C::kEach); count >= threshold)
				if (const uint32_t place = atomicAdd(&n_above, 1u); place < args.stride)
					out[place] = static_cast<uint64_t>(count) << 32 | (i * kRows + j);
	}
	__syncthreads();

	const uint32_t tie = threshold - 1;
	uint32_t n = n_above;

	for (uint32_t base = 0; n < queue.k && base < args.n_words / 4; base += kSelectThreads)
	{
		const uint32_t i = base + threadIdx.x;
		const uint4 four = i < args.n_words / 4 ? vectors[i] : uint4{0, 0, 0, 0};
		const uint32_t words[4] = {four.x, four.y, four.z, four.w};
		uint32_t n_ties = 0;
		uint32_t all;

#pragma unroll 1
		for (uint32_t j = 0; j < kRows; j++)
			n_ties += i * kRows + j < args.n_rows && C::of(words[j / C::kEach], j % C::kEach) == tie;

		uint32_t place = n + sum_before(n_ties, sums, &all);

#pragma unroll 1
		for (uint32_t j = 0; n_ties > 0 && j < kRows; j++)
			if (i * kRows + j < args.n_rows && C::of(words[j / C::kEach], j % C::kEach) == tie && place++ < queue.k)
				out[place - 1] = static_cast<uint64_t>(tie) << 32 | (i * kRows + j);
		n += all;
	}
	if (threadIdx.x == 0)
		args.n_out[query] = min(n, queue.k);
}

template <uint32_t kBits>
cudaError_t
launch(const CountPqArgs &args, cudaStream_t stream)
{
	count_kernel<kBits><<<dim3(args.queries.n_queries, args.n_tiles), kCountThreads, 0, stream>>>(args);
	if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
		return error;
	select_kernel<kBits><<<args.queries.n_queries, kSelectThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace

cudaError_t
launch_count_pq(const CountPqArgs &args, cudaStream_t stream)
{
	switch (args.queries.bits)
	{
		case 1:
			return launch<1>(args, stream);
		case 2:
			return launch<2>(args, stream);
		case 4:
			return launch<4>(args, stream);
		case 8:
			return launch<8>(args, stream);
		case 16:
			return launch<16>(args, stream);
		case 32:
			return launch<32>(args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace vectorgpu::bench

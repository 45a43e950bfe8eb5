// The k smallest of each row of a matrix in memory: the selection by itself, as papers measure it. One block per row reads
// it once: a threshold from the row's first numbers, a comparison per number, survivors to a buffer in shared memory; when
// that is full, radix selection cuts it back to k and sharpens the threshold. The k that remain are sorted at the end.
#include "kernels/block_select.cuh"
#include "kernels/select_rows.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kPerThread = 16;
constexpr uint32_t kRound = kThreads * kPerThread;
constexpr uint32_t kLeastBuffer = 4096;

/// Shared memory of select_rows_kernel, before the buffer.
struct Scratch
{
	uint32_t histogram[256];
	unsigned long long all_ones;
	unsigned long long any_ones;
	uint32_t digit;
	uint32_t rank;
	uint32_t in_bin;
	uint32_t fill;
	uint32_t kept;
	RadixScratch radix;
};

/// A number and its column: ascending keys are ascending numbers, NaN last, ties by column. Keys of a row differ.
__device__ __forceinline__ uint64_t
pair_key(float value, uint32_t column)
{
	return static_cast<uint64_t>(float_to_order(value == 0.0f ? 0.0f : value)) << 32 | column;
}

/// The k-th smallest of keys [n], n >= k, or a number between it and the next. All threads call it.
__device__ __noinline__ uint64_t
kth_key(const uint64_t *keys, uint32_t n, uint32_t k, Scratch *scratch)
{
	if (threadIdx.x == 0)
	{
		scratch->all_ones = ~0ull;
		scratch->any_ones = 0;
	}
	__syncthreads();
	{
		uint64_t all = ~uint64_t{0};
		uint64_t any = 0;

		for (uint32_t i = threadIdx.x; i < n; i += kThreads)
		{
			all &= keys[i];
			any |= keys[i];
		}

		const uint32_t all_high = __reduce_and_sync(0xFFFFFFFFu, static_cast<uint32_t>(all >> 32));
		const uint32_t all_low = __reduce_and_sync(0xFFFFFFFFu, static_cast<uint32_t>(all));
		const uint32_t any_high = __reduce_or_sync(0xFFFFFFFFu, static_cast<uint32_t>(any >> 32));
		const uint32_t any_low = __reduce_or_sync(0xFFFFFFFFu, static_cast<uint32_t>(any));

		if (threadIdx.x % 32 == 0)
		{
			atomicAnd(&scratch->all_ones, static_cast<unsigned long long>(all_high) << 32 | all_low);
			atomicOr(&scratch->any_ones, static_cast<unsigned long long>(any_high) << 32 | any_low);
		}
	}
	__syncthreads();

	const uint64_t differing = scratch->all_ones ^ scratch->any_ones;
	const int n_bits = 64 - __clzll(static_cast<long long>(differing));
	uint64_t mask = n_bits == 64 ? 0 : ~uint64_t{0} << n_bits;
	uint64_t prefix = scratch->all_ones & mask;

	for (int above = n_bits; above > 0; above -= 8)
	{
		const int shift = above > 8 ? above - 8 : 0;

		for (uint32_t i = threadIdx.x; i < 256; i += kThreads)
			scratch->histogram[i] = 0;
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < n; i += kThreads)
			if ((keys[i] & mask) == prefix)
				atomicAdd(&scratch->histogram[static_cast<uint32_t>((keys[i] & ~mask) >> shift) & 0xFF], 1u);
		__syncthreads();
		if (threadIdx.x < 32)
		{
			uint32_t counts[8];
			uint32_t sum = 0;

#pragma unroll
			for (int j = 0; j < 8; j++)
			{
				counts[j] = scratch->histogram[threadIdx.x * 8 + j];
				sum += counts[j];
			}

			uint32_t before = sum;

			for (int offset = 1; offset < 32; offset *= 2)
			{
				const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, before, offset);

				if (static_cast<int>(threadIdx.x) >= offset)
					before += other;
			}
			before -= sum;
#pragma unroll
			for (int j = 0; j < 8; j++)
			{
				if (k > before && k <= before + counts[j])
				{
					scratch->digit = threadIdx.x * 8 + j;
					scratch->rank = k - before;
					scratch->in_bin = counts[j];
				}
				before += counts[j];
			}
		}
		__syncthreads();
		prefix |= static_cast<uint64_t>(scratch->digit) << shift;
		mask = ~uint64_t{0} << shift;
		k = scratch->rank;
		if (k == scratch->in_bin) // all of the bin: everything with this prefix is among them
			return prefix | ~mask;
		__syncthreads();
	}
	return prefix;
}

/// Cuts the buffer back to the k smallest. fill > k. Returns the k-th key's bound.
__device__ __noinline__ uint64_t
cut(uint64_t *keys, uint32_t fill, uint32_t k, Scratch *scratch)
{
	const uint64_t bound = kth_key(keys, fill, k, scratch);

	if (threadIdx.x == 0)
		scratch->kept = 0;
	__syncthreads();
	for (uint32_t base = 0; base < fill; base += kThreads)
	{
		const uint32_t i = base + threadIdx.x;
		const uint64_t key = i < fill ? keys[i] : ~uint64_t{0};
		const bool keep = i < fill && key <= bound;

		__syncthreads(); // all have read this part: places up to it may be written
		if (keep)
			keys[atomicAdd(&scratch->kept, 1u)] = key;
		__syncthreads();
	}
	if (threadIdx.x == 0)
		scratch->fill = scratch->kept;
	__syncthreads();
	return bound;
}

__device__ __noinline__ void
sort_keys(uint64_t *keys, uint32_t n)
{
	for (uint32_t size = 2; size <= n; size *= 2)
		for (uint32_t stride = size / 2; stride > 0; stride /= 2)
		{
			__syncthreads();
			for (uint32_t i = threadIdx.x; i < n / 2; i += kThreads)
			{
				const uint32_t low = 2 * i - (i & (stride - 1));
				const uint64_t a = keys[low];
				const uint64_t b = keys[low + stride];

				if ((b < a) == ((low & size) == 0))
				{
					keys[low] = b;
					keys[low + stride] = a;
				}
			}
		}
	__syncthreads();
}

/// Grid n_rows, block 256, shared: Scratch and `capacity` keys, capacity >= k + 256. Reproducible. Four blocks of a processor
/// hide each other's barriers.
__global__ void __launch_bounds__(kThreads, 4)
select_rows_kernel(const SelectRowsArgs args, uint32_t capacity)
{
	extern __shared__ __align__(16) unsigned char shared[];
	Scratch *scratch = reinterpret_cast<Scratch *>(shared);
	uint64_t *keys = reinterpret_cast<uint64_t *>(shared + sizeof(Scratch));
	const float *row = args.values + static_cast<size_t>(blockIdx.x) * args.n_columns;
	const uint32_t n = args.n_columns;
	const uint32_t k = min(args.k, n);
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t n_sample = min(n, max(kRound, 4 * k));
	const uint32_t kth = block_kth_smallest([&](uint32_t i) { return float_to_order(row[i]); }, n_sample, k, &scratch->radix);
	float threshold = order_to_float(kth); // NaN: fewer than k numbers so far, all pass
	bool all_pass = kth == 0xFFFFFFFFu;

	if (threadIdx.x == 0)
		scratch->fill = 0;
	__syncthreads();

	auto sharpen = [&](uint32_t fill)
	{
		if (fill <= k)
			return;

		const uint32_t order = static_cast<uint32_t>(cut(keys, fill, k, scratch) >> 32);

		threshold = order_to_float(order);
		all_pass = order == 0xFFFFFFFFu;
	};

	for (uint32_t base = 0; base < n; base += kRound)
	{
		const uint32_t before = scratch->fill;
		float value[kPerThread];
		uint32_t passed = 0;

#pragma unroll
		for (uint32_t j = 0; j < kPerThread; j++)
		{
			const uint32_t column = base + j * kThreads + threadIdx.x;

			value[j] = column < n ? __ldg(row + column) : 0.0f;
		}
#pragma unroll
		for (uint32_t j = 0; j < kPerThread; j++)
			passed |= static_cast<uint32_t>(value[j] <= threshold || all_pass) << j;
		if (base + kRound > n)
		{
#pragma unroll
			for (uint32_t j = 0; j < kPerThread; j++)
				if (base + j * kThreads + threadIdx.x >= n)
					passed &= ~(1u << j);
		}
		__syncthreads(); // all have read fill
		if (__any_sync(0xFFFFFFFFu, passed != 0))
		{
			const uint32_t mine = __popc(passed);
			uint32_t at = mine;

#pragma unroll
			for (int offset = 1; offset < 32; offset *= 2)
			{
				const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, at, offset);

				at += lane >= offset ? other : 0;
			}

			uint32_t first = 0;

			if (lane == 31)
				first = atomicAdd(&scratch->fill, at);
			at += __shfl_sync(0xFFFFFFFFu, first, 31) - mine;
#pragma unroll
			for (uint32_t j = 0; j < kPerThread; j++)
				if ((passed >> j) & 1)
				{
					if (at < capacity)
						keys[at] = pair_key(value[j], base + j * kThreads + threadIdx.x);
					at++;
				}
		}
		__syncthreads();

		const uint32_t fill = scratch->fill;

		if (fill > capacity)
		{
			// Too many at once: take the round back, and go over it in steps that fit.
			__syncthreads();
			if (threadIdx.x == 0)
				scratch->fill = before;
			__syncthreads();
			sharpen(before);
#pragma unroll 1
			for (uint32_t j = 0; j < kPerThread; j++)
			{
				const uint32_t column = base + j * kThreads + threadIdx.x;
				const float again = column < n ? __ldg(row + column) : 0.0f;

				if (scratch->fill + kThreads > capacity)
					sharpen(scratch->fill);
				__syncthreads();
				if (column < n && (again <= threshold || all_pass))
					keys[atomicAdd(&scratch->fill, 1u)] = pair_key(again, column);
				__syncthreads();
			}
		}
		else if (fill > capacity / 2 + k / 2)
			sharpen(fill);
	}
	__syncthreads();
	if (scratch->fill > k)
		cut(keys, scratch->fill, k, scratch);

	uint32_t n_sorted = 2;

	while (n_sorted < k)
		n_sorted *= 2;
	for (uint32_t i = k + threadIdx.x; i < n_sorted; i += kThreads)
		keys[i] = ~uint64_t{0};
	sort_keys(keys, n_sorted);
	for (uint32_t i = threadIdx.x; i < k; i += kThreads)
	{
		const size_t at = static_cast<size_t>(blockIdx.x) * args.k + i;
		const uint32_t column = static_cast<uint32_t>(keys[i]);

		args.out_values[at] = row[column];
		args.out_columns[at] = column;
	}
}

uint32_t
buffer_keys(uint32_t k)
{
	uint32_t n = kLeastBuffer;

	while (n < 2 * k + kThreads)
		n *= 2;
	return n;
}

} // namespace

cudaError_t
launch_select_rows(const SelectRowsArgs &args, cudaStream_t stream)
{
	const uint32_t capacity = buffer_keys(args.k);
	const size_t shared = sizeof(Scratch) + capacity * sizeof(uint64_t);

	if (args.n_rows == 0 || args.k == 0)
		return cudaSuccess;
	if (args.k > kSelectRowsMostK || args.n_columns == 0)
		return cudaErrorInvalidValue;
#ifdef VECTORGPU_WARPSELECT
	if (args.k <= kSelectNetworksMostK)
		return launch_select_rows_networks(args, stream);
#endif
	if (cudaError_t error = cudaFuncSetAttribute(
			select_rows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
		error != cudaSuccess)
		return error;
	select_rows_kernel<<<args.n_rows, kThreads, shared, stream>>>(args, capacity);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels

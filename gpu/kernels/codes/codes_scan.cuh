// Scan of the codes of the lists that a query looks at, a block (or several) to a query; instantiated by
// codes_scan_{pq,rows}.cu with an estimator for each form of codes. The block makes the query's tables in shared memory
// and keeps the best candidates there: no threshold has to be found first, and only the result is written. The scan of
// RaBitQ's codes (codes_scan_rabitq.cu) has its own kernel; the parts before chunk_entry are for both.
//
// An estimator has kThreads, kBlocks (blocks of a processor, for the register limit), prepare(args, query, tables) (all
// threads; ends with a barrier), and estimate(args, query, tables, first, end, lane): the row's own part of the
// estimate at place first + lane.
#pragma once

#include "kernels/canonical/canonical.cuh"
#include "kernels/canonical/rank.cuh"
#include "kernels/codes/codes_launch.hpp"
#include "kernels/select/merge.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kCodeSlots = 256; // lists whose places are held at a time

/// Shared memory of a scan besides tables and entries.
struct alignas(16) CodeSlots
{
	uint32_t warp_sums[kCodeSlots / 32];
	uint32_t first[kCodeSlots];
	uint32_t end[kCodeSlots];
	uint32_t chunk_first[kCodeSlots + 1];
	double constants[kCodeSlots];
	float distances[kCodeSlots]; // RaBitQ of more than 1 bit
	uint32_t fill;
};

constexpr uint32_t kRankedFirst = 128; // entries that are ranked by counting, not sorted

// Entries that may gather, beside the best ones, before an estimator that refines gets a new threshold.
constexpr uint32_t kLeastGathered = 32;

/// NaN orders after all numbers, before entries that do not count.
constexpr uint64_t kNanEstimateKey = kNanKey - 1;

__device__ __forceinline__ uint64_t
estimate_to_key(double estimate)
{
	return estimate != estimate ? kNanEstimateKey : device_score_to_key(__dadd_rn(estimate, 0.0)); // -0 becomes +0
}

/// Store candidate i of a query: its estimate and place.
__device__ __forceinline__ void
put_candidate(const Candidates &found, uint32_t query, uint32_t i, const Entry &entry)
{
	const size_t at = static_cast<size_t>(query) * found.capacity + i;

	found.rows[at] = static_cast<uint32_t>(entry.row);
	found.keys[at] = entry.key == kNanEstimateKey ? kNanKey : entry.key;
}

/// Whether a candidate is after the query's `after`.
__device__ __forceinline__ bool
is_after(const RescoreArgs &args, uint32_t query, uint64_t key, uint32_t place)
{
	if (args.queries.after == nullptr || args.queries.has_after[query] == 0)
		return true;

	const Entry after = args.queries.after[query];

	return key > after.key || (key == after.key && args.rows.row_ids[place] > after.row);
}

__device__ __forceinline__ double
device_key_to_score(uint64_t key)
{
	if (key >= kNanKey)
		return __longlong_as_double(0x7FF8000000000000ll);
	return __longlong_as_double(static_cast<long long>((key >> 63) != 0 ? key & 0x7FFFFFFFFFFFFFFFu : ~key));
}

/// RaBitQ: Codes::deviations times the distance between query and centroid, from the constant of the list (engine/ivf's
/// distance_of).
__device__ __forceinline__ float
deviations_of_list(const CodedScanArgs &args, uint32_t query, double constant)
{
	double distance = args.prepared.constants[query];

	if (args.metric == Metric::kL2)
		distance = __dsqrt_rn(constant < 0.0 ? 0.0 : constant);
	else if (args.metric == Metric::kCosine)
	{
		const double square = __dmul_rn(2.0, __dadd_rn(1.0, constant));

		distance = __dsqrt_rn(square < 0.0 ? 0.0 : square);
	}
	return __double2float_rn(__dmul_rn(args.codes.deviations, distance));
}

/// Load the places of the lists [base, base + kCodeSlots) that the query looks at, in chunks of 32. Returns the number
/// of chunks. All threads of the block call it; the first kCodeSlots work.
__device__ __forceinline__ uint32_t
load_code_slots(const CodedScanArgs &args, uint32_t query, uint32_t base, CodeSlots *slots)
{
	const Entry *ranked = args.probes.ranked + static_cast<size_t>(query) * args.probes.stride;
	const uint32_t slot = base + threadIdx.x;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const bool works = threadIdx.x < kCodeSlots;
	uint32_t first = 0;
	uint32_t end = 0;
	double constant = 0.0;

	if (works && slot < args.probes.counts[query])
	{
		const Entry entry = ranked[slot];

		first = static_cast<uint32_t>(args.probes.offsets[entry.row]);
		end = static_cast<uint32_t>(args.probes.offsets[entry.row + 1]);
		if (args.codes.form != CodeForm::kHalves && args.codes.form != CodeForm::kSq8)
		{
			constant = device_key_to_score(entry.key);
			if (args.metric == Metric::kCosine)
				constant = __dsub_rn(constant, 1.0);
		}
	}

	uint32_t sum = (end - first + 31) / 32;

#pragma unroll
	for (int offset = 1; offset < 32; offset *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, offset);

		if (static_cast<int>(lane) >= offset)
			sum += other;
	}
	__syncthreads(); // earlier contents have been read
	if (works && lane == 31)
		slots->warp_sums[warp] = sum;
	__syncthreads();
	if (works)
	{
		for (uint32_t w = 0; w < warp; w++)
			sum += slots->warp_sums[w];
		slots->first[threadIdx.x] = first;
		slots->end[threadIdx.x] = end;
		slots->constants[threadIdx.x] = constant;
		slots->distances[threadIdx.x] = args.codes.bits > 1 ? deviations_of_list(args, query, constant) : 0.0f;
		slots->chunk_first[threadIdx.x + 1] = sum;
		if (threadIdx.x == 0)
			slots->chunk_first[0] = 0;
	}
	__syncthreads();
	return slots->chunk_first[kCodeSlots];
}

/// The last slot whose first chunk is at most `chunk`.
__device__ __forceinline__ uint32_t
slot_of_chunk(const CodeSlots &slots, uint32_t chunk)
{
	uint32_t low = 0;
	uint32_t high = kCodeSlots;

	while (high - low > 1)
	{
		const uint32_t middle = (low + high) / 2;

		if (slots.chunk_first[middle] <= chunk)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/// Append the entries of the lanes with `taken` to entries [*fill]; those from number `room` on only count. By a warp.
__device__ __forceinline__ void
append_taken(const Entry &entry, bool taken, uint32_t lane, Entry *entries, uint32_t *fill, uint32_t room = 0xFFFFFFFFu)
{
	const uint32_t ballot = __ballot_sync(0xFFFFFFFFu, taken);

	if (ballot != 0)
	{
		uint32_t at = 0;

		if (lane == 0)
			at = atomicAdd(fill, static_cast<uint32_t>(__popc(ballot)));
		at = __shfl_sync(0xFFFFFFFFu, at, 0) + __popc(ballot & ((1u << lane) - 1));
		if (taken && at < room)
			entries[at] = entry;
	}
}

using KeyRadix = RadixScratchOf<unsigned long long>;

/// Keep of entries [n] those up to the k-th key, in any order. Returns how many: k, and those that tie with the k-th; n
/// if that is not more. *fill: shared. By all threads, after a barrier; ends with one.
__device__ inline uint32_t
keep_first(Entry *entries, uint32_t n, uint32_t k, KeyRadix *radix, uint32_t *fill)
{
	if (n <= k)
		return n;

	const unsigned long long kth = block_kth_smallest<true, unsigned long long>(
		[&](uint32_t i) { return static_cast<unsigned long long>(entries[i].key); }, n, k, radix);

	if (threadIdx.x == 0)
		*fill = 0;
	for (uint32_t base = 0; base < n; base += blockDim.x)
	{
		const uint32_t i = base + threadIdx.x;
		const Entry entry = i < n ? entries[i] : Entry{kExcludedKey, kExcludedKey};

		__syncthreads(); // all hold theirs: what is kept goes to places up to here
		append_taken(entry, i < n && entry.key <= kth, threadIdx.x % 32, entries, fill);
	}
	__syncthreads();
	return *fill;
}

/// As flush_entries, in less time if n is several times k.
__device__ inline uint32_t
sort_first(Entry *entries, uint32_t n, uint32_t k, KeyRadix *radix, uint32_t *fill)
{
	__syncthreads();
	n = keep_first(entries, n, k, radix, fill);
	if (n > kRankedFirst)
		return flush_entries(entries, n, k);
	rank_entries<WholeBlock>(entries, n);
	__syncthreads();
	return min(n, k);
}

/// The block's part of a query's candidates: entries [fill], sorted. By all threads, after a barrier.
__device__ __forceinline__ void
put_entries(const CodedScanArgs &args, uint32_t query, uint32_t split, const Entry *entries, uint32_t fill)
{
	if (args.parts != nullptr)
	{
		const size_t at = static_cast<size_t>(query) * args.n_splits + split;

		for (uint32_t i = threadIdx.x; i < fill; i += blockDim.x)
			args.parts[at * args.stride + i] = entries[i];
		if (threadIdx.x == 0)
			args.part_counts[at] = fill;
		return;
	}
	for (uint32_t i = threadIdx.x; i < fill; i += blockDim.x)
		put_candidate(args.found, query, i, entries[i]);
	if (threadIdx.x == 0)
	{
		args.found.counts[query] = fill;
		if (fill > 0)
			args.last[query] = entries[fill - 1];
	}
}

/// The entry of the lane's row in a chunk of the slot `low`; excluded if there is none. By a warp.
template <class Estimator>
__device__ __forceinline__ Entry
chunk_entry(const CodedScanArgs &args, uint32_t query, const uint8_t *tables, const CodeSlots &slots, uint32_t chunk,
	uint32_t low, Estimator *estimator)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t first = slots.first[low] + (chunk - slots.chunk_first[low]) * 32;
	const uint32_t end = slots.end[low];
	const double constant = slots.constants[low];
	const double estimate = __dadd_rn(estimator->estimate(args, query, tables, first, end, lane), constant);

	return {first + lane < end ? estimate_to_key(estimate) : kExcludedKey, first + lane};
}

/// Dynamic shared memory: tables (if Shared), then entries [n_entries].
template <class Estimator, bool Shared>
__global__ void __launch_bounds__(Estimator::kThreads, Estimator::kBlocks)
coded_scan_kernel(const CodedScanArgs args, uint32_t n_entries, uint32_t table_bytes)
{
	extern __shared__ __align__(16) uint8_t dynamic[];
	__shared__ CodeSlots slots;
	constexpr uint32_t kWarps = Estimator::kThreads / 32;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t n_tasks = args.n_queries * args.n_splits;
	Entry *entries = reinterpret_cast<Entry *>(dynamic + (Shared ? table_bytes : 0));
	uint8_t *tables = Shared ? dynamic : args.tables + static_cast<size_t>(blockIdx.x) * table_bytes;

	let_next_start();
	wait_for_stream();
	for (uint32_t task = blockIdx.x; task < n_tasks; task += gridDim.x)
	{
		const uint32_t query = task / args.n_splits;
		const uint32_t split = task % args.n_splits;
		const uint32_t k = args.wanted[query];
		const bool has_after = args.after != nullptr;
		const Entry after = has_after && k > 0 ? args.after[query] : Entry{0, 0};
		const uint32_t n_probes = args.probes.counts[query];
		Entry threshold = {kExcludedKey, 0};
		uint32_t fill = 0;
		Estimator estimator;

		__syncthreads(); // the last task is done with shared memory
		if (threadIdx.x == 0)
			slots.fill = 0;
		if (k > 0)
			estimator.prepare(args, query, tables);
		for (uint32_t base = 0; k > 0 && base < n_probes; base += kCodeSlots)
		{
			const uint32_t n_chunks = load_code_slots(args, query, base, &slots);
			uint32_t slot = 0;

			for (uint32_t round = 0; round < n_chunks; round += args.n_splits * kWarps)
			{
				const uint32_t chunk = round + split * kWarps + warp;
				Entry entry = {kExcludedKey, 0};
				bool taken = false;

				if (chunk < n_chunks)
				{
					if (chunk >= slots.chunk_first[slot + 1]) // mostly the slot of the last round
						slot = slot_of_chunk(slots, chunk);
					entry = chunk_entry(args, query, tables, slots, chunk, slot, &estimator);
					taken = entry_less(entry, threshold) && (!has_after || entry_less(after, entry));
					append_taken(entry, taken, lane, entries, &slots.fill);
				}
				fill += static_cast<uint32_t>(__syncthreads_count(taken));
				if (fill + Estimator::kThreads > n_entries)
				{
					fill = flush_entries(entries, fill, k);
					if (threadIdx.x == 0)
						slots.fill = fill;
					if (fill >= k)
						threshold = entries[k - 1];
					__syncthreads();
				}
			}
		}
		fill = flush_entries(entries, fill, k);
		put_entries(args, query, split, entries, fill);
	}
}

/// A power of two with room for `stride` candidates and the entries of a round of the block's threads.
inline uint32_t
code_entries(uint32_t stride, uint32_t threads)
{
	uint32_t n = 2 * threads;

	while (n < stride + threads)
		n *= 2;
	return n;
}

template <class Estimator, bool Shared>
cudaError_t
launch_code_estimator(const CodedScanArgs &args, cudaStream_t stream)
{
	const uint32_t n_entries = code_entries(args.stride, Estimator::kThreads);
	const uint32_t table_bytes = static_cast<uint32_t>(code_table_bytes(args.codes));
	const uint32_t n_tasks = args.n_queries * args.n_splits;
	const uint32_t grid = Shared ? n_tasks : min(n_tasks, args.table_blocks);

	return launch_after(coded_scan_kernel<Estimator, Shared>, grid, Estimator::kThreads,
		n_entries * sizeof(Entry) + (Shared ? table_bytes : 0), stream, args, n_entries, table_bytes);
}

template <class Estimator, bool Shared>
cudaError_t
prepare_code_estimator()
{
	cudaFuncAttributes attributes{};
	cudaError_t error = cudaFuncGetAttributes(&attributes, coded_scan_kernel<Estimator, Shared>);

	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(coded_scan_kernel<Estimator, Shared>, cudaFuncAttributeMaxDynamicSharedMemorySize,
			static_cast<int>(kCodeSharedBytes - attributes.sharedSizeBytes));
	return error;
}

} // namespace vectorgpu::kernels

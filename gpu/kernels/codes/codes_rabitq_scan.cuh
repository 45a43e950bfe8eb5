// A block's work for a query in the scan of RaBitQ's codes (codes_scan_rabitq.cu). Each warp goes through its own share
// of the rows, 32 at a time, a thread to a row, and has the codes of the next 32 on their way meanwhile. The signs of a
// row are looked up in the query's byte table [groups of four, 16], four banks a group, so that look-ups never collide;
// their sum is a whole number. Rows whose bound by the signs is not after the threshold wait until the warp has 32 of
// them; then each thread scores one by all bits, which four threads read together: a product of its other bits with the
// query's int8 elements, a whole number too. So scores have the bits of engine/ivf's rabitq_scores, whatever the
// threshold. All warps meet only every few rows, and for a sort.
#pragma once

#include "common/limits.hpp"
#include "kernels/codes/codes_rabitq_rows.cuh"
#include "kernels/codes/codes_scan.cuh"

namespace vectorgpu::kernels
{

// Chunks of a warp between two barriers of the block: few at first, when each sort makes the threshold much sharper.
constexpr uint32_t kFewestBetween = 2;
constexpr uint32_t kMostBetween = 32;

constexpr int kMostThreads = 512; // of a block

constexpr uint32_t kNoPlace = 0xFFFFFFFFu;
constexpr uint32_t kTableAt = 256; // in dynamic shared memory: its lowest byte is 0, so that a byte can take its place
constexpr uint32_t kStateAt = kTableAt - sizeof(RabitqState);

/// Rows of a warp that wait for their score.
struct Waiting
{
	uint32_t places[64];
	uint32_t sums[64]; // by signs; in the highest byte the slot
	float bounds[64];  // less the list's constant
};
static_assert((kMaxDimensions + 31) / 32 * 8 * 255 < 1 << 24 && kCodeSlots <= 256);

/// Static shared memory of a block.
template <int kThreads>
struct alignas(16) RabitqShared
{
	CodeSlots slots;
	Entry threshold;
	Entry after; // only entries after it, if has_after
	union
	{
		float limits[kCodeSlots]; // a bound, less the constant, that is larger is after the threshold
		KeyRadix radix;           // of a sort, after which the limits are set again
	};
	Waiting waiting[kThreads / 32];
};

/// 32 rows of a list, one to a lane: what is read of them ahead.
struct Ahead
{
	uint4 signs; // the first 128
	float factors[3];
	uint32_t place; // kNoPlace: none
	uint32_t slot;
};

/// See RabitqShared::limits. NaN, which nothing is larger than, if all rows may be before the threshold.
__device__ __forceinline__ float
limit_of(const Entry &threshold, double constant)
{
	if (threshold.key >= kNanEstimateKey)
		return __int_as_float(0x7FC00000);
	// From the number after the threshold on: bound and constant have a rounded sum, too.
	return __double2float_ru(__dsub_ru(device_key_to_score(threshold.key + 1), constant));
}

/// A thread's part of a block's work for a query. shared: dynamic.
template <bool kRefines, int kThreads>
struct RabitqScan
{
	// Blocks of this size serve few queries: each sorts once or twice, and its sort is what the search waits for.
	static constexpr bool kSelects = kThreads == kMostThreads;

	const CodedScanArgs &args;
	const uint8_t *shared;
	RabitqShared<kThreads> *held;
	Entry *entries;
	uint32_t lane;
	uint32_t sharp_fill; // entries from which on they are sorted at the next barrier
	uint32_t most_fill;  // before anything else
	float base;          // of the sums by signs, with the slack of a bound
	float scale;         // of them
	bool sorts;
	uint32_t n_sorted; // if kSelects: entries that the last sort left
	uint32_t n_waiting;
	uint32_t slot; // of the chunk that was read last
	uint32_t slot_end;
	uint32_t first; // of the slot, less 32 times its first chunk
	uint32_t end;

	__device__ __forceinline__ void enter_slot(uint32_t s)
	{
		slot = s;
		slot_end = held->slots.chunk_first[s + 1];
		first = held->slots.first[s] - held->slots.chunk_first[s] * 32;
		end = held->slots.end[s];
	}

	/// The chunk must not be before that of the last call.
	__device__ __forceinline__ void read_ahead(uint32_t chunk, Ahead *ahead)
	{
		while (chunk >= slot_end)
			enter_slot(slot + 1);

		const uint32_t place = first + chunk * 32 + lane;
		const uint32_t at = min(place, end - 1);
		const float *factors = factors_of(args.codes, at);

		ahead->place = place < end ? place : kNoPlace;
		ahead->slot = slot;
		ahead->signs = __ldg(reinterpret_cast<const uint4 *>(block_of(args.codes, at)) + at % kCodeRows);
#pragma unroll
		for (int i = 0; i < (kRefines ? 3 : 2); i++)
			ahead->factors[i] = __ldg(factors + i * kCodeRows);
	}

	__device__ __forceinline__ uint32_t sum_signs(const Ahead &ahead) const
	{
		uint32_t n_words = rabitq_shape(args.codes).sign_words();
		uint32_t at = kTableAt;
		uint32_t sum = 0;
		uint4 signs = ahead.signs;

		if (n_words > 4)
		{
			const uint32_t place = min(ahead.place, held->slots.end[ahead.slot] - 1);
			const uint4 *next = reinterpret_cast<const uint4 *>(block_of(args.codes, place)) + place % kCodeRows;

			for (; n_words > 4; n_words -= 4, at += 512)
			{
				const uint4 four = signs;

				next += kCodeRows;
				signs = __ldg(next);
				sum += look_up<4>(shared, at, four);
			}
		}
		switch (n_words)
		{
			case 1:
				return sum + look_up<1>(shared, at, signs);
			case 2:
				return sum + look_up<2>(shared, at, signs);
			case 3:
				return sum + look_up<3>(shared, at, signs);
			default:
				return sum + look_up<4>(shared, at, signs);
		}
	}

	/// The rows that are perhaps before the threshold wait: as rabitq_bounds, less the list's constant.
	__device__ __forceinline__ void bound_rows(const Ahead &ahead, Waiting *waiting)
	{
		const float limit = held->limits[ahead.slot];
		const float distance = kRefines ? held->slots.distances[ahead.slot] : 0.0f;
		const uint32_t sum = sum_signs(ahead);
		const float product = __fadd_rn(base, __fmul_rn(scale, __int2float_rn(static_cast<int>(sum))));
		float bound = __fadd_rn(ahead.factors[0], __fmul_rn(ahead.factors[1], product));

		if constexpr (kRefines)
			bound = __fsub_rn(bound, __fmul_rn(ahead.factors[2], distance));

		const bool near = ahead.place != kNoPlace && !(bound > limit);
		const uint32_t ballot = __ballot_sync(0xFFFFFFFFu, near);

		if (near)
		{
			const uint32_t i = n_waiting + __popc(ballot & ((1u << lane) - 1));

			waiting->places[i] = ahead.place;
			waiting->sums[i] = sum | ahead.slot << 24;
			waiting->bounds[i] = bound;
		}
		n_waiting += __popc(ballot);
	}

	/// The larger of bound and full estimate, as rabitq_scores.
	__device__ __forceinline__ double score_of(
		uint32_t place, const uint32_t (&places)[4], uint32_t sum, double bound, double constant) const
	{
		if constexpr (!kRefines)
			return bound;

		const RabitqState &state = *reinterpret_cast<const RabitqState *>(shared + kStateAt);
		const float *factors = factors_of(args.codes, place);
		const float add = __ldg(factors + 3 * kCodeRows);
		const float factor = __ldg(factors + 4 * kCodeRows);
		const int product = multiply_rows(args.codes, places,
			reinterpret_cast<const int *>(shared + kTableAt + rabitq_shape(args.codes).table_bytes()), lane);
		const double half = static_cast<double>(1u << (args.codes.bits - 1)) / 2.0;
		const double by_signs = __dadd_rn(static_cast<double>(state.table_base),
			__dmul_rn(static_cast<double>(state.table_scale), static_cast<double>(sum)));
		const double u = __dsub_rn(
			__dadd_rn(__dmul_rn(2.0 * half, by_signs), __dmul_rn(static_cast<double>(product), state.element_scale)),
			__dmul_rn(half - 0.5, state.element_sum));
		const double full =
			__dadd_rn(constant, __dadd_rn(static_cast<double>(add), __dmul_rn(static_cast<double>(factor), u)));

		return bound > full ? bound : full; // NaN if `full` is
	}

	/// Score the last of the warp's waiting rows, up to 32; those before the threshold become entries. False, and
	/// nothing done, if the entries are to be sorted first.
	__device__ __forceinline__ bool score_waiting(const Waiting &waiting)
	{
		uint32_t fill = 0;

		if (lane == 0)
			fill = atomicAdd(&held->slots.fill, 0u);
		fill = __shfl_sync(0xFFFFFFFFu, fill, 0);
		sorts = sorts || fill >= sharp_fill;
		if (fill >= most_fill)
			return false;
		__syncwarp();

		const uint32_t n = min(n_waiting, 32u);
		const uint32_t i = n_waiting - 1 - min(lane, n - 1); // beyond the rows the last one once more
		uint32_t places[4];

#pragma unroll
		for (uint32_t b = 0; b < 4; b++)
			places[b] = waiting.places[n_waiting - 1 - min(lane / 4 * 4 + b, n - 1)];

		const uint32_t place = waiting.places[i];
		const uint32_t sum = waiting.sums[i];
		const double constant = held->slots.constants[sum >> 24];
		const double bound = __dadd_rn(static_cast<double>(waiting.bounds[i]), constant);
		const Entry entry = {estimate_to_key(score_of(place, places, sum & 0xFFFFFFu, bound, constant)), place};
		const bool taken =
			lane < n && entry_less(entry, held->threshold) && (args.after == nullptr || entry_less(held->after, entry));

		append_taken(entry, taken, lane, entries, &held->slots.fill);
		n_waiting -= n;
		__syncwarp(); // the places may be taken again
		return true;
	}

	/// After a sort, or new slots. By all threads; ends with a barrier.
	__device__ __forceinline__ void set_limits(const Entry &threshold)
	{
		for (uint32_t i = threadIdx.x; i < kCodeSlots; i += kThreads)
			held->limits[i] = limit_of(threshold, held->slots.constants[i]);
		__syncthreads();
	}

	/// Sort the first `fill` of the entries and keep k. Returns how many are kept. By all threads; the limits are set
	/// after it.
	__device__ __forceinline__ uint32_t sort_first(uint32_t fill, uint32_t k) const
	{
		if constexpr (kSelects)
			return kernels::sort_first(entries, fill, k, &held->radix, &held->slots.fill);
		return flush_entries(entries, fill, k);
	}

	/// By all threads, after a barrier; ends with one.
	__device__ __forceinline__ void sort_entries(uint32_t k, uint32_t n_entries)
	{
		const uint32_t fill = sort_first(held->slots.fill, k);
		const Entry threshold = fill >= k ? entries[k - 1] : Entry{kExcludedKey, 0};

		if (threadIdx.x == 0)
		{
			held->slots.fill = fill;
			held->threshold = threshold;
		}
		if constexpr (kSelects)
			n_sorted = fill;
		set_most_fill(fill >= k, k, n_entries);
		set_limits(threshold);
	}

	/// Each warp may add 32 entries after it has looked. A sharp threshold spares work where rows are scored.
	__device__ __forceinline__ void set_most_fill(bool has_threshold, uint32_t k, uint32_t n_entries)
	{
		most_fill = n_entries - kThreads;
		if (kRefines && !has_threshold)
			most_fill = min(most_fill, k);
		sharp_fill = kRefines ? min(most_fill, k + max(k, kLeastGathered)) : most_fill;
	}

	/// Up to *left of the warp's chunks from *chunk on, until 32 rows wait.
	__device__ __forceinline__ void bound_chunks(uint32_t n_chunks, uint32_t step, uint32_t *chunk, uint32_t *left)
	{
		Waiting *waiting = &held->waiting[threadIdx.x / 32];
		Ahead now;

		if (*chunk >= n_chunks || *left == 0 || n_waiting >= 32)
			return;
		read_ahead(*chunk, &now);
		do
		{
			Ahead next = now;

			*chunk += step;
			if (*chunk < n_chunks)
				read_ahead(*chunk, &next);
			bound_rows(now, waiting);
			now = next;
			--*left;
		} while (*chunk < n_chunks && *left > 0 && n_waiting < 32);
	}

	/// The warp's chunks from `chunk` on, every step-th of the loaded slots. By all threads, after a barrier; ends with
	/// one.
	__device__ __forceinline__ void scan_slots(
		uint32_t k, uint32_t n_entries, uint32_t chunk, uint32_t step, uint32_t n_chunks)
	{
		set_limits(held->threshold);
		n_waiting = 0;
		if (chunk < n_chunks)
			enter_slot(slot_of_chunk(held->slots, chunk));
		for (uint32_t between = kFewestBetween, busy = 1; busy != 0; between = min(2 * between, kMostBetween))
		{
			uint32_t left = between;

			sorts = false;
			for (bool full = false; !full;)
			{
				bound_chunks(n_chunks, step, &chunk, &left);
				if (n_waiting == 0 || (n_waiting < 32 && chunk < n_chunks))
					break;
				full = !score_waiting(held->waiting[threadIdx.x / 32]);
			}
			busy = static_cast<uint32_t>(__syncthreads_or(chunk < n_chunks || n_waiting > 0));
			if (__syncthreads_or(sorts) != 0)
				sort_entries(k, n_entries);
		}
	}

	/// Begin with the query's state; a barrier must come before take_state. By the threads that load_code_slots leaves
	/// idle, if there are such.
	static __device__ __forceinline__ void read_state(const float *from, uint8_t *to, uint32_t n_bytes)
	{
		for (uint32_t i = (threadIdx.x + kThreads / 2) % kThreads; i < n_bytes / 16; i += kThreads)
			reinterpret_cast<uint4 *>(to + kStateAt)[i] = __ldg(reinterpret_cast<const uint4 *>(from) + i);
	}

	__device__ __forceinline__ void take_state()
	{
		const RabitqState &state = *reinterpret_cast<const RabitqState *>(shared + kStateAt);

		base = __fadd_rn(state.table_base, kRefines ? state.table_slack : 0.0f);
		scale = state.table_scale;
	}
};

} // namespace vectorgpu::kernels

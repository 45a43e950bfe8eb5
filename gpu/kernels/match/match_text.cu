// Edit distances of texts to queries, and the selection of the nearest. See match.hpp; README.md, "Edit distances".
#include <algorithm>

#include "kernels/match/match_select.cuh"

namespace vectorgpu::kernels
{

namespace
{

/// Vertical differences of a column of the table of distances, a bit a row, and the distance at its end.
template <class Word>
struct Column
{
	Word plus;
	Word minus;
	uint32_t distance;

	/// Go one column further; equal: the rows whose symbol is the column's, last: the bit of the last row.
	__device__ __forceinline__ void step(Word equal, Word last)
	{
		const Word vertical = equal | minus;
		const Word horizontal = (((equal & plus) + plus) ^ plus) | equal;
		Word up = minus | ~(horizontal | plus);
		Word down = plus & horizontal;

		distance += (up & last) != 0 ? 1 : 0;
		distance -= (down & last) != 0 ? 1 : 0;
		up = up << 1 | 1;
		down <<= 1;
		plus = down | ~(vertical | up);
		minus = up & vertical;
	}
};

__device__ __forceinline__ void
or_shared(uint32_t *at, uint32_t bits)
{
	atomicOr(at, bits);
}

__device__ __forceinline__ void
or_shared(uint64_t *at, uint64_t bits)
{
	atomicOr(reinterpret_cast<unsigned long long *>(at), static_cast<unsigned long long>(bits));
}

template <uint32_t kBits>
__device__ __forceinline__ void
put_mark(uint32_t *words, uint32_t place, uint32_t mark)
{
	if (kBits == 8)
		reinterpret_cast<uint8_t *>(words)[place] = static_cast<uint8_t>(mark);
	else
		reinterpret_cast<uint16_t *>(words)[place] = static_cast<uint16_t>(mark);
}

/// A block's data of its query.
template <class Word>
struct TextQuery
{
	const Word *places_of; // [256] places of a symbol in the query
	uint32_t size;
	uint32_t most_mark;
	uint32_t *zipper; // shared, [kMatchZipperBins] like the gate's: of the tile's rows that may be returned
};

/// True if the row may be returned: it is alive and after `after`.
__device__ __forceinline__ bool
may_be_returned(const MatchTextArgs &args, uint32_t query, uint32_t row, uint32_t mark)
{
	if (match_row_is_dead(args.dead, row))
		return false;
	if (args.queries.after_marks == nullptr)
		return true;

	const uint32_t after_mark = args.queries.after_marks[query];

	return mark < after_mark || (mark == after_mark && row >= args.queries.after_rows[query]);
}

/// Set the marks of the group's rows that can reach `least`. By a warp.
template <uint32_t kBits, class Word>
__device__ __forceinline__ void
mark_group(const MatchTextArgs &args, const MatchTextTile &tile, uint32_t group, const TextQuery<Word> &query,
	uint32_t least, uint32_t *words)
{
	const uint32_t size = query.size;
	const uint32_t lane = threadIdx.x % kMatchTextGroup;
	const uint32_t length = __ldg(tile.lengths + group * kMatchTextGroup + lane);
	const uint32_t by_length = length > size ? length - size : size - length;
	const bool wanted = length != kMatchNoText && by_length + least <= query.most_mark;
	const uint32_t most_length = __reduce_max_sync(0xFFFFFFFFu, wanted ? length : 0);
	const uint32_t *text = tile.text + static_cast<size_t>(__ldg(tile.starts + group)) * kMatchTextGroup + lane;
	const Word last = size == 0 ? 0 : Word{1} << (size - 1);
	Column<Word> column = {~Word{0}, 0, size};

	if (!__any_sync(0xFFFFFFFFu, wanted))
		return;
	for (uint32_t done = 0; done < most_length; done += 4, text += kMatchTextGroup)
	{
		const uint32_t four = __ldg(text);

#pragma unroll
		for (uint32_t i = 0; i < 4; i++)
			if (done + i < length)
				column.step(query.places_of[four >> (8 * i) & 0xFF], last);

		// Each remaining symbol lowers the distance by at most one.
		const uint32_t left = length > done + 4 ? length - done - 4 : 0;

		if (!__any_sync(0xFFFFFFFFu, wanted && column.distance + least <= query.most_mark + left))
			return;
	}
	if (!wanted)
		return;

	const uint32_t mark = query.most_mark - (size == 0 ? length : column.distance);
	const uint32_t place = __ldg(tile.places + group * kMatchTextGroup + lane);

	put_mark<kBits>(words, place, mark);
	if (mark >= least && may_be_returned(args, blockIdx.x, tile.first_row + place, mark))
		atomicAdd(query.zipper + (mark >> args.candidates.zipper_shift), 1u);
}

/// The first group whose texts are not all shorter than `size`. By a warp.
__device__ __forceinline__ uint32_t
first_group_of(const MatchTextTile &tile, uint32_t size)
{
	uint32_t low = 0;
	uint32_t n = tile.n_groups;

	while (n > 0)
	{
		const uint32_t half = n / 2;

		// Lanes without a row are at the end of the last group; their length is longer than any text.
		if (__ldg(tile.lengths + (low + half) * kMatchTextGroup + kMatchTextGroup - 1) < size)
		{
			low += half + 1;
			n -= half + 1;
		}
		else
			n = half;
	}
	return low;
}

/// The i-th of n groups in an order that goes from `middle` to both sides, and on where groups are left.
__device__ __forceinline__ uint32_t
outward(uint32_t i, uint32_t middle, uint32_t n)
{
	const uint32_t below = middle;
	const uint32_t above = n - middle;
	const uint32_t both = min(below, above);

	if (i < 2 * both)
		return i % 2 == 0 ? middle + i / 2 : middle - 1 - i / 2;
	return below > above ? below - 1 - (i - both) : middle + (i - both);
}

template <uint32_t kBits, class Word>
__global__ void __launch_bounds__(kTileThreads, 3)
match_text_kernel(MatchTextArgs args)
{
	using C = Counters<kBits>;
	constexpr uint32_t kGroupsPerLook = 4; // between looks at the tile's own zipper array
	extern __shared__ uint4 match_counters[];
	__shared__ SelectShared shared;
	__shared__ Word places_of[256];
	__shared__ uint32_t zipper[kMatchZipperBins];
	uint32_t *words = reinterpret_cast<uint32_t *>(match_counters);
	const uint32_t query = blockIdx.x;
	const MatchTextTile tile = args.tiles[blockIdx.y];
	const uint32_t n_vectors = (tile.n_rows + C::kEach * 4 - 1) / (C::kEach * 4);
	const uint32_t size = args.sizes[query];
	const uint32_t k = args.queries.k[query];
	const TextQuery<Word> wanted = {places_of, size, args.most_distance + 1, zipper};

	if (threadIdx.x < 32)
	{
		const uint32_t bound = gate_bound(
			args.candidates.zipper + static_cast<size_t>(query) * kMatchZipperBins, args.candidates.zipper_shift, k);

		if (threadIdx.x == 0)
			shared.bound = bound;
	}
	for (uint32_t i = threadIdx.x; i < 256; i += kTileThreads)
		places_of[i] = 0;
	for (uint32_t i = threadIdx.x; i < kMatchZipperBins; i += kTileThreads)
		zipper[i] = 0;
	for (uint32_t i = threadIdx.x; i < n_vectors; i += kTileThreads)
		match_counters[i] = uint4{0, 0, 0, 0};
	__syncthreads();
	if (threadIdx.x < size)
		or_shared(&places_of[args.symbols[query * kMatchTextQuery + threadIdx.x]], Word{1} << threadIdx.x);
	__syncthreads();

	const uint32_t middle = first_group_of(tile, size);
	uint32_t least = shared.bound;

	// Texts of about the query's length first: near ones among them raise the limit for the others.
	for (uint32_t i = blockIdx.z * kTileWarps + threadIdx.x / 32, n = 1; i < tile.n_groups;
		i += kTileWarps * args.n_parts, n++)
	{
		mark_group<kBits>(args, tile, outward(i, middle, tile.n_groups), wanted, least, words);
		if (n % kGroupsPerLook == 0)
		{
			uint32_t bins[kZipperEach];

			for (uint32_t j = 0; j < kZipperEach; j++)
				bins[j] = static_cast<volatile uint32_t *>(zipper)[threadIdx.x % 32 * kZipperEach + j];
			least = max(least, zipper_bound(bins, args.candidates.zipper_shift, k));
		}
	}
	__syncthreads();
	if (args.dead != nullptr || args.queries.after_marks != nullptr)
	{
		leave_out<kBits>(args, query, tile.first_row, n_vectors * 4, words);
		__syncthreads();
	}
	take_rows<kBits>(args, query, tile.first_row, match_counters, n_vectors, &shared);
}

template <uint32_t kBits, class Word>
cudaError_t
launch(const MatchTextArgs &args, cudaStream_t stream)
{
	match_text_kernel<kBits, Word><<<dim3(args.queries.n_queries, args.n_tiles, args.n_parts), kTileThreads,
		Counters<kBits>::kWords * 4, stream>>>(args);
	return cudaGetLastError();
}

} // namespace

uint32_t
match_text_rows(uint32_t bits)
{
	return bits == 8 ? Counters<8>::kPartRows : Counters<16>::kPartRows;
}

uint32_t
match_text_parts(uint32_t n_queries, uint32_t n_tiles)
{
	constexpr uint64_t kBlocks = 400; // three blocks of a multiprocessor
	constexpr uint64_t kMostParts = 32;

	return static_cast<uint32_t>(
		std::clamp<uint64_t>(kBlocks / std::max<uint64_t>(1, uint64_t{n_queries} * n_tiles), 1, kMostParts));
}

cudaError_t
launch_match_texts(const MatchTextArgs &args, cudaStream_t stream)
{
	constexpr uint32_t kMostGridY = 65535;

	if (args.queries.n_queries == 0)
		return cudaSuccess;
	for (uint32_t first = 0; first < args.n_tiles; first += kMostGridY)
	{
		MatchTextArgs some = args;
		cudaError_t error = cudaErrorInvalidValue;

		some.tiles = args.tiles + first;
		some.n_tiles = std::min(kMostGridY, args.n_tiles - first);
		if (args.queries.bits == 8)
			error = args.most_size <= 32 ? launch<8, uint32_t>(some, stream) : launch<8, uint64_t>(some, stream);
		else if (args.queries.bits == 16)
			error = args.most_size <= 32 ? launch<16, uint32_t>(some, stream) : launch<16, uint64_t>(some, stream);
		if (error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

cudaError_t
prepare_match_text_kernels()
{
	constexpr auto kLimit = cudaFuncAttributeMaxDynamicSharedMemorySize;
	cudaError_t error = cudaFuncSetAttribute(match_text_kernel<8, uint32_t>, kLimit, Counters<8>::kWords * 4);

	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(match_text_kernel<8, uint64_t>, kLimit, Counters<8>::kWords * 4);
	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(match_text_kernel<16, uint32_t>, kLimit, Counters<16>::kWords * 4);
	if (error == cudaSuccess)
		error = cudaFuncSetAttribute(match_text_kernel<16, uint64_t>, kLimit, Counters<16>::kWords * 4);
	return error;
}

} // namespace vectorgpu::kernels

// The block's and the warp's layer of the filter's product by warps (filter_mma.cuh): the shape of a block, its tiles,
// stages and staged candidates; fragments and products of a chunk.
//
// K is cut into steps of 32 bytes of a row's narrow form (32 u8, 16 fp16), so fragments of both have the same bytes in
// the same places. float32 rows are multiplied as TF32, which cuts off their low bits; queries are rounded to TF32
// beforehand. For float32, the 16 elements of two steps are permuted, in rows and queries alike, so a thread's elements
// are 16 consecutive bytes.
#pragma once

#include "kernels/filter/filter_sums.cuh"

namespace vectorgpu::kernels
{

/// A warp multiplies MT * 16 rows x NT * 8 queries; a tile has WM x WN warps.
template <Form form_, int MT_, int NT_, int WM_, int WN_, int kStages_>
struct FilterShape
{
	static constexpr Form form = form_;
	static constexpr int MT = MT_, NT = NT_, WM = WM_, WN = WN_, kStages = kStages_;
	static constexpr int kThreads = 32 * WM * WN;
	static constexpr int kRows = MT * 16 * WM; // of a tile
	static constexpr int kQueries = NT * 8 * WN;
	/// Blocks of a processor, for the register limit. Bins are kept in registers, two for each sum.
	static constexpr int blocks(FilterPass pass)
	{
		return (form == Form::kFloat32 && NT == 8) || (pass == FilterPass::kBins && NT >= 4) ? 1 : 2;
	}
	static constexpr size_t kStageBytes = static_cast<size_t>(kRows) * kChunkBytes;

	static_assert(kRows == static_cast<int>(kFilterTileRows) && MT % 2 == 0 && kFilterGroupRows == 32);
};

/// The place of a 16-byte unit among the eight of its 128 bytes, for row or query `at`. It lets fragments be read
/// without bank conflicts: by ldmatrix, or, for float32, by loads of 16 bytes.
template <Form form>
__device__ __forceinline__ uint32_t
unit_place(uint32_t unit, uint32_t at)
{
	return form == Form::kFloat32 ? unit ^ ((at & 1) * 4) : unit ^ (at & 7);
}

constexpr uint32_t kMostStaged = 1024;
constexpr uint32_t kFlushStaged = 512; // flushed at the next tile once this many wait

template <class Shape>
size_t
filter_shared_bytes(uint32_t dim_pad)
{
	return Shape::kStages * Shape::kStageBytes + Shape::kQueries * operand_bytes(Shape::form, dim_pad) +
		kMostStaged * sizeof(Staged) + 16;
}

/// Start the copy of one chunk of a tile's rows into a stage. See unit_place.
template <class Shape>
__device__ __forceinline__ void
load_stage(uint32_t stage, const Rows &rows, uint32_t first_row, uint32_t chunk)
{
	constexpr int kUnits = kChunkBytes / 16;

#pragma unroll
	for (int i = threadIdx.x; i < Shape::kRows * kUnits; i += Shape::kThreads)
	{
		const uint32_t row = i / kUnits;
		const uint32_t unit = i % kUnits;
		const uint32_t place = unit_place<Shape::form>(unit, row);
		const uint32_t offset = chunk * kChunkBytes + unit * 16;

		if (offset < rows.pitch_bytes)
			copy_async_16(stage + row * kChunkBytes + place * 16,
				static_cast<const char *>(rows.vectors) +
					static_cast<size_t>(min(first_row + row, rows.n_rows - 1)) * rows.pitch_bytes + offset);
	}
}

/// The tiles of a block, numbered in its order: consecutive tiles, or, for bins, every n_stripes-th tile.
struct FilterStripe
{
	uint32_t number; // of the stripe
	uint32_t n_stripes;
	uint32_t base_tile; // tile 0 of the rows
	uint32_t tile_stride;
	uint32_t first_tile;
	uint32_t n_tiles;

	__device__ __forceinline__ FilterStripe(
		const FilterArgs &args, uint32_t n_query_tiles, uint32_t tiles_per_stripe, bool for_bins)
		: number(blockIdx.x / n_query_tiles), n_stripes(gridDim.x / n_query_tiles),
		  base_tile(for_bins ? number : args.first_tile), tile_stride(for_bins ? n_stripes : args.tile_stride),
		  first_tile(for_bins ? 0 : number * tiles_per_stripe),
		  n_tiles(for_bins ? (args.n_tiles - min(args.n_tiles, number) + n_stripes - 1) / n_stripes
						   : min(tiles_per_stripe, args.n_tiles - min(args.n_tiles, first_tile)))
	{
	}

	__device__ __forceinline__ uint32_t row_of(uint32_t tile) const
	{
		return (base_tile + tile * tile_stride) * kFilterTileRows;
	}
};

/// The rows and queries of a thread's sums [MT][NT][4] of a tile: rows (m, half) and queries i.
template <class Shape>
struct FilterThread
{
	uint32_t first_query; // of the block
	uint32_t lane = threadIdx.x % 32;
	uint32_t warp_m = threadIdx.x / 32 % Shape::WM;
	uint32_t warp_n = threadIdx.x / 32 / Shape::WM;

	__device__ __forceinline__ uint32_t row(int m, int half) const
	{
		return warp_m * Shape::MT * 16 + m * 16 + half * 8 + lane / 4;
	}

	__device__ __forceinline__ uint32_t query(int i) const
	{
		return first_query + warp_n * Shape::NT * 8 + i / 2 * 8 + lane % 4 * 2 + i % 2;
	}
};

/// A block's shared memory: stages of rows, the queries' operand, staged candidates.
template <class Shape>
struct FilterMemory
{
	uint32_t stages;
	uint32_t operand; // [kQueries, bytes_of_query], units permuted within 128 bytes
	uint32_t bytes_of_query;
	unsigned char *start;
	uint32_t *n_staged;
	Staged *staged; // [kMostStaged]

	__device__ __forceinline__ FilterMemory(unsigned char *shared, uint32_t dim_pad)
		: stages(shared_address(shared)), operand(stages + Shape::kStages * static_cast<uint32_t>(Shape::kStageBytes)),
		  bytes_of_query(static_cast<uint32_t>(operand_bytes(Shape::form, dim_pad))), start(shared),
		  n_staged(reinterpret_cast<uint32_t *>(
			  shared + Shape::kStages * Shape::kStageBytes + Shape::kQueries * bytes_of_query)),
		  staged(reinterpret_cast<Staged *>(n_staged + 4))
	{
	}

	__device__ __forceinline__ uint32_t stage(uint32_t step) const
	{
		return stages + step % Shape::kStages * static_cast<uint32_t>(Shape::kStageBytes);
	}

	/// The same memory as a pointer.
	__device__ __forceinline__ const unsigned char *at(uint32_t address) const { return start + (address - stages); }

	/// By a thread: stage a candidate, or pass it on if there is no room.
	__device__ __forceinline__ void add(const FilterArgs &args, const Staged &candidate) const
	{
		const uint32_t at = atomicAdd(n_staged, 1u);

		if (at < kMostStaged)
			staged[at] = candidate;
		else
			pass_on<Shape::form>(args, candidate);
	}

	/// By all threads, between two barriers: pass on the staged candidates.
	__device__ __forceinline__ void flush(const FilterArgs &args) const
	{
		const uint32_t n = min(*n_staged, kMostStaged);

		for (uint32_t i = threadIdx.x; i < n; i += Shape::kThreads)
			pass_on<Shape::form>(args, staged[i]);
		__syncthreads();
		if (threadIdx.x == 0)
			*n_staged = 0;
		__syncthreads();
	}
};

/// The copies of a block's rows into its stages, one chunk of a tile after another.
template <class Shape>
struct FilterLoads
{
	uint32_t n_chunks; // of a row
	uint32_t n_steps;  // chunks of all tiles
	uint32_t tile;
	uint32_t chunk = 0;
	uint32_t loaded = 0;

	__device__ __forceinline__ void next(
		const FilterArgs &args, const FilterStripe &stripe, const FilterMemory<Shape> &memory)
	{
		if (loaded < n_steps)
		{
			load_stage<Shape>(memory.stage(loaded), args.rows, stripe.row_of(tile), chunk);
			if (++chunk == n_chunks)
			{
				chunk = 0;
				tile++;
			}
		}
		loaded++;
		copies_commit();
	}
};

/// Load the block's queries into its operand.
template <class Shape>
__device__ __forceinline__ void
load_queries(const FilterArgs &args, uint32_t first_query, const FilterMemory<Shape> &memory)
{
	const uint32_t units = memory.bytes_of_query / 16;

	for (uint32_t i = threadIdx.x; i < Shape::kQueries * units; i += Shape::kThreads)
	{
		const uint32_t unit = i % units;
		const uint32_t q = i / units;
		const uint32_t query = min(first_query + q, args.n_queries - 1);

		copy_async_16(
			memory.operand + q * memory.bytes_of_query + (unit / 8 * 8 + unit_place<Shape::form>(unit % 8, q)) * 16,
			static_cast<const char *>(args.operand) + static_cast<size_t>(query) * memory.bytes_of_query + unit * 16);
	}
	asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); // the first barrier shows them to all
}

/// The queries' fragments: 32 bytes of K at byte k.
template <class Shape>
__device__ __forceinline__ void
load_query_fragments(
	uint32_t (&b)[Shape::NT][2], const FilterThread<Shape> &thread, const FilterMemory<Shape> &memory, uint32_t k)
{
	constexpr int NT = Shape::NT;
	const uint32_t lane = thread.lane;
	const uint32_t segment = k / kChunkBytes * kChunkBytes;
	const uint32_t unit = k % kChunkBytes / 16;

	if constexpr (NT == 1)
	{
		const uint32_t q = thread.warp_n * 8 + lane % 8;

		load_matrix_x2(b[0][0], b[0][1],
			memory.operand + q * memory.bytes_of_query + segment + (((unit + lane / 8 % 2) ^ q) & 7) * 16);
	}
	else
	{
#pragma unroll
		for (int n = 0; n < NT; n += 2)
		{
			const uint32_t q = thread.warp_n * NT * 8 + n * 8 + lane / 16 * 8 + lane % 8;
			uint32_t r[4];

			load_matrix_x4(
				r, memory.operand + q * memory.bytes_of_query + segment + (((unit + lane / 8 % 2) ^ q) & 7) * 16);
			b[n][0] = r[0];
			b[n][1] = r[1];
			b[n + 1][0] = r[2];
			b[n + 1][1] = r[3];
		}
	}
}

/// sums += the products of `bytes` bytes of K, one chunk, of the rows in a stage and the queries; of halves or bytes.
template <class Shape, class Sum>
__device__ __forceinline__ void
multiply_narrow_chunk(Sum (&sums)[Shape::MT][Shape::NT][4], const FilterThread<Shape> &thread,
	const FilterMemory<Shape> &memory, uint32_t stage, uint32_t chunk, uint32_t bytes)
{
	constexpr int MT = Shape::MT, NT = Shape::NT;
	const uint32_t lane = thread.lane;

#pragma unroll
	for (uint32_t k = 0; k < kChunkBytes; k += 32)
	{
		if (k >= bytes)
			break;

		uint32_t a[MT][4];
		uint32_t b[NT][2];

#pragma unroll
		for (int m = 0; m < MT; m++)
		{
			const uint32_t row = thread.warp_m * MT * 16 + m * 16 + lane % 16;

			load_matrix_x4(a[m], stage + row * kChunkBytes + (((k / 16 + lane / 16) ^ row) & 7) * 16);
		}
		load_query_fragments<Shape>(b, thread, memory, chunk * kChunkBytes + k);
#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int n = 0; n < NT; n++)
				multiply<Shape::form>(sums[m][n], a[m], b[n]);
	}
}

/// The same of float32.
template <class Shape>
__device__ __forceinline__ void
multiply_float_chunk(float (&sums)[Shape::MT][Shape::NT][4], const FilterThread<Shape> &thread,
	const FilterMemory<Shape> &memory, uint32_t stage, uint32_t chunk, uint32_t bytes)
{
	constexpr int MT = Shape::MT, NT = Shape::NT;
	const uint32_t lane = thread.lane;
	const unsigned char *rows = memory.at(stage);
	const unsigned char *queries = memory.at(memory.operand) + chunk * kChunkBytes;

#pragma unroll
	for (uint32_t k = 0; k < kChunkBytes; k += 64)
	{
		if (k >= bytes)
			break;

		uint4 a[MT][2]; // four elements of a row: two of each step

#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
			{
				const uint32_t row = thread.row(m, half);

				a[m][half] = *reinterpret_cast<const uint4 *>(
					rows + row * kChunkBytes + unit_place<Shape::form>(k / 16 + lane % 4, row) * 16);
			}
#pragma unroll
		for (int n = 0; n < NT; n++)
		{
			const uint32_t q = thread.warp_n * NT * 8 + n * 8 + lane / 4;
			const uint4 b = *reinterpret_cast<const uint4 *>(
				queries + q * memory.bytes_of_query + unit_place<Shape::form>(k / 16 + lane % 4, q) * 16);

#pragma unroll
			for (int m = 0; m < MT; m++)
			{
				multiply<Shape::form>(sums[m][n], {a[m][0].x, a[m][1].x, a[m][0].y, a[m][1].y}, {b.x, b.y});
				multiply<Shape::form>(sums[m][n], {a[m][0].z, a[m][1].z, a[m][0].w, a[m][1].w}, {b.z, b.w});
			}
		}
	}
}

} // namespace vectorgpu::kernels

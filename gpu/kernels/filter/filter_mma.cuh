// The matrix product of the filter: rows stream through shared memory, the queries stay there, sums stay in registers
// and are judged there; the matrix of estimates never reaches memory. Warp-level mma (sm_80 and later); filter_tile.cuh
// has the layers of the block and the warp below the kernel.
#pragma once

#include "kernels/filter/filter_tile.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{

constexpr uint32_t kNoTile = 0xFFFFFFFFu;

/// The nearest row of each of a thread's bins: its estimate, and its tile. kUsed: for FilterPass::kBins.
template <class Shape, bool kUsed>
struct FilterBins
{
	static constexpr int MT = kUsed ? Shape::MT : 0;
	static constexpr int n_each = kUsed ? 2 * Shape::NT : 1; // queries

	float best[kUsed ? MT : 1][2][n_each];
	uint32_t tiles[kUsed ? MT : 1][2][n_each];

	__device__ __forceinline__ void clear()
	{
#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
#pragma unroll
				for (int i = 0; i < n_each; i++)
				{
					best[m][half][i] = __int_as_float(0x7F800000);
					tiles[m][half][i] = kNoTile;
				}
	}

	/// Take a row, if it counts: sums of m and half.
	template <class Sum>
	__device__ __forceinline__ void take(
		const Sum (&sums)[Shape::NT][4], int m, int half, float value, bool counts, uint32_t tile, bool is_cosine)
	{
#pragma unroll
		for (int i = 0; i < n_each; i++)
		{
			const float estimate = __fmaf_rn(
				static_cast<float>(sums[i / 2][half * 2 + i % 2]), is_cosine ? value : -1.0f, is_cosine ? 0.0f : value);
			const bool better = counts && estimate < best[m][half][i]; // the earlier row of equals stays

			best[m][half][i] = better ? estimate : best[m][half][i];
			tiles[m][half][i] = better ? tile : tiles[m][half][i];
		}
	}

	__device__ __forceinline__ void write(
		const FilterArgs &args, const FilterStripe &stripe, const FilterThread<Shape> &thread) const
	{
#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
			{
				const uint32_t place = stripe.number * kFilterTileRows + thread.row(m, half);

#pragma unroll
				for (int i = 0; i < n_each; i++)
					if (thread.query(i) < args.n_queries)
					{
						const size_t at =
							static_cast<size_t>(thread.query(i)) * stripe.n_stripes * kFilterTileRows + place;

						args.bin_estimates[at] = best[m][half][i];
						args.bin_rows[at] = tiles[m][half][i] == kNoTile
							? kNoBinRow
							: stripe.row_of(tiles[m][half][i]) + thread.row(m, half);
					}
			}
	}
};

/// Load the values of the thread's rows of a tile.
template <class Shape>
__device__ __forceinline__ void
read_values(float (&values)[Shape::MT][2], const FilterArgs &args, const FilterStripe &stripe,
	const FilterThread<Shape> &thread, uint32_t tile)
{
#pragma unroll
	for (int m = 0; m < Shape::MT; m++)
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			const uint32_t row = stripe.row_of(tile) + thread.row(m, half);

			values[m][half] = row < args.rows.n_rows ? __ldg(args.row_values + row) : 0.0f;
		}
}

/// Judge the complete sums of a tile: write the smallest estimates of groups of 32 rows, let bins take the rows, or
/// stage those that pass.
template <class Shape, FilterPass kPass, class Sum>
__device__ __forceinline__ void
judge_tile(const Sum (&sums)[Shape::MT][Shape::NT][4], const float (&values)[Shape::MT][2], const FilterArgs &args,
	const FilterStripe &stripe, const FilterThread<Shape> &thread, uint32_t tile, bool is_cosine,
	const FilterMemory<Shape> &memory, FilterBins<Shape, kPass == FilterPass::kBins> &bins)
{
	constexpr int NT = Shape::NT;
	float smallest[2 * NT];

#pragma unroll
	for (int m = 0; m < Shape::MT; m++)
	{
		if constexpr (kPass == FilterPass::kMinima)
		{
#pragma unroll
			for (int i = 0; i < 2 * NT; i++)
				smallest[i] = m % 2 == 0 ? __int_as_float(0x7F800000) : smallest[i];
		}
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			const uint32_t row = stripe.row_of(tile) + thread.row(m, half);
			const float value = values[m][half];
			const bool is_row = row < args.rows.n_rows;

			if constexpr (kPass == FilterPass::kMinima)
				take_smallest<NT>(smallest, sums[m], half, value, is_row && !row_is_dead(args.rows, row), is_cosine);
			else if constexpr (kPass == FilterPass::kBins)
				bins.take(sums[m], m, half, value, is_row && !row_is_dead(args.rows, row), tile, is_cosine);
			else
				find_passed<NT>(
					sums[m], half, value, [&] { return is_row; },
					[&](int hit, Sum sum)
					{
						if (thread.query(hit) < args.n_queries)
							memory.add(args, {row, thread.query(hit), sum_bits(sum)});
					});
		}
		if constexpr (kPass == FilterPass::kMinima)
		{
			if (m % 2 == 1) // a group of 32 rows is complete
			{
#pragma unroll
				for (int i = 0; i < 2 * NT; i++)
				{
					const float least = smallest_of_rows(smallest[i]);

					if (thread.lane < 4 && thread.query(i) < args.n_queries)
						args.minima[static_cast<size_t>(thread.query(i)) * args.minima_stride +
							tile * kFilterGroupsPerTile + thread.warp_m * (Shape::MT / 2) + m / 2] = least;
				}
			}
		}
	}
}

/// Grid (stripes * query tiles), query tile fastest, so that blocks that run together read the same rows; block
/// Shape::kThreads; shared filter_shared_bytes. Each block takes a stripe of the tiles for one tile of queries
/// (FilterStripe): for bins every n_stripes-th tile, so that a thread's rows of all its tiles belong to the same bins.
template <class Shape, FilterPass kPass>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks(kPass))
filter_kernel(const FilterArgs args, uint32_t n_query_tiles, uint32_t tiles_per_stripe)
{
	constexpr bool kBins = kPass == FilterPass::kBins;
	constexpr bool kEstimates = kPass != FilterPass::kCandidates; // sums begin at zero, not at thresholds
	constexpr int MT = Shape::MT, NT = Shape::NT;
	extern __shared__ __align__(128) unsigned char shared[];
	const FilterThread<Shape> thread{blockIdx.x % n_query_tiles * Shape::kQueries};
	const FilterStripe stripe(args, n_query_tiles, tiles_per_stripe, kBins);
	const FilterMemory<Shape> memory(shared, args.dim_pad);
	const uint32_t n_chunks = (args.rows.pitch_bytes + kChunkBytes - 1) / kChunkBytes;
	const bool is_cosine = args.metric == Metric::kCosine;

	let_next_start();
	if (stripe.n_tiles == 0)
		return;
	if (threadIdx.x == 0)
		*memory.n_staged = 0;
	__syncthreads(); // the first vote reads it

	FilterLoads<Shape> loads{n_chunks, stripe.n_tiles * n_chunks, stripe.first_tile};
	float values[MT][2]; // of this thread's rows of the tile
	float next_values[MT][2];

	// Rows and their values do not depend on earlier kernels.
	for (int i = 0; i < Shape::kStages - 1; i++)
		loads.next(args, stripe, memory);
	read_values<Shape>(next_values, args, stripe, thread, stripe.first_tile);
	wait_for_stream();
	load_queries<Shape>(args, thread.first_query, memory);

	uint32_t thresholds[2 * NT];

#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
		thresholds[i] = kept_threshold<Shape::form>(!kEstimates && thread.query(i) < args.n_queries
				? args.thresholds[thread.query(i)]
				: -__int_as_float(0x7F800000),
			is_cosine);

	typename Accumulator<Shape::form>::Type sums[MT][NT][4];
	FilterBins<Shape, kBins> bins;
	uint32_t chunk = 0;
	uint32_t tile = stripe.first_tile;

	bins.clear();
	for (uint32_t step = 0; step < loads.n_steps; step++)
	{
		copies_wait<Shape::kStages - 2>();
		// The stage has arrived for all threads, and all have left the stage that is loaded next. All threads must
		// agree on a flush, whenever each reads the count: the barrier takes the vote.
		if constexpr (kEstimates)
			__syncthreads();
		else if (__syncthreads_or(*reinterpret_cast<volatile uint32_t *>(memory.n_staged) > kFlushStaged))
			memory.flush(args);
		loads.next(args, stripe, memory);
		if (chunk == 0)
		{
#pragma unroll
			for (int m = 0; m < MT; m++)
			{
				values[m][0] = next_values[m][0];
				values[m][1] = next_values[m][1];
				if (Shape::form == Form::kByte && is_cosine)
					start_sums<Shape::form, kEstimates, true>(sums[m], thresholds, values[m], true);
				else
					start_sums<Shape::form, kEstimates, false>(sums[m], thresholds, values[m], is_cosine);
			}
			if (tile + 1 < stripe.first_tile + stripe.n_tiles)
				read_values<Shape>(next_values, args, stripe, thread, tile + 1);
		}

		const uint32_t bytes = min(kChunkBytes, args.rows.pitch_bytes - chunk * kChunkBytes);

		if constexpr (Shape::form == Form::kFloat32)
			multiply_float_chunk<Shape>(sums, thread, memory, memory.stage(step), chunk, bytes);
		else
			multiply_narrow_chunk<Shape>(sums, thread, memory, memory.stage(step), chunk, bytes);
		if (++chunk < n_chunks)
			continue;
		chunk = 0;
		judge_tile<Shape, kPass>(sums, values, args, stripe, thread, tile, is_cosine, memory, bins);
		tile++;
	}
	if constexpr (kPass == FilterPass::kCandidates)
	{
		__syncthreads();
		memory.flush(args);
	}
	bins.write(args, stripe, thread);
	asm volatile("cp.async.wait_all;" ::: "memory");
}

} // namespace vectorgpu::kernels

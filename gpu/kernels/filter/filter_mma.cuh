// The matrix product of the filter: rows stream through shared memory, the queries stay there, sums stay in registers
// and are judged there; the matrix of estimates never reaches memory. Warp-level mma (sm_80 and later).
//
// K is cut into steps of 32 bytes of a row's narrow form (32 u8, 16 fp16), so fragments of both have the same bytes in
// the same places. float32 rows are multiplied as TF32, which cuts off their low bits; queries are rounded to TF32
// beforehand. For float32, the 16 elements of two steps are permuted, in rows and queries alike, so a thread's elements
// are 16 consecutive bytes.
#pragma once

#include "kernels/filter/filter_sums.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{

__device__ __forceinline__ void
copy_async_16(uint32_t to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void
load_matrix_x4(uint32_t (&r)[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		: "r"(address)
		: "memory");
}

__device__ __forceinline__ void
load_matrix_x2(uint32_t &r0, uint32_t &r1, uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
		: "=r"(r0), "=r"(r1)
		: "r"(address)
		: "memory");
}

template <Form form>
__device__ __forceinline__ void multiply(
	typename Accumulator<form>::Type (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
	if constexpr (form == Form::kByte)
		asm volatile(
			"mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else if constexpr (form == Form::kFloat16)
		asm volatile(
			"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else
		asm volatile(
			"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

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

constexpr uint32_t kNoTile = 0xFFFFFFFFu;
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

/// Grid (stripes * query tiles), query tile fastest, so that blocks that run together read the same rows; block
/// Shape::kThreads; shared filter_shared_bytes. Each block takes a stripe of the tiles for one tile of queries:
/// consecutive tiles, or, for bins, every n_stripes-th tile, so that a thread's rows of all its tiles belong to the
/// same bins.
template <class Shape, FilterPass kPass>
__global__ void __launch_bounds__(Shape::kThreads, Shape::blocks(kPass))
filter_kernel(const FilterArgs args, uint32_t n_query_tiles, uint32_t tiles_per_stripe)
{
	constexpr bool kMinima = kPass == FilterPass::kMinima;
	constexpr bool kBins = kPass == FilterPass::kBins;
	constexpr bool kEstimates = kMinima || kBins; // sums begin at zero, not at thresholds
	using Sum = typename Accumulator<Shape::form>::Type;
	constexpr int MT = Shape::MT, NT = Shape::NT;
	extern __shared__ __align__(128) unsigned char shared[];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp_m = threadIdx.x / 32 % Shape::WM;
	const uint32_t warp_n = threadIdx.x / 32 / Shape::WM;
	const uint32_t first_query = blockIdx.x % n_query_tiles * Shape::kQueries;
	const uint32_t stripe = blockIdx.x / n_query_tiles;
	// Tiles are numbered in the order of this block; base_tile + tile * tile_stride is the tile of the rows.
	const uint32_t n_stripes = gridDim.x / n_query_tiles;
	const uint32_t base_tile = kBins ? stripe : args.first_tile;
	const uint32_t tile_stride = kBins ? n_stripes : args.tile_stride;
	const uint32_t first_tile = kBins ? 0 : stripe * tiles_per_stripe;
	const uint32_t n_tiles = kBins ? (args.n_tiles - min(args.n_tiles, stripe) + n_stripes - 1) / n_stripes
								   : min(tiles_per_stripe, args.n_tiles - min(args.n_tiles, first_tile));
	const uint32_t pitch = args.rows.pitch_bytes;
	const uint32_t n_chunks = (pitch + kChunkBytes - 1) / kChunkBytes;
	const uint32_t bytes_of_query = static_cast<uint32_t>(operand_bytes(Shape::form, args.dim_pad));
	const uint32_t stages = shared_address(shared);
	const uint32_t operand = stages + Shape::kStages * static_cast<uint32_t>(Shape::kStageBytes);

	uint32_t *n_staged =
		reinterpret_cast<uint32_t *>(shared + Shape::kStages * Shape::kStageBytes + Shape::kQueries * bytes_of_query);
	Staged *staged = reinterpret_cast<Staged *>(n_staged + 4);

	let_next_start();
	if (n_tiles == 0)
		return;
	if (threadIdx.x == 0)
		*n_staged = 0;
	__syncthreads(); // the first vote reads it

	// By all threads, between two barriers.
	auto flush = [&]
	{
		const uint32_t n = min(*n_staged, kMostStaged);

		for (uint32_t i = threadIdx.x; i < n; i += Shape::kThreads)
			pass_on<Shape::form>(args, staged[i]);
		__syncthreads();
		if (threadIdx.x == 0)
			*n_staged = 0;
		__syncthreads();
	};

	uint32_t thresholds[2 * NT];
	float values[MT][2]; // of this thread's rows of the tile
	float next_values[MT][2];
	const bool is_cosine = args.metric == Metric::kCosine;

	auto row_of = [&](uint32_t tile, int m, int half)
	{ return (base_tile + tile * tile_stride) * kFilterTileRows + warp_m * MT * 16 + m * 16 + half * 8 + lane / 4; };
	auto read_values = [&](uint32_t tile)
	{
#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
			{
				const uint32_t row = row_of(tile, m, half);

				next_values[m][half] = row < args.rows.n_rows ? __ldg(args.row_values + row) : 0.0f;
			}
	};

	const uint32_t n_steps = n_tiles * n_chunks;
	uint32_t load_tile = first_tile;
	uint32_t load_chunk = 0;
	uint32_t loaded = 0;
	auto load_next = [&]
	{
		if (loaded < n_steps)
		{
			load_stage<Shape>(stages + loaded % Shape::kStages * static_cast<uint32_t>(Shape::kStageBytes), args.rows,
				(base_tile + load_tile * tile_stride) * kFilterTileRows, load_chunk);
			if (++load_chunk == n_chunks)
			{
				load_chunk = 0;
				load_tile++;
			}
		}
		loaded++;
		asm volatile("cp.async.commit_group;" ::: "memory");
	};

	// Rows and their values do not depend on earlier kernels.
	for (int i = 0; i < Shape::kStages - 1; i++)
		load_next();
	read_values(first_tile);
	wait_for_stream();

	// The queries: [kQueries, bytes_of_query], units permuted within 128 bytes.
	{
		const uint32_t units = bytes_of_query / 16;

		for (uint32_t i = threadIdx.x; i < Shape::kQueries * units; i += Shape::kThreads)
		{
			const uint32_t unit = i % units;
			const uint32_t q = i / units;
			const uint32_t query = min(first_query + q, args.n_queries - 1);

			copy_async_16(operand + q * bytes_of_query + (unit / 8 * 8 + unit_place<Shape::form>(unit % 8, q)) * 16,
				static_cast<const char *>(args.operand) + static_cast<size_t>(query) * bytes_of_query + unit * 16);
		}
	}
	asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); // the first barrier shows them to all

#pragma unroll
	for (int i = 0; i < 2 * NT; i++)
	{
		const uint32_t query = first_query + warp_n * NT * 8 + i / 2 * 8 + lane % 4 * 2 + i % 2;

		thresholds[i] = kept_threshold<Shape::form>(
			!kEstimates && query < args.n_queries ? args.thresholds[query] : -__int_as_float(0x7F800000), is_cosine);
	}

	Sum sums[MT][NT][4];
	float best[kBins ? MT : 1][2][kBins ? 2 * NT : 1]; // of this thread's bins: the smallest estimate, and its tile
	uint32_t best_tile[kBins ? MT : 1][2][kBins ? 2 * NT : 1];
	uint32_t chunk = 0;
	uint32_t tile = first_tile;

	if constexpr (kBins)
	{
#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
#pragma unroll
				for (int i = 0; i < 2 * NT; i++)
				{
					best[m][half][i] = __int_as_float(0x7F800000);
					best_tile[m][half][i] = kNoTile;
				}
	}

	for (uint32_t step = 0; step < n_steps; step++)
	{
		asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kStages - 2) : "memory");
		// The stage has arrived for all threads, and all have left the stage that is loaded next. All threads must
		// agree on a flush, whenever each reads the count: the barrier takes the vote.
		if constexpr (kEstimates)
			__syncthreads();
		else if (__syncthreads_or(*reinterpret_cast<volatile uint32_t *>(n_staged) > kFlushStaged))
			flush();
		load_next();

		const uint32_t stage = stages + step % Shape::kStages * static_cast<uint32_t>(Shape::kStageBytes);

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
			if (tile + 1 < first_tile + n_tiles)
				read_values(tile + 1);
		}

		// Queries' fragments: 32 bytes of K at byte k.
		auto load_queries = [&](uint32_t(&b)[NT][2], uint32_t k)
		{
			const uint32_t segment = k / kChunkBytes * kChunkBytes;
			const uint32_t unit = k % kChunkBytes / 16;

			if constexpr (NT == 1)
			{
				const uint32_t q = warp_n * 8 + lane % 8;

				load_matrix_x2(
					b[0][0], b[0][1], operand + q * bytes_of_query + segment + (((unit + lane / 8 % 2) ^ q) & 7) * 16);
			}
			else
			{
#pragma unroll
				for (int n = 0; n < NT; n += 2)
				{
					const uint32_t q = warp_n * NT * 8 + n * 8 + lane / 16 * 8 + lane % 8;
					uint32_t r[4];

					load_matrix_x4(r, operand + q * bytes_of_query + segment + (((unit + lane / 8 % 2) ^ q) & 7) * 16);
					b[n][0] = r[0];
					b[n][1] = r[1];
					b[n + 1][0] = r[2];
					b[n + 1][1] = r[3];
				}
			}
		};

		const uint32_t bytes = min(kChunkBytes, pitch - chunk * kChunkBytes);

		if constexpr (Shape::form == Form::kFloat32)
		{
			const unsigned char *rows = shared + (stage - stages);
			const unsigned char *queries = shared + (operand - stages) + chunk * kChunkBytes;

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
						const uint32_t row = warp_m * MT * 16 + m * 16 + half * 8 + lane / 4;

						a[m][half] = *reinterpret_cast<const uint4 *>(
							rows + row * kChunkBytes + unit_place<Shape::form>(k / 16 + lane % 4, row) * 16);
					}
#pragma unroll
				for (int n = 0; n < NT; n++)
				{
					const uint32_t q = warp_n * NT * 8 + n * 8 + lane / 4;
					const uint4 b = *reinterpret_cast<const uint4 *>(
						queries + q * bytes_of_query + unit_place<Shape::form>(k / 16 + lane % 4, q) * 16);

#pragma unroll
					for (int m = 0; m < MT; m++)
					{
						multiply<Shape::form>(sums[m][n], {a[m][0].x, a[m][1].x, a[m][0].y, a[m][1].y}, {b.x, b.y});
						multiply<Shape::form>(sums[m][n], {a[m][0].z, a[m][1].z, a[m][0].w, a[m][1].w}, {b.z, b.w});
					}
				}
			}
		}
		else
		{
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
					const uint32_t row = warp_m * MT * 16 + m * 16 + lane % 16;

					load_matrix_x4(a[m], stage + row * kChunkBytes + (((k / 16 + lane / 16) ^ row) & 7) * 16);
				}
				load_queries(b, chunk * kChunkBytes + k);
#pragma unroll
				for (int m = 0; m < MT; m++)
#pragma unroll
					for (int n = 0; n < NT; n++)
						multiply<Shape::form>(sums[m][n], a[m], b[n]);
			}
		}

		if (++chunk < n_chunks)
			continue;
		chunk = 0;

		// The tile's sums are complete: the thread has rows group + 8 half of each m, queries 2 (lane % 4) + {0, 1} of
		// each n.
		float smallest[2 * NT];

#pragma unroll
		for (int m = 0; m < MT; m++)
		{
			if constexpr (kMinima)
			{
#pragma unroll
				for (int i = 0; i < 2 * NT; i++)
					smallest[i] = m % 2 == 0 ? __int_as_float(0x7F800000) : smallest[i];
			}
#pragma unroll
			for (int half = 0; half < 2; half++)
			{
				const uint32_t row = row_of(tile, m, half);
				const float value = values[m][half];

				if constexpr (kMinima)
					take_smallest<NT>(smallest, sums[m], half, value,
						row < args.rows.n_rows && !row_is_dead(args.rows, row), is_cosine);
				else if constexpr (kBins)
				{
					const bool counts = row < args.rows.n_rows && !row_is_dead(args.rows, row);

#pragma unroll
					for (int i = 0; i < 2 * NT; i++)
					{
						const float estimate = __fmaf_rn(static_cast<float>(sums[m][i / 2][half * 2 + i % 2]),
							is_cosine ? value : -1.0f, is_cosine ? 0.0f : value);
						const bool better = counts && estimate < best[m][half][i]; // the earlier row of equals stays

						best[m][half][i] = better ? estimate : best[m][half][i];
						best_tile[m][half][i] = better ? tile : best_tile[m][half][i];
					}
				}
				else
				{
					find_passed<NT>(sums[m], half, value, row < args.rows.n_rows,
						[&](int hit, Sum sum)
						{
							const uint32_t query = first_query + warp_n * NT * 8 + hit / 2 * 8 + lane % 4 * 2 + hit % 2;

							if (query >= args.n_queries)
								return;

							const Staged candidate = {row, query, sum_bits(sum)};
							const uint32_t at = atomicAdd(n_staged, 1u);

							if (at < kMostStaged)
								staged[at] = candidate;
							else
								pass_on<Shape::form>(args, candidate);
						});
				}
			}
			if constexpr (kMinima)
			{
				if (m % 2 == 1) // a group of 32 rows is complete
				{
#pragma unroll
					for (int i = 0; i < 2 * NT; i++)
					{
						const uint32_t query = first_query + warp_n * NT * 8 + i / 2 * 8 + lane % 4 * 2 + i % 2;
						const float least = smallest_of_rows(smallest[i]);

						if (lane < 4 && query < args.n_queries)
							args.minima[static_cast<size_t>(query) * args.minima_stride + tile * kFilterGroupsPerTile +
								warp_m * (MT / 2) + m / 2] = least;
					}
				}
			}
		}
		tile++;
	}
	if constexpr (kPass == FilterPass::kCandidates)
	{
		__syncthreads();
		flush();
	}
	if constexpr (kBins)
	{
#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
			{
				const uint32_t place = stripe * kFilterTileRows + warp_m * MT * 16 + m * 16 + half * 8 + lane / 4;

#pragma unroll
				for (int i = 0; i < 2 * NT; i++)
				{
					const uint32_t query = first_query + warp_n * NT * 8 + i / 2 * 8 + lane % 4 * 2 + i % 2;

					if (query < args.n_queries)
					{
						const size_t at = static_cast<size_t>(query) * n_stripes * kFilterTileRows + place;

						args.bin_estimates[at] = best[m][half][i];
						args.bin_rows[at] =
							best_tile[m][half][i] == kNoTile ? kNoBinRow : row_of(best_tile[m][half][i], m, half);
					}
				}
			}
	}
	asm volatile("cp.async.wait_all;" ::: "memory");
}

} // namespace vectorgpu::kernels

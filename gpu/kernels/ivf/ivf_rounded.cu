// See ivf_rounded.hpp. A block takes tiles of up to 32 queries, which lie in shared memory, by 256 rows, 32 of them for
// each warp. Rows that pass wait until there are 32 pairs of a query and a row, which a warp scores together.
#include <algorithm>

#include "kernels/filter/filter_bound.cuh"
#include "kernels/filter/filter_sums.cuh"
#include "kernels/ivf/ivf_rounded.hpp"
#include "kernels/ivf/ivf_tile.cuh"
#include "kernels/warp_block/mma.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kColumns = 32;         // queries of a tile
constexpr int kTiles = kColumns / 8; // of 8 queries
constexpr int kParts = 2;            // of 16 rows, which a warp multiplies at a time
constexpr uint32_t kRowsOfWarp = kParts * 16;
constexpr uint32_t kAtOnce = 32; // pairs that a warp scores together
constexpr uint32_t kPieceBytes = 16;
constexpr uint32_t kPiecesOfUnit = 4;       // of each row and query in two products: one of each thread of a row
constexpr size_t kQueryBytes = 100 * 1024;  // of a block: two blocks of a processor have room for them
constexpr size_t kStaticBytes = 6 * 1024;   // of a block, rounded up
constexpr unsigned int kFullGrid = 132 * 4; // keeps a large device busy

static_assert(kWarps * kRowsOfWarp == kIvfRowsPerTile);

/// Pieces of a row, and of a query, whose last unit may end in zeros.
template <Form form>
VECTORGPU_HOST_DEVICE constexpr uint32_t
row_pieces(uint32_t dim_pad)
{
	return dim_pad * (form == Form::kFloat16 ? 2 : 1) / kPieceBytes;
}

template <Form form>
VECTORGPU_HOST_DEVICE constexpr uint32_t
query_units(uint32_t dim_pad)
{
	return (row_pieces<form>(dim_pad) + kPiecesOfUnit - 1) / kPiecesOfUnit;
}

/// Distance of two queries in shared memory, in pieces: threads of two rows of queries, which load together, have
/// different banks.
template <Form form>
VECTORGPU_HOST_DEVICE constexpr uint32_t
query_stride(uint32_t dim_pad)
{
	return (query_units<form>(dim_pad) | 1) * kPiecesOfUnit;
}

/// A pair of a query and a row that waits for its score.
struct Pair
{
	uint32_t query;
	uint32_t place;
};

struct TileScratch
{
	Pair pairs[kWarps][2 * kAtOnce];
	float limits[kColumns];
	float steps[kColumns];      // 1 / h of scaled queries
	uint32_t numbers[kColumns]; // of the queries
	uint32_t next;              // tile
};

static_assert(sizeof(TileScratch) <= kStaticBytes);

/// Grid ceil(n_queries / 8), block 256: a warp for each query.
__global__ void __launch_bounds__(kThreads)
limits_kernel(const IvfScanArgs args, const IvfRounded rounded)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t query = blockIdx.x * kWarps + threadIdx.x / 32;

	if (query >= args.queries.n_queries)
		return;
	if (args.metric == Metric::kCosine)
	{
		const uint32_t dim_pad = args.queries.dim_pad;
		const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * dim_pad;
		const float sum = query_square_sum(vector, dim_pad, lane);

		if (lane == 0)
			rounded.square_sums[query] = sum;
	}
	if (lane == 0)
		rounded.limits[query] = __double2float_ru(rounded.queries.redo[query] != 0
				? infinity()
				: cut_for_score(rounded.bound, query_size(rounded.queries, query), key_score(args.thresholds[query])));
}

/// Canonical scores of n pairs, at most kAtOnce: those within their query's threshold become candidates. By a warp.
template <Metric metric, class FormT>
__device__ __forceinline__ void
score_waiting(const IvfScanArgs &args, const IvfRounded &rounded, const Pair *pairs, uint32_t n, uint32_t lane)
{
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *vectors = static_cast<const float *>(args.queries.vectors);
	const char *block = static_cast<const char *>(args.rows.vectors);
	const auto pair_at = [&](uint32_t i) { return pairs[min(i, n - 1)]; };
	const Pair mine = pair_at(lane);
	const float aa = metric == Metric::kCosine ? rounded.square_sums[mine.query] : 0.0f;
	const double score = score_pairs_apart<metric, FormT>([&](int i)
		{ return block + static_cast<size_t>(pair_at(i).place) * args.rows.pitch_bytes; },
		[&](int i) { return vectors + static_cast<size_t>(pair_at(i).query) * dim_pad; }, dim_pad, aa, lane);

	if (lane < n)
		add_candidate(args, mine.query, mine.place, score);
	__syncwarp(); // the pairs have been read
}

/// The part of a warp in a tile: its rows, and where its fragments of them and of the queries are. A thread has rows
/// lane / 4 + {0, 8} of each 16, and query lane / 4 of each 8; it loads every fourth piece of 16 bytes of these. Which
/// elements meet in a product is the same for rows and queries, and otherwise free.
struct WarpTile
{
	uint32_t base; // row
	uint32_t end;
	uint32_t n_tiles; // of 8 queries
	uint32_t group;   // lane / 4
	uint32_t part;    // lane % 4

	__device__ __forceinline__ uint32_t place(int m, int half) const { return base + m * 16 + half * 8 + group; }
};

/// A thread's pieces of a unit of the warp's rows.
template <Form form>
struct RowUnit
{
	uint4 pieces[kParts][2];

	__device__ __forceinline__ void load(const uint4 *const (&rows)[kParts][2], uint32_t piece, uint32_t n_pieces)
	{
#pragma unroll
		for (int m = 0; m < kParts; m++)
#pragma unroll
			for (int half = 0; half < 2; half++)
				pieces[m][half] =
					form == Form::kFloat16 || piece < n_pieces ? __ldg(rows[m][half] + piece) : make_uint4(0, 0, 0, 0);
	}
};

template <Form form>
using TileSums = typename Accumulator<form>::Type[kParts][kTiles][4];

/// sums: the products of the warp's rows with all queries.
template <Form form>
__device__ __forceinline__ void
multiply_rows(TileSums<form> &sums, const Rows &rows, uint32_t dim_pad, const uint4 *queries, const WarpTile &tile)
{
	const uint32_t n_pieces = row_pieces<form>(dim_pad);
	const uint32_t n_units = query_units<form>(dim_pad);
	const uint32_t stride = query_stride<form>(dim_pad);
	const uint4 *row[kParts][2];
	RowUnit<form> now;

#pragma unroll
	for (int m = 0; m < kParts; m++)
#pragma unroll
		for (int half = 0; half < 2; half++)
			row[m][half] = reinterpret_cast<const uint4 *>(static_cast<const char *>(rows.vectors) +
				static_cast<size_t>(min(tile.place(m, half), tile.end - 1)) * rows.pitch_bytes);
	now.load(row, tile.part, n_pieces);
	queries += tile.group * stride + tile.part;
#pragma unroll 2
	for (uint32_t unit = 0; unit < n_units; unit++)
	{
		RowUnit<form> next;

		next.load(row, min(unit + 1, n_units - 1) * kPiecesOfUnit + tile.part, n_pieces);
#pragma unroll
		for (int t = 0; t < kTiles; t++)
		{
			if (t >= static_cast<int>(tile.n_tiles))
				break;

			const uint4 query = queries[t * 8 * stride + unit * kPiecesOfUnit];

#pragma unroll
			for (int m = 0; m < kParts; m++)
			{
				const uint4 &low = now.pieces[m][0];
				const uint4 &high = now.pieces[m][1];

				multiply<form>(sums[m][t], {low.x, high.x, low.y, high.y}, {query.x, query.y});
				multiply<form>(sums[m][t], {low.z, high.z, low.w, high.w}, {query.z, query.w});
			}
		}
		now = next;
	}
}

/// What makes estimates of a row's products: fma(products, factor, besides).
struct RowEstimate
{
	float factor;
	float besides;
};

template <Form form>
__device__ __forceinline__ RowEstimate
row_estimate(const IvfRounded &rounded, uint32_t place, bool is_cosine)
{
	if constexpr (form == Form::kScaled)
	{
		const float2 value = __ldg(reinterpret_cast<const float2 *>(rounded.scaled_values) + place);

		return {-1.0f / value.y, value.x}; // of products in units of the query's factor
	}
	else
	{
		const float value = __ldg(rounded.row_values + place);

		return {is_cosine ? value : -1.0f, is_cosine ? 0.0f : value};
	}
}

/// Bit 16 m + 4 t + 2 half + j: the estimate of row place(m, half) is not above the limit of query t * 8 + part * 2 +
/// j. NaN: the row or the query is none that the bound covers, and it passes. The estimates are those of the filter's
/// sample (take_smallest, take_smallest_scaled).
template <Form form>
__device__ __forceinline__ uint32_t
judge_rows(const TileSums<form> &sums, const IvfRounded &rounded, const TileScratch &scratch, const WarpTile &tile,
	bool is_cosine)
{
	uint32_t passed = 0;

#pragma unroll
	for (int m = 0; m < kParts; m++)
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			if (tile.place(m, half) >= tile.end)
				continue;

			const RowEstimate of = row_estimate<form>(rounded, tile.place(m, half), is_cosine);

#pragma unroll
			for (int t = 0; t < kTiles; t++)
#pragma unroll
				for (int j = 0; j < 2; j++)
				{
					const uint32_t column = t * 8 + tile.part * 2 + j;
					float products = static_cast<float>(sums[m][t][half * 2 + j]);

					if constexpr (form == Form::kScaled)
						products *= scratch.steps[column];
					if (!(__fmaf_rn(products, of.factor, of.besides) > scratch.limits[column]))
						passed |= 1u << (m * 16 + t * 4 + half * 2 + j);
				}
		}
	return passed;
}

/// Any grid, block 256, dynamic shared memory for the queries of a tile (query_stride). Each block takes the next tile.
template <Metric metric, class FormT, Form form>
__global__ void __launch_bounds__(kThreads, 2)
scan_rounded_kernel(const IvfScanArgs args, const IvfRounded rounded)
{
	extern __shared__ uint4 shared_queries[];
	__shared__ TileScratch scratch;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t dim_pad = args.queries.dim_pad;
	const uint32_t n_pieces = query_units<form>(dim_pad) * kPiecesOfUnit;
	const uint32_t operand_pieces = static_cast<uint32_t>(operand_bytes(form, dim_pad) / kPieceBytes);
	const uint32_t n_all = args.plan.tile_firsts[args.probes.n_lists];
	Pair *pairs = scratch.pairs[warp];
	uint32_t n_waiting = 0;

	if (threadIdx.x == 0)
		scratch.next = atomicAdd(args.plan.next_tile, 1u);
	for (;;)
	{
		__syncthreads(); // the next tile's number is there, and no warp reads the last tile's queries

		const uint32_t number = scratch.next;

		if (number >= n_all)
			break;

		const ListTile tile = list_tile(args, number);
		const WarpTile mine = {tile.first + warp * kRowsOfWarp, tile.end, (tile.n_queries + 7) / 8, lane / 4, lane % 4};

		for (uint32_t column = warp; column < mine.n_tiles * 8; column += kWarps)
		{
			const uint4 *from = static_cast<const uint4 *>(rounded.queries.operand) +
				static_cast<size_t>(tile.numbers[min(column, tile.n_queries - 1)]) * operand_pieces;

			for (uint32_t piece = lane; piece < n_pieces; piece += 32)
				shared_queries[column * query_stride<form>(dim_pad) + piece] = __ldg(from + piece);
		}
		if (threadIdx.x < kColumns)
		{
			const uint32_t query = tile.numbers[min(threadIdx.x, tile.n_queries - 1)];

			scratch.numbers[threadIdx.x] = query;
			scratch.limits[threadIdx.x] =
				threadIdx.x < tile.n_queries ? rounded.limits[query] : -__int_as_float(0x7F800000);
			if constexpr (form == Form::kScaled)
				scratch.steps[threadIdx.x] = 1.0f / rounded.queries.scaled.factors[query];
		}
		__syncthreads();
		if (threadIdx.x == 0)
			scratch.next = atomicAdd(args.plan.next_tile, 1u);
		if (mine.base >= mine.end)
			continue;

		TileSums<form> sums = {};

		multiply_rows<form>(sums, rounded.rows, dim_pad, shared_queries, mine);

		uint32_t passed = judge_rows<form>(sums, rounded, scratch, mine, metric == Metric::kCosine);

		while (__any_sync(0xFFFFFFFFu, passed != 0))
		{
			const uint32_t bit = passed != 0 ? __ffs(static_cast<int>(passed)) - 1 : 0;
			const uint32_t column = bit / 4 % 4 * 8 + mine.part * 2 + bit % 2;
			const uint32_t place = mine.place(static_cast<int>(bit / 16), static_cast<int>(bit / 2 % 2));
			const bool taken = passed != 0 && column < tile.n_queries && !row_is_dead(args.rows, place);
			const uint32_t all = __ballot_sync(0xFFFFFFFFu, taken);

			if (taken)
				pairs[n_waiting + __popc(all & ((1u << lane) - 1))] = {scratch.numbers[column], place};
			n_waiting += __popc(all);
			passed &= passed - 1;
			__syncwarp();
			if (n_waiting >= kAtOnce)
			{
				n_waiting -= kAtOnce;
				score_waiting<metric, FormT>(args, rounded, pairs + n_waiting, kAtOnce, lane);
			}
		}
	}
	if (n_waiting > 0)
		score_waiting<metric, FormT>(args, rounded, pairs, n_waiting, lane);
}

size_t
query_bytes(Form form, uint32_t dim_pad, uint32_t n_queries)
{
	const uint32_t stride =
		form == Form::kFloat16 ? query_stride<Form::kFloat16>(dim_pad) : query_stride<Form::kScaled>(dim_pad);

	return size_t{n_queries} * stride * kPieceBytes;
}

/// Call use(kernel) with that for rows of form `scored` that are read as `read`.
template <Metric metric, class Use>
cudaError_t
with_form(Form scored, Form read, const Use &use)
{
	if (scored == Form::kFloat32 && read == Form::kFloat16)
		return use(scan_rounded_kernel<metric, Float32Form, Form::kFloat16>);
	if (scored == Form::kFloat16 && read == Form::kFloat16)
		return use(scan_rounded_kernel<metric, Float16Form, Form::kFloat16>);
	if (scored == Form::kFloat32 && read == Form::kScaled)
		return use(scan_rounded_kernel<metric, Float32Form, Form::kScaled>);
	return cudaErrorInvalidValue;
}

template <class Use>
cudaError_t
with_kernel(Metric metric, Form scored, Form read, const Use &use)
{
	switch (metric)
	{
		case Metric::kL2:
			return with_form<Metric::kL2>(scored, read, use);
		case Metric::kInnerProduct:
			return with_form<Metric::kInnerProduct>(scored, read, use);
		case Metric::kCosine:
			return with_form<Metric::kCosine>(scored, read, use);
		default:
			return cudaErrorInvalidValue;
	}
}

} // namespace

uint32_t
ivf_rounded_queries_per_tile(Form form, uint32_t dim_pad)
{
	const auto fits = [&](uint32_t n, size_t room) { return query_bytes(form, dim_pad, n) <= room; };
	const size_t most = filter_most_shared() - kStaticBytes;

	for (uint32_t n = kColumns; n > 8; n /= 2)
		if (fits(n, std::min(most, kQueryBytes)))
			return n;
	return fits(8, most) ? 8 : 0;
}

cudaError_t
launch_ivf_scan_rounded(const IvfScanArgs &args, const IvfRounded &rounded, cudaStream_t stream)
{
	const uint32_t n = args.queries.n_queries;
	const uint32_t dim_pad = args.queries.dim_pad;
	const uint32_t each = ivf_rounded_queries_per_tile(rounded.rows.form, dim_pad);

	if (args.rows.n_rows == 0 || n == 0)
		return cudaSuccess;
	if (each == 0 || args.plan.queries_per_tile != each)
		return cudaErrorInvalidValue;
	limits_kernel<<<(n + kWarps - 1) / kWarps, kThreads, 0, stream>>>(args, rounded);
	return with_kernel(args.metric, args.rows.form, rounded.rows.form,
		[&](auto kernel)
		{
			kernel<<<kFullGrid, kThreads, query_bytes(rounded.rows.form, dim_pad, each), stream>>>(args, rounded);
			return cudaGetLastError();
		});
}

cudaError_t
prepare_ivf_rounded()
{
	constexpr Form kForms[][2] = {
		{Form::kFloat32, Form::kFloat16}, {Form::kFloat16, Form::kFloat16}, {Form::kFloat32, Form::kScaled}};
	const int most = static_cast<int>(filter_most_shared() - kStaticBytes);

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
		for (const auto &[scored, read] : kForms)
			if (const cudaError_t error = with_kernel(metric, scored, read, [&](auto kernel)
					{ return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most); });
				error != cudaSuccess)
				return error;
	return cudaSuccess;
}

} // namespace vectorgpu::kernels

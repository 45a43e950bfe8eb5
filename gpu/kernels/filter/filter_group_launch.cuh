// The choice of a shape of the warp-group filter kernel for a batch, and its launch. Instantiated per form by
// filter_<form>_group.cu.
#pragma once

#include <algorithm>

#include "kernels/filter/filter_wgmma.cuh"
#include "kernels/warp_block/tensor_map.hpp"

namespace vectorgpu::kernels
{

// PartialReduce (bins_group.cu). With fewer tiles in a stripe, a bin has too many parts.
constexpr uint32_t kMostKeyTileBits = 10;
constexpr uint32_t kLeastKeyTileBits = 3;

/// Stages that fit in shared memory with the shape; fewer than kLeastGroupStages: the shape does not fit.
template <class Shape>
uint32_t
group_stages(uint32_t dim_pad)
{
	const size_t fixed = group_fixed_bytes<Shape>(dim_pad);
	const size_t most = filter_most_shared();

	return most < fixed
		? 0
		: static_cast<uint32_t>(std::min<size_t>((most - fixed) / Shape::kStageBytes, kMostGroupStages));
}

/// Call use(shape) with the shape for this many queries; false if none fits. Batches that need several tiles of queries
/// may take the smaller of two shapes, but not a still smaller one: that would read the rows more often. Queries of a
/// tile that have no room in shared memory, or more chunks than there are stages, come with the rows.
template <Form form, class Use>
bool
with_group_shape(uint32_t n_queries, uint32_t dim_pad, Use use)
{
	// Groups that take turns pass over the stages of each other's tiles. A barrier tells a phase from the next one, but
	// not from the one after. So a group may wait for a stage only if the last use but one is certainly over: that
	// holds if a tile has fewer chunks than there are stages.
	auto fits = [&]<class Shape>(Shape)
	{
		const uint32_t n_stages = group_stages<Shape>(dim_pad);
		const uint32_t n_chunks = static_cast<uint32_t>(operand_bytes(form, dim_pad) / kChunkBytes);

		return n_stages >= kLeastGroupStages && (Shape::kSplit || n_chunks < n_stages);
	};
	auto try_shape = [&]<class Shape>(Shape shape)
	{
		if (!fits(shape))
			return false;
		use(shape);
		return true;
	};

	if (n_queries > 128 && try_shape(GroupShape<form, 16, true>{}))
		return true;
	if (n_queries > 64 && try_shape(GroupShape<form, 8, true>{}))
		return true;
	if (n_queries <= 64 && n_queries > 32 && try_shape(GroupShape<form, 8, false>{}))
		return true;
	if (n_queries <= 32 && n_queries > 16 && try_shape(GroupShape<form, 4, false>{}))
		return true;
	if (n_queries <= 16 && n_queries > 8 && try_shape(GroupShape<form, 2, false>{}))
		return true;
	if (n_queries <= 8 && try_shape(GroupShape<form, 1, false>{}))
		return true;
	if (n_queries > 128)
		return try_shape(GroupShape<form, 16, true, true>{});
	if (n_queries > 64)
		return try_shape(GroupShape<form, 8, true, true>{});
	return n_queries > 32 ? try_shape(GroupShape<form, 4, true, true>{}) : try_shape(GroupShape<form, 2, true, true>{});
}

/// Tiles of a block. A block first loads the queries' operand, which costs as much as kStart tiles; the device runs
/// n_slots blocks at a time.
inline uint32_t
tiles_per_block(uint32_t n_tiles, uint32_t n_query_tiles, uint32_t n_slots)
{
	constexpr uint32_t kStart = 3;
	constexpr uint32_t kMostWaves = 12;
	uint32_t best = (n_tiles * n_query_tiles + n_slots - 1) / n_slots;
	uint64_t best_time = ~uint64_t{0};

	for (uint32_t waves = 1; waves <= kMostWaves; waves++)
	{
		const uint32_t stripes = std::clamp(waves * n_slots / n_query_tiles, 1u, n_tiles);
		const uint32_t tiles = (n_tiles + stripes - 1) / stripes;
		const uint64_t blocks = static_cast<uint64_t>((n_tiles + tiles - 1) / tiles) * n_query_tiles;
		const uint64_t time = (blocks + n_slots - 1) / n_slots * (tiles + kStart);

		if (time < best_time)
		{
			best_time = time;
			best = tiles;
		}
	}
	return best;
}

/// True if the kernel for candidates has a variant for one metric.
template <Form form>
constexpr bool has_variant = form == Form::kByte || form == Form::kScaled;

template <class Shape, FilterPass kPass>
cudaError_t
launch_group_shape(const FilterArgs &args, uint32_t n_slots, cudaStream_t stream)
{
	const uint32_t n_stages = group_stages<Shape>(args.dim_pad);
	const size_t shared = group_fixed_bytes<Shape>(args.dim_pad) + n_stages * Shape::kStageBytes;
	const uint32_t n_query_tiles = (args.n_queries + Shape::kQueries - 1) / Shape::kQueries;
	const uint32_t tiles = tiles_per_block(args.n_tiles, n_query_tiles, n_slots);
	CUtensorMap rows;
	CUtensorMap queries;

	if (cudaError_t error = describe_rows(
			args.rows.vectors, args.rows.n_rows, args.rows.pitch_bytes, kChunkBytes, kFilterTileRows, &rows);
		error != cudaSuccess)
		return error;
	if (cudaError_t error = describe_rows(args.operand, args.n_queries, operand_bytes(Shape::form, args.dim_pad),
			kChunkBytes, Shape::kQueries, &queries);
		error != cudaSuccess)
		return error;

	auto launch = [&](auto kernel)
	{
		return launch_after(kernel, (args.n_tiles + tiles - 1) / tiles * n_query_tiles, Shape::kThreads, shared, stream,
			args, rows, queries, n_query_tiles, tiles, n_stages);
	};

	if constexpr (has_variant<Shape::form> && kPass == FilterPass::kCandidates)
		if (args.metric == (Shape::form == Form::kByte ? Metric::kCosine : Metric::kL2))
			return launch(filter_group_kernel<Shape, kPass, true>);
	return launch(filter_group_kernel<Shape, kPass, false>);
}

/// cudaErrorNotSupported: no shape fits.
template <Form form, FilterPass kPass>
cudaError_t
launch_group_form(const FilterArgs &args, uint32_t n_slots, cudaStream_t stream)
{
	cudaError_t error = cudaErrorNotSupported;

	(void) with_group_shape<form>(args.n_queries, args.dim_pad,
		[&](auto shape) { error = launch_group_shape<decltype(shape), kPass>(args, n_slots, stream); });
	return error;
}

template <class Shape>
cudaError_t
prepare_group_shape()
{
	const int most = static_cast<int>(filter_most_shared());
	auto prepare = [&](auto kernel)
	{ return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most); };
	cudaError_t error = prepare(filter_group_kernel<Shape, FilterPass::kMinima, false>);

	if (error == cudaSuccess)
		error = prepare(filter_group_kernel<Shape, FilterPass::kCandidates, false>);
	if constexpr (has_variant<Shape::form>)
		if (error == cudaSuccess)
			error = prepare(filter_group_kernel<Shape, FilterPass::kCandidates, true>);
	return error;
}

template <Form form>
cudaError_t
prepare_group_form()
{
	cudaError_t error = cudaSuccess;
	auto prepare = [&]<class Shape>(Shape)
	{
		if (error == cudaSuccess)
			error = prepare_group_shape<Shape>();
	};

	prepare(GroupShape<form, 1, false>{});
	prepare(GroupShape<form, 2, false>{});
	prepare(GroupShape<form, 4, false>{});
	prepare(GroupShape<form, 8, false>{});
	prepare(GroupShape<form, 8, true>{});
	prepare(GroupShape<form, 16, true>{});
	prepare(GroupShape<form, 2, true, true>{});
	prepare(GroupShape<form, 4, true, true>{});
	prepare(GroupShape<form, 8, true, true>{});
	prepare(GroupShape<form, 16, true, true>{});
	return error;
}

} // namespace vectorgpu::kernels

// The choice of a shape of the filter kernel for a batch, and its launch. Instantiated per form by filter_<form>.cu.
#pragma once

#include "kernels/filter/filter_mma.cuh"
#include "kernels/warp_block/per_device.hpp"

namespace vectorgpu::kernels
{

/// Least number of queries first: shapes for few, some and many.
template <Form form>
using FilterShape8 = FilterShape<form, 2, 1, 4, 1, 3>;
template <Form form>
using FilterShape16 = FilterShape<form, 2, 1, 4, 2, 4>;
template <Form form>
using FilterShape32 = FilterShape<form, 2, 2, 4, 2, 4>;
template <Form form>
using FilterShape64 = FilterShape<form, 2, 4, 4, 2, 4>;
template <Form form>
using FilterShape128 = FilterShape<form, 2, 8, 4, 2, 4>;

/// Blocks of a kernel that the device runs at a time. The query takes microseconds, so the last answer is kept.
template <class Shape, FilterPass kPass>
cudaError_t
filter_slots(uint32_t dim_pad, uint32_t *slots)
{
	static PerDevice known; // dim_pad << 32 | blocks
	uint64_t answer = known.get();

	if (answer >> 32 != dim_pad)
	{
		int device = 0;
		int n_processors = 0;
		int blocks = 0;

		if (cudaError_t error = cudaGetDevice(&device); error != cudaSuccess)
			return error;
		if (cudaError_t error = cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount, device);
			error != cudaSuccess)
			return error;
		if (cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
				&blocks, filter_kernel<Shape, kPass>, Shape::kThreads, filter_shared_bytes<Shape>(dim_pad));
			error != cudaSuccess)
			return error;
		answer = static_cast<uint64_t>(dim_pad) << 32 | static_cast<uint32_t>(n_processors * (blocks > 0 ? blocks : 1));
		known.set(answer);
	}
	*slots = static_cast<uint32_t>(answer);
	return cudaSuccess;
}

template <class Shape, FilterPass kPass>
cudaError_t
launch_filter_shape(const FilterArgs &args, cudaStream_t stream)
{
	const size_t shared = filter_shared_bytes<Shape>(args.dim_pad);
	const uint32_t n_query_tiles = (args.n_queries + Shape::kQueries - 1) / Shape::kQueries;

	if constexpr (kPass == FilterPass::kBins)
	{
		// The caller chooses the stripes, since bins depend on them.
		return launch_after(filter_kernel<Shape, kPass>, args.n_stripes * n_query_tiles, Shape::kThreads, shared,
			stream, args, n_query_tiles, 0u);
	}

	uint32_t slots = 0;

	if (cudaError_t error = filter_slots<Shape, kPass>(args.dim_pad, &slots); error != cudaSuccess)
		return error;

	// One wave if the queries fit one tile (loads in flight count); else several, for balance.
	const uint32_t wanted = n_query_tiles == 1 ? slots : 6 * slots;
	uint32_t stripes = wanted / n_query_tiles;

	stripes = stripes < 1 ? 1 : stripes > args.n_tiles ? args.n_tiles : stripes;

	const uint32_t per_stripe = (args.n_tiles + stripes - 1) / stripes;

	stripes = (args.n_tiles + per_stripe - 1) / per_stripe;
	return launch_after(filter_kernel<Shape, kPass>, stripes * n_query_tiles, Shape::kThreads, shared, stream, args,
		n_query_tiles, per_stripe);
}

/// Call use(shape) with the largest shape that the batch fills and whose queries fit. Bins need the registers that sums
/// of many queries would take: at most 64 queries.
template <Form form, FilterPass kPass, class Use>
cudaError_t
with_filter_shape(uint32_t n_queries, uint32_t dim_pad, Use use)
{
	if constexpr (kPass != FilterPass::kBins)
		if (n_queries > 64 && filter_shared_bytes<FilterShape128<form>>(dim_pad) <= filter_most_shared())
			return use(FilterShape128<form>{});
	if (n_queries > 32 && filter_shared_bytes<FilterShape64<form>>(dim_pad) <= filter_most_shared())
		return use(FilterShape64<form>{});
	if (n_queries > 16 && filter_shared_bytes<FilterShape32<form>>(dim_pad) <= filter_most_shared())
		return use(FilterShape32<form>{});
	if (n_queries > 8 && filter_shared_bytes<FilterShape16<form>>(dim_pad) <= filter_most_shared())
		return use(FilterShape16<form>{});
	if (filter_shared_bytes<FilterShape8<form>>(dim_pad) <= filter_most_shared())
		return use(FilterShape8<form>{});
	return cudaErrorInvalidValue;
}

template <Form form, FilterPass kPass>
cudaError_t
launch_filter_form(const FilterArgs &args, cudaStream_t stream)
{
	return with_filter_shape<form, kPass>(args.n_queries, args.dim_pad,
		[&](auto shape) { return launch_filter_shape<decltype(shape), kPass>(args, stream); });
}

/// Blocks at a time, and query tiles, of a pass for bins.
template <Form form>
cudaError_t
bins_slots_form(uint32_t n_queries, uint32_t dim_pad, uint32_t *slots, uint32_t *n_query_tiles)
{
	return with_filter_shape<form, FilterPass::kBins>(n_queries, dim_pad,
		[&](auto shape)
		{
			*n_query_tiles = (n_queries + decltype(shape)::kQueries - 1) / decltype(shape)::kQueries;
			return filter_slots<decltype(shape), FilterPass::kBins>(dim_pad, slots);
		});
}

template <class Shape, FilterPass kPass>
cudaError_t
prepare_filter_pass()
{
	return cudaFuncSetAttribute(filter_kernel<Shape, kPass>, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>(filter_most_shared()));
}

template <class Shape>
cudaError_t
prepare_filter_shape()
{
	cudaError_t error = prepare_filter_pass<Shape, FilterPass::kMinima>();

	if (error == cudaSuccess)
		error = prepare_filter_pass<Shape, FilterPass::kCandidates>();
	if constexpr (Shape::NT <= 4)
		if (error == cudaSuccess)
			error = prepare_filter_pass<Shape, FilterPass::kBins>();
	return error;
}

template <Form form>
cudaError_t
prepare_filter_form()
{
	cudaError_t error = prepare_filter_shape<FilterShape8<form>>();

	if (error == cudaSuccess)
		error = prepare_filter_shape<FilterShape16<form>>();
	if (error == cudaSuccess)
		error = prepare_filter_shape<FilterShape32<form>>();
	if (error == cudaSuccess)
		error = prepare_filter_shape<FilterShape64<form>>();
	if (error == cudaSuccess)
		error = prepare_filter_shape<FilterShape128<form>>();
	return error;
}

} // namespace vectorgpu::kernels

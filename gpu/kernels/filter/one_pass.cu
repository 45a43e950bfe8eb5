// A search in one pass: its plan and its launch. See one_pass.hpp; the kernel is in one_pass_kernel.cuh.
#include "kernels/filter/one_pass.hpp"

#include <cstring>

#include "kernels/filter/one_pass_kernel.cuh"
#include "kernels/warp_block/per_device.hpp"

namespace vectorgpu::kernels
{
namespace
{

PerDevice processors; // of devices that have the kernel

constexpr size_t kStaticShared = 1024; // the kernel's static shared memory, or more

/// Stages that fit in shared memory with the shape.
template <class Shape>
uint32_t
one_pass_stages(uint32_t dim_pad)
{
	const size_t fixed = group_fixed_bytes<Shape>(dim_pad) + kStaticShared;
	const size_t most = filter_most_shared();

	return most < fixed ? 0
						: static_cast<uint32_t>(std::min<size_t>((most - fixed) / kGroupStageBytes, kMostGroupStages));
}

template <class Shape>
cudaError_t
launch_shape(const OnePassArgs &args, const OnePassPlan &plan, cudaStream_t stream)
{
	const uint32_t n_stages = one_pass_stages<Shape>(args.dim_pad);
	const size_t shared = group_fixed_bytes<Shape>(args.dim_pad) + n_stages * kGroupStageBytes;
	const size_t pitch = operand_bytes(Form::kByte, args.dim_pad);
	uint32_t n_tiles = 0;
	OnePassMaps maps;
	OnePassInline given;

	for (uint32_t i = 0; i < args.parts.n; i++)
	{
		const Rows &rows = args.parts.rows[i];

		if (const cudaError_t error =
				describe_rows(rows.vectors, rows.n_rows, rows.pitch_bytes, kChunkBytes, kFilterTileRows, &maps.rows[i]);
			error != cudaSuccess)
			return error;
		n_tiles = args.parts.first_row[i] / kFilterTileRows + (rows.n_rows + kFilterTileRows - 1) / kFilterTileRows;
	}
	if (const cudaError_t error = describe_rows(args.operand, args.n_queries, operand_bytes(Form::kByte, args.dim_pad),
			kChunkBytes, Shape::kQueries, &maps.queries);
		error != cudaSuccess)
		return error;
	if (OnePassInline::holds(args.n_queries, pitch))
	{
		std::memcpy(given.bytes, args.host_bytes, args.n_queries * pitch);
		std::copy_n(args.host_queries, args.n_queries, given.queries);
	}
	one_pass_kernel<Shape>
		<<<plan.n_blocks, Shape::kThreads, shared, stream>>>(args, maps, given, plan, n_tiles, n_stages);
	return cudaGetLastError();
}

/// Call use(shape) with the shape for this many queries, if it fits.
template <class Use>
void
with_shape(uint32_t n_queries, uint32_t dim_pad, Use use)
{
	auto try_shape = [&]<class Shape>(Shape shape)
	{
		const uint32_t n_stages = one_pass_stages<Shape>(dim_pad);

		if (n_stages >= kLeastGroupStages &&
			operand_bytes(Form::kByte, dim_pad) / kChunkBytes < n_stages) // see with_group_shape
			use(shape);
	};

	if (n_queries <= 8)
		try_shape(GroupShape<Form::kByte, 1, false>{});
	else if (n_queries <= 16)
		try_shape(GroupShape<Form::kByte, 2, false>{});
	else if (n_queries <= 32)
		try_shape(GroupShape<Form::kByte, 4, false>{});
	else if (n_queries <= kOnePassMostQueries)
		try_shape(GroupShape<Form::kByte, 8, false>{});
}

} // namespace

OnePassPlan
plan_one_pass(uint32_t n_queries, uint32_t dim_pad, uint32_t n_tiles, const OnePassTuning &tuning)
{
	const auto slots = static_cast<uint32_t>(processors.get());
	OnePassPlan plan;

	if (slots == 0 || !filter_groups_allowed() || slots * kBlockMinima > kMostMinimaEach * 32 || n_queries == 0 ||
		n_tiles < slots)
		return plan;
	with_shape(n_queries, dim_pad,
		[&](auto)
		{
			plan.tiles_per_block = (n_tiles + slots - 1) / slots;
			plan.n_blocks = (n_tiles + plan.tiles_per_block - 1) / plan.tiles_per_block;
			// Blocks share tiles that are certainly left when a block is half done; sharing few is not worth it.
			plan.n_own = plan.tiles_per_block;
			if (n_queries >= tuning.least_queries_to_share &&
				plan.tiles_per_block >= std::max(tuning.least_tiles_to_share,
											4 * kMostHeld)) // tiles that both groups hold are the block's own
			{
				const uint32_t n_groups = plan.tiles_per_block / 2 / tuning.shared_tiles;

				plan.n_own -= n_groups * tuning.shared_tiles;
				// Each block takes one group in vain, except a last block that is short.
				plan.n_shared = (n_groups + 1) * plan.n_blocks -
					(n_tiles - (plan.n_blocks - 1) * plan.tiles_per_block < plan.n_own ? 1 : 0);
			}
			if (tuning.kept_bytes > 0)
				plan.kept_of_16 = static_cast<uint32_t>(std::min<uint64_t>(16,
					tuning.kept_bytes * 16 /
						(uint64_t{n_tiles} * kFilterTileRows * operand_bytes(Form::kByte, dim_pad))));
			plan.tuning = tuning;
			plan.n_minima = plan.n_blocks * kBlockMinima;
			plan.n_sampled = plan.tiles_per_block == 1
				? plan.n_blocks
				: 2 * plan.n_blocks - (n_tiles % plan.tiles_per_block == 1 ? 1 : 0);
		});
	return plan;
}

uint32_t
one_pass_taken_over(uint32_t n_queries, uint32_t dim_pad)
{
	return OnePassInline::holds(n_queries, operand_bytes(Form::kByte, dim_pad)) ? 0 : n_queries;
}

uint32_t
one_pass_thresholds(uint32_t n_queries)
{
	return n_queries <= kAloneQueries ? 0 : n_queries;
}

cudaError_t
launch_one_pass(const OnePassArgs &args, const OnePassPlan &plan, cudaStream_t stream)
{
	cudaError_t error = cudaErrorNotSupported;

	with_shape(
		args.n_queries, args.dim_pad, [&](auto shape) { error = launch_shape<decltype(shape)>(args, plan, stream); });
	return error;
}

cudaError_t
prepare_one_pass(uint32_t n_processors)
{
	const int most = static_cast<int>(filter_most_shared() - kStaticShared);
	cudaError_t error = cudaSuccess;
	auto prepare = [&](auto kernel)
	{
		if (error == cudaSuccess)
			error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
	};

	if (n_processors > 0)
	{
		prepare(one_pass_kernel<GroupShape<Form::kByte, 1, false>>);
		prepare(one_pass_kernel<GroupShape<Form::kByte, 2, false>>);
		prepare(one_pass_kernel<GroupShape<Form::kByte, 4, false>>);
		prepare(one_pass_kernel<GroupShape<Form::kByte, 8, false>>);
	}
	processors.set(error == cudaSuccess ? n_processors : 0u);
	return error;
}

} // namespace vectorgpu::kernels

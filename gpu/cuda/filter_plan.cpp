// See filter_plan.hpp.
#include "cuda/filter_plan.hpp"

#include <algorithm>

#include "kernels/filter.hpp"
#include "kernels/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

uint32_t
count_tiles(const Source &source)
{
	return (source.n_rows + kernels::kFilterTileRows - 1) / kernels::kFilterTileRows;
}

} // namespace

FilterPlan
plan_filter(const Source &source, uint32_t n_queries, uint32_t k)
{
	FilterPlan plan;

	plan.n_tiles = count_tiles(source);
	plan.n_sampled = std::min(plan.n_tiles,
		(kernels::filter_sample_groups(k, n_queries, plan.n_tiles * kernels::kFilterGroupsPerTile) + kernels::kFilterGroupsPerTile - 1) / kernels::kFilterGroupsPerTile);
	plan.stride = plan.n_tiles / plan.n_sampled;
	plan.n_minima = plan.n_sampled * kernels::kFilterGroupsPerTile;
	plan.n_first = kernels::filter_first_stage(n_queries, plan.n_tiles, plan.n_sampled);
	plan.capacity = kernels::filter_capacity(k, plan.n_tiles, plan.n_first, plan.n_sampled, source.block->n_untrusted);
	return plan;
}

size_t
filter_bytes(const Source &source, const Shape &shape, uint32_t n_queries, uint32_t k)
{
	const FilterPlan plan = plan_filter(source, n_queries, k);

	return kernels::filter_operand_bytes(source.block->form, shape.dim_pad) + plan.n_minima * sizeof(float) +
		   plan.capacity * (sizeof(uint64_t) + sizeof(uint32_t) + sizeof(float)) + 64;
}

bool
bins_fit(const Source &source, uint32_t n_bins)
{
	return n_bins > 0 && source.block->filterable && source.block->n_untrusted == 0 &&
		   source.n_rows >= kernels::kFilterLeastRows && source.n_rows / kernels::kLeastRowsPerBin >= n_bins;
}

Status
plan_bins(const Device *device, const Source &source, const Shape &shape, uint32_t n_queries, uint32_t n_bins, BinsPlan *plan)
{
	plan->n_tiles = count_tiles(source);
	VECTORGPU_TRY(device->check(kernels::filter_bins_stripes(source.block->form, n_queries, shape.dim_pad, plan->n_tiles,
									n_bins / kernels::kFilterTileRows, &plan->n_stripes),
		"plan bins"));
	plan->n_places = plan->n_stripes * kernels::kFilterTileRows;
	return Status::ok();
}

size_t
bins_bytes(const Source &source, const Shape &shape, const BinsPlan &plan, uint32_t n_bins)
{
	return kernels::filter_operand_bytes(source.block->form, shape.dim_pad) + plan.n_places * (sizeof(float) + sizeof(uint32_t)) +
		   n_bins * (sizeof(uint64_t) + sizeof(uint32_t) + sizeof(float)) + 64;
}

} // namespace vectorgpu::cuda

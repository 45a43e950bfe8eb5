// See filter_plan.hpp.
#include "cuda/search/filter_plan.hpp"

#include <algorithm>

#include "cuda/search/chunk.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

uint32_t
count_tiles(const Source &source)
{
	return (source.n_rows + kernels::kFilterTileRows - 1) / kernels::kFilterTileRows;
}

/// True if the results from the sources before give a good threshold. A bad one for some queries does no harm: there is
/// room for all rows as candidates.
bool
goes_without_sample(const Source &source, uint64_t n_before, uint32_t n_queries)
{
	return source.n_rows <= n_before && source.n_rows <= kernels::kUnsampledMostRows &&
		n_queries < kernels::kStagedLeastQueries;
}

/// Bytes of a query's operand and what goes with it.
size_t
operand_bytes(kernels::Form form, const Shape &shape)
{
	return kernels::filter_operand_bytes(form, shape.dim_pad) +
		(form == kernels::Form::kScaled ? sizeof(float) + sizeof(double) : 0);
}

} // namespace

bool
bounded_scan_pays(const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries)
{
	return source.block->form != kernels::Form::kBit && goes_without_sample(source, n_before, n_queries) &&
		uint64_t{source.n_rows} * shape.dim_pad * std::max(n_queries, 8u) <= kernels::kBoundedMostProducts;
}

size_t
bounded_scan_bytes(const Source &source)
{
	return source.n_rows * (sizeof(uint64_t) + sizeof(uint32_t)) + kQueryScratchBytes;
}

bool
filter_pays(const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k)
{
	if (!source.filterable || source.n_untrusted > source.n_rows / 64)
		return false;
	return goes_without_sample(source, n_before, n_queries) ||
		(source.n_rows >= kernels::kFilterLeastRows && source.n_rows / kernels::kFilterLeastRowsPerK >= k);
}

uint32_t
FilterPlan::next_stage(uint32_t end) const
{
	return uint64_t{end} * most_growth >= n_tiles ? n_tiles : end * kernels::kStageGrowth;
}

FilterPlan
plan_filter(const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k)
{
	FilterPlan plan;

	plan.n_tiles = count_tiles(source);
	if (goes_without_sample(source, n_before, n_queries))
	{
		plan.n_sampled = 0;
		plan.stride = 1;
		plan.n_minima = 0;
		plan.n_first = plan.n_tiles;
		plan.most_growth = kernels::kStageGrowth;
		plan.capacity = plan.n_tiles * kernels::kFilterTileRows;
		return plan;
	}

	const bool is_scaled = source.filter_form(n_queries, k) == kernels::Form::kScaled;
	const bool staged = n_queries >= kernels::kStagedLeastQueries || (is_scaled && k > kernels::kScaledUnstagedMostK);
	const uint32_t n_all = plan.n_tiles * kernels::kFilterGroupsPerTile;
	const uint32_t least =
		kernels::filter_sample_groups(k, n_queries, n_all, source.filter_rows(n_queries, k).pitch_bytes);
	const uint32_t n_groups = is_scaled ? std::max(least, kernels::scaled_sample_groups(n_all)) : least;

	plan.n_sampled =
		std::min(plan.n_tiles, (n_groups + kernels::kFilterGroupsPerTile - 1) / kernels::kFilterGroupsPerTile);
	plan.stride = plan.n_tiles / plan.n_sampled;
	plan.n_minima = plan.n_sampled * kernels::kFilterGroupsPerTile;
	plan.n_first = staged ? kernels::filter_first_stage(plan.n_tiles, plan.n_sampled) : plan.n_tiles;
	plan.most_growth = is_scaled ? kernels::kStageGrowth : kernels::kMostStageGrowth;
	plan.capacity = kernels::filter_capacity(k, plan.n_tiles, plan.n_first, plan.n_sampled, source.n_untrusted);
	if (is_scaled)
		plan.capacity = std::min(plan.n_tiles * kernels::kFilterTileRows,
			staged ? std::max(plan.capacity, kernels::scaled_staged_capacity(k) + source.n_untrusted)
				   : plan.capacity + kernels::kScaledMoreCandidates);
	return plan;
}

size_t
filter_bytes(const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries, uint32_t k)
{
	const FilterPlan plan = plan_filter(source, n_before, n_queries, k);

	return operand_bytes(source.filter_form(n_queries, k), shape) + plan.n_minima * sizeof(float) +
		plan.capacity * (sizeof(uint64_t) + sizeof(uint32_t) + sizeof(float)) + kQueryScratchBytes;
}

bool
bins_fit(const Source &source, uint32_t dim_pad, uint32_t n_bins)
{
	return n_bins > 0 && source.filterable && kernels::filter_fits(source.bins_form(), dim_pad) &&
		source.n_untrusted == 0 && source.n_rows >= kernels::kFilterLeastRows &&
		source.n_rows / kernels::kLeastRowsPerBin >= n_bins;
}

Status
plan_bins(
	const Device *device, const Source &source, const Shape &shape, uint32_t n_queries, uint32_t n_bins, BinsPlan *plan)
{
	plan->n_tiles = count_tiles(source);
	VECTORGPU_TRY(device->check(kernels::plan_filter_bins(shape.metric, source.bins_form(), n_queries, shape.dim_pad,
									plan->n_tiles, n_bins / kernels::kFilterTileRows, &plan->form),
		"plan bins"));
	plan->n_places = plan->form.n_stripes * kernels::kFilterTileRows;
	return Status::ok();
}

size_t
bins_bytes(const Source &source, const Shape &shape, const BinsPlan &plan, uint32_t n_bins)
{
	return kernels::filter_operand_bytes(source.bins_form(), shape.dim_pad) +
		plan.n_places * (plan.form.key_tile_bits > 0 ? sizeof(int32_t) : sizeof(float) + sizeof(uint32_t)) +
		n_bins * (sizeof(uint64_t) + sizeof(uint32_t) + sizeof(float)) + kQueryScratchBytes;
}

size_t
source_bytes(const Device *device, const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries,
	uint32_t k, uint32_t n_bins)
{
	BinsPlan plan;

	if (!bins_fit(source, shape.dim_pad, n_bins) && bounded_scan_pays(source, shape, n_before, n_queries))
		return bounded_scan_bytes(source);
	if (!source.filterable)
		return 0;

	const size_t filter = filter_bytes(source, shape, n_before, n_queries, k);

	if (bins_fit(source, shape.dim_pad, n_bins) && plan_bins(device, source, shape, n_queries, n_bins, &plan).is_ok())
		return std::max(bins_bytes(source, shape, plan, n_bins), filter);
	return filter;
}

size_t
operands_bytes(std::span<const Source> sources, const Shape &shape, uint32_t n_queries, uint32_t k)
{
	size_t bytes = 0;

	for (const kernels::Form form :
		{kernels::Form::kByte, kernels::Form::kFloat16, kernels::Form::kFloat32, kernels::Form::kScaled})
		if (std::any_of(sources.begin(), sources.end(),
				[&](const Source &source)
				{
					return source.filterable &&
						(source.filter_form(n_queries, k) == form || source.bins_form() == form);
				}))
			bytes += operand_bytes(form, shape);
	return bytes;
}

} // namespace vectorgpu::cuda

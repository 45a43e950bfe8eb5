// How a source is searched by the tensor cores: the sizes of samples, stages, candidates and bins, and the room for
// them. Plain arithmetic on tuning.hpp; src/engine/distance/partial_reduce.hpp gives the number of bins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/resident/snapshot.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda
{

/// The exact filter over a source.
struct FilterPlan
{
	uint32_t n_tiles;
	uint32_t n_sampled; // tiles; 0: the results from the sources before give the threshold
	uint32_t stride;
	uint32_t n_minima;
	uint32_t n_first;     // tiles of the first stage
	uint32_t most_growth; // of a stage that ends with the last tile
	uint32_t capacity;

	/// The end of the stage after one that ends at this tile.
	uint32_t next_stage(uint32_t end) const;
};

/// n_before: rows of the sources that were searched before this one.
FilterPlan plan_filter(const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k);

/// True if the source is small beside those before, so that a scan bounded by their results pays (launch_bounded_scan).
bool bounded_scan_pays(const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries);

/// Bytes of the workspace that a query needs for a bounded scan.
size_t bounded_scan_bytes(const Source &source);

/// True if the filter pays for this source, provided that there is a kernel for it.
bool filter_pays(const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k);

/// Bytes of the workspace that a query needs for the filter, without its vector and results.
size_t filter_bytes(const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries, uint32_t k);

/// PartialReduce over a source. The number of bins is a multiple of kFilterTileRows.
struct BinsPlan
{
	uint32_t n_tiles;
	uint32_t n_places; // n_stripes * kFilterTileRows
	kernels::BinsForm form;
};

/// True if the source has enough rows for this many bins, and its form has a kernel.
bool bins_fit(const Source &source, uint32_t dim_pad, uint32_t n_bins);

/// Requires bins_fit.
Status plan_bins(const Device *device, const Source &source, const Shape &shape, uint32_t n_queries, uint32_t n_bins,
	BinsPlan *plan);

size_t bins_bytes(const Source &source, const Shape &shape, const BinsPlan &plan, uint32_t n_bins);

/// Bytes of the workspace that each of n_queries needs while the source is searched, without its operand. n_bins: 0 for
/// an exact search.
size_t source_bytes(const Device *device, const Source &source, const Shape &shape, uint64_t n_before,
	uint32_t n_queries, uint32_t k, uint32_t n_bins);

/// Bytes of a query's operands in all forms in which n_queries with up to this k read the sources.
size_t operands_bytes(std::span<const Source> sources, const Shape &shape, uint32_t n_queries, uint32_t k);

} // namespace vectorgpu::cuda

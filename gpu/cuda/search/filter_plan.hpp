// How a source is searched through the tensor cores: sizes of samples, stages, candidates and bins, and the room they
// take. Plain arithmetic on tuning.hpp; the number of bins is src/engine/distance/partial_reduce.hpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/resident/snapshot.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda
{

/// Of the exact filter.
struct FilterPlan
{
	uint32_t n_tiles;
	uint32_t n_sampled; // tiles; 0: the k first of the sources before give the threshold
	uint32_t stride;
	uint32_t n_minima;
	uint32_t n_first; // tiles of the first stage
	uint32_t capacity;
};

/// n_before: rows of the sources that were searched before.
FilterPlan plan_filter(const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k);

/// True if the source is small beside those before, and is to be scanned behind what they have given
/// (launch_bounded_scan).
bool bounded_scan_pays(const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries);

/// Bytes that a query needs for that.
size_t bounded_scan_bytes(const Source &source);

/// True if the filter is to be used where there is a kernel for it.
bool filter_pays(const Source &source, uint64_t n_before, uint32_t n_queries, uint32_t k);

/// Bytes that a query needs beside itself and its results.
size_t filter_bytes(const Source &source, const Shape &shape, uint64_t n_before, uint32_t n_queries, uint32_t k);

/// Of PartialReduce. n_bins: a multiple of kFilterTileRows.
struct BinsPlan
{
	uint32_t n_tiles;
	uint32_t n_places; // n_stripes * kFilterTileRows
	kernels::BinsForm form;
};

/// True if so many bins are few beside the source's rows, and its form has a kernel.
bool bins_fit(const Source &source, uint32_t n_bins);

/// bins_fit holds.
Status plan_bins(const Device *device, const Source &source, const Shape &shape, uint32_t n_queries, uint32_t n_bins,
	BinsPlan *plan);

size_t bins_bytes(const Source &source, const Shape &shape, const BinsPlan &plan, uint32_t n_bins);

/// Device memory that a query of so many needs while the source is searched, the queries' operand left out. n_bins: 0:
/// exactly.
size_t source_bytes(const Device *device, const Source &source, const Shape &shape, uint64_t n_before,
	uint32_t n_queries, uint32_t k, uint32_t n_bins);

/// Bytes of a query's operands in all forms that it may meet.
size_t operands_bytes(std::span<const Source> sources, const Shape &shape);

} // namespace vectorgpu::cuda

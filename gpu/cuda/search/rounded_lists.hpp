// Lists of real numbers, list by list, by estimates over narrow rows (kernels/ivf/ivf_rounded.hpp): a segment's
// binary16, or the copies of float32 rows that exact searches filter by. The rows that the filter's bound does not
// exclude are scored, so the candidates are those of a scan of the rows themselves.
#pragma once

#include "cuda/search/list_scan.hpp"

namespace vectorgpu::cuda
{

/// The rows of a source's lists that are read for n_queries for up to max_k rows; false if none can be.
bool rounded_lists_serve(
	const SearchCall &call, const Source &source, uint32_t n_queries, uint32_t max_k, kernels::Rows *rows);

/// True if such a scan takes less time than another of the chunk, with n_groups in the sample that gives thresholds.
/// *rows: as rounded_lists_serve.
bool rounded_lists_pay(const SearchCall &call, const Source &source, size_t s, const ListChunk &chunk,
	uint32_t n_groups, kernels::Rows *rows);

/// Bytes of the workspace that each query needs at most.
size_t rounded_query_bytes(const Shape &shape);

/// Queues the scan, after that of the thresholds and the plan (kernels::ivf_rounded_queries_per_tile). The arena's
/// pieces are needed until the stream has done it.
Status scan_rounded_lists(const SearchCall &call, Arena *arena, const Source &source, const kernels::Rows &rows,
	const kernels::IvfScanArgs &scan);

} // namespace vectorgpu::cuda

// Batched search of graphs alone, in chunks of queries, part by part of each segment:
//   begin       canonical scores of all entry points, the 8 first
//   search      kernels/graph/graph_search.cuh
//   merge       into what the query has found; not where a narrow search of the only part is all of the answer
// From 2,048 queries over one part on, these are searched in shares, each while the next is sent.
#pragma once

#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Search the sources, which have graphs. The queries have a score, 1 ... kMaxSelectK as k, and no width above
/// kGraphMostWidth. call.results [queries]: sized before. Waits for the stream.
Status search_graph_chunks(const SearchCall &call, std::vector<const Source *> sources);

} // namespace vectorgpu::cuda

// Small batches over one graph, with a block or a cluster of blocks for each query: one launch finds the entry points,
// searches the graph and writes the answers into pinned memory (answers.hpp).
#pragma once

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// source: with a graph. The queries have a score, probes, 1 ... kMaxSelectK as k, and a width of up to
/// kGraphMostWidth. *taken: whether the batch suits this way; if not, nothing has happened.
Status search_graph_alone(const SearchCall &call, const Source &source, bool *taken);

} // namespace vectorgpu::cuda

// A chunk of queries over the codes of one segment's lists: candidates by estimates, canonical scores of these, the merge into what was
// found. Used by ivf_search.cpp, which ranks the lists.
#pragma once

#include "cuda/arena.hpp"
#include "cuda/device.hpp"
#include "cuda/ivf_lists.hpp"
#include "engine/engine.hpp"
#include "kernels/codes.hpp"

namespace vectorgpu::cuda
{

struct CodedRequest
{
	Metric metric = Metric::kL2;
	const Source *source = nullptr;
	kernels::Queries queries;
	kernels::IvfProbes probes;            // ranked
	const uint32_t *candidates = nullptr; // [n_queries] on the device: SegmentProbes::candidates
	uint32_t most_candidates = 1;         // the largest of them
	uint64_t n_pairs = 0;                 // lists looked at by all queries together
	kernels::Best best;
	uint32_t max_k = 0;
};

/// Device memory of a query, besides that of the parts of queries that blocks share.
size_t coded_query_bytes(const Source &source, uint32_t dim_pad, uint32_t most_candidates);

/// best = the queries.k first of best and the candidates. Queues work on the stream; takes from the arena what is to be given back when
/// the stream has done it.
Status search_codes(const Device *device, cudaStream_t stream, Arena *arena, const CodedRequest &request, engine::SearchControl *control);

} // namespace vectorgpu::cuda

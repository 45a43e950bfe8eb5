// A chunk of queries over the codes of one segment's lists: candidates by estimates, canonical scores of these where
// there are vectors, the merge into what was found. Used by ivf_search.cpp, which ranks the lists.
#pragma once

#include "cuda/device/arena.hpp"
#include "cuda/device/device.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/codes/codes.hpp"

namespace vectorgpu::cuda
{

/// Candidates of a query in a segment up to which codes choose them. A pass over the codes finds kMostPassCandidates;
/// after so many, all rows of the lists are scored in less time, and more is found. Without vectors there is no other
/// way.
constexpr uint32_t kMostCodedCandidates = 16 * kernels::kMostPassCandidates;

/// True if codes choose the rows of the source whose scores the query needs, or that it finds.
bool chosen_by_codes(const engine::SearchQuery &query, const Source &source);

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
	uint32_t *n_scored = nullptr; // [n_queries] on the device: grows by the candidates whose canonical scores are
								  // computed; null: they are the answer
};

/// Device memory of a query, besides that of the parts of queries that blocks share.
size_t coded_query_bytes(const Source &source, uint32_t dim_pad, uint32_t most_candidates);

/// best = the queries.k first of best and the candidates, which are scored by their estimates where there are no
/// vectors. Queues work on the stream; takes from the arena what is to be given back when the stream has done it, and
/// waits for a part of it where that takes many passes.
Status search_codes(const Device *device, const Stream &stream, Arena *arena, const CodedRequest &request,
	engine::SearchControl *control);

} // namespace vectorgpu::cuda

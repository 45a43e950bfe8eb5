// A chunk of queries over the codes of one segment's lists: candidates by estimates, canonical scores of these where
// there are vectors, the merge into what was found. list_scan.hpp ranks the lists before.
#pragma once

#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/chunk.hpp"
#include "kernels/codes/codes.hpp"

namespace vectorgpu::cuda
{

/// Candidates of a query in a segment up to which codes choose them. A pass over the codes finds kMostPassCandidates;
/// beyond this many, scoring all rows of the lists takes less time and finds more. Without vectors codes always choose.
constexpr uint32_t kMostCodedCandidates = 16 * kernels::kMostPassCandidates;

/// True if codes choose the rows of the source that are scored for the query, or that it finds.
bool chosen_by_codes(const engine::SearchQuery &query, const Source &source);

struct CodedRequest
{
	const Source *source = nullptr;
	kernels::Queries queries;
	kernels::IvfProbes probes;            // ranked
	bool after_select = false;            // the last launch ranked them by the selection
	const uint32_t *candidates = nullptr; // [n_queries] on the device: SegmentProbes::candidates
	uint32_t most_candidates = 1;         // the largest of them
	uint64_t n_pairs = 0;                 // lists searched by all queries together
	kernels::Best best;
	uint32_t max_k = 0;

	/// [n_queries] on the device: grows by the candidates whose canonical scores are computed. Null: the candidates are
	/// the answer.
	uint32_t *n_scored = nullptr;

	/// Where the results go as well, if the search ends in one launch. No heads: nowhere.
	kernels::Answers answers;
};

/// Bytes of the workspace for a query, besides the parts of queries that blocks share.
size_t coded_query_bytes(const Source &source, uint32_t dim_pad, uint32_t most_candidates);

/// True if search_codes ends in one launch, which can write request.answers: few queries with few candidates.
bool ends_in_one_launch(const CodedRequest &request);

/// best = the queries.k first of best and the candidates; without vectors these have their estimates as scores. Queues
/// work on the call's stream, and waits for a part of it if it takes many passes. The arena's pieces are needed until
/// the stream has done it.
Status search_codes(const SearchCall &call, Arena *arena, const CodedRequest &request);

} // namespace vectorgpu::cuda

// Host side of the kernels that search inverted lists for few queries in two launches (README.md, "Few queries"): lists
// of bytes by integer products, lists of any numbers by canonical scores. Launchers as in kernels.hpp.
#pragma once

#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kIvfFewMostQueries = 128;
constexpr uint32_t kIvfFewMostLists = 8192; // their orders lie in shared memory
constexpr uint32_t kIvfFewMostProbes = 1024;
// Of bytes, L2; beyond kIvfMostByteDims queries with scores from 2^24 on are not answered.
constexpr uint32_t kIvfFewMostDims = 1024;
constexpr uint32_t kIvfFewMostRealDims = 2048;
constexpr uint32_t kIvfFewNarrowDims = 64; // up to here a warp takes more rows of reals at a time
constexpr uint32_t kIvfFewMostK = 128;
constexpr uint32_t kIvfFewCandidates = 2048;  // of a query, from all of its blocks
constexpr uint32_t kIvfFewInlineBytes = 2048; // of queries among a kernel's arguments
constexpr uint32_t kIvfFewInlineQueries = 32;

struct IvfFewQuery
{
	uint32_t k;        // 1 ... kIvfFewMostK
	uint32_t n_probes; // 1 ... min(n_lists, kIvfFewMostProbes)
	int32_t norm;      // Σ x² of bytes
	uint32_t unused;
};

/// A row among the first of some block's rows.
struct IvfFewCandidate
{
	uint32_t order; // float_to_order of its score
	uint32_t place;
};

/// Queries that travel among the arguments.
struct IvfFewInline
{
	uint32_t words[kIvfFewInlineBytes / 4];
	IvfFewQuery queries[kIvfFewInlineQueries];
};

struct IvfFewArgs
{
	Metric metric = Metric::kL2;
	bool reals = false; // queries are floats, rows of any form: ivf_few_serves_reals; else bytes both: ivf_few_serves
	bool vectors_are_there = false; // reals: earlier work of the stream puts the queries into `vectors`; host_vectors
									// equals it
	Rows rows;                      // by place
	const float *row_values = nullptr; // bytes: [n_rows] launch_row_values
	const uint64_t *offsets = nullptr; // [n_lists + 1]
	const float *centroids = nullptr;  // [n_lists, dim_pad]
	IvfCut cut;
	uint32_t n_lists = 0;               // up to kIvfFewMostLists
	uint32_t n_queries = 0;             // up to kIvfFewMostQueries
	uint32_t dim_pad = 0;               // up to kIvfFewMostDims, kIvfFewMostRealDims
	uint32_t n_splits = 1;              // blocks that share a query
	const void *host_vectors = nullptr; // pinned [n_queries, dim_pad], 16-byte aligned; null: among the arguments
	const IvfFewQuery *host_queries = nullptr; // pinned [n_queries]; null: among the arguments

	// Written by the first launch for the second.
	void *vectors = nullptr;        // [n_queries, dim_pad], 16-byte aligned
	IvfFewQuery *queries = nullptr; // [n_queries]
	// [n_queries, n_lists]: float_to_order of centroids' scores; cosine: upper halves of their keys.
	uint32_t *orders = nullptr;
	uint32_t *lows = nullptr;    // cosine: [n_queries, n_lists] the lower ones
	uint32_t *n_found = nullptr; // [n_queries]; may exceed kIvfFewCandidates
	uint32_t *n_done = nullptr;  // [n_queries]: blocks

	IvfFewCandidate *found = nullptr; // [n_queries, kIvfFewCandidates]
	Answers answers;
};

/// True if launch_ivf_few can take such rows, with queries of whole numbers 0 ... 255.
bool ivf_few_serves(Metric metric, Form form, uint32_t dim_pad);

/// True if it can with IvfFewArgs::reals, whatever the queries.
bool ivf_few_serves_reals(Metric metric, Form form, uint32_t dim_pad);

/// How blocks share the rows of a query.
struct IvfFewGrid
{
	uint64_t full_blocks;   // that keep a large device busy
	uint64_t rows_of_block; // at least: each chooses the query's lists again
	uint64_t candidates;    // n_splits * k at most, which leaves room for rows at one distance
};

IvfFewGrid ivf_few_grid(bool reals, uint32_t dim_pad);

/// Write the k first rows of the n_probes nearest lists of each query to answers, dead rows left out, ascending by
/// (score, row id). A query with too many rows at one distance, or of bytes with scores that may be rounded, has redo
/// set instead, to kAnswerIsAway if its rows lie away from it (IvfCut). travelling: the queries if args.host_vectors is
/// null; at most kIvfFewInlineBytes and kIvfFewInlineQueries of them. cudaErrorInvalidValue beyond any bound of this
/// file. Reproducible.
[[nodiscard]] cudaError_t launch_ivf_few(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream);

/// Set shared-memory limits; once per device.
[[nodiscard]] cudaError_t prepare_ivf_few();

} // namespace vectorgpu::kernels

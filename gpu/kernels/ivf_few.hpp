// Host side of the kernels that search inverted lists of bytes for few queries in two launches (README.md, "Few queries"). Launchers as in
// kernels.hpp.
#pragma once

#include "kernels/ivf.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kIvfFewMostQueries = 128;
constexpr uint32_t kIvfFewMostLists = 8192;   // their orders lie in shared memory
constexpr uint32_t kIvfFewMostProbes = 1024;
constexpr uint32_t kIvfFewMostDims = 1024;    // of L2; queries with scores from 2^24 on are not answered beyond kIvfMostByteDims
constexpr uint32_t kIvfFewMostK = 128;
constexpr uint32_t kIvfFewCandidates = 2048;  // of a query, from all of its blocks
constexpr uint32_t kIvfFewInlineBytes = 2048; // of queries among a kernel's arguments
constexpr uint32_t kIvfFewInlineQueries = 32;

struct IvfFewQuery
{
	uint32_t k;        // 1 ... kIvfFewMostK
	uint32_t n_probes; // 1 ... min(n_lists, kIvfFewMostProbes)
	int32_t norm;      // Σ x²
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
	Metric metric = Metric::kL2;         // ivf_few_serves
	Rows rows;                           // of Form::kByte, by place
	const float *row_values = nullptr;   // [n_rows] launch_row_values
	const uint64_t *offsets = nullptr;   // [n_lists + 1]
	const float *centroids = nullptr;    // [n_lists, dim_pad]
	uint32_t n_lists = 0;                // up to kIvfFewMostLists
	uint32_t n_queries = 0;              // up to kIvfFewMostQueries
	uint32_t dim_pad = 0;                // up to kIvfFewMostDims
	uint32_t n_splits = 1;               // blocks that share a query
	const uint8_t *host_bytes = nullptr; // pinned [n_queries, dim_pad], 4-byte aligned; null: among the arguments
	const IvfFewQuery *host_queries = nullptr;

	// Written by the first launch for the second.
	uint8_t *bytes = nullptr;       // [n_queries, dim_pad], 16-byte aligned
	IvfFewQuery *queries = nullptr; // [n_queries]
	uint32_t *orders = nullptr;     // [n_queries, n_lists]: float_to_order of centroids' scores
	uint32_t *n_found = nullptr;    // [n_queries]; may exceed kIvfFewCandidates
	uint32_t *n_done = nullptr;     // [n_queries]: blocks

	IvfFewCandidate *found = nullptr; // [n_queries, kIvfFewCandidates]
	Answers answers;
};

/// True if launch_ivf_few can take such rows, with queries of whole numbers 0 ... 255.
bool ivf_few_serves(Metric metric, Form form, uint32_t dim_pad);

/// The k first of the rows of the n_probes nearest lists of each query, rows with a tombstone left out, to answers: ascending by (score, row id). A query with too
/// many rows at one distance, or with scores that may be rounded, has redo set instead. travelling: the queries if args.host_bytes is null. Reproducible.
[[nodiscard]] cudaError_t launch_ivf_few(const IvfFewArgs &args, const IvfFewInline &travelling, cudaStream_t stream);

/// Sets shared-memory limits; once per device.
[[nodiscard]] cudaError_t prepare_ivf_few();

} // namespace vectorgpu::kernels

// Host side of the kernels that score listed rows, one by one: the few rows that meet the conditions of a search. Two
// launches, however many lists there are: scores of all of them, then the k first of each query. Launchers as in
// kernels.hpp.
#pragma once

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kListedQueries = 8; // most queries that score a list together; over bits each does so by itself

// The most dimensions of bytes that may be scored as whole numbers: 256 · 255² < 2²⁴.
constexpr uint32_t kListedByteDims = 256;

/// A list of rows of one source, and the queries of the chunk that score it together. A warp takes a group of its rows.
struct ListedJob
{
	const uint32_t *numbers = nullptr; // [n_rows] of the rows
	const uint32_t *places = nullptr;  // the row of each number; null: a number is a row
	uint32_t n_rows = 0;
	uint32_t source = 0;         // of ListedArgs::sources
	uint32_t first_group = 0;    // of the groups of all jobs; ascending
	uint32_t first_query = 0;    // the first of n_queries queries, which follow each other
	uint32_t n_queries = 0;      // 1 ... kListedQueries
	uint32_t group_of_query = 0; // the job's first group as a query counts its own
};

/// What a query's jobs leave. Its groups are those of its jobs, in their order.
struct ListedQuery
{
	uint64_t first_key = 0;     // of ListedArgs::keys: a group has group_rows keys
	uint64_t first_minimum = 0; // of ListedArgs::minima
	uint32_t n_groups = 0;      // up to kMaxGroups
	uint32_t group_rows = 0;    // a multiple of 32; of a job with several queries, of 8
	uint32_t first_job = 0;
	uint32_t n_jobs = 0;
};

struct ListedArgs
{
	Metric metric = Metric::kL2;
	Queries queries;
	const uint8_t *bytes = nullptr;  // [n_queries, dim_pad] the queries, if all are bytes; null: not looked at. L2 and
									 // inner product of at most kListedByteDims dimensions
	const int32_t *norms = nullptr;  // [n_queries] |x|², with bytes
	const Rows *sources = nullptr;   // [any]
	const ListedJob *jobs = nullptr; // [n_jobs]
	const ListedQuery *listed = nullptr; // [n_queries]
	uint32_t n_jobs = 0;
	uint32_t n_groups = 0;      // of all jobs
	bool forms[4] = {};         // by Form: whether a source of a job has it
	uint64_t *keys = nullptr;   // out; rows that are dead, and those behind a list's end, get kExcludedKey
	uint64_t *minima = nullptr; // out: the smallest key of each group
	Best best;                  // out of launch_listed_select; counts are 0 before
};

/// Set keys and minima. A launch for each form that sources have. Reproducible: each key is the canonical score.
[[nodiscard]] cudaError_t launch_listed_scores(const ListedArgs &args, cudaStream_t stream);

/// Write the k first rows of each query to `answers`. Reproducible.
[[nodiscard]] cudaError_t launch_listed_select(
	const ListedArgs &args, uint32_t max_k, const Answers &answers, cudaStream_t stream);

/// Set the shared-memory limit; once per device, before any launch.
[[nodiscard]] cudaError_t prepare_listed_kernels();

} // namespace vectorgpu::kernels

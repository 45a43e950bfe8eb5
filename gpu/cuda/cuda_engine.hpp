// The CUDA engine: resident copies in device memory, batched search. The worker's engine where there is a GPU. See
// README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/device/device.hpp"
#include "cuda/passing/packed_tuning.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/graph/graph_tuning.hpp"
#include "kernels/filter/one_pass_tuning.hpp"

namespace vectorgpu::cuda
{

class GraphTrace;
struct OnePassTrace;

struct CudaEngineOptions
{
	int device = 0;
	int n_streams = 2;                        // searches side by side
	size_t workspace_bytes = size_t{2} << 30; // device memory of one search
	size_t pinned_bytes = size_t{64} << 20;   // host memory of one search, for queries and results
	uint64_t memory_bytes = 0;                // budget for copies; 0: what the device has left, less a reserve
	bool self_test = true;                    // compare every kernel with the CPU engine first
	bool narrow = true;                       // keep float32 rows in a narrower form where that is exact
	bool rows_on_host = false;                // rows of segments that codes choose lie in host memory in any case
	bool rounded = true;             // where it is not, keep them rounded too, for the filter of exact searches
	bool scaled = true;              // rounded to signed bytes where these exclude enough rows; off: to binary16 alone
	bool both_roundings = true;      // to binary16 beside these, if there is room
	uint64_t scaled_least_bytes = 0; // segments with fewer of these bytes are not; 0: tuning.hpp decides
	uint32_t filter_min_queries = 0; // from this many queries on a batch uses the filter; 0: tuning.hpp decides
	bool graph_alone = true;         // small batches over a graph: a block for each query, where possible
	bool graph_choice =
		true;             // queries of graphs score all rows where that is faster; off: answers are the CPU engine's
	bool one_pass = true; // small batches over byte rows in one pass, where possible
	uint32_t one_pass_looks =
		1u << 17; // a block's looks at other blocks' progress, about 50 ms, before the pass is given up; 0: at once
	uint32_t one_pass_pause_ms = 10000;     // after a pass that was given up, which costs a search about 50 ms
	kernels::OnePassTuning one_pass_tuning; // for its benchmark and tests
	OnePassTrace *one_pass_trace = nullptr; // for its benchmark: data of the last search
	bool few_lists = true;                  // small batches over lists of bytes in two launches, where possible
	bool few_real_lists = true;             // the same over lists of any numbers, where that is faster
	double few_real_pairs = 0; // up to this many pairs of a query and a list for each list; 0: tuning.hpp decides
	bool rounded_lists = true; // other batches over lists of reals by rounded rows, where that is faster
	bool list_choice = true; // queries of lists score all rows where that is faster; off: answers are the CPU engine's
	// Searches with conditions of copies with lists look at all rows that pass if these have up to this many elements:
	// that takes one query no more than 10 us longer than a search of lists (one H200, gpu_passing_bench).
	uint64_t exact_elements = 10000000;
	PackedTuning packed; // copies of the rows that pass
	// Codes of key columns of segments with fewer rows are left to the host. 150,000 of 4 bytes take it 39 to 61 us,
	// and a GPU 24 to 34 (one H200, gpu_passing_bench).
	uint64_t least_key_rows = 100000;
	uint32_t hang_limit_ms = 30000;    // work on the GPU that takes longer means a lost device; far above any batch
	kernels::GraphTuning graph;        // for the benchmark of graphs
	GraphTrace *graph_trace = nullptr; // for the same: data of the last search of many queries
	Log log;
	Fault fault;                    // for tests
	std::function<void()> on_fatal; // see Device::on_fatal: the worker leaves here
};

class CudaEngine : public engine::Engine
{
public:
	/// True once the GPU's context is broken: every call answers kUnavailable, and the process should exit, since a new
	/// context needs a new process.
	virtual bool fatal() const = 0;

	/// Queries answered from byte rows in one pass.
	virtual uint64_t n_one_pass() const = 0;

	/// Segments of resident copies whose rows are kept rounded to signed bytes, too.
	virtual uint64_t n_scaled_segments() const = 0;

	/// Queries whose pass was given up, so that they went another way (one_pass.hpp).
	virtual uint64_t n_one_pass_given_up() const = 0;

	/// Queries that searched a graph with one block or a cluster of blocks each (graph_alone.hpp).
	virtual uint64_t n_graph_alone() const = 0;

	/// The blocks of these queries: more than the queries if some had a cluster.
	virtual uint64_t n_graph_blocks() const = 0;

	/// Those of these queries whose entry points were scored by a launch before.
	virtual uint64_t n_entries_apart() const = 0;

	/// Queries answered from lists of bytes in two launches.
	virtual uint64_t n_few_lists() const = 0;

	/// The same from lists of any numbers; lists of bytes are not counted.
	virtual uint64_t n_few_real_lists() const = 0;

	/// Pairs of a query and a segment of lists that went by estimates over rounded rows.
	virtual uint64_t n_rounded_lists() const = 0;

	/// Queries with conditions that went over packed rows (passing/packed_rows.hpp).
	virtual uint64_t n_packed() const = 0;

	/// Vectors of queries that were not sent: the GPU took them from rows of the copy (search/chunk.hpp). Of queries
	/// that were searched a second time, twice.
	virtual uint64_t n_own_rows() const = 0;

	/// Pairs of a query and a segment that the GPU searched by codes of a graph.
	virtual uint64_t n_hashed() const = 0;

	/// Programs that the GPU evaluated over the codes of a segment.
	virtual uint64_t n_programs() const = 0;

	/// Pairs of a query and a segment of sets or texts that the GPU searched. The host searches segments that the GPU
	/// has no room for, and some that it searches sooner.
	virtual uint64_t n_matched() const = 0;

	/// Pairs of a query and a segment of sparse vectors that the GPU bounded.
	virtual uint64_t n_sparse() const = 0;
};

/// kUnavailable: no usable GPU, or it failed the self-test; kOutOfMemory.
Status make_cuda_engine(const CudaEngineOptions &options, std::unique_ptr<CudaEngine> *engine);

} // namespace vectorgpu::cuda

// The CUDA engine: resident copies in device memory, exact batched search. The worker's engine where there is a GPU.
// See README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/device/device.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/graph/graph_tuning.hpp"
#include "kernels/filter/one_pass_tuning.hpp"

namespace vectorgpu::cuda
{

struct OnePassTrace;

struct CudaEngineOptions
{
	int device = 0;
	int n_streams = 2;                        // searches at a time
	size_t workspace_bytes = size_t{2} << 30; // device memory of one search
	size_t pinned_bytes = size_t{64} << 20;   // host memory of one search, for queries and results
	uint64_t memory_bytes = 0;                // budget for copies; 0: what the device has left, less a reserve
	bool self_test = true;                    // every kernel against the CPU's before the engine is handed out
	bool narrow = true;                       // keep float32 rows in a narrower form where that is exact
	uint32_t filter_min_queries = 0;          // batches from here on go through the filter; 0: tuning.hpp decides
	bool graph_alone = true;                  // few searches of a graph by a block each, where that is possible
	bool graph_choice =
		true; // queries of graphs look at all rows where that takes less time; off: what the CPU engine finds
	bool one_pass = true; // small batches over byte rows in one pass where that is possible
	uint32_t one_pass_looks =
		1u << 17; // of a block at what others have done, some 50 ms; then the pass is given up. 0: at once
	uint32_t one_pass_pause_ms = 10000;     // after a pass that was given up: each costs a search some 50 ms
	kernels::OnePassTuning one_pass_tuning; // for its benchmark and tests
	OnePassTrace *one_pass_trace = nullptr; // for its benchmark: what the last search left (search.hpp)
	bool few_lists = true;                  // small batches over lists of bytes in two launches where that is possible
	bool few_real_lists = true;             // ... over lists of any numbers, where that is worth it
	double few_real_pairs = 0; // ... up to so many pairs of a query and a list for each list; 0: tuning.hpp decides
	uint32_t hang_limit_ms = 30000; // work on the GPU that takes longer counts as lost; far above any batch
	kernels::GraphTuning graph;     // for the benchmark of graphs
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

	/// Queries that went over byte rows in one pass.
	virtual uint64_t n_one_pass() const = 0;

	/// Queries that should have, but went another way because the pass was given up (one_pass.hpp).
	virtual uint64_t n_one_pass_given_up() const = 0;

	/// Queries that searched a graph by a block each, or several (graph_alone.hpp).
	virtual uint64_t n_graph_alone() const = 0;

	/// The blocks that they had: more than there were of them where some had a cluster of several.
	virtual uint64_t n_graph_blocks() const = 0;

	/// Queries that were answered from lists of bytes in two launches.
	virtual uint64_t n_few_lists() const = 0;

	/// ... from lists of any numbers; those of bytes are not among them.
	virtual uint64_t n_few_real_lists() const = 0;

	/// Searches of a segment by codes of its rows, one for each query and segment, that the GPU did for copies of
	/// graphs with codes.
	virtual uint64_t n_hashed() const = 0;

	/// Searches of a segment of sets or texts, one for each query and segment, that the GPU did; the host does those of
	/// segments that the GPU has no room for, and some that it does sooner.
	virtual uint64_t n_matched() const = 0;
};

/// kUnavailable: no usable GPU, or it failed the self-test; kOutOfMemory.
Status make_cuda_engine(const CudaEngineOptions &options, std::unique_ptr<CudaEngine> *engine);

} // namespace vectorgpu::cuda

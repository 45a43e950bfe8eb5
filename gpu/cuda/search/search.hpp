// Batched exact search over a snapshot of a copy. A search runs on one context from start to end; contexts are the
// engine's and used by one thread at a time. Throws bad_alloc.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/resident/snapshot.hpp"
#include "cuda/device/device.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/graph/graph_tuning.hpp"
#include "kernels/filter/one_pass.hpp"

namespace vectorgpu::cuda
{

/// What one search needs besides the rows; made once, nothing is allocated on the search path.
struct SearchContext
{
	Stream stream;
	DeviceBuffer workspace;
	PinnedBuffer pinned_in;  // queries on their way to the device
	PinnedBuffer pinned_out; // results on their way back

	static constexpr size_t kMostAnswers = 128;
	PinnedBuffer heads; // [kMostAnswers] of answers.hpp
	uint32_t last_mark = 0;
	DeviceBuffer counters; // of kernels/filter/one_pass.hpp, and what they are
	uint32_t counted[5] = {};
	PinnedBuffer given_up; // a u32: see there

	Status create(const Device *device, size_t workspace_bytes, size_t pinned_bytes);
};

/// What the last search in one pass leaves of itself, for a benchmark that searches alone.
struct OnePassTrace
{
	std::chrono::steady_clock::time_point begun, staged, launched, answered;
	uint32_t n_blocks = 0;
	kernels::OnePassStamps stamps; // of the kernel
};

/// How an engine's searches go over rows in one pass (one_pass.hpp).
struct OnePassUse
{
	uint32_t most_looks = 0;                // of a block at what others have done
	std::chrono::milliseconds pause{10000}; // after a launch that was given up
	kernels::OnePassTuning tuning;
	OnePassTrace *trace = nullptr; // null: nobody wants one
	std::atomic<std::chrono::steady_clock::time_point> not_before{};
};

struct SearchOptions
{
	AppendLane *lane = nullptr;      // of the sources' tickets
	uint32_t filter_min_queries = 0; // 0: tuning.hpp
	kernels::GraphTuning graph = {};
	bool graph_alone = false;       // few searches of a graph take the way of graph_alone.hpp
	bool graph_choice = false;      // and all rows are looked at where gpu_choice.hpp says so
	OnePassUse *one_pass = nullptr; // null: that way is not taken
	bool few_lists = false;         // the way of ivf_few.hpp is taken where it can be
	bool few_real_lists = false;    // ... that of reals
	double few_real_pairs = 0;      // ... up to so many pairs of a query and a list for each list; 0: tuning.hpp
	bool candidates_only = false;   // search_lists: of a copy of kind kCodes; all queries have probes
	bool bins =
		true; // queries with a recall target go by PartialReduce where that pays; else they are answered exactly
};

struct SearchCounts
{
	uint64_t n_rescored = 0;       // rows that the filter passed on, or that codes named and whose scores were computed
	uint64_t n_redone = 0;         // queries that the filter could not answer
	uint64_t n_one_pass = 0;       // queries that went over the rows in one pass
	uint64_t n_given_up = 0;       // that should have, but were given up
	uint64_t n_graph_alone = 0;    // queries that searched a graph by a block each, or several
	uint64_t n_graph_blocks = 0;   // the blocks that they had
	uint64_t n_few_lists = 0;      // queries that went over lists of bytes in two launches
	uint64_t n_few_real_lists = 0; // ... with rows and queries of any numbers
};

/// results [queries.size()]: see Engine::search. kCancelled if control says stop. Waits for the stream.
Status search_snapshot(const Device *device, SearchContext *context, const engine::DistanceSpec &spec,
	const Shape &shape, const Snapshot &snapshot, std::span<const engine::SearchQuery> queries,
	const SearchOptions &options, std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts,
	engine::SearchControl *control);

} // namespace vectorgpu::cuda

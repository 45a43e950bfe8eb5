// The parameters that all searches of a batch share: the call itself, the options of the engine, and the counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/resident/snapshot.hpp"
#include "cuda/search/search_context.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/filter/one_pass.hpp"
#include "kernels/graph/graph_tuning.hpp"

namespace vectorgpu::cuda
{

class PackedPool; // ../passing/packed_rows.hpp
class GraphTrace; // graph_trace.hpp

/// The times of the last search in one pass, for a benchmark that searches with one thread.
struct OnePassTrace
{
	std::chrono::steady_clock::time_point begun, staged, launched, answered;
	uint32_t n_blocks = 0;
	kernels::OnePassStamps stamps; // times in the kernel
};

/// How an engine searches in one pass (one_pass.hpp).
struct OnePassUse
{
	uint32_t most_looks = 0;                // times that a block polls the counters before it gives up
	std::chrono::milliseconds pause{10000}; // without this way after a launch that gave up
	kernels::OnePassTuning tuning;
	OnePassTrace *trace = nullptr; // null: no times are taken
	std::atomic<std::chrono::steady_clock::time_point> not_before{};
};

struct SearchOptions
{
	AppendLane *lane = nullptr;      // that the tickets of the sources belong to
	uint32_t filter_min_queries = 0; // 0: tuning.hpp
	kernels::GraphTuning graph = {};
	bool graph_alone = false;       // small batches over one graph use graph_alone.hpp
	bool graph_choice = false;      // all rows are scored instead of a graph search where gpu_choice.hpp advises it
	bool list_choice = false;       // ... instead of lists where list_choice.hpp does
	OnePassUse *one_pass = nullptr; // null: no search in one pass
	bool few_lists = false;         // small batches over lists of bytes use ivf_few.hpp
	bool few_real_lists = false;    // small batches over lists of reals use ivf_few.hpp
	double few_real_pairs = 0;      // ... up to this many pairs of a query and a list per list; 0: tuning.hpp
	bool candidates_only = false;   // search_lists: the copy is of kind kCodes; all queries have probes
	bool bins = true;               // PartialReduce for queries with a recall target; false: they are answered exactly
	uint64_t exact_elements = 0;    // of rows that pass: searches with conditions look at all of them up to this
	PackedPool *packed = nullptr;   // null: rows that pass are not packed
	bool rounded_lists = false;     // lists of reals use rounded_lists.hpp, where that is faster
	GraphTrace *graph_trace = nullptr; // null: no times are taken
};

struct SearchCounts
{
	uint64_t n_rescored = 0;       // rows that the filter passed on, or that codes chose and that were scored
	uint64_t n_redone = 0;         // queries that were searched a second time, since the first way could not answer
	uint64_t n_one_pass = 0;       // queries answered in one pass
	uint64_t n_given_up = 0;       // queries of launches in one pass that gave up
	uint64_t n_graph_alone = 0;    // queries answered by graph_alone.hpp
	uint64_t n_graph_blocks = 0;   // ... and the blocks that searched for them
	uint64_t n_entries_apart = 0;  // ... and those whose entry points were scored by a launch before
	uint64_t n_few_lists = 0;      // queries answered by ivf_few.hpp over bytes
	uint64_t n_few_real_lists = 0; // ... over reals
	uint64_t n_rounded_lists = 0;  // pairs of a query and a segment that went by rounded_lists.hpp
	uint64_t n_packed = 0;         // queries with conditions that went over packed rows
	uint64_t n_own_rows = 0;       // vectors of queries that the device took from the copy's rows (chunk.hpp)
};

/// A query with conditions names this many times the lists that will do if the rows that pass are spread evenly. Not
/// more, since a look at all rows is cheap on a device, and exact.
constexpr double kMoreToChooseFrom = 1.25;

/// Say of a query over inverted lists that the rows that pass lie away from it (kernels::IvfCut): it has no answer, and
/// all rows are to be looked at.
inline void
note_away(const engine::SearchQuery &query)
{
	if (query.filter_way != nullptr)
		*query.filter_way = engine::FilterWay::kMask;
}

/// [queries]: the results of each query, see Engine::search.
using Results = std::vector<std::vector<engine::Neighbor>>;

/// One call of a search. It refers to its parts: they must live until the search returns.
struct SearchCall
{
	const Device *device;
	SearchContext *context;
	const engine::DistanceSpec &spec;
	const Shape &shape;
	const Snapshot &snapshot;
	std::span<const engine::SearchQuery> queries;
	const SearchOptions &options;
	Results *results;
	SearchCounts *counts;
	engine::SearchControl *control; // may be null
	const Snapshot *copy = nullptr; // the copy's rows, that SearchQuery::own_row names; null: they are `snapshot`

	const Snapshot &copy_rows() const { return copy != nullptr ? *copy : snapshot; }

	/// The same call with other queries and results.
	SearchCall with(std::span<const engine::SearchQuery> some, Results *found) const
	{
		return {device, context, spec, shape, snapshot, some, options, found, counts, control, copy};
	}

	/// The same call over other rows.
	SearchCall with(const Snapshot &rows, std::span<const engine::SearchQuery> some, Results *found) const
	{
		return {device, context, spec, shape, rows, some, options, found, counts, control, &copy_rows()};
	}

	cudaStream_t stream() const { return context->stream.get(); }

	Status check(cudaError_t error, const char *what) const { return device->check(error, what); }

	/// The k of a query, or the number of rows if that is smaller.
	uint64_t k_of(uint32_t number) const { return std::min<uint64_t>(queries[number].k, snapshot.n_rows); }

	void progress() const
	{
		if (control != nullptr)
			control->progress.fetch_add(1, std::memory_order_relaxed);
	}

	/// The status of the whole search, which the caller returns. Waits for the stream after an error: the snapshot's
	/// memory may be freed once the search returns.
	Status end(const Status &status) const
	{
		if (!status.is_ok() && !device->fatal())
			VECTORGPU_TRY(context->stream.synchronize());
		return status;
	}
};

} // namespace vectorgpu::cuda

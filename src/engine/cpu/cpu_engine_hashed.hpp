// Search of graphs with codes: nodes are found by their codes (graph/codes/code_scores.hpp), then rows are scored. The
// CUDA engine, which finds nodes on the device, uses the rest. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/part_search.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// The answer to one query that has probes, from nodes that others find. Rows without a search by codes are scored by
/// finish().
class HashedAnswer
{
public:
	/// The arguments outlive the answer.
	HashedAnswer(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, SearchControl *control);

	/// Return the width of a segment's search by codes; 0: no such search, the segment is scored in full or not at all.
	uint32_t width(const RowsView &segment) const;

	/// Score the nodes [n] that were found in a part of a segment, in any order, each once.
	void add(const RowsView &segment, const uint32_t *nodes, size_t n);

	/// Have finish() score the rows [first, last) of a segment that pass: a search by codes does not pay.
	void score_all(const RowsView &segment, uint64_t first, uint64_t last);

	/// Score the rows that have no search by codes, and give the answer. Sets the query's coverage. pool: its threads
	/// help; null: none do.
	void finish(std::vector<Neighbor> *result, ThreadPool *pool);

	/// Rows that the query asks for.
	size_t wanted() const { return query_.k; }

	/// Rows that were scored because their codes were found.
	uint64_t n_rescored() const { return n_rescored_; }

private:
	const DistanceSpec &spec_;
	const Snapshot &snapshot_;
	const SearchQuery &query_;
	SearchControl *control_;
	PartSearcher rows_;
	bool has_scores_;
	Coverage coverage_ = Coverage::kAll;
	std::vector<Part> parts_; // for finish()
	uint64_t n_rescored_ = 0;
};

/// Searches of graphs by codes on the host, one after another, with work memory that is kept.
class CodeSearcher
{
public:
	/// Search a segment with that width and add the nodes found to the answer. False: it was stopped.
	bool search(const DistanceSpec &spec, const RowsView &segment, const void *query, uint32_t width,
		SearchControl *control, HashedAnswer *answer);

private:
	uint32_t nearest_entries(const graph::GraphRows &codes, const uint32_t *nodes, uint32_t n, const uint8_t *fails);

	std::vector<uint8_t> code_; // of the query
	std::vector<float> floats_;
	std::vector<uint8_t> work_;
	std::vector<graph::Candidate> found_;
	std::vector<graph::Candidate> entries_;
	std::vector<double> scores_;
	std::vector<uint32_t> nodes_;
};

/// See search_graphs; the snapshot is of a copy of kind kHashedGraph. Return how many rows were scored because their
/// codes were found.
uint64_t search_hashed_graphs(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::span<std::vector<Neighbor> *const> results, SearchControl *control);

} // namespace vectorgpu::engine

// Search of hashed graphs: nodes are found by the Hamming distance of their codes (SONG, section 7), and then judged by
// the rows themselves. An engine that finds nodes elsewhere takes the rest from here. Thread-safe; throws bad_alloc.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/part_search.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// The answer to one query that has probes, but for finding nodes. Begins with what is looked at as a whole when it is
/// finished.
class HashedAnswer
{
public:
	/// All have to live as long.
	HashedAnswer(const DistanceSpec &spec, const Snapshot &snapshot, const SearchQuery &query, SearchControl *control);

	/// The width of the search by codes of a segment; 0: there is none, the segment is looked at as a whole, or not at
	/// all.
	uint32_t width(const RowsView &segment) const;

	/// Nodes [n] that the search has found in a part of a segment, in any order, each once.
	void add(const RowsView &segment, const uint32_t *nodes, size_t n);

	/// Looks at what has no search by codes, and gives the answer. Sets the query's coverage. pool: its threads help;
	/// null: none do.
	void finish(std::vector<Neighbor> *result, ThreadPool *pool);

	/// Rows whose scores have been computed because their codes were found.
	uint64_t n_rescored() const { return n_rescored_; }

private:
	const DistanceSpec &spec_;
	const Snapshot &snapshot_;
	const SearchQuery &query_;
	SearchControl *control_;
	PartSearcher rows_;
	bool has_scores_;
	uint64_t n_rescored_ = 0;
};

/// Searches of graphs by codes on the host, one after the other, with work memory that stays.
class CodeSearcher
{
public:
	/// Adds to the answer what a search of that width finds in a segment. False: it was stopped.
	bool search(const DistanceSpec &spec, const RowsView &segment, const void *query, uint32_t width,
		SearchControl *control, HashedAnswer *answer);

private:
	uint32_t nearest_entries(const graph::GraphRows &codes, const uint32_t *nodes, uint32_t n);

	uint8_t code_[graph::hash_code_bytes(graph::kMaxHashBits)];
	std::vector<float> floats_;
	std::vector<uint8_t> work_;
	std::vector<graph::Candidate> found_;
	std::vector<graph::Candidate> entries_;
	std::vector<double> scores_;
	std::vector<uint32_t> nodes_;
};

/// A snapshot of a copy of kind kHashedGraph; queries that have probes. results [n]: where the answer to queries[i]
/// goes, see Engine::search. control, if not null, counts up with every few nodes; once it says stop, the results are
/// incomplete. Returns how many rows had their scores computed because of their codes.
uint64_t search_hashed_graphs(const DistanceSpec &spec, const Snapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::span<std::vector<Neighbor> *const> results, SearchControl *control);

} // namespace vectorgpu::engine

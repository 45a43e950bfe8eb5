// A resident copy of kind kMatch in host memory: of each segment the row ids and the inverted index that its
// description brings, of the delta the stored values in slots. The CPU engine's copy; the CUDA engine uses it for all
// but the counting of segments.
//
// A slot is a row of the delta: `dim` bytes. A value is a uint32 length and so many bytes, in as many slots as it
// takes, the first of which is its row; the others count as dead, and no value begins in them. Nothing that was sent is
// trusted: a value that is not one matches nothing, one that is not whole (its last slots have not come) is not there.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "engine/match/match_index.hpp"

namespace vectorgpu::engine
{

/// A sealed segment. Never changes.
struct MatchSegment
{
	match::MatchIndex index;
	std::vector<uint8_t> description; // as it came; of a segment with rows it is read back from the index
};

/// One as a search sees it.
struct MatchSegmentView
{
	SegmentId id = 0;
	std::shared_ptr<const MatchSegment> segment;
	std::shared_ptr<const Bitmap> dead; // null: none
};

struct MatchSnapshot
{
	std::vector<MatchSegmentView> segments;
	RowsView delta;
	uint64_t n_rows = 0; // dead ones and slots included
};

class MatchCopy
{
public:
	/// Called before a segment can be searched, perhaps again if more of it comes; its failure fails the seal. The
	/// other one is called when a segment is dropped.
	using SegmentHook = std::function<Status(SegmentId, const std::shared_ptr<const MatchSegment> &)>;

	explicit MatchCopy(
		const CopySpec &spec, SegmentHook sealed = nullptr, std::function<void(SegmentId)> dropped = nullptr);

	const DistanceSpec &spec() const { return spec_; }

	std::shared_ptr<const MatchSnapshot> snapshot() const { return snapshot_.get(); }

	uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

	// As Engine's functions of these names. They throw bad_alloc, and then the copy is as before.
	Status load_segment(SegmentId segment, const RowBlock &rows);
	Status load_structure(SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes);
	Status prepare_segment(SegmentId segment);
	Status seal_segment(SegmentId segment);
	Status drop_segment(SegmentId segment);
	Status append_delta(uint64_t position, const RowBlock &rows);

	/// append_delta, unless another writer is at work, perhaps for long: then false, and nothing has happened.
	bool try_append_delta(uint64_t position, const RowBlock &rows, Status *status);
	Status trim_delta(uint64_t position);
	Status set_tombstones(SegmentId segment, std::span<const uint8_t> bits);
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits);
	Status read_rows(SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const;
	Status read_structure(SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const;
	Status read_tombstones(SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const;
	Status check_derived(SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const;

private:
	struct Segment
	{
		std::vector<RowId> row_ids; // until it is sealed
		std::vector<uint8_t> description;
		std::shared_ptr<const MatchSegment> opened; // of all of these
		MatchSegmentView sealed;
	};

	Status open(SegmentId id, Segment *segment);
	Status append(uint64_t position, const RowBlock &rows);
	void publish();
	void account();

	const DistanceSpec spec_;
	const SegmentHook sealed_;
	const std::function<void(SegmentId)> dropped_;
	mutable std::mutex mutex_; // writers; all below but the snapshot
	std::map<SegmentId, Segment> segments_;
	RowList delta_;
	std::shared_ptr<const Bitmap> delta_dead_;
	uint64_t delta_dead_first_ = 0;
	Published<MatchSnapshot> snapshot_;
	std::atomic<uint64_t> memory_bytes_{0};
};

/// True if copies of kind kMatch can be scored so: by minus the count, or (Metric::kEdit) by the edit distance, for
/// which segments are described with texts, and values and queries have a text as their payload
/// (engine/match/text_distance.hpp).
inline bool
match_metric(Metric metric)
{
	return metric == Metric::kMatchCount || metric == Metric::kEdit;
}

/// kInvalidArgument if a query is not one.
Status check_match_queries(const DistanceSpec &spec, std::span<const SearchQuery> queries);

/// Counts control's progress up and looks at its stop, which may be null.
Poll match_poll(SearchControl *control);

/// Of a query that has been checked.
match::MatchQuery match_query(const DistanceSpec &spec, const SearchQuery &query);

/// Offers the delta's rows, each counted by definition, in time that grows with the number of slots, whatever they
/// hold. False if control (which may be null) has stopped it.
bool offer_match_delta(
	const DistanceSpec &spec, const RowsView &delta, const SearchQuery &query, TopK *topk, SearchControl *control);

/// Searches a snapshot. results [queries.size()], coverage is set. Queries have been checked. Returns how many texts of
/// segments were compared with a query.
uint64_t search_match(const DistanceSpec &spec, const MatchSnapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control);

} // namespace vectorgpu::engine

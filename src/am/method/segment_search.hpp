// One query against one segment: what AccessMethod::search_segment gets. PG dialect.
#pragma once

#include "engine/distance/topk.hpp"
#include "engine/interface/lists_layout.hpp"
#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// How much of the rows a search has looked at. After kPart a later round looks at more.
using engine::Coverage;

/// A recall target that a pass could not reach but by a look at all rows of a segment.
struct MissedTarget
{
	double target;  // the highest of them; 0: there is none
	double reached; // the least recall that the index was measured to reach instead
};

/// Notes one, or several of another scan or round.
inline void
note_missed_target(MissedTarget *missed, const MissedTarget &other)
{
	if (other.target <= 0)
		return;
	missed->reached = missed->target > 0 ? Min(missed->reached, other.reached) : other.reached;
	missed->target = Max(missed->target, other.target);
}

/// What an approximate access method's search needs besides.
struct ApproximateSearch
{
	uint32 round;    // how wide to search: 0 first, one more each time a round has not given enough rows
	bool exact;      // look at every row
	bool drops_nan;  // other segments' rows are left out, or may be: those with NaN come after all of them
	uint64 wanted;   // rows that the batch asks for
	uint64 n_before; // rows that earlier batches returned
	Relation heap;   // the table; null for a scan for TIDs only
	Snapshot snapshot;
	void **am_state; // the access method's own state of this query, in am_context: null at first, and after the
					 // manifest was read again
	MemoryContext am_context;
	const RowId *returned; // [n_returned] ascending: rows that search_offer leaves out
	uint64 n_returned;
	const RowId *candidates; // [n_candidates] ascending: rows to look at, found by the worker; null: the worker was not
							 // asked, or did not answer
	uint64 n_candidates;
	Coverage *coverage;   // to be lowered if the search leaves rows out
	uint32 *width;        // ScanCounters::pass_width
	MissedTarget *missed; // ScanCounters::missed
	uint64 *n_up_to_last; // EXPLAIN only, else null: search_offer adds the rows that do not come after the last one
						  // returned
};

struct SegmentSearch
{
	Relation index;
	const MetaData *meta;
	const SegmentEntry *segment;
	BufferAccessStrategy strategy;
	// Bits as in tombstones: the rows that meet the scan's conditions on key columns and have no tombstone;
	// segment->n_dead counts the others. Null: no conditions. Read by dead_rows.hpp.
	const uint8 *passing;
	const void *query;  // one vector of the index's element type, as stored in streams
	engine::TopK *topk; // takes the candidates: scores of engine::compute_scores, row ids
	// Counters that the search increases.
	uint64 *n_compared;                   // rows looked at, by their distance, an estimate of it or a count of matches
	uint64 *n_named;                      // rows that an estimate or a count named for exact distances
	uint64 *n_rescored;                   // of those, rows whose exact distance was computed
	const ApproximateSearch *approximate; // null for an exact access method, whose searches look at every row
};

/// scan/page_pass.cpp. Offers candidates without a tombstone to the selection. Leaves out rows that were returned
/// before and, where it drops them, rows whose score is NaN (which lowers *coverage). Compacts both arrays in
/// place. For approximate access methods.
void search_offer(const SegmentSearch *search, double *scores, RowId *rows, uint64 n);

/// False if search_offer would leave out all of scores [n], whatever their rows: the caller need not read the row ids.
/// For approximate access methods.
inline bool
search_wants(const SegmentSearch *search, const double *scores, uint64 n)
{
	if (engine::topk_wants(search->topk, scores, n))
		return true;
	if (search->approximate->n_up_to_last != nullptr)
		for (uint64 i = 0; i < n; i++)
			if (scores[i] <= search->topk->after.score)
				return true;
	return false;
}

/// Notes the width of a partial search of a segment for EXPLAIN: *pass_width is the largest.
inline void
note_width(uint32 *pass_width, uint32 width)
{
	*pass_width = Max(*pass_width, width);
}

} // namespace vectorgpu::am

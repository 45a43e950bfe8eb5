// The state of a scan. A scan answers batch by batch: each batch is the next k rows after the last one returned, in
// (score, row id) order, found by a pass over all segments and the delta. PG dialect. Used by scan.cpp (callbacks,
// phases) and batch.cpp (one batch).
//
// An approximate access method's pass looks at a part of the rows. It is repeated with a wider one until the batch is
// full, and at last with an exact one, so that a batch is short only at the end. What a later batch finds before the
// last row returned is dropped (vectorgpu.scan_order = strict), or returned late (relaxed): then rows are told apart by
// the list of those returned instead of by their place in the order. A strict scan that nothing ends early is exact
// from its first row.
#pragma once

#include "am/method/am_interface.hpp"
#include "am/recall/recall_sampler.hpp"
#include "am/scan/scan_counters.hpp"
#include "pg/order_bound.hpp"

namespace vectorgpu::am
{

/// Where a scan is. Phases follow one another in this order; kAll stands alone.
enum class ScanPhase : uint8
{
	kStart,  // nothing read yet
	kScored, // rows with a value, by (score, row id)
	kNulls,  // rows with NULL, by row id: their distance is NULL and sorts last
	kAll,    // all rows, by row id: no ORDER BY, or ORDER BY the distance to NULL
	kDone,
};

struct ScanState
{
	const AccessMethod *am;
	ScanCounters *counters; // for EXPLAIN
	Relation heap;          // or null: a scan for TIDs only
	Snapshot snapshot;
	MemoryContext context;       // all that lives until the next rescan
	MemoryContext batch_context; // child: scratch of one batch
	ScanPhase phase;
	IndexShape shape;
	const char *query; // a copy, aligned; null in phase kAll
	bool has_worst;    // an index condition without ORDER BY: only rows whose score is at most `worst`
	double worst;
	BufferAccessStrategy strategy;
	uint64 delta_end; // rows of the delta from here on are newer than the scan
	bool phase_done;  // the last batch was short: the phase has no more rows
	bool has_last;
	engine::Neighbor last; // the last row of the batch before, in this phase
	uint64 batch_size;     // rows that the present batch asks for; 0: none has begun
	uint64 max_batch_size;
	uint64 given_limit; // scan_set_limit; 0: none
	bool one_search;    // scan_set_limit
	// batch_plan.hpp.
	uint64 wanted;         // rows that a Limit wants of this scan; 0: not known
	bool filtered;         // conditions drop rows on the way to it
	double expected_share; // of the scan's rows that are expected to pass these, and to be visible
	bool by_rank;          // batches end at fixed ranks: steps
	bool from_first;   // the present step looks for the first rows up to its end; those up to the last one returned are
					   // dropped
	uint64 step_begin; // ranks of the steps before
	uint64 step_end;   // and of the present one
	bool bounded;      // a condition ends the scan at the bound
	pg::DistanceBound bound;
	bool nan_only;          // behind the bound: rows without a number for a distance
	bool skips_segments;    // which no segment has
	RecallSample *sample;   // recall_sampler.hpp; null: not sampled
	engine::Neighbor *rows; // [row_capacity]: the batch
	uint64 row_capacity;
	uint64 n_rows;
	uint64 next_row;
	bool batch_full; // the batch had as many rows as it asked for: more may follow
	uint64 n_before; // rows of the batches before, in this phase
	// Approximate access methods only.
	uint32 round;    // how wide the next pass searches
	bool exhaustive; // the last pass has looked at all rows
	bool all_wanted; // every pass looks at all rows: nothing ends the scan before its last row
	bool relaxed;    // vectorgpu.scan_order as of the scan's start
	void *am_state;  // SegmentSearch::am_state, in context
	RowId *returned; // [n_returned] ascending, relaxed only: rows that the exact passes must leave out
	uint64 n_returned;
	uint64 returned_capacity;
	double furthest;       // score of the returned row that is furthest away, if any
	bool counts_left_out;  // for EXPLAIN: the batch may find rows nearer than those returned before it, which are to be
						   // counted
	uint64 n_left_out;     // such rows of this search so far
	bool left_out_counted; // all of them: a pass over all rows has come past the last one returned
	MetaData meta;         // as of the scan's start, or of the last recovery from a recycled page
};

/// Tells a scan that no executor runs how many rows are wanted of it, as a LIMIT would. After index_rescan.
/// `one_search`: by a single search for all of them, not by the steps of batch_plan.hpp.
void scan_set_limit(IndexScanDesc scan, uint64 rows, bool one_search);

/// Fills state->rows with the next batch_size rows of the phase; n_rows is less when there are no more.
void scan_next_batch(Relation index, Snapshot snapshot, ScanState *state);

/// Ranks that earlier batches have looked for, and those that the present one adds. Their sum says how wide it
/// searches.
uint64 scan_ranks_before(const ScanState *state);
uint64 scan_ranks_wanted(const ScanState *state);

/// No more rows than these can be in the index, as of the scan's start.
uint64 scan_rows_at_most(const ScanState *state);

/// True if no row with this score, or one behind it, passes the condition that bounds the scan.
bool scan_is_behind_bound(const ScanState *state, double score);

/// True if the batch's next pass is to look at all rows.
bool scan_is_exact(const ScanState *state);

/// After a pass that looked at `coverage` of the rows and filled the batch: true if the batch is done, else the next
/// round follows.
bool scan_end_round(ScanState *state, Coverage coverage);

/// For EXPLAIN: of the rows that a pass of the batch has found n do not come after the last one returned. They are
/// those returned, and what is left out.
void scan_note_up_to_last(ScanState *state, uint64 n);

/// Reads the metapage and the delta's end. The snapshot must be set before: what it sees was indexed before.
void scan_read_version(Relation index, Snapshot snapshot, ScanState *state);

} // namespace vectorgpu::am

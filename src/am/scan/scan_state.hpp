// The state of a scan, and what can be read from it. A scan answers batch by batch: each batch is the next k rows after
// the last one returned, in (score, row id) order. PG dialect. Used by the files of this folder.
//
// A pass of an approximate access method looks at a part of the rows. A wider pass follows until the batch is full, at
// last an exact one, so that a batch is short only at the end. Rows that a later batch finds before the last row
// returned are dropped (vectorgpu.scan_order = strict) or returned late (relaxed). A relaxed scan knows returned rows
// by their list, not by their place in the order. A strict scan that nothing ends early is exact from its first row.
#pragma once

#include "am/method/am_interface.hpp"
#include "am/keys/key_coder.hpp"
#include "am/scan/key_filter.hpp"
#include "am/scan/scan_condition.hpp"
#include "am/scan/scan_counters.hpp"
#include "pg/order_bound.hpp"

namespace vectorgpu::am
{

struct AheadTable;
struct RecallSample;
struct SiblingAnswer;

/// Where a scan is. Phases follow one another in this order; kAll stands alone.
enum class ScanPhase : uint8
{
	kStart,  // nothing read yet
	kScored, // rows with a value, by (score, row id)
	kNulls,  // rows with NULL, by row id: their distance is NULL and sorts last
	kAll,    // all rows, by row id: no ORDER BY, or ORDER BY the distance to NULL
	kDone,
};

/// The end of a scan before its last row: an index condition, or a condition on the ordered distance.
struct ScanBounds
{
	bool has_worst; // an index condition without ORDER BY: only rows whose score is at most `worst`
	double worst;
	bool bounded; // a condition ends the scan at `bound`
	pg::DistanceBound bound;
	bool nan_only;       // behind all numbers: only rows whose distance is NaN
	bool nan_found;      // the scan has returned one of them
	bool skips_segments; // no segment has such rows
};

/// The scan's place in its phase.
struct ScanPlace
{
	bool phase_done; // the last batch was short: the phase has no more rows
	bool has_last;
	engine::Neighbor last; // the last row of the batch before
	uint64 n_before;       // entries of the batches before
	bool leaves_out;       // rows nearer than the last one may not have been found, and are not returned any more
};

/// How many rows batches ask for (batch_plan.hpp).
struct ScanPlan
{
	uint64 given_limit; // scan_set_limit; 0: none
	bool one_search;    // one search for all rows, without steps
	bool given_exact;   // scan_set_exact
	uint64 in_range; // rows that the planner expects within a bound; 0: only a part of them is wanted, or there is no
					 // bound
	uint64 wanted;   // rows that a Limit wants of this scan; 0: not known
	bool filtered;   // conditions drop rows on the way to the Limit
	double expected_share; // of the scan's rows, those expected to pass the conditions and to be visible
	uint64 max_batch_size; // work_mem holds this number of rows
	bool exact; // approximate access methods: every pass looks at all rows: nothing ends the scan before its last row
	bool may_turn_exact; // batch_plan_asks_again
	bool expects_few;    // so few rows are expected to meet the conditions that all are looked at: no steps at first
	bool by_rank;        // batches end at fixed ranks: steps
	bool from_first;   // the present step searches from the first row to its end; rows up to the last one returned are
					   // dropped
	uint64 step_begin; // the rank where the present step begins
	uint64 step_end;   // and where it ends
};

/// The present batch. Its rows are entries of the index; several rows of the table may share one.
struct ScanBatch
{
	uint64 size;            // rows that it asks for; 0: no batch has begun
	engine::Neighbor *rows; // [capacity]
	uint64 capacity;
	uint64 n_rows;
	bool full; // it has as many rows as it asked for: more may follow
};

/// The passes of a batch of an approximate access method.
struct ScanRounds
{
	uint32 round;    // how wide the next pass searches
	bool exhaustive; // the last pass has looked at all rows
	bool relaxed;    // vectorgpu.scan_order at the scan's start
	void *am_state;  // ApproximateSearch::am_state, in ScanState::context
};

/// Approximate access methods with vectorgpu.scan_order = relaxed: the rows that exact passes must leave out.
struct ReturnedRows
{
	RowId *rows; // [n] ascending
	uint64 n;
	uint64 capacity;
	double furthest; // the greatest score of them
};

/// For EXPLAIN: rows found nearer than rows returned before them, which a strict scan leaves out.
struct LeftOutRows
{
	bool shown;       // EXPLAIN will show them
	bool counts;      // the batch may find such rows, and counts them
	uint64 n;         // of this search so far
	bool all_counted; // a pass over all rows has come past the last one returned
};

/// Scores of the delta's live rows with a value, from the first pass over the pages that has compared them.
struct DeltaScores
{
	bool complete;  // later passes offer these and need not compare again
	double *scores; // [n]
	RowId *rows;    // [n]
	uint64 n;
	uint64 capacity; // 0: none are kept
};

/// The rows that share entries (am/alias), as of the scan's version.
struct ScanAliases
{
	uint64 first;           // MetaData::alias_first
	uint64 end;             // the list's end; equal to first: no rows share entries
	bool were;              // there were such rows at the scan's start
	engine::Neighbor *held; // [n_held] rows at the score of the last entry found: others at that score may precede them
	uint64 n_held;
	uint64 held_capacity;
	RowId *tied; // [n_tied] rows returned at tied_score, the score of the last one
	uint64 n_tied;
	uint64 tied_capacity;
	double tied_score;
	RowId *skipped; // [n_skipped] ascending: rows at skipped_score that were returned before the version was read again
	uint64 n_skipped;
	double skipped_score;
};

/// The rows of the present batch to be returned: its entries, and what shares them.
struct ScanRows
{
	engine::Neighbor *rows; // the batch's own, or `own`
	uint64 n;
	uint64 next;           // to be returned next
	engine::Neighbor *own; // [capacity]
	uint64 capacity;
};

struct ScanState
{
	const AccessMethod *am;
	ScanCounters *counters; // for EXPLAIN
	Relation heap;          // or null: a scan for TIDs only
	Snapshot snapshot;
	MemoryContext context;       // for everything that lives until the next rescan
	MemoryContext batch_context; // child: scratch of one batch
	ScanPhase phase;
	IndexShape shape;
	bool foreign_distance; // foreign_distance.hpp
	const KeyCoder *coder; // of the key columns; null: there are none
	const KeyTree *tree;   // scan_condition.hpp; null: none was set
	const RowSet *rows;    // scan_condition.hpp; null: none were set
	NanRows nan_rows;      // scan_condition.hpp
	bool unordered;        // scan_condition.hpp
	bool few_pass;         // scan_condition.hpp
	KeyFilter *filter;     // conditions on key columns, and `rows`; null: there are none
	bool rechecks;         // the executor tests the scan's keys again
	bool not_null;         // rows whose first column is NULL are not wanted
	const char *query;     // a copy, aligned; null in phase kAll
	BufferAccessStrategy strategy;
	RecallSample *sample; // recall_sampler.hpp; null: not sampled
	AheadTable *ahead;    // ahead_table.hpp; null: no searches are made ahead
	ScanBounds bounds;
	ScanPlan plan;
	ScanPlace place;
	ScanBatch batch;
	ScanRounds rounds;
	ReturnedRows returned;
	LeftOutRows left_out;
	DeltaScores delta_scores;
	ScanAliases aliases;
	ScanRows out;
	const SiblingAnswer *first_answer; // am/siblings; null: the first search was not asked for, or its answer was taken
	bool ahead_done;                   // since the last rescan there was a chance to ask for it
	bool counted;                      // as a search, since the last rescan
	uint64 delta_end;                  // rows of the delta from here on are newer than the scan
	MetaData meta;                     // as of the scan's start, or of the last recovery from a recycled page
};

constexpr int kPageTries = 4; // the first, and three after recycled pages

/// Reads the metapage, the delta's end and that of the aliases. The snapshot must be set before: the rows that it sees
/// were indexed before.
void scan_read_version(Relation index, Snapshot snapshot, ScanState *state);

/// The index has at most this number of rows, as of the scan's start.
uint64 scan_rows_at_most(const ScanState *state);

/// The distance that a score stands for, as the operator returns it.
double scan_distance(const ScanState *state, double score);

/// True if no row with this score, or one behind it, passes the condition that bounds the scan.
bool scan_is_behind_bound(const ScanState *state, double score);

} // namespace vectorgpu::am

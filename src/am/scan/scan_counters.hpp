// The counters of a scan for EXPLAIN (ANALYZE): who answered its batches, and why the worker did not. PG dialect.
#pragma once

#include "am/method/segment_search.hpp"
#include "bridge/shared_state.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::am
{

/// Why a batch came from the pages without the worker being asked. Unlike a bridge::Fallback nothing is amiss.
enum class Bypass : uint8
{
	kNone = 0,
	kSettingOff,   // vectorgpu.worker is off in the session
	kNoOrder,      // rows in the table's order: no ORDER BY, ORDER BY NULL, or the NULL rows at the end
	kTemporary,    // the index is on a temporary table
	kSmall,        // below vectorgpu.worker_min_size
	kAccessMethod, // the worker holds no copies of such indexes
	kAllRows,      // a pass over all rows, which needs no candidates
	kDelta,        // candidates only: the worker's look at the large delta costs more than its count of the
				   // segments saves
	kLongQuery,    // a search that may take long: the backend can be interrupted at any time
	kConditions,   // conditions on key columns
	kReturned,     // more rows were returned late (vectorgpu.scan_order = relaxed) than fit one request with the batch
	kCount,
};

/// How the rows that meet conditions on key columns were searched, of segments: bits.
enum FilterWay : uint8
{
	kFilterList = 1,    // one by one, exactly
	kFilterMask = 2,    // as without conditions, passing over the others
	kFilterRecheck = 4, // by the worker as without conditions; the executor drops the others
	kFilterLists = 8,   // inverted lists, as many as hold enough of the rows
	kFilterGraph = 16,  // a graph, without the others
};

/// Sums over all searches of a scan: a rescan is another search. Rows unless said otherwise.
struct ScanCounters
{
	uint64 n_searches;
	uint64 n_worker_batches;
	uint64 n_backend_batches;
	uint64 n_ahead;       // searches of the worker that were asked for before the scan wanted rows
	uint64 n_asked;       // of all batches
	uint64 largest_batch; // asked for at a time
	uint64 n_rounds;      // of approximate access methods: passes over a part of the rows, or at last all
	uint64 n_exhaustive;  // of those: passes over all rows
	uint32 pass_width;  // ApproximateMethod::width_name of the present round: the largest of the segments that are not
						// looked at whole
	uint32 least_width; // of the rounds that had one; 0: none
	uint32 most_width;
	MissedTarget missed; // recall targets that passes could not reach but by a look at all rows
	uint64 n_late;       // rows returned behind one further away (vectorgpu.scan_order = relaxed)
	uint64 n_left_out;   // rows found nearer than one that was returned before them (strict): see LeftOutRows
	uint64 n_compared;   // rows that the backend looked at: by their distance, an estimate of it or a count of matches
	uint64 n_candidates; // rows named for exact distances by an estimate or a count, for this scan alone
	uint64 n_rescored;   // of those, rows whose exact distance was computed
	uint64 n_rescored_together;  // the same by the worker's engine for several searches together, of which only the sum
								 // is known
	bool has_filter;             // the scan has conditions on key columns
	uint64 n_passing;            // of the last search: rows of segments that meet them
	uint8 filter_ways;           // FilterWay
	uint64 n_filters_found;      // searches of the worker that knew these rows from another
	uint64 engine_ns;            // of those engine batches
	uint64 n_shipped;            // of the delta, brought to the worker's copy
	uint64 delta_rows;           // of the last search, dead ones included
	uint32 largest_engine_batch; // searches that the engine answered together
	wire::EngineKind engine;     // of the worker, if it answered
	uint64 bypasses[static_cast<int>(Bypass::kCount)];
	uint64 fallbacks[static_cast<int>(bridge::Fallback::kCount)];
};

} // namespace vectorgpu::am

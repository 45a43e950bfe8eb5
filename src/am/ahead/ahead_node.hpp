// The executor's side of the custom scan `Vectorgpu Read Ahead`. PG dialect. Used by the files of this folder.
#pragma once

#include "am/ahead/ahead_search.hpp"
#include "am/keys/key_coder.hpp"
#include "pg/ordered_scan.hpp"
#include "pg/read_ahead.hpp"

extern "C"
{
#include "commands/explain.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
}

namespace vectorgpu::am
{

constexpr uint32 kAheadFirstBatch = 64; // rows: a LIMIT above may end the loop soon
constexpr uint32 kMostInnerScans = 16;  // of partitions, say; the others ask by themselves

/// Parts of work_mem: what the outer rows of a batch may take, the answers for them, and the places of the tables'
/// pages, those of all inner scans together.
constexpr Size kAheadParts = 8;
constexpr Size kPartsOfRows = 3;
constexpr Size kPartsOfAnswers = 3;
constexpr Size kPartsOfPages = 2;
static_assert(kPartsOfRows + kPartsOfAnswers + kPartsOfPages == kAheadParts);

/// The bytes of this number of parts.
inline Size
ahead_bytes(Size parts)
{
	constexpr Size kBytesPerKb = 1024;

	return static_cast<Size>(work_mem) * kBytesPerKb / kAheadParts * parts;
}

/// An index scan on the inner side of the loop.
struct InnerScan
{
	pg::OrderedScan scan;
	ExprState *query;            // what it searches for, with the parameters of the loop
	const IndexScanState *keyed; // core's node, if its conditions on key columns have such parameters; else null
	const KeyCoder *coder;       // of the key columns; null: there are none
	AheadTable *table;
	bool attached;
	bool begun; // the searches of the present batch are made ahead
};

struct AheadNodeState
{
	pg::ReadAheadNode node; // first
	PlanState *child;
	bool prepared;       // the inner scans were looked for
	bool foreseen;       // their first requests, as far as that is possible
	InnerScan *scans;    // [n_scans]
	uint32 n_scans;      // 0: rows are handed on as they come
	ExprContext *params; // of the expressions
	MemoryContext batch; // of the rows read and of what is needed while they are: reset before each batch
	MinimalTuple *rows;  // [n_rows], in `batch`
	uint32 n_rows;
	uint32 next;     // to be handed on
	bool done;       // the child has no more rows
	uint32 size;     // rows of the next batch
	uint32 pause;    // rows to hand on before reading ahead again: searches could not be made
	uint32 n_failed; // batches without an answer one after the other
	bool given_up;   // the scans do not ask for what is read ahead
	uint64 n_batches;
};

extern const CustomScanMethods ahead_plan_methods;

/// Find the index scans on the inner side of the loop whose queries depend on its outer rows alone.
void ahead_find_scans(AheadNodeState *state);

/// Begin the inner scan as the loop will for its first outer row, and note the request that it will make, so that the
/// first batch can have its searches made ahead. Nothing is done for scans of am/filtered, which may run other scans
/// first, and where other nodes than a Limit are between loop and scan: there the scan's own first search is the first
/// to be known.
void ahead_foresee_first(AheadNodeState *state, TupleTableSlot *row);

/// Let the scans that have begun look for answers and note their requests. Returns the bytes that the answers for one
/// outer row are expected to take; 0: there are no requests yet.
Size ahead_attach(AheadNodeState *state);

/// Begin the searches for the rows of a batch, at most n. False: none can be made ahead.
bool ahead_begin_batch(AheadNodeState *state, uint32 n);

/// Note the searches for an outer row.
void ahead_want_row(AheadNodeState *state, TupleTableSlot *row);

/// Make them. False: none of those that are wanted has an answer.
bool ahead_search_batch(AheadNodeState *state);

/// ExplainCustomScan.
void ahead_explain(CustomScanState *node, List *ancestors, ExplainState *es);

} // namespace vectorgpu::am

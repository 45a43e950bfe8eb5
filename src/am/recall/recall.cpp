// See recall.hpp.
#include "am/recall/recall.hpp"

#include "am/method/am_interface.hpp"
#include "am/method/scan_limit.hpp"
#include "pg/clock.hpp"
#include "pg/fault.hpp"

#include <algorithm>

extern "C"
{
#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_amop.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/catcache.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr BlockNumber kBlocksPerStep = 128; // of the table, in a scan with a deadline
constexpr uint32 kRowsPerLook =
	16; // between looks at the clock: a row may have to be fetched from many places and take 0.1 ms

/// float8's order of SQL: NaN is above everything.
bool
nearer(double a, double b)
{
	return float8_lt(a, b);
}

Oid
column_type(Relation index)
{
	IndexInfo *info = BuildIndexInfo(index);
	const AttrNumber column = info->ii_IndexAttrNumbers[0];

	if (column == 0)
		return getBaseType(exprType(static_cast<Node *>(linitial(info->ii_Expressions))));
	return getBaseType(get_atttype(index->rd_index->indrelid, column));
}

/// A row of a query's answer.
struct Wanted
{
	RowId row;
	uint32 query;
};

struct TableScan
{
	RecallQuery *queries;
	FmgrInfo *functions; // [n_queries]: a function may cache its query
	Oid collation;
	uint32 n_queries;
	uint32 k;
	Wanted *wanted; // [n_wanted] by row: all answers
	uint32 n_wanted;
	MemoryContext row_context; // reset for each row
	uint64 deadline;           // pg::monotonic_ms; 0: none
	uint32 n_rows;             // since the last look at the clock
	bool late;
};

void
note_distance(RecallQuery *query, uint32 k, double distance)
{
	if (query->n_nearest < k)
	{
		query->nearest[query->n_nearest++] = distance;
		std::push_heap(query->nearest, query->nearest + query->n_nearest, nearer);
	}
	else if (nearer(distance, query->nearest[0]))
	{
		std::pop_heap(query->nearest, query->nearest + k, nearer);
		query->nearest[k - 1] = distance;
		std::push_heap(query->nearest, query->nearest + k, nearer);
	}
}

/// IndexBuildCallback: one row of the table. A row without a value has no distance, and is no query's neighbour.
void
compare_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *argument)
{
	TableScan *scan = static_cast<TableScan *>(argument);
	const RowId row = make_row_id(ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	const Wanted *end = scan->wanted + scan->n_wanted;
	const Wanted *wanted;
	MemoryContext caller;

	CHECK_FOR_INTERRUPTS();
	if (scan->deadline != 0 && ++scan->n_rows >= kRowsPerLook)
	{
		scan->n_rows = 0;
		scan->late = scan->late || pg::monotonic_ms() >= scan->deadline;
	}
	if (isnull[0] || scan->late) // the rest of the step costs next to nothing
		return;
	wanted = std::lower_bound(static_cast<const Wanted *>(scan->wanted), end, Wanted{row, 0},
		[](const Wanted &a, const Wanted &b) { return a.row < b.row; });
	MemoryContextReset(scan->row_context);
	caller = MemoryContextSwitchTo(scan->row_context);

	// Once for all queries.
	const Datum value = PointerGetDatum(PG_DETOAST_DATUM(values[0]));

	for (uint32 i = 0; i < scan->n_queries; i++)
	{
		RecallQuery *query = &scan->queries[i];
		double distance;

		if (query->has_own && query->own == row)
			continue;
		distance = DatumGetFloat8(FunctionCall2Coll(&scan->functions[i], scan->collation, value, query->argument));
		note_distance(query, scan->k, distance);
		for (const Wanted *hit = wanted; hit < end && hit->row == row; hit++)
			if (hit->query == i)
				query->found[query->n_found++] = distance;
	}
	MemoryContextSwitchTo(caller);
}

void
collect_wanted(TableScan *scan)
{
	uint32 n = 0;

	for (uint32 i = 0; i < scan->n_queries; i++)
		n += scan->queries[i].n_answer;
	scan->wanted = static_cast<Wanted *>(palloc(Max(n, 1) * sizeof(Wanted)));
	for (uint32 i = 0; i < scan->n_queries; i++)
		for (uint32 j = 0; j < scan->queries[i].n_answer; j++)
			scan->wanted[scan->n_wanted++] = {scan->queries[i].answer[j], i};
	std::sort(
		scan->wanted, scan->wanted + scan->n_wanted, [](const Wanted &a, const Wanted &b) { return a.row < b.row; });
}

/// The nearest rows of a scan whose order the executor rechecks.
struct Candidate
{
	double distance;
	RowId row;
};

bool
candidate_nearer(const Candidate &a, const Candidate &b)
{
	return nearer(a.distance, b.distance);
}

/// The indexed value of the row in the slot. False for NULL.
bool
index_value(IndexInfo *info, EState *estate, TupleTableSlot *slot, Datum *value)
{
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];

	GetPerTupleExprContext(estate)->ecxt_scantuple = slot;
	FormIndexDatum(info, slot, estate, values, isnull);
	*value = values[0];
	return !isnull[0];
}

/// Takes rows until it has `wanted`; where the index gives lower bounds, until no nearer row can come.
void
take_rows(
	IndexScanDesc scan, TupleTableSlot *slot, FmgrInfo *function, Oid collation, RecallQuery *query, uint32 wanted)
{
	EState *estate = CreateExecutorState();
	IndexInfo *info = BuildIndexInfo(scan->indexRelation);
	Candidate *kept = static_cast<Candidate *>(palloc(wanted * sizeof(Candidate)));
	uint32 n_kept = 0;
	ItemPointer tid;

	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != nullptr)
	{
		const RowId row = make_row_id(ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
		const bool has_distance = !scan->xs_orderbynulls[0];
		double distance = has_distance ? DatumGetFloat8(scan->xs_orderbyvals[0]) : 0;
		const bool recheck = scan->xs_recheckorderby;
		Datum value;

		CHECK_FOR_INTERRUPTS();
		if (!has_distance) // only rows with NULL follow
			break;
		if (n_kept == wanted && (!recheck || !nearer(distance, kept[0].distance)))
			break;
		if (!index_fetch_heap(scan, slot))
			continue;
		ResetPerTupleExprContext(estate);
		if (recheck && index_value(info, estate, slot, &value))
		{
			const MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));

			distance = DatumGetFloat8(FunctionCall2Coll(function, collation, value, query->argument));
			MemoryContextSwitchTo(caller);
		}
		if (n_kept == wanted)
		{
			if (!nearer(distance, kept[0].distance))
				continue;
			std::pop_heap(kept, kept + n_kept, candidate_nearer);
			n_kept--;
		}
		kept[n_kept++] = {distance, row};
		std::push_heap(kept, kept + n_kept, candidate_nearer);
		if (n_kept == wanted && !recheck)
			break;
	}
	std::sort_heap(kept, kept + n_kept, candidate_nearer);
	for (uint32 i = 0; i < n_kept; i++)
		if (!query->has_own || kept[i].row != query->own)
			query->answer[query->n_answer++] = kept[i].row;
	pfree(kept);
	FreeExecutorState(estate);
}

} // namespace

RecallOperator
recall_operator(Relation index)
{
	const Oid family = index->rd_opfamily[0];
	RecallOperator op = {};
	CatCList *members = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(family));
	Oid best = InvalidOid;

	op.column_type = column_type(index);
	// An operator of the column's own type, else of the operator class's type.
	for (int i = 0; i < members->n_members; i++)
	{
		const Form_pg_amop member = reinterpret_cast<Form_pg_amop>(GETSTRUCT(&members->members[i]->tuple));

		if (member->amoppurpose != AMOP_ORDER || member->amopstrategy != kDistanceStrategy)
			continue;
		if (member->amoplefttype == op.column_type ||
			(!OidIsValid(best) && member->amoplefttype == index->rd_opcintype[0]))
		{
			best = member->amopopr;
			op.query_type = member->amoprighttype;
		}
	}
	ReleaseSysCacheList(members);
	op.function = OidIsValid(best) ? get_opcode(best) : InvalidOid;
	if (!OidIsValid(op.function))
		elog(ERROR, "index \"%s\" has no ordering operator", RelationGetRelationName(index));
	op.collation = index->rd_indcollation[0];
	get_typlenbyval(op.query_type, &op.query_length, &op.query_by_value);
	return op;
}

RecallQuery
recall_new_query(Datum argument, uint32 k, uint32 n_answers)
{
	RecallQuery query = {};

	query.argument = argument;
	query.answer = static_cast<RowId *>(palloc(Max(n_answers, 1) * sizeof(RowId)));
	query.found = static_cast<double *>(palloc(Max(n_answers, 1) * sizeof(double)));
	query.nearest = static_cast<double *>(palloc(k * sizeof(double)));
	return query;
}

void
recall_ask_index(
	Relation index, Relation heap, Snapshot snapshot, const RecallOperator *op, RecallQuery *query, uint32 k)
{
	const uint32 wanted = k + (query->has_own ? 1 : 0);
	TupleTableSlot *slot = table_slot_create(heap, nullptr);
	IndexScanDesc scan = pg::begin_index_scan(heap, index, snapshot, 0, 1);
	ScanKeyData key;
	FmgrInfo function;

	fmgr_info(op->function, &function);
	ScanKeyEntryInitialize(
		&key, SK_ORDER_BY, 1, kDistanceStrategy, op->query_type, op->collation, op->function, query->argument);
	index_rescan(scan, nullptr, 0, &key, 1);
	scan_set_limit(scan, wanted, false);
	take_rows(scan, slot, &function, op->collation, query, wanted);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	// The index may miss the query's own row: then there is one row too many.
	query->n_answer = Min(query->n_answer, k);
}

bool
recall_scan_table(Relation index, Relation heap, Snapshot snapshot, const RecallOperator *op, RecallQuery *queries,
	uint32 n_queries, uint32 k, uint64 deadline)
{
	const BlockNumber n_blocks = RelationGetNumberOfBlocks(heap);
	const bool by_parts = deadline != 0 && heap->rd_tableam == GetHeapamTableAmRoutine();
	const BlockNumber step = by_parts ? kBlocksPerStep : Max(n_blocks, 1);
	IndexInfo *info = BuildIndexInfo(index);
	TableScan scan = {};

	scan.deadline = deadline;
	scan.queries = queries;
	scan.n_queries = n_queries;
	scan.k = k;
	scan.collation = op->collation;
	scan.functions = static_cast<FmgrInfo *>(palloc(n_queries * sizeof(FmgrInfo)));
	for (uint32 i = 0; i < n_queries; i++)
		fmgr_info(op->function, &scan.functions[i]);
	collect_wanted(&scan);
	scan.row_context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu recall row", ALLOCSET_DEFAULT_SIZES);

	// Rows as the snapshot sees them, each under the TID that the index has for its chain of versions.
	info->ii_Concurrent = true;
	info->ii_Unique = false;
	info->ii_ExclusionOps = nullptr;
	info->ii_ExclusionProcs = nullptr;
	info->ii_ExclusionStrats = nullptr;
	for (BlockNumber start = 0; start < n_blocks && !scan.late;
		start = step < n_blocks - start ? start + step : n_blocks)
	{
		TableScanDesc part = table_beginscan_strat(heap, snapshot, 0, nullptr, true, false);

		(void) VG_FAULT("recall_scan");
		// table_index_build_range_scan takes no range together with a scan of the caller's, which brings the snapshot:
		// the scan itself has the range.
		if (by_parts)
			heap_setscanlimits(part, start, Min(step, n_blocks - start));
		table_index_build_scan(heap, index, info, true, false, compare_row, &scan, part);
		scan.late = scan.late || (deadline != 0 && pg::monotonic_ms() >= deadline);
	}
	MemoryContextDelete(scan.row_context);
	pfree(scan.wanted);
	pfree(scan.functions);
	return !scan.late;
}

void
recall_count(const RecallQuery *query, RecallCount *count)
{
	uint32 n = 0;
	double own;

	if (query->n_nearest == 0)
		return;
	for (uint32 i = 0; i < query->n_found; i++)
		n += !nearer(query->nearest[0], query->found[i]); // the heap's first is the k-th nearest
	n = Min(n, query->n_nearest);
	own = static_cast<double>(n) / query->n_nearest;
	count->n_queries++;
	count->found += n;
	count->wanted += query->n_nearest;
	count->sum += own;
	count->sum_squares += own * own;
}

} // namespace vectorgpu::am

// The SQL function vectorgpu_join(index, queries, query_column, k): for each row of a table of queries its k nearest
// rows, as an index finds them. The searches are those of the k-NN graph (knn_graph.hpp), whose sources come from
// another table here. As there, the function streams in the select list and fills a tuplestore in FROM. PG dialect.
#include "am/functions/edge_rows.hpp"

#include "am/recall/recall.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

	PG_FUNCTION_INFO_V1(vectorgpu_join);
}

namespace
{

using namespace vectorgpu;
using namespace vectorgpu::am;

constexpr Size kBatchKeptBytes = 4 * 1024 * 1024; // touched as far as a batch fills them

struct JoinBatch
{
	MemoryContext context; // reset for each batch
	KnnBatch *search;      // null: no more queries
	KnnEdge *edges;        // [n_edges] once the search has ended
	uint64 n_edges;
	uint64 at;
};

/// State between two calls.
struct JoinCall
{
	Oid index;
	Oid queries; // the table of the queries
	AttrNumber column;
	uint32 k;
	pg::RelationFile index_table_file; // to detect a rewrite, which changes TIDs
	pg::RelationFile queries_file;
	KnnWalk walk;         // through the table of the queries
	JoinBatch batches[2]; // the second for rows that are not returned one by one
};

struct JoinTables
{
	Relation queries;
	IndexAccess access;
};

/// Raise an error unless the caller may read all rows of the table, which must be one that has rows of its own.
void
check_queries(Oid table)
{
	const char *name = get_rel_name(table);
	const char kind = get_rel_relkind(table);

	if (name == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", table)));
	if (kind != RELKIND_RELATION && kind != RELKIND_MATVIEW)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a table or a materialized view", name),
				errdetail("Queries are named by their ctid, which only rows that are stored there have."),
				kind == RELKIND_PARTITIONED_TABLE
					? errhint("Call the function for each partition, or join with LATERAL.")
					: errhint("Join with LATERAL, or put the queries into a temporary table.")));
	if (superuser())
		return;
	if (pg_class_aclcheck(table, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, name);
	if (check_enable_rls(table, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied for all rows of table \"%s\"", name),
				errdetail(
					"Row-level security is active for you on this table, and the function reads all of its rows."),
				errhint("Join with LATERAL, which reads the rows that you may see.")));
}

/// Raise an error for a materialized view without data, as SELECT does.
void
check_populated(Relation relation)
{
	if (!RelationIsScannable(relation))
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("materialized view \"%s\" has not been populated", RelationGetRelationName(relation)),
				errhint("Use the REFRESH MATERIALIZED VIEW command.")));
}

/// Open the table of the queries, checked. Keep the lock until the end of the transaction: TIDs must mean the same in
/// all batches.
Relation
open_queries(Oid table)
{
	Relation relation;

	check_queries(table); // before the lock, so that a user without rights cannot hold up others; and again under it
	relation = table_open(table, AccessShareLock);
	check_queries(table);
	if (RELATION_IS_OTHER_TEMP(relation))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("cannot access temporary tables of other sessions")));
	check_populated(relation);
	if (relation->rd_tableam->scan_getnextslot_tidrange == nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("table \"%s\" cannot be read by ranges of tuple ids", RelationGetRelationName(relation))));
	return relation;
}

/// Raise an error unless the index has every row of its table and orders by a distance to vectors.
void
check_index(Relation index)
{
	knn_check_index(index);
	if (RelationGetIndexPredicate(index) != NIL)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("index \"%s\" is partial", RelationGetRelationName(index)),
				errdetail("It does not have all rows of its table, so that the nearest rows may be missing."),
				errhint("Pass an index without WHERE, or join with LATERAL and the condition of the index.")));
}

/// Return the number of the column with the queries, whose values the index can be searched for.
AttrNumber
find_column(Relation queries, const char *name, Relation index)
{
	const AttrNumber column = get_attnum(RelationGetRelid(queries), name);
	const RecallOperator op = recall_operator(index);
	Oid type;

	if (column == InvalidAttrNumber)
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
				errmsg("column \"%s\" of relation \"%s\" does not exist", name, RelationGetRelationName(queries))));
	if (column > 0 && pg::is_virtual(TupleDescAttr(RelationGetDescr(queries), column - 1)))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("column \"%s\" of relation \"%s\" is a virtual generated column", name,
					RelationGetRelationName(queries)),
				errdetail("The rows of the table do not have its values."),
				errhint("Join with LATERAL, or make the column STORED.")));
	type = get_atttype(RelationGetRelid(queries), column);
	if (getBaseType(type) != op.query_type)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("column \"%s\" has type %s, but index \"%s\" is searched for values of type %s", name,
					format_type_be(type), RelationGetRelationName(index), format_type_be(op.query_type)),
				errhint("Pass a column of that type.")));
	return column;
}

/// The first block stays when the context is reset; else the memory of each batch would be new to the process.
MemoryContext
make_batch_context()
{
	return AllocSetContextCreate(
		CurrentMemoryContext, "vectorgpu join batch", kBatchKeptBytes, kBatchKeptBytes, kBatchKeptBytes);
}

/// Begin. Allocates in the current context, which must live as long as the walk.
JoinCall *
make_call(FunctionCallInfo fcinfo)
{
	const int32 k = PG_GETARG_INT32(3);
	JoinCall *call = static_cast<JoinCall *>(palloc0(sizeof(JoinCall)));
	Relation queries;
	IndexAccess access;

	if (k < 1 || k > kMaxGraphK)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("k must be between 1 and %d", kMaxGraphK),
				errdetail("It is %d.", k)));
	call->index = PG_GETARG_OID(0);
	call->queries = PG_GETARG_OID(1);
	call->k = static_cast<uint32>(k);
	call->walk.context = CurrentMemoryContext;
	call->walk.other_table = true;
	call->batches[0].context = make_batch_context();

	queries = open_queries(call->queries);
	index_access_open(&access, call->index, AccessShareLock, AccessShareLock, IndexRight::kContents);
	check_index(access.index);
	check_populated(access.heap);
	call->column = find_column(queries, NameStr(*PG_GETARG_NAME(2)), access.index);
	call->index_table_file = pg::file_of(access.heap);
	call->queries_file = pg::file_of(queries);
	LockRelationOid(RelationGetRelid(access.heap), AccessShareLock);
	LockRelationOid(call->index, AccessShareLock);
	index_access_close(&access);
	table_close(queries, NoLock);
	return call;
}

/// Raise an error if this transaction has rewritten a table; the lock keeps only other transactions from that.
void
check_not_rewritten(Relation table, const pg::RelationFile &file)
{
	if (!pg::same_file(pg::file_of(table), file))
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("table \"%s\" was rewritten while it was joined", RelationGetRelationName(table)),
				errdetail("The join identifies rows by their ctid, and a rewrite changes it.")));
}

/// Read the next queries of the walk that have a value, at most `most` and of about most_bytes, into sources [most].
/// Return how many; sets walk->done if no more follow.
uint32
read_queries(JoinCall *call, Relation queries, Snapshot snapshot, KnnSource *sources, uint32 most, Size most_bytes)
{
	TupleTableSlot *slot = table_slot_create(queries, nullptr);
	ItemPointerData low;
	ItemPointerData high;
	TableScanDesc scan;
	uint32 n = 0;
	Size n_bytes = 0;

	PredicateLockRelation(queries, snapshot); // a scan by ranges of TIDs does not record what it reads
	ItemPointerSet(&low, row_id_block(call->walk.next), row_id_offset(call->walk.next));
	ItemPointerSet(&high, MaxBlockNumber, PG_UINT16_MAX);
	scan = table_beginscan_tidrange(queries, snapshot, &low, &high);
	while (n < most && n_bytes < most_bytes)
	{
		bool is_null;
		Datum value;

		CHECK_FOR_INTERRUPTS();
		if (!table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot))
		{
			call->walk.done = true;
			break;
		}
		call->walk.next = knn_row_of(&slot->tts_tid) + 1;
		value = slot_getattr(slot, call->column, &is_null);
		if (is_null)
			continue;
		sources[n] = {knn_row_of(&slot->tts_tid), PointerGetDatum(PG_DETOAST_DATUM_COPY(value))};
		n_bytes += VARSIZE_ANY(DatumGetPointer(sources[n].value));
		n++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return n;
}

/// Open index and tables, checked.
void
open_tables(const JoinCall *call, JoinTables *tables)
{
	tables->queries = open_queries(call->queries);
	index_access_open(&tables->access, call->index, AccessShareLock, AccessShareLock, IndexRight::kContents);
	check_not_rewritten(tables->access.heap, call->index_table_file);
	check_not_rewritten(tables->queries, call->queries_file);
}

void
close_tables(JoinTables *tables)
{
	index_access_close(&tables->access);
	table_close(tables->queries, NoLock);
}

/// Begin to search for the next queries; none if the walk is done. The batch's context is reset.
void
begin_batch(JoinCall *call, const JoinTables *tables, JoinBatch *batch)
{
	const Snapshot snapshot = GetActiveSnapshot();
	MemoryContext old;
	KnnSource *sources;
	Size most_bytes;
	uint32 most;
	uint32 n;

	batch->search = nullptr;
	batch->at = batch->n_edges = 0;
	MemoryContextReset(batch->context);
	if (call->walk.done)
		return;
	old = MemoryContextSwitchTo(batch->context);
	most = knn_begin_batch(&call->walk, call->k, &most_bytes);
	sources = static_cast<KnnSource *>(palloc(most * sizeof(KnnSource)));
	n = read_queries(call, tables->queries, snapshot, sources, most, most_bytes);
	batch->edges =
		static_cast<KnnEdge *>(palloc_extended((uint64{n} * call->k + 1) * sizeof(KnnEdge), MCXT_ALLOC_HUGE));
	knn_note_reading(&tables->access, snapshot);
	batch->search = knn_begin_search(&tables->access, snapshot, &call->walk, sources, n, call->k, batch->edges);
	MemoryContextSwitchTo(old);
}

/// Get the edges of a batch that has begun.
void
end_batch(JoinBatch *batch)
{
	const MemoryContext old = MemoryContextSwitchTo(batch->context);

	batch->n_edges = knn_end_search(batch->search);
	MemoryContextSwitchTo(old);
}

/// Get the next rows, with nothing open or under way at the end. Returns false at the end of the queries.
bool
next_batch(JoinCall *call)
{
	JoinBatch *batch = &call->batches[0];

	do
	{
		JoinTables tables;

		open_tables(call, &tables); // with its checks also at the end, for the last batch
		begin_batch(call, &tables, batch);
		if (batch->search != nullptr)
			end_batch(batch);
		knn_end_requests(&call->walk);
		close_tables(&tables);
	} while (batch->n_edges == 0 && !call->walk.done);
	return batch->n_edges > 0;
}

JoinCall *
first_call(FunctionCallInfo fcinfo, FuncCallContext *context)
{
	const MemoryContext old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
	JoinCall *call = make_call(fcinfo);

	if (get_call_result_type(fcinfo, nullptr, &context->tuple_desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "vectorgpu_join does not return rows");
	edge_check_columns(context->tuple_desc);
	BlessTupleDesc(context->tuple_desc);
	MemoryContextSwitchTo(old);
	return call;
}

/// Put the rows of all queries. The worker has the searches of the next batch while the rows of one are put, and the
/// queries behind are read. So it has some at any time, for all of its devices. No other function runs meanwhile that
/// might use the session.
void
put_all(JoinCall *call, const EdgePutter *putter, Tuplestorestate *rows)
{
	JoinTables tables;

	call->walk.overlaps = true;
	open_tables(call, &tables);
	begin_batch(call, &tables, &call->batches[0]);
	for (uint32 turn = 0; call->batches[turn].search != nullptr; turn = 1 - turn)
	{
		JoinBatch *batch = &call->batches[turn];

		begin_batch(call, &tables, &call->batches[1 - turn]);
		end_batch(batch);
		index_access_leave(&tables.access); // the tuplestore's files are the caller's
		(void) VG_FAULT("join_put");
		for (uint64 i = 0; i < batch->n_edges; i++)
		{
			CHECK_FOR_INTERRUPTS();
			edge_put(putter, rows, &batch->edges[i]);
		}
		index_access_enter(&tables.access);
	}
	knn_end_requests(&call->walk);
	close_tables(&tables);
}

/// Put all rows into a tuplestore, as the caller prefers.
void
collect(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	const MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu join", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	EdgePutter putter;
	JoinCall *call;

	InitMaterializedSRF(fcinfo, 0);
	edge_check_columns(result->setDesc);
	old = MemoryContextSwitchTo(context);
	call = make_call(fcinfo);
	call->batches[1].context = make_batch_context();
	edge_putter_begin(&putter, result->setDesc);
	put_all(call, &putter, result->setResult);
	edge_putter_end(&putter);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

} // namespace

/// vectorgpu_join(index regclass, queries regclass, query_column name, k int): rows (query tid, tid tid, rank int,
/// distance float8), in the order of the queries' table, then by rank. A query without a value has none.
Datum
vectorgpu_join(PG_FUNCTION_ARGS)
{
	const ReturnSetInfo *result = reinterpret_cast<const ReturnSetInfo *>(fcinfo->resultinfo);
	FuncCallContext *context;
	JoinCall *call;
	JoinBatch *batch;

	if (result != nullptr && IsA(result, ReturnSetInfo) && (result->allowedModes & SFRM_Materialize_Preferred) != 0)
	{
		collect(fcinfo);
		return static_cast<Datum>(0);
	}
	if (SRF_IS_FIRSTCALL())
	{
		context = SRF_FIRSTCALL_INIT();
		context->user_fctx = first_call(fcinfo, context);
	}
	context = SRF_PERCALL_SETUP();
	call = static_cast<JoinCall *>(context->user_fctx);
	batch = &call->batches[0];
	if (batch->at >= batch->n_edges && !next_batch(call))
		SRF_RETURN_DONE(context);
	SRF_RETURN_NEXT(context, edge_row(context->tuple_desc, &batch->edges[batch->at++]));
}

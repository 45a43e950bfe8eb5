// The SQL function vectorgpu_knn_graph(index, k). PG dialect.
//
// In the select list the function returns one row per call: rows go to the client (or to LIMIT, an INSERT, a cursor) as
// they are found, in table order. Between two calls it holds the edges of one batch and a position in the table, and
// nothing that would have to be released. In FROM the executor wants all rows in a tuplestore, which spills to disk
// beyond work_mem. The function fills it in one call.
#include "am/functions/edge_rows.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "funcapi.h"
#include "storage/itemptr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

	PG_FUNCTION_INFO_V1(vectorgpu_knn_graph);
}

namespace
{

using namespace vectorgpu;
using namespace vectorgpu::am;

/// State between two calls.
struct KnnCall
{
	Oid index;
	uint32 k;
	pg::RelationFile file; // of the table, to detect a rewrite, which changes TIDs
	KnnWalk walk;
	KnnEdge *edges; // [n_edges], in `batch`
	uint64 n_edges;
	uint64 at;
	MemoryContext batch; // reset for each batch
};

/// Begin. Allocates in the current context, which must live as long as the walk.
KnnCall *
make_call(FunctionCallInfo fcinfo)
{
	const int32 k = PG_GETARG_INT32(1);
	KnnCall *call = static_cast<KnnCall *>(palloc0(sizeof(KnnCall)));
	IndexAccess access;

	if (k < 1 || k > kMaxGraphK)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("k must be between 1 and %d", kMaxGraphK),
				errdetail("It is %d.", k)));
	call->index = PG_GETARG_OID(0);
	call->k = static_cast<uint32>(k);
	call->walk.context = CurrentMemoryContext;
	call->batch = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu k-NN graph batch", ALLOCSET_DEFAULT_SIZES);

	index_access_open(&access, call->index, AccessShareLock, AccessShareLock, IndexRight::kContents);
	knn_check_index(access.index);
	call->file = pg::file_of(access.heap);
	// Keep the locks until the end of the transaction: TIDs must mean the same in all batches.
	LockRelationOid(RelationGetRelid(access.heap), AccessShareLock);
	LockRelationOid(call->index, AccessShareLock);
	index_access_close(&access);
	return call;
}

KnnCall *
first_call(FunctionCallInfo fcinfo, FuncCallContext *context)
{
	const MemoryContext old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
	KnnCall *call = make_call(fcinfo);

	if (get_call_result_type(fcinfo, nullptr, &context->tuple_desc) != TYPEFUNC_COMPOSITE)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	edge_check_columns(context->tuple_desc);
	BlessTupleDesc(context->tuple_desc);
	MemoryContextSwitchTo(old);
	return call;
}

/// Raise an error if this transaction has rewritten the table; the lock keeps only other transactions from that.
void
check_not_rewritten(const KnnCall *call, Relation heap)
{
	if (!pg::same_file(pg::file_of(heap), call->file))
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("table \"%s\" was rewritten while its k-NN graph was read", RelationGetRelationName(heap)),
				errdetail("The graph identifies rows by their ctid, and a rewrite changes it.")));
}

/// Get the next edge. Returns false at the end.
bool
next_batch(KnnCall *call)
{
	const MemoryContext old = MemoryContextSwitchTo(call->batch);

	call->at = 0;
	call->n_edges = 0;
	do
	{
		IndexAccess access;

		MemoryContextReset(call->batch);
		index_access_open(&access, call->index, AccessShareLock, AccessShareLock, IndexRight::kContents);
		check_not_rewritten(call, access.heap); // also at the end, for the last batch
		if (!call->walk.done)
			call->edges = knn_next_edges(&access, GetActiveSnapshot(), call->k, &call->walk, &call->n_edges);
		index_access_close(&access);
	} while (call->n_edges == 0 && !call->walk.done);
	MemoryContextSwitchTo(old);
	return call->n_edges > 0;
}

/// Put all rows into a tuplestore, as the caller prefers.
void
collect(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	const MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu k-NN graph", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	EdgePutter putter;
	KnnCall *call;

	InitMaterializedSRF(fcinfo, 0);
	edge_check_columns(result->setDesc);
	old = MemoryContextSwitchTo(context);
	call = make_call(fcinfo);
	edge_putter_begin(&putter, result->setDesc);
	MemoryContextSwitchTo(old);
	while (next_batch(call))
		for (uint64 i = 0; i < call->n_edges; i++)
		{
			CHECK_FOR_INTERRUPTS();
			edge_put(&putter, result->setResult, &call->edges[i]);
		}
	edge_putter_end(&putter);
	MemoryContextDelete(context);
}

} // namespace

/// vectorgpu_knn_graph(index regclass, k int): rows (source tid, target tid, rank int, distance float8).
Datum
vectorgpu_knn_graph(PG_FUNCTION_ARGS)
{
	const ReturnSetInfo *result = reinterpret_cast<const ReturnSetInfo *>(fcinfo->resultinfo);
	FuncCallContext *context;
	KnnCall *call;

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
	call = static_cast<KnnCall *>(context->user_fctx);
	if (call->at >= call->n_edges)
	{
		if (!next_batch(call))
			SRF_RETURN_DONE(context);
	}
	SRF_RETURN_NEXT(context, edge_row(context->tuple_desc, &call->edges[call->at++]));
}

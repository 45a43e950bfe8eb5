// The SQL function vectorgpu_recall(index, sample, k). PG dialect.
//
// Queries are rows of the table, drawn at random (Algorithm R: Vitter 1985, "Random sampling with a reservoir", ACM
// TOMS 11). A row's neighbours are looked for among the other rows: every index finds the row itself.
#include "am/method/index_access.hpp"
#include "am/recall/recall.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

	PG_FUNCTION_INFO_V1(vectorgpu_recall);
}

namespace
{

using namespace vectorgpu;
using namespace vectorgpu::am;

constexpr int32 kMaxSample = 10000;
constexpr int32 kMaxK = 10000;
constexpr int64 kMaxNeighbors = 10 * 1000 * 1000; // of all queries: about 32 bytes each

/// The sample of the table's rows so far.
struct Reservoir
{
	Datum *values; // [size], palloc'd copies
	RowId *rows;
	uint32 size;
	uint32 n; // kept
	uint64 n_seen;
	MemoryContext context;
};

/// IndexBuildCallback.
void
sample_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *argument)
{
	Reservoir *reservoir = static_cast<Reservoir *>(argument);
	MemoryContext caller;
	uint64 place;

	CHECK_FOR_INTERRUPTS();
	if (isnull[0])
		return;
	reservoir->n_seen++;
	place = reservoir->n < reservoir->size ? reservoir->n
										   : pg_prng_uint64_range(&pg_global_prng_state, 0, reservoir->n_seen - 1);
	if (place >= reservoir->size)
		return;
	if (place == reservoir->n)
		reservoir->n++;
	else
		pfree(DatumGetPointer(reservoir->values[place]));
	caller = MemoryContextSwitchTo(reservoir->context);
	reservoir->values[place] = PointerGetDatum(PG_DETOAST_DATUM_COPY(values[0]));
	MemoryContextSwitchTo(caller);
	reservoir->rows[place] = make_row_id(ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
}

void
sample_table(const IndexAccess *access, Snapshot snapshot, uint32 size, Reservoir *reservoir)
{
	IndexInfo *info = BuildIndexInfo(access->index);
	TableScanDesc scan = table_beginscan_strat(access->heap, snapshot, 0, nullptr, true, false);

	reservoir->values = static_cast<Datum *>(palloc(size * sizeof(Datum)));
	reservoir->rows = static_cast<RowId *>(palloc(size * sizeof(RowId)));
	reservoir->size = size;
	reservoir->context = CurrentMemoryContext;
	info->ii_Concurrent = true;
	info->ii_Unique = false;
	info->ii_ExclusionOps = nullptr;
	info->ii_ExclusionProcs = nullptr;
	info->ii_ExclusionStrats = nullptr;
	// PostgreSQL requires allow_sync = true with a scan of the caller's; the scan itself is not synchronised.
	table_index_build_scan(access->heap, access->index, info, true, false, sample_row, reservoir, scan);
}

/// Makes a query of a row's value. Where queries have another type (matchrow and matchquery), the row's text is a query
/// for each of its attributes.
Datum
query_of_row(const RecallOperator *op, Datum value)
{
	Oid output;
	Oid input;
	Oid parameter;
	bool is_varlena;

	if (op->query_type == op->column_type || IsBinaryCoercible(op->column_type, op->query_type))
		return value;
	getTypeOutputInfo(op->column_type, &output, &is_varlena);
	getTypeInputInfo(op->query_type, &input, &parameter);
	return OidInputFunctionCall(input, OidOutputFunctionCall(output, value), parameter, -1);
}

void
check_arguments(int32 sample, int32 k)
{
	if (sample < 1 || sample > kMaxSample)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("sample must be between 1 and %d", kMaxSample),
				errdetail("It is %d.", sample)));
	if (k < 1 || k > kMaxK)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("k must be between 1 and %d", kMaxK),
				errdetail("It is %d.", k)));
	if (static_cast<int64>(sample) * k > kMaxNeighbors)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("sample and k are too large together"),
				errdetail("They ask for " INT64_FORMAT " rows, and at most " INT64_FORMAT " are compared.",
					static_cast<int64>(sample) * k, kMaxNeighbors)));
}

} // namespace

/// vectorgpu_recall(index regclass, sample int, k int): a row of sample (queries used), k, found, wanted, recall, low,
/// high.
Datum
vectorgpu_recall(PG_FUNCTION_ARGS)
{
	constexpr int kColumns = 7;
	const int32 sample = PG_GETARG_INT32(1);
	const int32 k = PG_GETARG_INT32(2);
	Reservoir reservoir = {};
	RecallCount count = {};
	RecallQuery *queries;
	RecallInterval interval;
	RecallOperator op;
	IndexAccess access;
	Snapshot snapshot;
	TupleDesc descriptor;
	bool nulls[kColumns] = {};

	check_arguments(sample, k);
	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != kColumns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));

	index_access_open(&access, PG_GETARG_OID(0), AccessShareLock, AccessShareLock, IndexRight::kRead);
	op = recall_operator(access.index);
	snapshot = RegisterSnapshot(GetActiveSnapshot());
	sample_table(&access, snapshot, static_cast<uint32>(sample), &reservoir);
	queries = static_cast<RecallQuery *>(palloc(Max(reservoir.n, 1) * sizeof(RecallQuery)));
	for (uint32 i = 0; i < reservoir.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		queries[i] = recall_new_query(
			query_of_row(&op, reservoir.values[i]), static_cast<uint32>(k), static_cast<uint32>(k) + 1);
		queries[i].own = reservoir.rows[i];
		queries[i].has_own = true;
		recall_ask_index(access.index, access.heap, snapshot, &op, &queries[i], static_cast<uint32>(k));
	}
	if (reservoir.n > 0)
		(void) recall_scan_table(
			access.index, access.heap, snapshot, &op, queries, reservoir.n, static_cast<uint32>(k), 0);
	UnregisterSnapshot(snapshot);
	index_access_close(&access);
	for (uint32 i = 0; i < reservoir.n; i++)
		recall_count(&queries[i], &count);
	interval = recall_interval(&count);

	Datum values[kColumns] = {Int32GetDatum(static_cast<int32>(count.n_queries)), Int32GetDatum(k),
		Int64GetDatum(static_cast<int64>(count.found)), Int64GetDatum(static_cast<int64>(count.wanted)),
		Float8GetDatum(interval.recall), Float8GetDatum(interval.low), Float8GetDatum(interval.high)};

	for (int i = 4; i < kColumns; i++)
		nulls[i] = !(count.wanted > 0);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

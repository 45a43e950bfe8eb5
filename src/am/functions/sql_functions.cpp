// The SQL functions vectorgpu_merge and vectorgpu_check. PG dialect.
#include "am/method/index_access.hpp"
#include "storage/delta.hpp"
#include "am/maintain/merge.hpp"
#include "am/check/verify.hpp"
#include "am/check/verify_copy.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/xlog.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"

	PG_FUNCTION_INFO_V1(vectorgpu_merge);
	PG_FUNCTION_INFO_V1(vectorgpu_check);
}

namespace
{

using namespace vectorgpu::am;

/// Make a row of the function's result type; n_values must be its number of columns.
Datum
result_row(FunctionCallInfo fcinfo, Datum *values, int n_values)
{
	TupleDesc descriptor;
	bool nulls[16] = {};

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != n_values)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

Datum
int8_datum(uint64 value)
{
	return Int64GetDatum(static_cast<int64>(value));
}

} // namespace

/// vectorgpu_merge(index regclass): merge the whole index into one segment.
Datum
vectorgpu_merge(PG_FUNCTION_ARGS)
{
	IndexAccess access;
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	MergeResult result = {};
	MergePlan plan;

	PreventCommandDuringRecovery("vectorgpu_merge()");
	// RowExclusiveLock on the index, as in VACUUM, so inserts and scans continue.
	index_access_open(&access, PG_GETARG_OID(0), ShareUpdateExclusiveLock, RowExclusiveLock, IndexRight::kMaintain);
	meta_read(access.index, nullptr, meta);
	result.segments_before = result.segments_after = meta->n_segments;
	if (plan_full(meta, delta_end(access.index, meta, nullptr) - meta->delta_first_row, &plan))
		merge_index(access.index, access.heap, &plan, false, &result);
	index_access_close(&access);

	Datum values[] = {Int32GetDatum(result.segments_before), Int32GetDatum(result.segments_after),
		int8_datum(result.rows_moved), int8_datum(result.rows_dropped), int8_datum(result.bytes_written),
		int8_datum(result.wal_bytes)};

	return result_row(fcinfo, values, lengthof(values));
}

/// vectorgpu_check(index regclass, heapallindexed bool, check_cache bool): return a row of counts, or raise an error
/// that says what is wrong.
Datum
vectorgpu_check(PG_FUNCTION_ARGS)
{
	IndexAccess access;
	CheckResult result;

	index_access_open(&access, PG_GETARG_OID(0), AccessShareLock, AccessShareLock, IndexRight::kRead);
	check_index(access.index, access.heap, PG_GETARG_BOOL(1), &result);
	result.cache_rows_checked = 0;
	if (PG_GETARG_BOOL(2) && !RelationUsesLocalBuffers(access.index))
	{
		// Do not wait for the lock: if a vacuum is running, the comparison is less strict.
		const bool locked = !RecoveryInProgress() && ConditionalLockRelation(access.heap, ShareUpdateExclusiveLock);

		check_copy(access.index, locked, &result);
		if (locked)
			UnlockRelation(access.heap, ShareUpdateExclusiveLock);
	}
	index_access_close(&access);

	Datum values[] = {int8_datum(result.pages_checked), Int32GetDatum(result.segments), int8_datum(result.rows),
		int8_datum(result.null_rows), int8_datum(result.dead_rows), int8_datum(result.delta_rows),
		int8_datum(result.heap_rows_checked), int8_datum(result.free_blocks), int8_datum(result.leaked_blocks),
		int8_datum(result.cache_rows_checked)};

	return result_row(fcinfo, values, lengthof(values));
}

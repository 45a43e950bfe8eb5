// Test builds only (FAULTS=1): an index scan with a snapshot that SQL never passes to an access method, so that a test
// can see it refused. The extension's script does not create this function; a test does: CREATE FUNCTION … AS
// '$libdir/vectorgpu', 'vectorgpu_snapshot_probe'. PG dialect.
#include "pg/postgres.hpp"

#ifdef VECTORGPU_FAULTS

extern "C"
{
#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/tuptable.h"
#include "nodes/tidbitmap.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

	PG_FUNCTION_INFO_V1(vectorgpu_snapshot_probe);
}

namespace
{

/// Count the rows that a scan of the whole index returns, without conditions and without an order.
int64
count_rows(Relation heap, Relation index, Snapshot snapshot)
{
	TupleTableSlot *slot = table_slot_create(heap, nullptr);
	IndexScanDesc scan = vectorgpu::pg::begin_index_scan(heap, index, snapshot, 0, 0);
	int64 n_rows = 0;

	index_rescan(scan, nullptr, 0, nullptr, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
		n_rows++;
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return n_rows;
}

int64
count_bitmap_rows(Relation index, Snapshot snapshot)
{
	TIDBitmap *bitmap = tbm_create(static_cast<long>(work_mem) * 1024, nullptr);
	IndexScanDesc scan = vectorgpu::pg::begin_bitmap_scan(index, snapshot, 0);
	int64 n_rows;

	index_rescan(scan, nullptr, 0, nullptr, 0);
	n_rows = index_getbitmap(scan, bitmap);
	index_endscan(scan);
	tbm_free(bitmap);
	return n_rows;
}

} // namespace

/// vectorgpu_snapshot_probe(index regclass, snapshot text, bitmap bool) → bigint: the number of rows of a scan of the
/// whole index with the snapshot 'mvcc', 'any', 'self' or 'dirty'.
Datum
vectorgpu_snapshot_probe(PG_FUNCTION_ARGS)
{
	const Oid index_oid = PG_GETARG_OID(0);
	const char *kind = text_to_cstring(PG_GETARG_TEXT_PP(1));
	const bool bitmap = PG_GETARG_BOOL(2);
	Relation heap = table_open(IndexGetRelation(index_oid, false), AccessShareLock);
	Relation index = index_open(index_oid, AccessShareLock);
	SnapshotData dirty;
	Snapshot snapshot = GetActiveSnapshot();
	int64 n_rows;

	InitDirtySnapshot(dirty);
	if (strcmp(kind, "any") == 0)
		snapshot = SnapshotAny;
	else if (strcmp(kind, "self") == 0)
		snapshot = SnapshotSelf;
	else if (strcmp(kind, "dirty") == 0)
		snapshot = &dirty;
	n_rows = bitmap ? count_bitmap_rows(index, snapshot) : count_rows(heap, index, snapshot);
	index_close(index, AccessShareLock);
	table_close(heap, AccessShareLock);
	PG_RETURN_INT64(n_rows);
}

#endif

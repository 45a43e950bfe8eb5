// See knn_graph.hpp.
#include "am/functions/knn_graph.hpp"

#include "am/functions/knn_worker.hpp"
#include "am/method/am_interface.hpp"
#include "storage/metapage.hpp"
#include "am/recall/recall.hpp"
#include "am/method/scan_limit.hpp"
#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "access/genam.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/predicate.h"
}

namespace vectorgpu::am
{

/// Sources and their edges, until all answers are there.
struct KnnBatch
{
	const IndexAccess *access;
	Snapshot snapshot;
	KnnWalk *walk;
	const KnnSource *sources;
	uint32 n_sources;
	uint32 k;
	KnnEdge *edges;  // of source i at i * k
	uint32 *counts;  // [n_sources] of edges
	bool *answered;  // [n_sources]
	KnnAsked *asked; // null: not by the worker
};

namespace
{

// Rows in one batch: few at first, so that an answer comes soon; more later, since a batch begins a scan of the table,
// and the last of its requests to the worker is waited for. Its rows and answers fit in a processor's cache.
constexpr uint32 kFirstSources = 256;
constexpr uint32 kMostSources = 4096;
constexpr uint32 kGrowthBits = 2;          // batches grow fourfold
constexpr uint32 kBatchEdges = 256 * 1024; // most edges of a batch, unless one row has more

/// One pass of a walk over a part of the table.
struct RowReader
{
	EState *estate;
	IndexInfo *info;
	ExprState *predicate;
	TupleTableSlot *slot;
	TableScanDesc scan;
};

void
reader_begin(RowReader *reader, const IndexAccess *access, Snapshot snapshot, RowId first)
{
	ItemPointerData low;
	ItemPointerData high;

	if (access->heap->rd_tableam->scan_getnextslot_tidrange == nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("table \"%s\" cannot be read by ranges of tuple ids", RelationGetRelationName(access->heap))));
	knn_note_reading(access, snapshot);
	reader->estate = CreateExecutorState();
	reader->info = BuildIndexInfo(access->index);
	reader->slot = table_slot_create(access->heap, nullptr);
	reader->predicate = ExecPrepareQual(reader->info->ii_Predicate, reader->estate);
	GetPerTupleExprContext(reader->estate)->ecxt_scantuple = reader->slot;
	ItemPointerSet(&low, row_id_block(first), row_id_offset(first));
	ItemPointerSet(&high, MaxBlockNumber, PG_UINT16_MAX);
	reader->scan = table_beginscan_tidrange(access->heap, snapshot, &low, &high);
}

/// Read the next row that is in the index and has a value, which is valid until the next call. Returns false at the
/// end.
bool
reader_next(RowReader *reader, RowId *row, Datum *value)
{
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(reader->estate);
		if (!table_scan_getnextslot_tidrange(reader->scan, ForwardScanDirection, reader->slot))
			return false;
		if (!ExecQual(reader->predicate, GetPerTupleExprContext(reader->estate)))
			continue;
		FormIndexDatum(reader->info, reader->slot, reader->estate, values, isnull);
		if (isnull[0])
			continue;
		*row = knn_row_of(&reader->slot->tts_tid);
		*value = values[0];
		return true;
	}
}

void
reader_end(RowReader *reader)
{
	table_endscan(reader->scan);
	ExecDropSingleTupleTableSlot(reader->slot);
	FreeExecutorState(reader->estate);
}

/// Runs one index scan after the other.
struct Asker
{
	IndexScanDesc scan;
	TupleTableSlot *slot;
	RecallOperator op;
	const KnnWalk *walk;
	uint32 k;
};

void
asker_begin(Asker *asker, const IndexAccess *access, Snapshot snapshot, const KnnWalk *walk, uint32 k)
{
	asker->walk = walk;
	asker->op = recall_operator(access->index);
	asker->k = k;
	asker->slot = table_slot_create(access->heap, nullptr);
	asker->scan = pg::begin_index_scan(access->heap, access->index, snapshot, 0, 1);
}

void
asker_end(Asker *asker)
{
	index_endscan(asker->scan);
	ExecDropSingleTupleTableSlot(asker->slot);
}

/// Write a row's edges, at most k, as one scan finds them; return how many.
uint32
ask_scan(Asker *asker, const KnnSource *source, bool exact, KnnEdge *edges)
{
	IndexScanDesc scan = asker->scan;
	ScanKeyData key;
	uint32 n = 0;

	ScanKeyEntryInitialize(&key, SK_ORDER_BY, 1, kDistanceStrategy, asker->op.query_type, asker->op.collation,
		asker->op.function, source->value);
	index_rescan(scan, nullptr, 0, &key, 1);
	scan_set_limit(scan, knn_rows_to_ask(asker->walk, asker->k), !exact);
	if (exact)
		scan_set_exact(scan);
	while (n < asker->k && index_getnext_tid(scan, ForwardScanDirection) != nullptr)
	{
		RowId target;

		CHECK_FOR_INTERRUPTS();
		if (scan->xs_orderbynulls[0]) // only rows with NULL follow
			break;
		const double distance = DatumGetFloat8(scan->xs_orderbyvals[0]);

		if (!index_fetch_heap(scan, asker->slot))
			continue;
		target = knn_row_of(&asker->slot->tts_tid);
		if (target == source->row && !asker->walk->other_table)
			continue;
		edges[n] = {source->row, target, n + 1, distance};
		n++;
	}
	return n;
}

/// The same by a further scan, of all rows, if the first one had to go on behind rows that the snapshot does not see,
/// and came to its end without those that it had missed before.
uint32
ask(Asker *asker, const KnnSource *source, KnnEdge *edges)
{
	const uint32 n = ask_scan(asker, source, false, edges);

	return n < asker->k && scan_may_have_left_out(asker->scan) ? ask_scan(asker, source, true, edges) : n;
}

/// Search for those of the first n sources that the worker has not answered, with one index scan each, which asks the
/// worker or reads pages.
void
ask_others(KnnBatch *batch, uint32 n)
{
	Asker asker;
	uint32 i = 0;

	while (i < n && batch->answered[i])
		i++;
	if (i == n)
		return;
	knn_await_all(batch->walk); // before the scans use the session
	asker_begin(&asker, batch->access, batch->snapshot, batch->walk, batch->k);
	for (; i < n; i++)
	{
		(void) VG_FAULT("knn_graph_ask");
		if (!batch->answered[i])
			batch->counts[i] = ask(&asker, &batch->sources[i], batch->edges + uint64{i} * batch->k);
	}
	asker_end(&asker);
}

} // namespace

void
knn_note_reading(const IndexAccess *access, Snapshot snapshot)
{
	PredicateLockRelation(access->heap, snapshot);
	PredicateLockRelation(access->index, snapshot);
}

void
knn_check_index(Relation index)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));

	meta_read(index, nullptr, meta);
	if (access_method(index, meta)->values != nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("index \"%s\" is not on values of type vector, halfvec or bit", RelationGetRelationName(index)),
				errhint("Pass an index of gpuflat, gpuivf or gpugraph on a column of one of these types.")));
	pfree(meta);
}

uint32
knn_next_rows(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, RowId *rows, uint32 most)
{
	RowReader reader;
	uint32 n = 0;
	Datum value;

	reader_begin(&reader, access, snapshot, walk->next);
	while (n < most && reader_next(&reader, &rows[n], &value))
		n++;
	walk->done = n < most;
	if (n > 0)
		walk->next = rows[n - 1] + 1;
	reader_end(&reader);
	return n;
}

uint32
knn_begin_batch(KnnWalk *walk, uint32 k, Size *most_bytes)
{
	const uint32 share = walk->overlaps ? 2 : 1; // of the batches that are there at a time
	const uint32 growing = kFirstSources << Min(kGrowthBits * walk->n_batches, 16u);

	walk->n_batches++;
	*most_bytes = kKnnSourceBytes / share;
	return Max(1u, Min(walk->overlaps ? kMostSources : Min(growing, kMostSources), kBatchEdges / k) / share);
}

KnnBatch *
knn_begin_search(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources,
	uint32 n_sources, uint32 k, KnnEdge *edges)
{
	KnnBatch *batch = static_cast<KnnBatch *>(palloc0(sizeof(KnnBatch)));

	*batch = {access, snapshot, walk, sources, n_sources, k, edges};
	batch->counts = static_cast<uint32 *>(palloc0((n_sources + 1) * sizeof(uint32)));
	batch->answered = static_cast<bool *>(palloc0((n_sources + 1) * sizeof(bool)));
	batch->asked = knn_ask_worker(access, snapshot, walk, sources, n_sources, k, edges, batch->counts, batch->answered);
	return batch;
}

uint64
knn_end_search(KnnBatch *batch)
{
	const uint32 n_sources = batch->n_sources;
	uint32 stale = batch->asked != nullptr ? knn_end_asking(batch->asked) : n_sources;
	uint64 n = 0;

	if (stale < n_sources)
	{
		const uint32 rest = stale + 1;
		KnnAsked *again;

		ask_others(batch, rest);
		memset(batch->answered, true, rest);
		again = knn_ask_worker(batch->access, batch->snapshot, batch->walk, batch->sources + rest, n_sources - rest,
			batch->k, batch->edges + uint64{rest} * batch->k, batch->counts + rest, batch->answered + rest);
		if (again != nullptr)
			(void) knn_end_asking(again);
	}
	ask_others(batch, n_sources);
	for (uint32 i = 0; i < n_sources; i++)
	{
		if (n != uint64{i} * batch->k)
			memmove(batch->edges + n, batch->edges + uint64{i} * batch->k, batch->counts[i] * sizeof(KnnEdge));
		n += batch->counts[i];
	}
	return n;
}

uint64
knn_search(const IndexAccess *access, Snapshot snapshot, KnnWalk *walk, const KnnSource *sources, uint32 n_sources,
	uint32 k, KnnEdge *edges)
{
	const uint64 n = knn_end_search(knn_begin_search(access, snapshot, walk, sources, n_sources, k, edges));

	knn_end_requests(walk);
	return n;
}

KnnEdge *
knn_next_edges(const IndexAccess *access, Snapshot snapshot, uint32 k, KnnWalk *walk, uint64 *n)
{
	const MemoryContext caller = CurrentMemoryContext;
	const MemoryContext scratch = AllocSetContextCreate(caller, "vectorgpu k-NN graph", ALLOCSET_DEFAULT_SIZES);
	Size most_bytes;
	const uint32 most = knn_begin_batch(walk, k, &most_bytes);
	KnnEdge *edges = static_cast<KnnEdge *>(MemoryContextAllocHuge(caller, uint64{most} * k * sizeof(KnnEdge)));
	KnnSource *sources;
	uint32 n_sources = 0;
	Size n_bytes = 0;
	RowReader reader;
	Datum value;

	MemoryContextSwitchTo(scratch);
	sources = static_cast<KnnSource *>(palloc(most * sizeof(KnnSource)));
	reader_begin(&reader, access, snapshot, walk->next);
	while (n_sources < most && n_bytes < most_bytes)
	{
		if (!reader_next(&reader, &sources[n_sources].row, &value))
		{
			walk->done = true;
			break;
		}
		sources[n_sources].value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		n_bytes += VARSIZE_ANY(DatumGetPointer(sources[n_sources].value));
		n_sources++;
	}
	if (n_sources > 0)
		walk->next = sources[n_sources - 1].row + 1;
	reader_end(&reader);
	*n = knn_search(access, snapshot, walk, sources, n_sources, k, edges);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	return edges;
}

RowId
knn_row_of(const ItemPointerData *tid)
{
	return make_row_id(ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
}

} // namespace vectorgpu::am

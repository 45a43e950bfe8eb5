// The SQL function vectorgpu_path(index, from_tid, to_tid, k): the smoothest path in the k-NN graph
// (engine/graph/smooth_path.hpp). Two rows have an edge if either is among the k nearest of the other, so a path can be
// followed in both directions. PG dialect.
//
// Memory: 24 bytes per row of the index, and about 56 more for the search; the graph itself is read in batches.
#include "storage/delta.hpp"
#include "am/functions/knn_graph.hpp"
#include "storage/metapage.hpp"
#include "engine/graph/smooth_path.hpp"

#include <algorithm>
#include <cmath>

extern "C"
{
#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/itemptr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

	PG_FUNCTION_INFO_V1(vectorgpu_path);
}

namespace
{

using namespace vectorgpu;
using namespace vectorgpu::am;

constexpr uint32 kRowsPerRead = 8192;
constexpr uint64 kRowBytes = 80; // memory per row, for the row and the search

enum Column
{
	kStep,
	kTid,
	kDistance,
	kColumns,
};

/// The rows of the index, ascending. A node is the index of its row here.
struct Nodes
{
	RowId *rows; // [n]
	uint32 n;
};

/// Return the number of rows of the index, including dead ones: an upper bound for the search, except for rows inserted
/// meanwhile.
uint64
most_rows(Relation index)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	bool foreign = false; // set if the index was merged meanwhile; an approximate number suffices
	uint64 n_rows;

	meta_read(index, nullptr, meta);
	n_rows = delta_end(index, meta, &foreign);
	n_rows -= Min(n_rows, meta->delta_first_row);
	for (uint32 i = 0; i < meta->n_segments; i++)
		n_rows += meta->segments[i].n_rows;
	pfree(meta);
	return n_rows;
}

[[noreturn]] void
too_little_memory(Relation index, uint32 n_read)
{
	const uint64 n_rows = Max(most_rows(index), uint64{n_read});

	ereport(ERROR,
		(errcode(ERRCODE_OUT_OF_MEMORY),
			errmsg("maintenance_work_mem is too small for a path in index \"%s\"", RelationGetRelationName(index)),
			errdetail("The search needs %u bytes for each of " UINT64_FORMAT " rows; maintenance_work_mem is %d kB.",
				static_cast<uint32>(kRowBytes), n_rows, maintenance_work_mem),
			errhint("Set maintenance_work_mem to '" UINT64_FORMAT "kB', or create an index on fewer rows, with WHERE.",
				(n_rows * kRowBytes + 1023) / 1024)));
}

Nodes
read_nodes(const IndexAccess *access, Snapshot snapshot)
{
	uint64 capacity = kRowsPerRead;
	Nodes nodes = {static_cast<RowId *>(palloc(capacity * sizeof(RowId))), 0};
	KnnWalk walk = {};

	while (!walk.done)
	{
		if (capacity - nodes.n < kRowsPerRead)
		{
			capacity *= 2;
			nodes.rows = static_cast<RowId *>(repalloc_huge(nodes.rows, capacity * sizeof(RowId)));
		}
		if (nodes.n > PG_INT32_MAX - kRowsPerRead)
			ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					errmsg("index \"%s\" has too many rows for a path", RelationGetRelationName(access->index)),
					errdetail("At most %d rows can be searched.", PG_INT32_MAX)));
		nodes.n += knn_next_rows(access, snapshot, &walk, nodes.rows + nodes.n, kRowsPerRead);
		if (nodes.n * kRowBytes > static_cast<uint64>(maintenance_work_mem) * 1024)
			too_little_memory(access->index, nodes.n);
	}
	return nodes;
}

/// Return the node of a row; nodes->n if there is none.
uint32
find_node(const Nodes *nodes, RowId row)
{
	const RowId *end = nodes->rows + nodes->n;
	const RowId *found = std::lower_bound(static_cast<const RowId *>(nodes->rows), end, row);

	return found < end && *found == row ? static_cast<uint32>(found - nodes->rows) : nodes->n;
}

uint32
node_of_argument(const IndexAccess *access, const Nodes *nodes, ItemPointer tid)
{
	const RowId row = make_row_id(ItemPointerGetBlockNumberNoCheck(tid), ItemPointerGetOffsetNumberNoCheck(tid));
	const uint32 node = find_node(nodes, row);

	if (node == nodes->n)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("(%u,%u) is not a row of index \"%s\"", row_id_block(row), row_id_offset(row),
					RelationGetRelationName(access->index)),
				errdetail("This query sees no row there, or its value is NULL, or the index does not include it."),
				errhint("Pass the ctid of a row, selected from the table in the same transaction.")));
	return node;
}

/// Pass the edges of the graph to the path search.
void
add_edges(const IndexAccess *access, Snapshot snapshot, uint32 k, const Nodes *nodes, engine::graph::SmoothPath *path)
{
	const MemoryContext batch =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu path batch", ALLOCSET_DEFAULT_SIZES);
	const MemoryContext old = MemoryContextSwitchTo(batch);
	KnnWalk walk = {};

	walk.context = old;
	while (!walk.done)
	{
		uint64 n;
		const KnnEdge *edges;

		CHECK_FOR_INTERRUPTS();
		edges = knn_next_edges(access, snapshot, k, &walk, &n);

		for (uint64 i = 0; i < n; i++)
		{
			const uint32 a = find_node(nodes, edges[i].source);
			const uint32 b = find_node(nodes, edges[i].target);

			if (a < nodes->n && b < nodes->n && !std::isnan(edges[i].distance))
				path->add({edges[i].distance, a, b});
		}
		MemoryContextReset(batch);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(batch);
}

void
put_step(ReturnSetInfo *result, uint32 step, RowId row, double distance)
{
	ItemPointerData tid;
	Datum values[kColumns] = {Int32GetDatum(static_cast<int32>(step)), PointerGetDatum(&tid), Float8GetDatum(distance)};
	bool nulls[kColumns] = {};

	ItemPointerSet(&tid, row_id_block(row), row_id_offset(row));
	nulls[kDistance] = step == 1;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

} // namespace

/// vectorgpu_path(index regclass, from_tid tid, to_tid tid, k int): rows (step int, tid tid, distance float8),
/// distance: from the row of the previous step, NULL for the first.
Datum
vectorgpu_path(PG_FUNCTION_ARGS)
{
	const int32 k = PG_GETARG_INT32(3);
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	IndexAccess access;
	Snapshot snapshot;
	Nodes nodes;
	uint32 from;
	uint32 to;

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != kColumns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	if (k < 1 || k > kMaxGraphK)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("k must be between 1 and %d", kMaxGraphK),
				errdetail("It is %d.", k)));
	index_access_open(&access, PG_GETARG_OID(0), AccessShareLock, AccessShareLock, IndexRight::kContents);
	knn_check_index(access.index);
	snapshot = RegisterSnapshot(GetActiveSnapshot());
	nodes = read_nodes(&access, snapshot);
	from = node_of_argument(&access, &nodes, reinterpret_cast<ItemPointer>(PG_GETARG_POINTER(1)));
	to = node_of_argument(&access, &nodes, reinterpret_cast<ItemPointer>(PG_GETARG_POINTER(2)));
	if (from == to)
		put_step(result, 1, nodes.rows[from], 0);
	else
	{
		engine::graph::SmoothPath path(nodes.n,
			MemoryContextAllocHuge(CurrentMemoryContext, engine::graph::SmoothPath::bytes(nodes.n)),
			[] { CHECK_FOR_INTERRUPTS(); });
		uint32 *on_path = static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, nodes.n * sizeof(uint32)));
		double *lengths = static_cast<double *>(MemoryContextAllocHuge(CurrentMemoryContext, nodes.n * sizeof(double)));
		uint32 n;

		add_edges(&access, snapshot, static_cast<uint32>(k), &nodes, &path);
		n = path.find(from, to, on_path, lengths);
		for (uint32 i = 0; i < n; i++)
			put_step(result, i + 1, nodes.rows[on_path[i]], lengths[i]);
	}
	UnregisterSnapshot(snapshot);
	index_access_close(&access);
	return (Datum) 0;
}

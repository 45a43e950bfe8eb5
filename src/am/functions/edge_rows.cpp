// See edge_rows.hpp.
#include "am/functions/edge_rows.hpp"

#include <cstring>

extern "C"
{
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/itemptr.h"
}

namespace vectorgpu::am
{

namespace
{

enum Column
{
	kSource,
	kTarget,
	kRank,
	kDistance,
};

/// tids [2]: of source and target.
void
set_tids(const KnnEdge *edge, ItemPointerData *tids)
{
	ItemPointerSet(&tids[kSource], row_id_block(edge->source), row_id_offset(edge->source));
	ItemPointerSet(&tids[kTarget], row_id_block(edge->target), row_id_offset(edge->target));
}

/// The values of a row. tids [2]: memory for two of them.
void
row_values(const KnnEdge *edge, ItemPointerData *tids, Datum *values)
{
	set_tids(edge, tids);
	values[kSource] = PointerGetDatum(&tids[kSource]);
	values[kTarget] = PointerGetDatum(&tids[kTarget]);
	values[kRank] = Int32GetDatum(static_cast<int32>(edge->rank));
	values[kDistance] = Float8GetDatum(edge->distance);
}

} // namespace

void
edge_check_columns(TupleDesc columns)
{
	if (columns->natts != kEdgeColumns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
}

Datum
edge_row(TupleDesc columns, const KnnEdge *edge)
{
	ItemPointerData tids[2];
	Datum values[kEdgeColumns];
	bool nulls[kEdgeColumns] = {};

	row_values(edge, tids, values);
	return HeapTupleGetDatum(heap_form_tuple(columns, values, nulls));
}

void
edge_putter_begin(EdgePutter *putter, TupleDesc columns)
{
	const KnnEdge none = {};
	TupleTableSlot *first = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
	ItemPointerData tids[2];
	MinimalTuple tuple;
	uintptr_t offset = 0;

	row_values(&none, tids, first->tts_values);
	memset(first->tts_isnull, 0, kEdgeColumns * sizeof(bool));
	ExecStoreVirtualTuple(first);
	tuple = ExecCopySlotMinimalTuple(first);
	ExecDropSingleTupleTableSlot(first);
	for (int i = 0; i < kEdgeColumns; i++)
	{
		const Form_pg_attribute column = TupleDescAttr(columns, i);

		offset = att_align_nominal(offset, column->attalign);
		putter->values[i] = reinterpret_cast<char *>(tuple) + tuple->t_hoff - MINIMAL_TUPLE_OFFSET + offset;
		offset += static_cast<uintptr_t>(column->attlen);
	}
	putter->slot = MakeSingleTupleTableSlot(columns, &TTSOpsMinimalTuple);
	ExecStoreMinimalTuple(tuple, putter->slot, true);
}

void
edge_put(const EdgePutter *putter, Tuplestorestate *rows, const KnnEdge *edge)
{
	const int32 rank = static_cast<int32>(edge->rank);
	ItemPointerData tids[2];

	set_tids(edge, tids);
	memcpy(putter->values[kSource], &tids[kSource], sizeof(tids[kSource]));
	memcpy(putter->values[kTarget], &tids[kTarget], sizeof(tids[kTarget]));
	memcpy(putter->values[kRank], &rank, sizeof(rank));
	memcpy(putter->values[kDistance], &edge->distance, sizeof(edge->distance));
	tuplestore_puttupleslot(rows, putter->slot);
}

void
edge_putter_end(EdgePutter *putter)
{
	ExecDropSingleTupleTableSlot(putter->slot);
}

} // namespace vectorgpu::am

// Values of indexed rows from the table, for canonical distances of an index without full vectors. Runs in a scan, with
// its snapshot; the row that is found for a TID is the one that the executor will find. PG dialect.
#include "am/gpuivf/ivf_search.hpp"

#include "am/method/row_value.hpp"
#include "engine/distance/distance.hpp"
#include "pg/fault.hpp"

#include <algorithm>

extern "C"
{
#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
}

namespace vectorgpu::am
{

namespace
{

/// The value of the index's column or expression. False for NULL.
bool
indexed_value(TableReader *reader, Datum *value)
{
	const int attribute = reader->search->index->rd_index->indkey.values[0];
	Datum values[INDEX_MAX_KEYS]; // of key columns too
	bool are_null[INDEX_MAX_KEYS];

	if (reader->info == nullptr)
		values[0] = slot_getattr(reader->slot, attribute, &are_null[0]);
	else
	{
		ResetPerTupleExprContext(reader->estate);
		GetPerTupleExprContext(reader->estate)->ecxt_scantuple = reader->slot;
		FormIndexDatum(reader->info, reader->slot, reader->estate, values, are_null);
	}
	*value = values[0];
	return !are_null[0];
}

} // namespace

void
table_reader_begin(TableReader *reader, const SegmentSearch *search)
{
	if (search->approximate->heap == nullptr)
		elog(ERROR, "scan of index \"%s\" has no table to read", RelationGetRelationName(search->index));
	reader->search = search;
	reader->n_blocks = RelationGetNumberOfBlocks(search->approximate->heap);
	reader->fetch = table_index_fetch_begin(search->approximate->heap);
	reader->slot = table_slot_create(search->approximate->heap, nullptr);
	reader->info = nullptr;
	reader->estate = nullptr;
	if (search->index->rd_index->indkey.values[0] == InvalidAttrNumber)
	{
		reader->info = BuildIndexInfo(search->index);
		reader->info->ii_Predicate = NIL;
		reader->estate = CreateExecutorState();
	}
}

void
table_reader_end(TableReader *reader)
{
	ExecDropSingleTupleTableSlot(reader->slot);
	table_index_fetch_end(reader->fetch);
	if (reader->estate != nullptr)
		FreeExecutorState(reader->estate);
}

void
table_reader_score(TableReader *reader, RowId *rows, double *scores, uint64 *n)
{
	const SegmentSearch *search = reader->search;
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	uint64 kept = 0;

	std::sort(rows, rows + *n);
	for (uint64 i = 0; i < *n; i++)
	{
		ItemPointerData tid;
		RowValue value;
		Datum datum;
		bool call_again = false;
		bool all_dead = false;

		CHECK_FOR_INTERRUPTS();
		(void) VG_FAULT("ivf_table_row");
		if (row_id_block(rows[i]) >= reader->n_blocks) // a dead row whose block VACUUM has truncated
			continue;
		ItemPointerSet(&tid, row_id_block(rows[i]), row_id_offset(rows[i]));
		if (!table_index_fetch_tuple(
				reader->fetch, &tid, search->approximate->snapshot, reader->slot, &call_again, &all_dead))
			continue;
		if (indexed_value(reader, &datum))
		{
			value = row_value_for_index(meta->element, meta->dim, datum);
			engine::compute_scores(
				spec, search->query, value.vector, vector_bytes(meta->element, meta->dim), 1, &scores[kept], 0);
			rows[kept++] = rows[i];
			row_value_close(&value);
		}
		ExecClearTuple(reader->slot);
	}
	table_index_fetch_reset(reader->fetch);
	*n = kept;
}

} // namespace vectorgpu::am

// Indexed values from the table for a merge, under any snapshot: an index without vectors codes its rows anew, and the
// table is more exact than their codes. PG dialect.
#include "am/gpuivf/stored_rows.hpp"

#include "am/method/row_value.hpp"

#include <cstring>

extern "C"
{
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

/// The value of a column if it lies in the tuple itself: an out-of-line value may be gone if the tuple is dead. Else
/// false.
bool
copy_value(const MetaData *meta, Datum datum, char *dest)
{
	RowValue value;
	bool fits;

	if (VARATT_IS_EXTERNAL(DatumGetPointer(datum)))
		return false;
	value = row_value_open(meta->element, datum);
	fits = value.dim == meta->dim;
	if (fits)
		memcpy(dest, value.vector, meta_vector_bytes(meta));
	row_value_close(&value);
	return fits;
}

} // namespace

void
ivf_read_table(Relation index, const MetaData *meta, const RowId *rows, uint64 n, char *dest, bool *found)
{
	const int attribute = index->rd_index->indkey.values[0];
	Relation heap;
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	BlockNumber n_blocks;

	memset(found, 0, n * sizeof(bool));
	if (attribute == InvalidAttrNumber) // an expression: a merge runs no code of users
		return;
	heap = table_open(IndexGetRelation(RelationGetRelid(index), false), NoLock); // the caller holds a lock
	fetch = table_index_fetch_begin(heap);
	slot = table_slot_create(heap, nullptr);
	n_blocks = RelationGetNumberOfBlocks(
		heap); // VACUUM may have truncated blocks of dead rows; it cannot while we hold the lock
	InvalidateCatalogSnapshotConditionally(); // of these look-ups: a long merge must not hold back VACUUM
	for (uint64 i = 0; i < n; i++)
	{
		ItemPointerData tid;
		bool call_again = false;
		bool all_dead = false;

		CHECK_FOR_INTERRUPTS();
		if (row_id_block(rows[i]) >= n_blocks)
			continue;
		ItemPointerSet(&tid, row_id_block(rows[i]), row_id_offset(rows[i]));
		// The members of a HOT chain have the same value, except those older than the index: the last one counts.
		do
		{
			bool is_null;
			Datum datum;

			if (!table_index_fetch_tuple(fetch, &tid, SnapshotAny, slot, &call_again, &all_dead))
				break;
			datum = slot_getattr(slot, attribute, &is_null);
			found[i] = !is_null && copy_value(meta, datum, dest + i * meta_vector_bytes(meta));
		} while (call_again);
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_index_fetch_end(fetch);
	table_close(heap, NoLock);
}

} // namespace vectorgpu::am

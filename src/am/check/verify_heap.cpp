// vectorgpu_check, the table: every row that a new snapshot sees is in the index with its value. Exact, in one pass,
// since the rows of the table and of the index both come in TID order. See verify_heap.hpp.
#include "am/check/verify_heap.hpp"

#include "am/alias/alias_insert.hpp"
#include "am/build/block_rows.hpp"
#include "am/maintain/row_merge.hpp"
#include "storage/value_format.hpp"

#include <cstring>

extern "C"
{
#include "access/tableam.h"
#include "catalog/index.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

namespace
{

struct HeapCheck
{
	Relation index;
	Relation heap;
	const MetaData *meta;
	const SegmentFormat *format;
	RowMerge rows; // rows of the index
	MergedRow at;
	bool at_end;
	const AliasCheck *aliases;
	uint64 delta_end;
	uint64 n_checked;
};

void
step(HeapCheck *check)
{
	check->at_end = !row_merge_next(&check->rows, &check->at);
}

bool
same_value(const HeapCheck *check, const char *vector, const void *stored)
{
	if (check->format != nullptr && check->format->matches != nullptr)
		return check->format->matches(check->meta, vector, static_cast<const char *>(stored));
	return row_bytes(check->meta, vector) == row_bytes(check->meta, stored) &&
		memcmp(vector, stored, row_bytes(check->meta, vector)) == 0;
}

/// True if the row shares an entry with its value. A VACUUM may have given it one of its own, and removed the shared
/// one, since the check read the metapage.
bool
shares_value(const HeapCheck *check, RowId row, const char *vector, bool *found)
{
	RowId key;

	*found = find_alias(check->aliases, row, &key);
	if (!*found || vector == nullptr)
		return false;
	return entry_equals(access_method(check->index, check->meta), check->index, check->meta, check->delta_end, key,
			   vector, true) ||
		aliases_resolved_meanwhile(check->index, check->meta);
}

[[noreturn]] void
row_is_missing(const HeapCheck *check, RowId row)
{
	ereport(ERROR,
		(errcode(ERRCODE_INDEX_CORRUPTED), errmsg("index \"%s\" is corrupted", RelationGetRelationName(check->index)),
			errdetail("It lacks row (%u,%u) of table \"%s\".", row_id_block(row), row_id_offset(row),
				RelationGetRelationName(check->heap)),
			errhint("Rebuild it with REINDEX INDEX.")));
	pg_unreachable();
}

[[noreturn]] void
row_differs(const HeapCheck *check, RowId row, const char *what)
{
	ereport(ERROR,
		(errcode(ERRCODE_INDEX_CORRUPTED), errmsg("index \"%s\" is corrupted", RelationGetRelationName(check->index)),
			errdetail("Row (%u,%u) of table \"%s\" has %s in the index.", row_id_block(row), row_id_offset(row),
				RelationGetRelationName(check->heap), what),
			errhint("Rebuild it with REINDEX INDEX.")));
	pg_unreachable();
}

/// The RowSink of the table scan.
void
check_row(void *state, RowId row, const char *vector, const char *keys)
{
	HeapCheck *check = static_cast<HeapCheck *>(state);
	bool shares;
	bool same;

	CHECK_FOR_INTERRUPTS();
	// Skip rows of the index that the snapshot does not see.
	while (!check->at_end && check->at.row < row)
		step(check);
	if (check->at_end || check->at.row != row)
	{
		same = shares_value(check, row, vector, &shares);
		if (!shares)
			row_is_missing(check, row);
	}
	else
		same = check->at.is_null == (vector == nullptr) &&
			(vector == nullptr || same_value(check, vector, check->at.vector));
	if (!same)
		row_differs(check, row, "another value");
	if (keys != nullptr && memcmp(keys, check->at.keys, meta_key_bytes(check->meta)) != 0)
		row_differs(check, row, "other codes of its key columns");
	check->n_checked++;
}

} // namespace

void
check_heap(Relation index, Relation heap, const MetaData *meta, uint64 delta_end, Snapshot snapshot,
	const AliasCheck *aliases, CheckResult *result)
{
	const IndexShape shape = shape_of_meta(meta);
	const KeyCoder *coder = index_key_coder(index);
	HeapCheck *check = static_cast<HeapCheck *>(palloc0(sizeof(HeapCheck)));
	BlockRows *block = static_cast<BlockRows *>(palloc(sizeof(BlockRows)));
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	IndexInfo *info = BuildIndexInfo(index);
	uint32 segments[kMaxSegments];
	RowCounts counts;
	Tuplesortstate *delta;
	TableScanDesc scan;

	if (coder != nullptr)
		key_coder_check(index, coder, &meta->keys);
	memset(&counts, 0, sizeof(counts));
	for (uint32 i = 0; i < meta->n_segments; i++)
		segments[i] = i;
	check->index = index;
	check->heap = heap;
	check->meta = meta;
	check->aliases = aliases;
	check->delta_end = delta_end;
	check->format = access_method(index, meta)->format;
	delta = sort_delta(index, meta, meta->delta_first_row, delta_end, &counts, nullptr);
	row_merge_begin(&check->rows, index, meta, segments, meta->n_segments, delta, true, strategy);
	step(check);

	// A scan with this snapshot and without synchronisation returns the table's blocks in order. A caller that passes
	// its own scan must say that it may be synchronised, which PostgreSQL asserts even if it is not.
	info->ii_Concurrent = true;
	info->ii_Unique = false;
	info->ii_ExclusionOps = nullptr;
	info->ii_ExclusionProcs = nullptr;
	info->ii_ExclusionStrats = nullptr;
	scan = table_beginscan_strat(heap, snapshot, 0, nullptr, true, false);
	block_rows_init(block, &shape, coder, {check_row, check});
	table_index_build_scan(heap, index, info, true, false, block_rows_callback, block, scan);
	block_rows_flush(block);

	row_merge_end(&check->rows);
	if (delta != nullptr)
		tuplesort_end(delta);
	result->heap_rows_checked = check->n_checked;
	FreeAccessStrategy(strategy);
	block_rows_end(block);
	pfree(block);
	pfree(check);
}

} // namespace vectorgpu::am

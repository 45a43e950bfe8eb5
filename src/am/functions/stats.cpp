// The function behind the view vectorgpu_indexes: one row for each of our indexes that the user may see, from
// metapages. It waits for no table lock. For an index of another release it raises no error but reports that it needs
// REINDEX. PG dialect.
#include "am/functions/peek.hpp"
#include "am/method/callbacks.hpp"
#include "am/method/index_access.hpp"
#include "pg/privilege.hpp"
#include "storage/alias.hpp"
#include "storage/delta_value.hpp"
#include "storage/value_format.hpp"

#include <cstring>

extern "C"
{
#include "access/amapi.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

	PG_FUNCTION_INFO_V1(vectorgpu_index_stats);
}

namespace vectorgpu::am
{

namespace
{

constexpr int kTries = 4; // the first, and three more if a standby finds pages recycled

enum StatsColumn
{
	kIndexOid,
	kElement,
	kMetric,
	kDimensions,
	kRows,
	kSegmentRows,
	kNullRows,
	kDeltaRows,
	kDeadRows,
	kSegments,
	kDeltaBytes,
	kIndexBytes,
	kManifestGeneration,
	kTombstoneGeneration,
	kFreeBlocks,
	kLeakedBlocks,
	kFormatVersionColumn,
	kIsValid,
	kNeedsReindex,
	kLists,
	kImbalance,
	kDrift,
	kColumns,
};

struct StatsRow
{
	Datum values[kColumns];
	bool nulls[kColumns];
};

void
set_int8(StatsRow *row, StatsColumn column, uint64 value)
{
	row->values[column] = Int64GetDatum(static_cast<int64>(value));
	row->nulls[column] = false;
}

void
set_text(StatsRow *row, StatsColumn column, const char *text)
{
	row->values[column] = CStringGetTextDatum(text);
	row->nulls[column] = false;
}

const char *
element_name(ElementType element)
{
	switch (element)
	{
		case ElementType::kFloat32:
			return "vector";
		case ElementType::kFloat16:
			return "halfvec";
		case ElementType::kBit:
			return "bit";
		case ElementType::kSet:
			break; // ValueFormat::element_name
	}
	return "unknown";
}

const char *
metric_name(Metric metric)
{
	switch (metric)
	{
		case Metric::kL2:
			return "l2";
		case Metric::kInnerProduct:
			return "inner_product";
		case Metric::kCosine:
			return "cosine";
		case Metric::kL1:
			return "l1";
		case Metric::kHamming:
			return "hamming";
		case Metric::kJaccard:
			return "jaccard";
		case Metric::kMatchCount:
			return "match_count";
		case Metric::kEdit:
			return "edit";
	}
	return "unknown";
}

void
set_float8(StatsRow *row, StatsColumn column, double value)
{
	row->values[column] = Float8GetDatum(value);
	row->nulls[column] = false;
}

/// Fill in the columns about lists. *foreign: a page was foreign.
void
fill_lists(Relation index, const MetaData *meta, StatsRow *row, bool *foreign)
{
	const AccessMethod *am = access_method(index, meta);
	ListStatistics lists = {};

	if (am->approximate == nullptr || am->approximate->describe_lists == nullptr)
		return;
	if (!am->approximate->describe_lists(index, meta, &lists))
		*foreign = true;
	else if (lists.n_lists > 0)
	{
		row->values[kLists] = Int32GetDatum(static_cast<int32>(lists.n_lists));
		row->nulls[kLists] = false;
		set_float8(row, kImbalance, lists.imbalance);
		set_float8(row, kDrift, lists.drift);
	}
}

void
fill_from_metapage(Relation index, StatsRow *row)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	uint64 segment_rows = 0;
	uint64 null_rows = 0;
	uint64 delta_rows;
	uint64 dead_rows;
	uint64 free_blocks = 0;
	uint64 end = 0;
	uint64 n_aliases = 0;
	bool foreign = true;
	const ValueFormat *values;
	IndexShape shape;

	for (int i = 0; i < kTries && foreign; i++)
	{
		foreign = false;
		meta_read(index, nullptr, meta);
		end = delta_end(index, meta, &foreign);
		if (!foreign)
			n_aliases = alias_end(index, meta, &foreign) - meta->alias_first;
		if (!foreign)
			fill_lists(index, meta, row, &foreign);
	}
	if (foreign)
		page_recycled(index, 0);

	shape = shape_of_meta(meta);
	values = value_format(&shape);
	if (access_method(index, meta)->needs_reindex != nullptr && access_method(index, meta)->needs_reindex(meta))
		row->values[kNeedsReindex] = BoolGetDatum(true);
	delta_rows = delta_count_rows(index, meta, end);
	dead_rows = meta->delta_dead;
	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		segment_rows += meta->segments[i].n_rows + meta->segments[i].n_null_rows;
		null_rows += meta->segments[i].n_null_rows;
		dead_rows += meta->segments[i].n_dead;
	}
	for (uint32 i = 0; i < meta->n_free; i++)
		free_blocks += meta->free_extents[i].n_blocks;
	set_text(row, kElement, values != nullptr ? values->element_name : element_name(meta->element));
	set_text(row, kMetric, metric_name(meta->metric));
	if (values == nullptr || values->dimensions != nullptr)
	{
		row->values[kDimensions] =
			Int32GetDatum(values != nullptr ? values->dimensions(&shape) : static_cast<int32>(meta->dim));
		row->nulls[kDimensions] = false;
	}
	row->values[kSegments] = Int32GetDatum(meta->n_segments);
	row->nulls[kSegments] = false;
	// The result must not be below zero: a crash during vacuum may have lost a count of dead rows.
	set_int8(row, kRows, segment_rows + delta_rows - Min(dead_rows, segment_rows + delta_rows) + n_aliases);
	set_int8(row, kSegmentRows, segment_rows);
	set_int8(row, kNullRows, null_rows);
	set_int8(row, kDeltaRows, delta_rows);
	set_int8(row, kDeadRows, dead_rows);
	set_int8(row, kDeltaBytes, (end - meta->delta_first_row) * delta_row_bytes(meta));
	set_int8(row, kManifestGeneration, meta->manifest_generation);
	set_int8(row, kTombstoneGeneration, meta->tombstone_generation);
	set_int8(row, kFreeBlocks, free_blocks);
	set_int8(row, kLeakedBlocks, meta->leaked_blocks);
	pfree(meta);
}

/// Fill in all columns that are read from pages. Sets needs_reindex for a metapage of another release or a damaged one.
/// state is a StatsRow.
void
fill_from_pages(Relation index, void *state)
{
	StatsRow *row = static_cast<StatsRow *>(state);
	uint32 version;
	const bool intact = peek_metapage(index, &version);

	if (version != 0)
	{
		row->values[kFormatVersionColumn] = Int32GetDatum(static_cast<int32>(version));
		row->nulls[kFormatVersionColumn] = false;
	}
	if (intact)
		fill_from_metapage(index, row);
	else
		row->values[kNeedsReindex] = BoolGetDatum(true);
}

/// Fill in the row of an open index.
void
fill_row(Relation index, StatsRow *row)
{
	const bool is_valid = index->rd_index->indisvalid && index->rd_index->indisready && index->rd_index->indislive;

	row->values[kIsValid] = BoolGetDatum(is_valid);
	row->nulls[kIsValid] = false;
	if (!peek_has_pages(index))
		return;
	set_int8(row, kIndexBytes, static_cast<uint64>(RelationGetNumberOfBlocks(index)) * BLCKSZ);
	row->values[kNeedsReindex] = BoolGetDatum(!is_valid);
	row->nulls[kNeedsReindex] = false;
	if (!peek_pages(index, fill_from_pages, row))
		row->values[kNeedsReindex] = BoolGetDatum(true);
}

/// Return the OIDs of our access methods.
List *
our_access_methods()
{
	Relation pg_am = table_open(AccessMethodRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(pg_am, 0, nullptr);
	HeapTuple tuple;
	List *found = NIL;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != nullptr)
	{
		const Form_pg_am form = reinterpret_cast<Form_pg_am>(GETSTRUCT(tuple));

		if (form->amtype == AMTYPE_INDEX &&
			GetIndexAmRoutineByAmId(form->oid, false)->ambulkdelete == shared_bulkdelete)
			found = lappend_oid(found, form->oid);
	}
	table_endscan(scan);
	table_close(pg_am, AccessShareLock);
	return found;
}

/// Return the OIDs of all indexes with these access methods.
List *
our_indexes()
{
	const List *access_methods = our_access_methods();
	Relation pg_class = table_open(RelationRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(pg_class, 0, nullptr);
	HeapTuple tuple;
	List *found = NIL;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != nullptr)
	{
		const Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));

		if (form->relkind == RELKIND_INDEX && list_member_oid(access_methods, form->relam) &&
			!isOtherTempNamespace(form->relnamespace))
			found = lappend_oid(found, form->oid);
	}
	table_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return found;
}

void
put_index(ReturnSetInfo *result, Oid index_oid)
{
	const Oid heap_oid = IndexGetRelation(index_oid, true);
	Relation index;
	StatsRow row;

	if (!OidIsValid(heap_oid) || !pg::may_read_table(heap_oid))
		return;
	memset(row.values, 0, sizeof(row.values));
	memset(row.nulls, true, sizeof(row.nulls));
	row.values[kIndexOid] = ObjectIdGetDatum(index_oid);
	row.nulls[kIndexOid] = false;
	// Another session is building, moving or dropping the index: then the row has only its name and this fact.
	if (peek_open(index_oid, &index))
	{
		if (index == nullptr)
			return;
		fill_row(index, &row);
		relation_close(index, AccessShareLock);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
}

} // namespace
} // namespace vectorgpu::am

/// vectorgpu_index_stats(): the rows of the view vectorgpu_indexes.
Datum
vectorgpu_index_stats(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	ListCell *cell;

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != kColumns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	foreach (cell, our_indexes())
	{
		CHECK_FOR_INTERRUPTS();
		put_index(result, lfirst_oid(cell));
	}
	return (Datum) 0;
}

// See fake_server.hpp: a table with its visible rows in memory; a check's table scan passes them to its callback.
#include "fake_server.hpp"

#include <cstring>

extern "C"
{
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "nodes/execnodes.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::fuzz
{

std::vector<TableRow> table_rows;

namespace
{

TableScanDesc
begin_scan(Relation relation, Snapshot snapshot, int n_keys, struct ScanKeyData *keys, ParallelTableScanDesc parallel,
	uint32 flags)
{
	TableScanDesc scan = static_cast<TableScanDesc>(palloc0(sizeof(TableScanDescData)));

	scan->rs_rd = relation;
	return scan;
}

double
scan_rows(Relation relation, Relation index, IndexInfo *info, bool allow_sync, bool any_visible, bool progress,
	BlockNumber first, BlockNumber n_blocks, IndexBuildCallback callback, void *state, TableScanDesc scan)
{
	for (const TableRow &row : table_rows)
	{
		bool is_null = row.value.empty();
		Datum value = 0;
		ItemPointerData tid;

		// Of exactly its size, aligned.
		if (!is_null)
			value = PointerGetDatum(std::memcpy(palloc(row.value.size()), row.value.data(), row.value.size()));
		ItemPointerSet(&tid, row.block, row.offset);
		callback(index, &tid, &value, &is_null, true, state);
	}
	return static_cast<double>(table_rows.size());
}

TableAmRoutine
make_methods()
{
	TableAmRoutine methods = {};

	methods.scan_begin = begin_scan;
	methods.index_build_range_scan = scan_rows;
	return methods;
}

} // namespace

const TableAmRoutine *
table_methods()
{
	static const TableAmRoutine methods = make_methods();

	return &methods;
}

} // namespace vectorgpu::fuzz

extern "C"
{

	IndexInfo *BuildIndexInfo(Relation index)
	{
		return static_cast<IndexInfo *>(palloc0(sizeof(IndexInfo)));
	}

	Oid get_base_element_type(Oid type)
	{
		return type == INT4ARRAYOID ? INT4OID : InvalidOid;
	}

	Oid getBaseType(Oid type)
	{
		return type;
	}

	int ArrayGetNItems(int n_dimensions, const int *dimensions)
	{
		int n = n_dimensions > 0 ? 1 : 0;

		for (int i = 0; i < n_dimensions; i++)
			n *= dimensions[i]; // of arrays that a server has made: no overflow
		return n;
	}

} // extern "C"

// Looks at the indexes of a table that a query names, before it is planned. The rewriter has locked the table. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/genam.h"
#include "access/table.h"
#include "nodes/parsenodes.h"
#include "utils/rel.h"
#include "utils/relcache.h"
}

namespace vectorgpu::am
{

/// True if one of the table's indexes is as wanted: is_wanted(table, index).
template <class IsWanted>
bool
any_index(const RangeTblEntry *entry, IsWanted is_wanted)
{
	const Relation table = table_open(entry->relid, NoLock);
	List *indexes = RelationGetIndexList(table);
	bool found = false;
	ListCell *cell;

	foreach (cell, indexes)
	{
		const Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		found = is_wanted(table, index);
		index_close(index, AccessShareLock);
		if (found)
			break;
	}
	list_free(indexes);
	table_close(table, NoLock);
	return found;
}

} // namespace vectorgpu::am

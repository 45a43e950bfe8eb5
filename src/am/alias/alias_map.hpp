// A backend's memory of the aliases of an index (storage/alias.hpp) and of the rows of its delta, by row id. Kept from
// one scan or insert to the next and extended by what was appended since. PG dialect.
#pragma once

#include "storage/alias.hpp"

namespace vectorgpu::am
{

/// One alias: its row and its key. In the memory of a delta: a row and its number.
struct MappedRow
{
	RowId row;
	uint64 value;
	uint32 next; // the entry before of the same key; kNoEntry: none
};

constexpr uint32 kNoEntry = PG_UINT32_MAX;

struct RowMap;

/// Return the aliases [meta->alias_first, end), and perhaps later ones. Valid until the next call. Null if a page was
/// foreign.
const RowMap *alias_map(Relation index, const MetaData *meta, uint64 end);

/// Return the rows of the delta before `end`; of a delta of a million rows perhaps only the newest, unless `whole`.
/// Valid until the next call. Null if a page was foreign.
const RowMap *delta_map(Relation index, const MetaData *meta, uint64 end, bool whole);

/// True if the map has the row. *value: its key, or its number; of a delta row, the number of the newest with this row
/// id.
bool map_find(const RowMap *map, RowId row, uint64 *value);

/// Return the newest alias with this key, or null.
const MappedRow *map_newest(const RowMap *map, RowId key);

/// Return the alias of the same key before this one, or null.
const MappedRow *map_older(const RowMap *map, const MappedRow *alias);

/// Return all entries, in the order of their numbers.
const MappedRow *map_entries(const RowMap *map, uint64 *n);

} // namespace vectorgpu::am

// See alias_map.hpp. Each map is an array of entries and hash tables of their indexes, with linear probing. An error
// while pages are read leaves a map as it was.
#include "am/alias/alias_map.hpp"

#include "storage/delta.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
#include "utils/memutils.h"
}

namespace vectorgpu::am
{

struct RowMap
{
	bool in_use;
	pg::RelationFile file;
	IndexUuid uuid;
	PageRole role;     // of the list
	uint64 list_first; // the list's first row when the map was begun
	uint64 end;        // rows of the list before it are in the map
	uint64 used;       // clock
	uint32 n;
	uint32 capacity;
	uint32 n_slots; // power of two
	MappedRow *entries;
	uint32 *by_row; // [n_slots] index of an entry, or kNoEntry
	uint32 *by_key; // [n_slots] the newest entry of a key; aliases only
};

namespace
{

constexpr int kMaps = 16;
constexpr uint32 kReadRows = 512;
constexpr uint32 kFirstCapacity = 1024;
constexpr uint64 kHashFactor = UINT64CONST(0x9E3779B97F4A7C15); // 2^64 over the golden ratio
constexpr uint64 kDeltaRows = UINT64CONST(1) << 20;   // newest rows of a delta that are kept, at least half of them
constexpr uint64 kDeltaBytes = UINT64CONST(64) << 20; // fewer, so that a session's first look reads no more pages

RowMap maps[kMaps];
uint64 map_clock = 0;

uint32
slot_of(const RowMap *map, uint64 value)
{
	return static_cast<uint32>(value * kHashFactor >> 32) & (map->n_slots - 1);
}

/// The slot of by_row that has the row, or the free one where it belongs.
uint32
row_slot(const RowMap *map, RowId row)
{
	uint32 slot = slot_of(map, row);

	while (map->by_row[slot] != kNoEntry && map->entries[map->by_row[slot]].row != row)
		slot = (slot + 1) & (map->n_slots - 1);
	return slot;
}

uint32
key_slot(const RowMap *map, uint64 key)
{
	uint32 slot = slot_of(map, key);

	while (map->by_key[slot] != kNoEntry && map->entries[map->by_key[slot]].value != key)
		slot = (slot + 1) & (map->n_slots - 1);
	return slot;
}

/// Enter entry i, the last one, in the hash tables.
void
enter(RowMap *map, uint32 i)
{
	map->by_row[row_slot(map, map->entries[i].row)] = i;
	if (map->by_key != nullptr)
	{
		const uint32 slot = key_slot(map, map->entries[i].value);

		map->entries[i].next = map->by_key[slot];
		map->by_key[slot] = i;
	}
}

/// Make room for one more read. The arrays are one piece of memory.
void
grow(RowMap *map)
{
	const uint32 capacity = Max(kFirstCapacity, map->capacity * 2);
	const Size slot_bytes = 2 * static_cast<Size>(capacity) * sizeof(uint32);
	const int n_tables = map->role == PageRole::kAlias ? 2 : 1;
	MappedRow *entries;
	uint32 *tables;

	if (map->n + kReadRows <= map->capacity)
		return;
	entries = static_cast<MappedRow *>(
		MemoryContextAllocHuge(TopMemoryContext, capacity * sizeof(MappedRow) + n_tables * slot_bytes));
	tables = reinterpret_cast<uint32 *>(entries + capacity);
	memset(tables, 0xFF, n_tables * slot_bytes);
	if (map->entries != nullptr)
	{
		memcpy(entries, map->entries, map->n * sizeof(MappedRow));
		pfree(map->entries);
	}
	map->entries = entries;
	map->by_row = tables;
	map->by_key = n_tables > 1 ? tables + 2 * static_cast<Size>(capacity) : nullptr;
	map->capacity = capacity;
	map->n_slots = 2 * capacity;
	for (uint32 i = 0; i < map->n; i++)
		enter(map, i);
}

/// Return the map of the list, empty if there was none or only one of an earlier state: rows of the list have been
/// resolved or merged since.
RowMap *
find_map(Relation index, const ChunkList &list)
{
	RowMap *oldest = &maps[0];

	for (RowMap &map : maps)
	{
		if (map.in_use && map.role == list.role && uuid_equal(map.uuid, list.uuid) &&
			pg::same_file(map.file, pg::file_of(index)))
		{
			if (map.list_first == list.first_row)
				return &map;
			oldest = &map;
			break;
		}
		if (map.used < oldest->used)
			oldest = &map;
	}
	if (oldest->entries != nullptr)
		pfree(oldest->entries);
	*oldest = {};
	oldest->in_use = true;
	oldest->file = pg::file_of(index);
	oldest->uuid = list.uuid;
	oldest->role = list.role;
	oldest->list_first = list.first_row;
	oldest->end = list.first_row;
	return oldest;
}

/// Extend the map to row `end` of its list. False if a page was foreign.
bool
extend(RowMap *map, Relation index, const ChunkList &list, uint64 end)
{
	uint64 headers[kReadRows];
	RowId keys[kReadRows];

	map->used = ++map_clock;
	while (map->end < end)
	{
		const uint32 n = static_cast<uint32>(Min(static_cast<uint64>(kReadRows), end - map->end));
		const bool aliases = map->role == PageRole::kAlias;

		CHECK_FOR_INTERRUPTS();
		grow(map);
		if (!list_read(index, list, map->end, n, headers, aliases ? keys : nullptr, sizeof(RowId)))
			return false;
		for (uint32 i = 0; i < n; i++)
		{
			map->entries[map->n] = {headers[i] & kDeltaRowIdMask, aliases ? keys[i] : map->end + i, kNoEntry};
			enter(map, map->n++);
		}
		map->end += n;
	}
	return true;
}

} // namespace

const RowMap *
alias_map(Relation index, const MetaData *meta, uint64 end)
{
	const ChunkList list = alias_list(meta);
	RowMap *map = find_map(index, list);

	return extend(map, index, list, end) ? map : nullptr;
}

const RowMap *
delta_map(Relation index, const MetaData *meta, uint64 end, bool whole)
{
	const ChunkList list = delta_list(meta);
	const uint64 most = Min(kDeltaRows, kDeltaBytes / delta_row_bytes(meta));
	RowMap *map = find_map(index, list);

	// A new map, or one that would become too large, begins with the newest rows.
	if (whole ? map->n < map->end - list.first_row : end > map->end && map->n + (end - map->end) > most)
	{
		map->list_first = PG_UINT64_MAX; // no list begins there: the map is begun anew
		map = find_map(index, list);
		if (!whole)
			map->end = Max(list.first_row, end - Min(end, most / 2));
	}
	return extend(map, index, list, end) ? map : nullptr;
}

bool
map_find(const RowMap *map, RowId row, uint64 *value)
{
	uint32 i;

	if (map->n == 0)
		return false;
	i = map->by_row[row_slot(map, row)];
	if (i == kNoEntry)
		return false;
	*value = map->entries[i].value;
	return true;
}

const MappedRow *
map_newest(const RowMap *map, RowId key)
{
	uint32 i;

	if (map->n == 0)
		return nullptr;
	i = map->by_key[key_slot(map, key)];
	return i != kNoEntry ? &map->entries[i] : nullptr;
}

const MappedRow *
map_older(const RowMap *map, const MappedRow *alias)
{
	return alias->next != kNoEntry ? &map->entries[alias->next] : nullptr;
}

const MappedRow *
map_entries(const RowMap *map, uint64 *n)
{
	*n = map->n;
	return map->entries;
}

} // namespace vectorgpu::am

// See alias_insert.hpp, and "Shared entries" in src/storage/README.md.
#include "am/alias/alias_insert.hpp"

#include "am/alias/alias_map.hpp"
#include "am/scan/row_lookup.hpp"
#include "pg/fault.hpp"
#include "pg/replaced_row.hpp"

#include <cstring>

extern "C"
{
#include "storage/lmgr.h"
}

namespace vectorgpu::am
{

namespace
{

/// True if a segment has a live entry of row `key` whose value is that of the vector. *found: it has the entry. Pages
/// that are foreign (only a merge in between makes them so) count as no entry.
bool
segment_has(const AccessMethod *am, Relation index, const MetaData *meta, const SegmentEntry *segment, RowId key,
	const char *vector, char *stored, bool *found)
{
	const Size n_bytes = meta_vector_bytes(meta);
	uint64 number = kNoRowNumber;

	if (!find_rows(index, meta, segment, &key, 1, &number, nullptr) || number == kNoRowNumber)
		return false;
	*found = true;
	if (am->format != nullptr && am->format->read_vectors != nullptr
			? !am->format->read_vectors(index, meta, segment, number, 1, stored, nullptr)
			: !stream_read(index, meta, segment, StreamKind::kVectors, number * n_bytes, n_bytes, stored, nullptr))
		return false;
	return memcmp(vector, stored, n_bytes) == 0;
}

/// The same for the delta.
bool
delta_has(
	Relation index, const MetaData *meta, uint64 delta_end, RowId key, const char *vector, char *stored, bool whole)
{
	const RowMap *map;
	uint64 number;
	uint64 header;

	if (delta_end <= meta->delta_first_row)
		return false;
	map = delta_map(index, meta, delta_end, whole);
	if (map == nullptr || !map_find(map, key, &number) ||
		!delta_read(index, meta, number, 1, &header, stored, meta_vector_bytes(meta)))
		return false;
	return header == key && memcmp(vector, stored, meta_vector_bytes(meta)) == 0; // no flags: neither dead nor NULL
}

/// Under kAliasLock.
bool
try_share(const AccessMethod *am, Relation index, Relation heap, RowId row, RowId old, const char *vector)
{
	MetaData meta;
	bool foreign = false;
	RowId key = old;
	uint64 end;
	uint64 n_delta;

	meta_read(index, nullptr, &meta);
	// Where segments keep no full vectors, searches take them from the table, by the entry's own row version.
	if (delta_row_bytes(&meta) <= kAliasBytes ||
		(am->format != nullptr && am->format->reads_back != nullptr && !am->format->reads_back(&meta)))
		return false;
	end = alias_end(index, &meta, &foreign);
	if (foreign || end - meta.alias_first >= kMaxAliases)
		return false;
	if (end > meta.alias_first)
	{
		const RowMap *map = alias_map(index, &meta, end);

		// A key is never an alias itself.
		if (map == nullptr)
			return false;
		(void) map_find(map, old, &key);
	}
	n_delta = delta_end(index, &meta, &foreign);
	if (foreign || !entry_equals(am, index, &meta, n_delta, key, vector, false))
		return false;
	(void) VG_FAULT("alias_append");
	return alias_append(index, heap, {row, key});
}

} // namespace

bool
entry_equals(const AccessMethod *am, Relation index, const MetaData *meta, uint64 delta_end, RowId key,
	const char *vector, bool whole_delta)
{
	char *stored = static_cast<char *>(palloc(meta_vector_bytes(meta)));
	bool found = false;
	bool equal = false;

	for (uint32 i = meta->n_segments; i > 0 && !found; i--)
		equal = segment_has(am, index, meta, &meta->segments[i - 1], key, vector, stored, &found);
	if (!found)
		equal = delta_has(index, meta, delta_end, key, vector, stored, whole_delta);
	pfree(stored);
	return equal;
}

bool
share_entry(const AccessMethod *am, Relation index, Relation heap, RowId row, const char *vector)
{
	ItemPointerData now;
	ItemPointerData old;
	bool shared;

	ItemPointerSet(&now, row_id_block(row), row_id_offset(row));
	if (!pg::replaced_row(heap, &now, &old))
		return false;
	// A VACUUM that removes rows holds the lock: the entry may be one of those that it removes.
	if (!ConditionalLockPage(index, kAliasLock, ShareLock))
		return false;
	shared = try_share(
		am, index, heap, row, make_row_id(ItemPointerGetBlockNumber(&old), ItemPointerGetOffsetNumber(&old)), vector);
	UnlockPage(index, kAliasLock, ShareLock);
	return shared;
}

} // namespace vectorgpu::am

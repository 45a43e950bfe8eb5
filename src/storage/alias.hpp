// Aliases: rows of the table that share the entry of another row, which has an equal value. PG dialect. See README.md,
// "Shared entries".
//
// An alias is a pair of row ids: that of its row, and its *key*, the row id of an entry in a segment or in the delta.
// Aliases are appended to a list in chunks, like the delta's (delta_map.hpp), and numbered for the life of the index. A
// row of the list is the alias's row id, as the header, and its key.
#pragma once

#include "storage/delta_map.hpp"

namespace vectorgpu::am
{

struct Alias
{
	RowId row;
	RowId key;
};

constexpr Size kAliasBytes = 2 * sizeof(uint64);

/// The most aliases of an index that are not resolved: backends keep them in memory, in about 56 bytes each. A power of
/// two less what one look may add, since that memory grows by doubling.
constexpr uint64 kMaxAliases = (UINT64CONST(1) << 22) - 8192;

/// Heavyweight lock by which VACUUM excludes that aliases are appended: LockPage(index, kAliasLock). Inserters hold it
/// in share mode from before they read the metapage until the alias is written; ambulkdelete holds it exclusively.
constexpr BlockNumber kAliasLock = 2;

inline ChunkList
alias_list(const MetaData *meta)
{
	return {meta->uuid, PageRole::kAlias, meta->alias_first, kAliasBytes, sizeof(RowId), meta->alias_chunks,
		meta->n_alias_chunks};
}

/// Return the number of the first alias that does not exist yet. *foreign as for delta_end.
uint64 alias_end(Relation index, const MetaData *meta, bool *foreign);

/// Copy aliases [first, first + n). Returns false if a page was foreign.
bool alias_read(Relation index, const MetaData *meta, uint64 first, uint64 n, Alias *aliases);

/// Append an alias. The caller holds kAliasLock and has made sure that the key's entry is alive. False: the list has no
/// room.
bool alias_append(Relation index, Relation heap, const Alias &alias);

/// Inside an open MetaUpdate: all aliases before `end`, the last one, are resolved. Parks the list's chunks.
void alias_resolved(MetaData *meta, uint64 end);

} // namespace vectorgpu::am

// Reading the list of aliases. Appending is in delta_append.cpp. See alias.hpp.
#include "storage/alias.hpp"

#include "storage/extent.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kReadAliases = 512;

} // namespace

uint64
alias_end(Relation index, const MetaData *meta, bool *foreign)
{
	return list_end(index, alias_list(meta), foreign);
}

bool
alias_read(Relation index, const MetaData *meta, uint64 first, uint64 n, Alias *aliases)
{
	uint64 rows[kReadAliases];
	RowId keys[kReadAliases];

	for (uint64 done = 0; done < n;)
	{
		const uint64 part = Min(kReadAliases, n - done);

		if (!list_read(index, alias_list(meta), first + done, part, rows, keys, sizeof(RowId)))
			return false;
		for (uint64 i = 0; i < part; i++)
			aliases[done + i] = {rows[i], keys[i]};
		done += part;
	}
	return true;
}

void
alias_resolved(MetaData *meta, uint64 end)
{
	const uint64 parked_xid = current_parking_xid();

	for (uint32 i = 0; i < meta->n_alias_chunks; i++)
		extent_give(meta, meta->alias_chunks[i].start_block, meta->alias_chunks[i].n_blocks, parked_xid);
	memset(meta->alias_chunks, 0, sizeof(meta->alias_chunks));
	meta->n_alias_chunks = 0;
	meta->alias_first = end;
}

} // namespace vectorgpu::am

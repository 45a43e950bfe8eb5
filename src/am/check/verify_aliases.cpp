// vectorgpu_check, rows that share entries: pages, row ids, and that the entries are there. See verify_aliases.hpp.
#include "am/check/verify_aliases.hpp"

#include "am/check/verify_delta.hpp"
#include "am/check/verify_meta.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

Alias *
sorted(const Alias *aliases, uint64 n, RowId Alias::*member)
{
	Alias *copy = static_cast<Alias *>(palloc_extended(Max(n, UINT64CONST(1)) * sizeof(Alias), MCXT_ALLOC_HUGE));

	std::copy(aliases, aliases + n, copy);
	std::sort(copy, copy + n, [member](const Alias &a, const Alias &b) { return a.*member < b.*member; });
	return copy;
}

} // namespace

uint64
known_alias_end(Relation index)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	CheckResult counts = {};
	uint64 end;

	meta_read(index, nullptr, meta);
	check_metapage(index, meta, &counts); // before the list is followed
	end = alias_end(index, meta, nullptr);
	pfree(meta);
	return end;
}

void
check_aliases(PageCheck *check, uint64 known_end, AliasCheck *aliases)
{
	const MetaData *meta = check->meta;
	const uint64 list_end = check_list_fill(check, alias_list(meta));
	const uint64 end = Max(meta->alias_first, Min(known_end, list_end));
	const uint64 n = end - meta->alias_first;
	Alias *read = static_cast<Alias *>(palloc_extended(Max(n, UINT64CONST(1)) * sizeof(Alias), MCXT_ALLOC_HUGE));

	*aliases = {};
	aliases->n = n;
	if (!alias_read(check->index, meta, meta->alias_first, n, read))
		page_recycled(check->index, 0);
	for (uint64 i = 0; i < n; i++)
		if (!valid_row_id(read[i].row) || !valid_row_id(read[i].key) || read[i].row == read[i].key)
			page_corrupted(
				check->index, 0, psprintf("Shared entry " UINT64_FORMAT " cannot be.", meta->alias_first + i));
	aliases->by_row = sorted(read, n, &Alias::row);
	aliases->by_key = sorted(read, n, &Alias::key);
	pfree(read);
	for (uint64 i = 1; i < n; i++)
		if (aliases->by_row[i].row == aliases->by_row[i - 1].row)
			page_corrupted(check->index, 0,
				psprintf("Row (%u,%u) shares two entries.", row_id_block(aliases->by_row[i].row),
					row_id_offset(aliases->by_row[i].row)));
}

void
check_alias_entry(AliasCheck *aliases, RowId row, bool is_null)
{
	while (aliases->next_row < aliases->n && aliases->by_row[aliases->next_row].row < row)
		aliases->next_row++;
	aliases->n_copied += aliases->next_row < aliases->n && aliases->by_row[aliases->next_row].row == row;
	for (; aliases->next_key < aliases->n && aliases->by_key[aliases->next_key].key <= row; aliases->next_key++)
		aliases->n_keyless += is_null || aliases->by_key[aliases->next_key].key != row;
}

void
check_aliases_end(PageCheck *check, AliasCheck *aliases)
{
	aliases->n_keyless += aliases->n - aliases->next_key;
	if (aliases->n_keyless > 0 && !aliases_resolved_meanwhile(check->index, check->meta))
		page_corrupted(check->index, 0,
			psprintf(UINT64_FORMAT " rows share entries that the index does not have.", aliases->n_keyless));
	check->result->rows += aliases->n - aliases->n_copied;
}

bool
find_alias(const AliasCheck *aliases, RowId row, RowId *key)
{
	const Alias *end = aliases->by_row + aliases->n;
	const Alias *found = std::lower_bound(static_cast<const Alias *>(aliases->by_row), end, row,
		[](const Alias &alias, RowId value) { return alias.row < value; });

	if (found == end || found->row != row)
		return false;
	*key = found->key;
	return true;
}

bool
aliases_resolved_meanwhile(Relation index, const MetaData *meta)
{
	return meta_alias_first(index) != meta->alias_first;
}

} // namespace vectorgpu::am

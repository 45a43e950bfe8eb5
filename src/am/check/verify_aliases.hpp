// vectorgpu_check: rows that share the entry of another row (storage/alias.hpp). PG dialect.
#pragma once

#include "am/check/verify_page.hpp"
#include "storage/alias.hpp"

namespace vectorgpu::am
{

/// The aliases under a check.
struct AliasCheck
{
	Alias *by_row; // [n]
	Alias *by_key; // [n]
	uint64 n;
	uint64 next_row; // the first in by_row that no entry has been compared with
	uint64 next_key;
	uint64 n_copied;  // rows that have entries of their own, too
	uint64 n_keyless; // aliases without an entry
};

/// The end of the aliases now. The check asks for it before it reads the metapage and the end of the delta: so it meets
/// the entry of each alias before this end, unless a VACUUM resolves these meanwhile. A later alias may name a row that
/// the check does not read.
uint64 known_alias_end(Relation index);

/// Check the pages of the aliases, and that no row has two. known_end: of known_alias_end; aliases from it on are left
/// out. Each row that the snapshot of the check sees has its alias before it.
void check_aliases(PageCheck *check, uint64 known_end, AliasCheck *aliases);

/// Note the next live entry of the index, by row id; then, with check_aliases_end, count the rows and check that each
/// alias has its entry.
void check_alias_entry(AliasCheck *aliases, RowId row, bool is_null);
void check_aliases_end(PageCheck *check, AliasCheck *aliases);

/// True if the row is an alias: its key.
bool find_alias(const AliasCheck *aliases, RowId row, RowId *key);

/// True if VACUUM has resolved aliases since the check read the metapage: then an entry that one names may be gone.
bool aliases_resolved_meanwhile(Relation index, const MetaData *meta);

} // namespace vectorgpu::am

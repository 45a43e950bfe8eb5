// VACUUM's part in shared entries: every live row that shares an entry gets one of its own, before any entry is
// removed. PG dialect. Called by ambulkdelete.
#pragma once

#include "am/method/am_interface.hpp"

extern "C"
{
#include "access/genam.h"
}

namespace vectorgpu::am
{

/// The callback of ambulkdelete.
struct DeadRows
{
	IndexBulkDeleteCallback callback;
	void *state;
};

bool row_is_dead(const DeadRows &dead, RowId row);

/// Ask the callback once about every alias, append a row to the delta for each live one that has no entry of its own,
/// then empty the list. meta, delta_end: as read under kAliasLock, which the caller holds exclusively. Returns the
/// number of dead ones.
uint64 resolve_aliases(
	Relation index, const MetaData *meta, uint64 delta_end, const DeadRows &dead, BufferAccessStrategy strategy);

} // namespace vectorgpu::am

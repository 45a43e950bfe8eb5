// Looking at an index for a view, without waiting for a lock and without an error for one that is damaged or of another
// release. PG dialect. Used by stats.cpp, reach_function.cpp and keys_function.cpp.
#pragma once

#include "am/method/am_interface.hpp"

extern "C"
{
#include "fmgr.h"
}

namespace vectorgpu::am
{

/// Opens an index with AccessShareLock. False: another session has locked it, since it builds, moves or drops it. True:
/// *index, which the caller closes together with the lock, or null if there is none any more.
bool peek_open(Oid index_oid, Relation *index);

/// False for an index of a partitioned table, a temporary one of another session, and on a standby for an unlogged
/// one, which has no main fork there.
bool peek_has_pages(Relation index);

/// Reads block 0 without assuming that it is valid. False unless it is a metapage of this release; *version is 0 if
/// even that is unknown, as for a damaged page.
bool peek_metapage(Relation index, uint32 *version);

/// Calls `read` in a subtransaction, so that one damaged index does not hide the others. False if a page was damaged.
bool peek_pages(Relation index, void (*read)(Relation index, void *state), void *state);

constexpr int kMostPeeked = 2;

/// A row of a function behind the view.
struct PeekedRow
{
	Datum values[kMostPeeked];
	bool nulls[kMostPeeked];
};

/// The result of a function of an index's OID: one row of n_columns. fill: peek_pages' function, which sets what there
/// is to tell; state is a PeekedRow of NULLs. NULLs also where the caller may not read the table.
Datum peek_row(FunctionCallInfo fcinfo, int n_columns, void (*fill)(Relation index, void *state));

} // namespace vectorgpu::am

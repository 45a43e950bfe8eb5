// The callbacks of core that all access methods share, and the parts of a handler. Each is defined in the room that the
// comment names. PG dialect.
#pragma once

#include "am/method/am_interface.hpp"

extern "C"
{
#include "access/amapi.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

/// shape.cpp. The IndexAmRoutine of an access method without boolean operators, the shared callbacks not yet set.
IndexAmRoutine *new_routine();

/// shape.cpp. amoptions of an access method without storage parameters: refuses all of them.
bytea *no_options(Datum reloptions, bool validate);

/// validate.cpp. amvalidate.
bool shared_validate(const AccessMethod *am, Oid opclass_oid);

/// build/build.cpp. ambuild, ambuildempty, ambuildphasename.
IndexBuildResult *shared_build(const AccessMethod *am, Relation heap, Relation index, IndexInfo *info);
void shared_build_empty(const AccessMethod *am, Relation index);
char *shared_build_phase_name(const AccessMethod *am, int64 phase);

/// build/insert.cpp. aminsert. unchanged: core's hint that an UPDATE has left the indexed value as it was.
bool shared_insert(const AccessMethod *am, Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
	bool unchanged, IndexInfo *info);

/// scan/scan.cpp. ambeginscan, amrescan, amgettuple, amendscan.
IndexScanDesc shared_begin_scan(const AccessMethod *am, Relation index, int n_keys, int n_orderbys);
void shared_rescan(IndexScanDesc scan, ScanKey keys, int n_keys, ScanKey orderbys, int n_orderbys);
bool shared_get_tuple(IndexScanDesc scan, ScanDirection direction);
/// amgetbitmap, for scans with index conditions.
int64 shared_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
void shared_end_scan(IndexScanDesc scan);

/// maintain/vacuum.cpp. ambulkdelete: calls callback once for every entry without a tombstone (segments, NULL rows,
/// delta) and sets tombstones where it returns true. Writes the pages first, then the metapage's generation. CREATE
/// INDEX CONCURRENTLY reads the entries by it, too.
IndexBulkDeleteResult *shared_bulkdelete(
	IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback, void *callback_state);

/// maintain/vacuum.cpp. amvacuumcleanup: merges if the tiers ask for it, and counts.
IndexBulkDeleteResult *shared_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);

/// The callbacks that core calls without saying for which access method.
template <const AccessMethod *am>
struct Callbacks
{
	static IndexBuildResult *build(Relation heap, Relation index, IndexInfo *info)
	{
		return shared_build(method_of_index(am, index), heap, index, info);
	}

	static void build_empty(Relation index) { shared_build_empty(method_of_index(am, index), index); }

	static bool insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
		IndexUniqueCheck check_unique, bool index_unchanged, IndexInfo *info)
	{
		return shared_insert(method_of_index(am, index), index, values, isnull, tid, heap, index_unchanged, info);
	}

	static char *build_phase_name(int64 phase) { return shared_build_phase_name(am, phase); }

	static bool validate(Oid opclass_oid) { return shared_validate(am, opclass_oid); }

	static IndexScanDesc begin_scan(Relation index, int n_keys, int n_orderbys)
	{
		return shared_begin_scan(method_of_index(am, index), index, n_keys, n_orderbys);
	}
};

/// The IndexAmRoutine of an access method with all that is shared. Its handler sets amcostestimate, and what it has of
/// its own.
template <const AccessMethod *am>
IndexAmRoutine *
shared_routine()
{
	IndexAmRoutine *routine = new_routine();

	routine->ambuild = Callbacks<am>::build;
	routine->ambuildempty = Callbacks<am>::build_empty;
	routine->aminsert = Callbacks<am>::insert;
	routine->ambulkdelete = shared_bulkdelete;
	routine->amvacuumcleanup = shared_vacuumcleanup;
	routine->amoptions = no_options;
	routine->ambuildphasename = Callbacks<am>::build_phase_name;
	routine->amvalidate = Callbacks<am>::validate;
	routine->ambeginscan = Callbacks<am>::begin_scan;
	routine->amrescan = shared_rescan;
	routine->amgettuple = shared_get_tuple;
	routine->amgetbitmap = shared_get_bitmap;
	routine->amendscan = shared_end_scan;
	return routine;
}

} // namespace vectorgpu::am

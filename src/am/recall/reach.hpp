// The recall that an index was measured to reach, and the message about one that does not reach its default target.
// PG dialect. Used by the build, the merge and the view of indexes.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

/// The default recall target: what the setting is in a session that has not changed it. The access method has one.
double default_recall_target(const AccessMethod *am);

/// The reach of the largest segment with rows: not measured without one, or if the access method has no target. False:
/// a page was foreign.
bool index_reach(Relation index, const MetaData *meta, RecallReach *reach);

/// Warns if the index, as its metapage now is, cannot reach the default target by searches that would be faster than a
/// look at all rows. `before`: of the index before a merge, which warned if that was so then; null: of a build. The
/// caller holds a lock that keeps the manifest as it is.
void warn_of_reach(Relation index, const RecallReach *before);

} // namespace vectorgpu::am

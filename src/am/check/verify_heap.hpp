// vectorgpu_check with heapallindexed: the table against the index. PG dialect.
#pragma once

#include "am/check/verify_aliases.hpp"

namespace vectorgpu::am
{

/// Check that every row of the table that the snapshot sees is in the index with its value.
void check_heap(Relation index, Relation heap, const MetaData *meta, uint64 delta_end, Snapshot snapshot,
	const AliasCheck *aliases, CheckResult *result);

} // namespace vectorgpu::am

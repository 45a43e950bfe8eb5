// vectorgpu_check: the metapage. PG dialect.
#pragma once

#include "am/check/verify.hpp"

namespace vectorgpu::am
{

/// Check that the metapage agrees with itself: limits, ranges, at most one owner for each block.
void check_metapage(Relation index, const MetaData *meta, CheckResult *result);

} // namespace vectorgpu::am

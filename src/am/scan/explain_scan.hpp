// What EXPLAIN (ANALYZE) says of a scan of one of our indexes. PG dialect.
#pragma once

#include "pg/explain_hook.hpp"

namespace vectorgpu::am
{

/// For pg::explain_hook_install.
extern const pg::ScanExplainer scan_explainer;

} // namespace vectorgpu::am

// The lines of EXPLAIN (ANALYZE) for a scan of a vectorgpu index. PG dialect.
#pragma once

#include "pg/explain_hook.hpp"

namespace vectorgpu::am
{

/// For pg::explain_hook_install.
extern const pg::ScanExplainer scan_explainer;

} // namespace vectorgpu::am

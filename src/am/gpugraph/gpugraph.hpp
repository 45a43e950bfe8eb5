// The access method gpugraph: approximate search by a proximity graph. See README.md.
#pragma once

namespace vectorgpu::am
{

/// Registers the access method and its settings; called by _PG_init.
void graph_init();

} // namespace vectorgpu::am

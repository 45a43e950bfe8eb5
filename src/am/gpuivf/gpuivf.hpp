// The access method gpuivf: approximate search by inverted lists. See README.md.
#pragma once

namespace vectorgpu::am
{

/// Registers the access method and its settings; called by _PG_init.
void ivf_init();

} // namespace vectorgpu::am

// The settings of scans. PG dialect.
#pragma once

namespace vectorgpu::am
{

/// Defines vectorgpu.scan_order and vectorgpu.stable_pages; called by _PG_init.
void scan_define_gucs();

/// vectorgpu.stable_pages.
bool scan_pages_are_stable();

/// True if scans leave out rows that they find too late (vectorgpu.scan_order = strict).
bool scan_drops_late_rows();

} // namespace vectorgpu::am

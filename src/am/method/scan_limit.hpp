// Scans that no executor runs: the limit that their caller sets. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
}

namespace vectorgpu::am
{

/// scan/scan.cpp. Tells a scan how many rows are wanted of it, as a LIMIT would. After index_rescan.
/// `one_search`: by a single search for all of them, not by the steps of batch_plan.hpp.
void scan_set_limit(IndexScanDesc scan, uint64 rows, bool one_search);

} // namespace vectorgpu::am

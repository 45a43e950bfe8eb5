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

/// Let the scan look at all rows, so that its order is exact whatever the access method. After index_rescan.
void scan_set_exact(IndexScanDesc scan);

/// True if a scan that has come to its end may have left out rows: it is approximate, and went on behind rows that it
/// had returned before it had looked at all.
bool scan_may_have_left_out(IndexScanDesc scan);

} // namespace vectorgpu::am

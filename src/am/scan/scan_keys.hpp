// The keys of a scan: conditions on key columns, tests of the first column for NULL, and search operators on it. PG
// dialect. Used by scan.cpp.
#pragma once

#include "am/scan/scan_state.hpp"
#include "pg/limit_hook.hpp"

namespace vectorgpu::am
{

/// True if a key has NULL as its argument: such a condition holds for no row.
bool scan_key_is_null(IndexScanDesc scan);

/// The first search operator on the first column; null: there is none.
ScanKey scan_condition(IndexScanDesc scan);

/// True if the first column is tested so: SK_SEARCHNULL or SK_SEARCHNOTNULL.
bool scan_tests_null(IndexScanDesc scan, int null_test);

/// Set state->filter and state->not_null by the keys. Call after the metapage was read.
void scan_keys_start(IndexScanDesc scan, ScanState *state);

/// Where many rows meet the conditions and the worker answers, which knows no conditions, leave them to the executor.
/// Changes what the scan is wanted for. Call at the beginning of the phase.
void scan_keys_leave(IndexScanDesc scan, ScanState *state, pg::ScanWish *wish);

/// Set state->rechecks, if it is not set: a single search operator needs no recheck; the executor rechecks several, one
/// beside an order, and conditions that codes do not decide. These drop rows then, as wish is told. Call last.
void scan_keys_decide_recheck(IndexScanDesc scan, ScanState *state, pg::ScanWish *wish);

} // namespace vectorgpu::am

// Conditions beside the keys of a scan, for a plan node of our own. PG dialect.
#pragma once

#include "am/keys/key_tree.hpp"
#include "am/scan/row_set.hpp"

extern "C"
{
#include "access/relscan.h"
}

namespace vectorgpu::am
{

/// Set a condition that rows of the scan have to meet, beside its keys; null: none. Call before index_rescan(); it
/// stays until it is set again. tree: in memory that outlives the scan's use of it. Where codes leave it open
/// (xs_recheck), the caller tests the rows.
void scan_condition_set(IndexScanDesc scan, const KeyTree *tree);

/// Set the only rows that the scan may return, as another index has found them; null: all. As scan_condition_set.
void scan_rows_set(IndexScanDesc scan, const RowSet *rows);

/// Where the rows come whose distance is NaN.
enum class NanRows : uint8
{
	kLast, // behind all numbers, before NULL
	kOnly, // the scan has no other rows
	kNone, // the scan leaves them out, and ends before NULL
};

/// Set which rows a scan in order of a distance returns by whether that is NaN. As scan_condition_set.
void scan_nan_set(IndexScanDesc scan, NanRows rows);
/// Set whether the caller wants all rows below a bound of the distance in any order, so that a Limit above, which takes
/// any of them, makes no scan approximate. As scan_condition_set.
void scan_unordered_set(IndexScanDesc scan, bool unordered);

/// Set whether few rows are expected to meet the conditions of such a scan, so that all of them are looked at: one
/// search finds then what is below the bound. As scan_condition_set.
void scan_few_pass_set(IndexScanDesc scan, bool few_pass);

} // namespace vectorgpu::am

// Sampling of scans for the rolling recall (vectorgpu.recall_sample_rate). A scan under a LIMIT that is drawn notes its
// query and the rows that it returns; at its end they are handed to a background worker, which finds the true
// neighbours by a scan of the table (recall.hpp) and adds the result to the statistics (recall_stats.hpp). The client
// waits for nothing and learns of no error. One sample is under way at a time in the cluster, and each for
// vectorgpu.recall_sample_time at most; scans drawn meanwhile are not sampled. PG dialect.
#pragma once

#include "common/types.hpp"
#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
}

namespace vectorgpu::am
{

struct RecallSample;

/// Defines the settings. Called once, from _PG_init.
void recall_define_gucs();

/// A scan begins that `limit` rows are wanted of and no more. Null unless it is drawn; what it returns lives in
/// `context`.
RecallSample *recall_sample_begin(IndexScanDesc scan, uint64 limit, MemoryContext context);

/// The scan returns a row.
void recall_sample_row(RecallSample *sample, RowId row);

/// The scan ends; `complete`: it has no more rows. Hands the sample on if it has all rows that were wanted. Raises no
/// error.
void recall_sample_end(RecallSample *sample, bool complete);

} // namespace vectorgpu::am

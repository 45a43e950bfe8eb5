// Sampling of scans for the rolling recall (vectorgpu.recall_sample_rate). A scan under a LIMIT that is drawn notes its
// query and the rows that it returns. At its end a background worker gets them, finds the true neighbours by a scan of
// the table (recall.hpp) and adds the result to the statistics (recall_stats.hpp). The client neither waits nor sees an
// error. The cluster measures one sample at a time, for vectorgpu.recall_sample_time at most; scans drawn meanwhile are
// not sampled. PG dialect.
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

/// Begins a scan for `limit` rows. Null unless it is drawn; the sample lives in `context`.
RecallSample *recall_sample_begin(IndexScanDesc scan, uint64 limit, MemoryContext context);

/// Notes a row that the scan returns.
void recall_sample_row(RecallSample *sample, RowId row);

/// Ends the scan; `complete`: it has no more rows. Hands the sample on if it has all rows that were wanted. Raises no
/// error.
void recall_sample_end(RecallSample *sample, bool complete);

} // namespace vectorgpu::am

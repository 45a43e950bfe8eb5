// Reading ahead: the first search of a scan is asked before the scan wants its rows, together with those of other
// scans. The answer waits with the scan's state. The scan takes it if it asks for just that search of just that
// version; else it asks as usual. So a wrong guess costs a search, never a row. PG dialect. Used by scan.cpp,
// worker_ask.cpp.
#pragma once

#include "am/scan/worker_ask.hpp"

extern "C"
{
#include "access/relscan.h"
}

namespace vectorgpu::am
{

/// The worker's answer to a scan's first search.
struct SiblingAnswer
{
	uint64 k;
	uint32 round;
	engine::Neighbor *rows; // [header.n_items]
	wire::ReplyHeader header;
};

/// In am/scan/scan.cpp: read the version of a scan whose keys are set, and prepare its first batch, if that was not
/// done.
void scan_start(IndexScanDesc scan);

/// True if the first batch of a scan that has started will ask the worker, unless a pass needs all rows.
bool asks_worker_first(IndexScanDesc scan);

/// Plan the first batch of such a scan, so that its request can be made before the scan makes it. Returns the plan as
/// it was, to be put back by forget_first_batch.
ScanPlan plan_first_batch(IndexScanDesc scan);
void forget_first_batch(IndexScanDesc scan, const ScanPlan &before);

/// Call when a scan is about to fetch its first row. Asks for its first search and for those of the other scans below
/// its Merge Append (pg::merge_siblings), as many as fit into a request. With fewer than two nothing is asked: the scan
/// does that itself. Raises errors for interrupts, and those that these scans would raise when they begin.
void ahead_ask_siblings(IndexScanDesc scan);

/// Give a search its answer, if that was asked for ahead. The answer is used once.
bool ahead_take(ScanState *state, Ask *ask, wire::ReplyHeader *header);

} // namespace vectorgpu::am

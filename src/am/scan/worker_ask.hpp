// What the files of scans by the worker share: worker_scan.cpp (searches whose rows are the answer) and
// worker_candidates.cpp (those whose rows are candidates, which the pages finish). PG dialect.
#pragma once

#include "am/scan/worker_scan.hpp"

namespace vectorgpu::am
{

/// What a SEARCH and its NEXTs ask for, and what has come.
struct Ask
{
	uint64 k;
	const engine::Neighbor *after; // continue strictly behind; null: from the first
	engine::Neighbor *rows;        // [capacity]
	uint64 capacity;
	uint64 n_rows;
	Coverage coverage;
	const wire::SegmentProbes *probes; // [n_probes]; null: as the scan's round has them
	uint32 n_probes;
};

/// True if the worker's rows are the candidates that the probes name, of segments.
bool finds_candidates(const ScanState *state);

/// True if the worker's rows are the candidates of a search that the pages finish.
bool gives_candidates(const ScanState *state);

/// kNone: the worker is worth asking.
Bypass bypass_of(Relation index, const ScanState *state);

/// How much the scan's round looks at, of each segment. Sets *n to 0 if it looks at every row: to say so by the number
/// of lists would be true of these segments only, and the copy may have a merged one with more of them by now. False if
/// a page was foreign.
bool choose_probes(Relation index, const ScanState *state, wire::SegmentProbes *probes, uint32 *n);

/// True if the worker has answered. False: the reason has been counted.
bool ask_worker(Relation index, ScanState *state, Ask *ask);

/// Counts why the worker has not answered, where it was asked.
void count_fallback(Relation index, ScanState *state, uint64 noted);

} // namespace vectorgpu::am

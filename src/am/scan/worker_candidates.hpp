// Batches that the pages finish: the worker names the candidates that a pass looks at. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"
#include "wire/messages.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::am
{

/// How the next pass of a scan asks for candidates.
struct CandidatesWish
{
	Bypass bypass; // kNone: it asks
	uint64 n;
	bool by_probes; // the probes name them (finds_candidates); else the first n by the copy's metric
	wire::SegmentProbes probes[kMaxSegments]; // [n_probes]
	uint32 n_probes;
};

/// The wish of a scan for which gives_candidates() is true. False if a page was foreign.
bool candidates_wanted(Relation index, const ScanState *state, CandidatesWish *wish);

/// For an access method whose worker names candidates (WorkerStructure::n_candidates, finds_candidates): those of the
/// scan's next pass, ascending, palloc'd. False: the pass finds its candidates from the pages. Raises errors as
/// worker_search does.
bool worker_candidates(Relation index, ScanState *state, RowId **candidates, uint64 *n_candidates);

} // namespace vectorgpu::am

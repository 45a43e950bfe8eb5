// Batches whose rows are the worker's answer, and whether the worker is worth asking. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::am
{

/// kNone: the worker is worth asking.
Bypass bypass_of(Relation index, const ScanState *state);

/// Fills state->batch, if the worker has a copy that is new enough for the scan; brings the copy up to date if that is
/// little work. False: nothing has changed, and the batch has to come from the pages. Raises errors for interrupts only
/// (and for damaged pages that it reads to bring the copy up to date).
bool worker_search(Relation index, ScanState *state);

/// True if the worker decides the scan's conditions on key columns, or there are none.
bool worker_takes_conditions(Relation index, const ScanState *state);

/// For a caller with many searches at a time. True if the worker is worth asking, and what it finds are the entries
/// that a scan is to find; rows may share them.
bool worker_finds_entries(Relation index, const ScanState *state);

/// The SEARCH of the scan's round for k rows. probes: [kMaxSegments], of which *n_probes are to be sent behind it, and
/// then the query. False: a page was foreign.
bool worker_search_request(Relation index, const ScanState *state, uint64 k, wire::SearchRequest *search,
	wire::SegmentProbes *probes, uint32 *n_probes);

/// True if the n rows can be an answer to a SEARCH for k from the first on.
bool worker_rows_valid(const ScanState *state, engine::Neighbor *rows, uint64 n, uint64 k);

} // namespace vectorgpu::am

// One search of the worker, for a batch or for candidates. The scan's version (which it has read from the pages after
// its snapshot was set) goes with the request: an answer is from a copy of that version or a newer one. PG dialect.
// Used by worker_scan.cpp and worker_candidates.cpp.
#pragma once

#include "am/scan/scan_state.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::am
{

/// The request of a SEARCH and its NEXTs, and the answer.
struct Ask
{
	uint64 k;
	const engine::Neighbor *after; // continue strictly behind; null: from the first
	engine::Neighbor *rows;        // [capacity]
	uint64 capacity;
	uint64 n_rows;
	Coverage coverage;
	const wire::SegmentProbes *probes; // [n_probes]; null: choose_probes
	uint32 n_probes;
};

/// True if the worker finds the number of candidates that the probes name for each segment.
bool finds_candidates(const ScanState *state);

/// True if the worker's rows are the candidates of a search that the pages finish.
bool gives_candidates(const ScanState *state);

/// Fills in how much of each segment the scan's round looks at. Sets *n to 0 if it looks at every row: the copy may
/// have a merged segment with more lists than these probes could name. False if a page was foreign.
bool choose_probes(Relation index, const ScanState *state, wire::SegmentProbes *probes, uint32 *n);

/// True if the worker has answered. False: the reason has been counted.
bool ask_worker(Relation index, ScanState *state, Ask *ask);

/// Counts a reply to the scan's search, and sets ask->coverage by it.
void take_reply_header(const ScanState *state, const wire::ReplyHeader *header, Ask *ask);

/// Counts why the worker, which was asked, has not answered.
void count_fallback(Relation index, ScanState *state, uint64 noted);

/// Fills in a SEARCH for k rows from the first on, with no rows of the delta.
void fill_search(const ScanState *state, uint64 k, uint32 n_probes, wire::SearchRequest *search);

/// The bytes of the query for the worker.
const void *query_to_send(const ScanState *state, Size *n_bytes);

/// The scan's conditions for the worker: a program, or the rows that another index has found. bypass_of has found
/// those.
const uint8 *conditions_to_send(Relation index, const ScanState *state, Size *n_bytes);

/// True if ask->rows [n_rows, n_rows + n) can be the rows of an answer: ascending behind the last one, inside the
/// table, at most as many as asked for.
bool rows_valid(const ScanState *state, const Ask *ask, uint64 n);

/// The rows that another index has found, for a request: by their numbers in the segments and in the delta, so that
/// copies need no row ids (wire::GivenRows). True if a request has room for those that pass; else the pages answer.
bool given_rows_fit(Relation index, const ScanState *state);

/// The bytes of wire::GivenRows, kept in the scan's filter. Null: they do not fit, or a page was foreign.
const uint8 *given_rows_bytes(Relation index, const ScanState *state, Size *n_bytes);

/// After a copy was BEHIND: true if the index has a newer manifest than the scan. Copies of it cannot tell which rows
/// these numbers mean, so from now on given_rows_fit is false, until the scan reads its version again.
bool given_rows_outdated(Relation index, const ScanState *state);

} // namespace vectorgpu::am

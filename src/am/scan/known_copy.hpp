// The copies in the worker, as this process last saw them: what they lack, and how they are brought up to date. PG
// dialect. Used by worker_ask.cpp.
#pragma once

#include "am/scan/scan_state.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::am
{

/// The last known state of a copy. A hint: the worker checks.
struct KnownCopy
{
	wire::CopyKey key;
	wire::CopyVersion version; // it served a scan of this version
	uint64 no_feed_until_ns;
	bridge::Fallback no_feed_reason; // until then
	uint64 used;
};

/// The copy's entry. The table is small: one that was not used for long makes room.
KnownCopy *known_copy(const wire::CopyKey *key);

/// The rows that the copy lacks, as far as this process knows, if they are few enough to go along with the search.
/// Returns their number; *rows: their headers, then their vectors (palloc'd). 0: none go along.
uint64 rows_ahead(Relation index, const KnownCopy *known, const ScanState *state, char **rows);

/// Counts n rows of the delta that were sent to the worker.
void count_shipped(uint64 n, ScanCounters *counters);

/// Brings the copy up to date, or asks the loader to do so. `status`: the worker's answer to the search. True if the
/// search may be tried again.
bool bring_copy(Relation index, const ScanState *state, wire::ReplyStatus status, KnownCopy *known);

/// Drops a copy whose reply had impossible rows, and asks nothing of it for a while.
void distrust_copy(const wire::CopyKey *key, KnownCopy *known);

} // namespace vectorgpu::am

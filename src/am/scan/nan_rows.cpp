// See nan_rows.hpp. A hash of the index's file, its uuid and its manifest's generation stands for what its segments
// hold: these do not change. A file that was rolled back (SET TABLESPACE copies the uuid) may have had others of that
// generation.
#include "am/scan/nan_rows.hpp"

#include "bridge/shared_state.hpp"
#include "storage/value_format.hpp"

extern "C"
{
#include "access/relscan.h"
#include "common/hashfn.h"
}

namespace vectorgpu::am
{

namespace
{

/// The hash of the scan's segments; never 0.
uint64
hash_of_segments(IndexScanDesc scan, const ScanState *state)
{
	const pg::RelationFile &file = pg::file_of(scan->indexRelation);
	const uint64 parts[] = {static_cast<uint64>(pg::file_tablespace(file)) << 32 | pg::file_number(file),
		state->meta.uuid.high, state->meta.uuid.low, state->meta.manifest_generation};

	return hash_bytes_extended(reinterpret_cast<const unsigned char *>(parts), sizeof(parts), 0) | 1;
}

/// Where the hash is remembered; null without shared memory.
pg_atomic_uint64 *
place_of(const ScanState *state)
{
	bridge::SharedState *shared = bridge::shared_state();

	return shared != nullptr ? &shared->no_nan[state->meta.uuid.low % bridge::kNoNans] : nullptr;
}

} // namespace

bool
nan_rows_may_be(const ScanState *state)
{
	return (state->am->values == nullptr || state->am->values->scores_may_be_nan) &&
		(state->shape.metric == Metric::kCosine || state->shape.metric == Metric::kInnerProduct);
}

bool
nan_rows_none_in_segments(IndexScanDesc scan, const ScanState *state)
{
	pg_atomic_uint64 *place = place_of(state);

	return place != nullptr && pg_atomic_read_u64(place) == hash_of_segments(scan, state);
}

void
nan_rows_note_none(IndexScanDesc scan, const ScanState *state)
{
	pg_atomic_uint64 *place = place_of(state);

	if (place != nullptr)
		pg_atomic_write_u64(place, hash_of_segments(scan, state));
}

} // namespace vectorgpu::am

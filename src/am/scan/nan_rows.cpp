// See nan_rows.hpp. A hash of the index's file, its uuid and its manifest's generation stands for what its segments
// hold: these do not change. A file that was rolled back (SET TABLESPACE copies the uuid) may have had others of that
// generation.
//
// What a scan has found must hold for other queries. Of halves no sum is beyond the range of a float, so that a row's
// cosine distance is NaN only if it is a zero vector. For floats rows are compared once more with vectors of large
// elements L: if all these sums are finite, elements are below FLT_MAX / L, so that the sums with *ordinary* queries
// are finite, too. Other queries, and sparse vectors, look at all rows.
#include "am/scan/nan_rows.hpp"

#include "am/scan/scan_source.hpp"
#include "bridge/shared_state.hpp"
#include "engine/distance/distance.hpp"
#include "storage/value_format.hpp"

extern "C"
{
#include "access/relscan.h"
#include "common/hashfn.h"
}

#include <algorithm>
#include <cfloat>
#include <limits>

namespace vectorgpu::am
{

namespace
{

constexpr float kLarge = 0x1p64F;        // L
constexpr double kMostOrdinary = 0x1p80; // squared norm: of at most 2^16 elements below 2^64, none adds 2^120 to a sum

/// True if the scan's query can give NaN only with rows that give it, or an infinite sum, with large elements.
bool
query_is_ordinary(const ScanState *state)
{
	double square;

	if (state->am->values != nullptr)
		return false;
	square =
		-engine::distance({Metric::kInnerProduct, state->shape.element, state->shape.dim}, state->query, state->query);
	return square <= kMostOrdinary && (square > 0 || state->shape.metric == Metric::kInnerProduct);
}

/// True if all elements of a query are `element` and a row's sum of products with it is NaN, or infinite with the sign
/// that sorts last. By cosine it is NaN then, too: the squared norm of the query is infinite.
bool
finds_with(Relation index, Snapshot snapshot, ScanState *state, float element)
{
	float *query = static_cast<float *>(MemoryContextAlloc(state->context, state->shape.dim * sizeof(float)));

	std::fill_n(query, state->shape.dim, element);
	state->query = reinterpret_cast<const char *>(query);
	state->rounds.am_state = nullptr;
	state->batch.size = 1;
	state->place.last = {
		state->shape.metric == Metric::kCosine ? std::numeric_limits<double>::infinity() : DBL_MAX, PG_UINT64_MAX};
	state->place.has_last = true;
	scan_next_batch(index, snapshot, state);
	return state->batch.n_rows > 0;
}

/// True if no row of the segments can be at NaN from an ordinary query, after a look that has found none from this one.
/// The scan has ended.
bool
proves_none(IndexScanDesc scan, ScanState *state)
{
	const uint64 generation = state->meta.manifest_generation;
	const char *query = state->query;
	bool none;

	if (state->shape.element != ElementType::kFloat32)
		return true;
	state->phase = ScanPhase::kScored;
	none = !finds_with(scan->indexRelation, scan->xs_snapshot, state, kLarge) &&
		(state->shape.metric == Metric::kCosine || !finds_with(scan->indexRelation, scan->xs_snapshot, state, -kLarge));
	state->phase = ScanPhase::kDone;
	state->batch.n_rows = 0;
	state->query = query;
	return none && state->meta.manifest_generation == generation;
}

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
	if (state->am->values != nullptr && !state->am->values->scores_may_be_nan)
		return false;
	return state->shape.metric == Metric::kCosine ||
		(state->shape.metric == Metric::kInnerProduct && state->shape.element != ElementType::kFloat16);
}

bool
nan_rows_none_in_segments(IndexScanDesc scan, const ScanState *state)
{
	pg_atomic_uint64 *place = place_of(state);

	return place != nullptr && query_is_ordinary(state) && pg_atomic_read_u64(place) == hash_of_segments(scan, state);
}

void
nan_rows_note_none(IndexScanDesc scan, ScanState *state)
{
	pg_atomic_uint64 *place = place_of(state);

	if (place != nullptr && !state->bounds.skips_segments && query_is_ordinary(state) && proves_none(scan, state))
		pg_atomic_write_u64(place, hash_of_segments(scan, state));
}

} // namespace vectorgpu::am

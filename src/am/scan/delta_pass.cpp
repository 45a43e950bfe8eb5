// See delta_pass.hpp. Holds content locks page by page only.
#include "am/scan/delta_pass.hpp"

#include "am/scan/page_pass.hpp"
#include "engine/distance/distance.hpp"
#include "storage/delta_value.hpp"
#include "storage/value_format.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kSliceBytes = 64 * 1024; // vectors read and scored at a time: stays in the CPU's cache
constexpr uint64 kSliceRows = 1024;     // the most rows of a slice
constexpr Size kShareOfWorkMem = 2;     // scores that are kept take at most this part of it

/// Zeros, the scores of rows that are in row id order only.
const double kNoScores[kSliceRows] = {};

/// Make room for the scores of all rows, if work_mem has it.
void
begin_scores(ScanState *state)
{
	DeltaScores *known = &state->delta_scores;
	const uint64 n = state->delta_end - state->meta.delta_first_row;

	known->n = 0;
	if (known->scores != nullptr)
		return;
	if (n > static_cast<Size>(work_mem) * 1024 / kShareOfWorkMem / (sizeof(double) + sizeof(RowId)))
		return;
	known->scores = static_cast<double *>(MemoryContextAllocHuge(state->context, n * sizeof(double)));
	known->rows = static_cast<RowId *>(MemoryContextAllocHuge(state->context, n * sizeof(RowId)));
	known->capacity = n;
}

void
keep(DeltaScores *known, const double *scores, const RowId *rows, uint64 n)
{
	if (known->capacity == 0)
		return;
	memcpy(known->scores + known->n, scores, n * sizeof(double));
	memcpy(known->rows + known->n, rows, n * sizeof(RowId));
	known->n += n;
}

/// Offers scored rows; may reorder them.
void
offer(const ScanState *state, const SegmentSearch *search, double *scores, RowId *rows, uint64 n)
{
	if (state->am->approximate != nullptr)
		search_offer(search, scores, rows, n);
	else
		engine::topk_push(search->topk, scores, rows, n, nullptr, 0);
}

/// Reads a slice of the delta, of stored values the headers only. Rows that do not meet conditions on key columns come
/// as dead ones.
bool
read_slice(Relation index, const ScanState *state, uint64 first, uint64 n, uint64 *headers, char *vectors, Size stride)
{
	if (state->am->values != nullptr)
		return delta_read(index, &state->meta, first, n, headers, nullptr, 0) &&
			(state->filter == nullptr || key_filter_values(state->filter, index, &state->meta, first, n, headers));
	if (state->filter == nullptr)
		return delta_read(index, &state->meta, first, n, headers, vectors, stride);
	if (!delta_read_bodies(index, &state->meta, first, n, headers, vectors, stride))
		return false;
	key_filter_delta(state->filter, &state->meta, headers, vectors, stride, n);
	return true;
}

/// Scores a slice of the delta in place: compacts rows and scores to those that have a value and are alive.
uint64
score_slice(const ScanState *state, uint64 n, uint64 *headers, const char *vectors, Size stride, double *scores)
{
	const engine::DistanceSpec spec = {state->shape.metric, state->shape.element, state->shape.dim};
	uint64 kept = 0;

	engine::compute_scores(spec, state->query, vectors, stride, n, scores);
	for (uint64 i = 0; i < n; i++)
	{
		if ((headers[i] & (kDeltaDead | kDeltaNull)) != 0)
			continue;
		scores[kept] = scores[i];
		headers[kept++] = headers[i] & kDeltaRowIdMask;
	}
	return kept;
}

/// Keeps the row ids of a slice's live rows: the NULL ones or all.
uint64
pick_slice(const ScanState *state, uint64 n, uint64 *headers)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < n; i++)
	{
		if (!delta_starts_row(headers[i]) || (headers[i] & kDeltaDead) != 0 ||
			(state->phase == ScanPhase::kNulls && (headers[i] & kDeltaNull) == 0) ||
			(state->not_null && (headers[i] & kDeltaNull) != 0))
			continue;
		headers[kept++] = headers[i] & kDeltaRowIdMask;
	}
	return kept;
}

/// Offers rows with a stored value: their slots are found by the headers, each value is read and scored alone.
bool
score_values(Relation index, ScanState *state, const SegmentSearch *search)
{
	const ValueFormat *values = state->am->values;
	uint64 *headers = static_cast<uint64 *>(palloc(kSliceRows * sizeof(uint64)));
	ValueBuffer value = {nullptr, 0};

	for (uint64 row = state->meta.delta_first_row; row < state->delta_end; row += kSliceRows)
	{
		const uint64 n = Min(kSliceRows, state->delta_end - row);

		CHECK_FOR_INTERRUPTS();
		if (!read_slice(index, state, row, n, headers, nullptr, 0))
			return false;
		for (uint64 i = 0; i < n; i++)
		{
			RowId row_id = headers[i] & kDeltaRowIdMask;
			double score;

			if ((headers[i] & (kDeltaContinued | kDeltaDead | kDeltaNull)) != 0)
				continue;
			if (!delta_read_value(index, &state->meta, row + i, &value))
				return false;
			score = values->score(&state->shape, search->query, value.data);
			++*search->n_compared;
			keep(&state->delta_scores, &score, &row_id, 1);
			offer(state, search, &score, &row_id, 1);
		}
	}
	return true;
}

/// Offers rows with a vector.
bool
score_rows(Relation index, ScanState *state, const SegmentSearch *search)
{
	const Size stride =
		MAXALIGN(state->filter != nullptr ? delta_body_bytes(&state->meta) : meta_vector_bytes(&state->meta));
	const uint64 slice = Max(UINT64CONST(1), Min(kSliceRows, kSliceBytes / stride));
	uint64 *headers = static_cast<uint64 *>(palloc(slice * sizeof(uint64)));
	double *scores = static_cast<double *>(palloc(slice * sizeof(double)));
	char *vectors = static_cast<char *>(palloc0(slice * stride)); // NULL rows leave their place as it is

	for (uint64 row = state->meta.delta_first_row; row < state->delta_end; row += slice)
	{
		const uint64 n = Min(slice, state->delta_end - row);
		uint64 kept;

		CHECK_FOR_INTERRUPTS();
		if (!read_slice(index, state, row, n, headers, vectors, stride))
			return false;
		state->counters->n_compared += n;
		kept = score_slice(state, n, headers, vectors, stride, scores);
		keep(&state->delta_scores, scores, headers, kept);
		offer(state, search, scores, headers, kept);
	}
	return true;
}

/// Offers rows by their row ids alone.
bool
offer_row_ids(Relation index, const ScanState *state, const SegmentSearch *search)
{
	const Size stride = state->filter != nullptr ? MAXALIGN(delta_body_bytes(&state->meta)) : 0;
	uint64 *headers = static_cast<uint64 *>(palloc(kSliceRows * sizeof(uint64)));
	char *bodies =
		stride > 0 ? static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, kSliceRows * stride)) : nullptr;

	for (uint64 row = state->meta.delta_first_row; row < state->delta_end; row += kSliceRows)
	{
		const uint64 n = Min(kSliceRows, state->delta_end - row);

		CHECK_FOR_INTERRUPTS();
		if (!read_slice(index, state, row, n, headers, bodies, stride))
			return false;
		engine::topk_push(search->topk, kNoScores, headers, pick_slice(state, n, headers), nullptr, 0);
	}
	return true;
}

/// Offers the rows that an earlier pass has scored.
void
offer_known(const ScanState *state, const SegmentSearch *search)
{
	const DeltaScores *known = &state->delta_scores;
	double *scores = static_cast<double *>(palloc(kSliceRows * sizeof(double)));
	RowId *rows = static_cast<RowId *>(palloc(kSliceRows * sizeof(RowId)));

	for (uint64 first = 0; first < known->n; first += kSliceRows)
	{
		const uint64 n = Min(kSliceRows, known->n - first);

		CHECK_FOR_INTERRUPTS();
		memcpy(scores, known->scores + first, n * sizeof(double));
		memcpy(rows, known->rows + first, n * sizeof(RowId));
		offer(state, search, scores, rows, n);
	}
}

} // namespace

bool
delta_pass(Relation index, ScanState *state, const SegmentSearch *search)
{
	DeltaScores *known = &state->delta_scores;

	if (state->delta_end <= state->meta.delta_first_row)
		return true;
	if (state->phase != ScanPhase::kScored)
		return offer_row_ids(index, state, search);
	if (known->complete)
	{
		offer_known(state, search);
		return true;
	}
	begin_scores(state);
	if (!(state->am->values != nullptr ? score_values(index, state, search) : score_rows(index, state, search)))
		return false;
	known->complete = known->capacity > 0;
	return true;
}

} // namespace vectorgpu::am

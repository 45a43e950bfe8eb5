// The rows that another index has found, as a request to the worker names them. See worker_ask.hpp.
#include "am/scan/worker_ask.hpp"

#include "am/scan/few_rows.hpp"
#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"
#include "storage/delta.hpp"
#include "wire/messages.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kSliceRows = 1024;

static_assert(kMostGivenRows * sizeof(uint32) + sizeof(wire::GivenRows) +
		wire::kMaxSegmentsPerCopy * sizeof(wire::GivenSegment) + sizeof(uint64) <=
	wire::kMostProgramBytes);

/// Appends the numbers of the delta's rows that pass, counted from the last multiple of 8 up to its first. False: there
/// are more than *n of them, or a page was foreign.
bool
list_delta(Relation index, const ScanState *state, uint32 *numbers, uint64 *n)
{
	const uint64 begin = state->meta.delta_first_row / 8 * 8;
	const uint64 most = *n;
	const engine::predicate::Program &program = state->filter->conditions.program;
	const bool codes = program.n_streams > 0;
	const bool of_values = codes && state->am->values != nullptr;
	const Size stride = codes && !of_values ? MAXALIGN(delta_body_bytes(&state->meta)) : 0;
	uint64 *headers = static_cast<uint64 *>(palloc(kSliceRows * sizeof(uint64)));
	char *bodies =
		stride > 0 ? static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, kSliceRows * stride)) : nullptr;

	*n = 0;
	if (!codes && engine::predicate::evaluate_row(program, nullptr, 0) == engine::predicate::RowVerdict::kFails)
		return true;
	for (uint64 row = state->meta.delta_first_row; row < state->delta_end; row += kSliceRows)
	{
		const uint64 n_slice = Min(kSliceRows, state->delta_end - row);

		CHECK_FOR_INTERRUPTS();
		if (stride > 0 ? !delta_read_bodies(index, &state->meta, row, n_slice, headers, bodies, stride)
					   : !delta_read(index, &state->meta, row, n_slice, headers, nullptr, 0))
			return false;
		if (of_values && !key_filter_values(state->filter, index, &state->meta, row, n_slice, headers))
			return false;
		if (stride > 0)
			key_filter_delta(state->filter, &state->meta, headers, bodies, stride, n_slice);
		for (uint64 i = 0; i < n_slice; i++)
		{
			if ((headers[i] & (kDeltaContinued | kDeltaDead | kDeltaNull)) != 0 ||
				(!codes && !row_set_has(&state->filter->entries, headers[i] & kDeltaRowIdMask)))
				continue;
			if (*n == most)
				return false;
			numbers[(*n)++] = static_cast<uint32>(row + i - begin);
		}
	}
	pfree(headers);
	return true;
}

/// Sets the segments that have rows, in the order of their ids. False: a page was foreign, or more than kMostGivenRows
/// rows pass.
bool
pick_segments(Relation index, const ScanState *state, const PassingRows **passing, wire::GivenSegment *given,
	uint32 *n_segments, uint64 *n_rows)
{
	*n_segments = 0;
	*n_rows = 0;
	for (uint32 i = 0; i < state->meta.n_segments; i++)
	{
		const SegmentEntry *segment = &state->meta.segments[i];
		const PassingRows *rows = key_filter_rows(state->filter, index, &state->meta, segment, state->strategy);
		uint32 at = *n_segments;

		if (rows == nullptr || *n_rows + rows->n_rows > kMostGivenRows)
			return false;
		if (segment->n_rows == 0)
			continue;
		for (; at > 0 && given[at - 1].segment > segment->id; at--)
		{
			given[at] = given[at - 1];
			passing[at] = passing[at - 1];
		}
		given[at] = {segment->id, static_cast<uint32>(rows->n_rows), segment->n_rows};
		passing[at] = rows;
		++*n_segments;
		*n_rows += rows->n_rows;
	}
	return true;
}

/// Makes filter->given. False as pick_segments and list_delta.
bool
make_bytes(Relation index, const ScanState *state)
{
	KeyFilter *filter = state->filter;
	const PassingRows *passing[kMaxSegments];
	wire::GivenSegment segments[kMaxSegments];
	wire::GivenRows head = {};
	uint64 n_of_segments;
	uint64 n;
	Size n_bytes;
	uint32 *numbers;
	uint32 *of_delta;

	if (!pick_segments(index, state, passing, segments, &head.n_segments, &n_of_segments))
		return false;
	n = kMostGivenRows - n_of_segments;
	of_delta = static_cast<uint32 *>(palloc(Max(n, UINT64CONST(1)) * sizeof(uint32)));
	if (!list_delta(index, state, of_delta, &n))
		return false;
	head.delta_end = Max(state->delta_end, state->meta.delta_first_row);
	head.n_delta = static_cast<uint32>(n);
	n_bytes = TYPEALIGN(sizeof(uint64),
		sizeof(head) + head.n_segments * sizeof(wire::GivenSegment) + (n_of_segments + n) * sizeof(uint32));
	filter->given = static_cast<uint8 *>(MemoryContextAllocZero(filter->context, n_bytes));
	memcpy(filter->given, &head, sizeof(head));
	memcpy(filter->given + sizeof(head), segments, head.n_segments * sizeof(wire::GivenSegment));
	numbers = reinterpret_cast<uint32 *>(filter->given + sizeof(head) + head.n_segments * sizeof(wire::GivenSegment));
	for (uint32 i = 0; i < head.n_segments; i++)
		numbers += engine::predicate::list_rows(passing[i]->rows, segments[i].n_rows, numbers, segments[i].n_given);
	memcpy(numbers, of_delta, n * sizeof(uint32));
	pfree(of_delta);
	filter->n_given_bytes = n_bytes;
	return true;
}

} // namespace

bool
given_rows_fit(Relation index, const ScanState *state)
{
	KeyFilter *filter = state->filter;

	if (!filter->given_known)
		(void) make_bytes(index, state);
	filter->given_known = true;
	return filter->given != nullptr;
}

const uint8 *
given_rows_bytes(Relation index, const ScanState *state, Size *n_bytes)
{
	*n_bytes = 0;
	if (!given_rows_fit(index, state))
		return nullptr;
	*n_bytes = state->filter->n_given_bytes;
	return state->filter->given;
}

bool
given_rows_outdated(Relation index, const ScanState *state)
{
	KeyFilter *filter = state->filter;
	MetaData *now;
	bool outdated;

	if (filter == nullptr || filter->given == nullptr)
		return false;
	now = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	meta_read(index, nullptr, now);
	outdated = now->manifest_generation != state->meta.manifest_generation;
	pfree(now);
	if (!outdated)
		return false;
	pfree(filter->given);
	filter->given = nullptr;
	return true;
}

} // namespace vectorgpu::am

// See few_rows.hpp. Rows that follow one another are read together.
#include "am/scan/few_rows.hpp"

#include "am/method/dead_rows.hpp"
#include "engine/distance/distance.hpp"
#include "engine/predicate/row_bits.hpp"
#include "storage/stream.hpp"
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

// Where a pass reads all rows the faster way is taken: reading a row by itself takes as long as these bytes of a pass
// more than its own, and a row of a pass as long as these.
constexpr uint64 kBytesOfRead = 8192;
constexpr uint64 kBytesOfRow = 128;
constexpr Size kBatchBytes = 64 * 1024;
constexpr uint64 kBatchRows = 512;     // at most
constexpr uint64 kRowIdsPerRead = 256; // row ids are near each other where vectors are not

/// Rows that were read and are to be scored.
struct FewRows
{
	uint64 capacity;
	Size stride;
	char *vectors; // [capacity, stride]
	RowId *rows;
	double *scores;
	uint64 n;
	RowId near[kRowIdsPerRead]; // row ids of the rows from first_near on
	uint64 first_near;
	uint64 n_near;
};

/// Copies the row ids of rows [first, first + n) to `to`. False if a page was foreign.
bool
read_row_ids(const SegmentSearch *search, uint64 first, uint64 n, FewRows *few, RowId *to)
{
	for (uint64 i = 0; i < n; i++)
	{
		const uint64 row = first + i;

		if (row < few->first_near || row >= few->first_near + few->n_near)
		{
			few->first_near = row / kRowIdsPerRead * kRowIdsPerRead;
			few->n_near = Min(kRowIdsPerRead, search->segment->n_rows - few->first_near);
			if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds,
					few->first_near * sizeof(RowId), few->n_near * sizeof(RowId), few->near, search->strategy))
				return false;
		}
		to[i] = few->near[row - few->first_near];
	}
	return true;
}

/// Reads the vectors and row ids of rows [first, first + n) of the segment. False if a page was foreign.
bool
read_run(const AccessMethod *am, const SegmentSearch *search, uint64 first, uint64 n, FewRows *few)
{
	const SegmentEntry *segment = search->segment;
	const SegmentFormat *format = am->format;
	char *to = few->vectors + few->n * few->stride;

	if (!read_row_ids(search, first, n, few, few->rows + few->n))
		return false;
	few->n += n;
	return format != nullptr && format->read_vectors != nullptr
		? format->read_vectors(search->index, search->meta, segment, first, n, to, search->strategy)
		: stream_read(search->index, search->meta, segment, StreamKind::kVectors, first * few->stride, n * few->stride,
			  to, search->strategy);
}

void
offer(const SegmentSearch *search, FewRows *few)
{
	const engine::DistanceSpec spec = {search->meta->metric, search->meta->element, search->meta->dim};

	CHECK_FOR_INTERRUPTS();
	engine::compute_scores(spec, search->query, few->vectors, few->stride, few->n, few->scores, 0);
	*search->n_compared += few->n;
	if (search->approximate != nullptr)
		search_offer(search, few->scores, few->rows, few->n);
	else
		engine::topk_push(search->topk, few->scores, few->rows, few->n, nullptr, 0);
	few->n = 0;
}

/// The first byte from `from` on that is not zero; behind the last one: there is none.
uint64
next_byte(const uint8 *bits, uint64 from, uint64 n_rows)
{
	const uint64 end = (n_rows + 7) / 8;
	uint64 word;

	for (; from + sizeof(word) <= end; from += sizeof(word))
	{
		memcpy(&word, bits + from, sizeof(word));
		if (word != 0)
			break;
	}
	while (from < end && bits[from] == 0)
		from++;
	return from;
}

/// The table has the vectors: the access method reads those of the rows that pass, as it reads candidates. False if a
/// page was foreign.
bool
search_table_rows(const AccessMethod *am, const SegmentSearch *search)
{
	const uint64 n_rows = search->segment->n_rows;
	const uint64 n_passing = engine::predicate::count_rows(search->passing, 0, n_rows);
	RowId *passing =
		static_cast<RowId *>(palloc_extended(Max(n_passing, UINT64CONST(1)) * sizeof(RowId), MCXT_ALLOC_HUGE));
	ApproximateSearch approximate = *search->approximate;
	SegmentSearch exact = *search;
	FewRows *few = static_cast<FewRows *>(palloc0(sizeof(FewRows)));
	uint64 n = 0;

	for (uint64 row = 0; row < n_rows; row++)
	{
		if (row % kRowIdsPerRead == 0)
			CHECK_FOR_INTERRUPTS();
		if (search_row_passes(search, row) && !read_row_ids(search, row, 1, few, &passing[n++]))
			return false;
	}
	approximate.exact = true;
	approximate.candidates = passing;
	approximate.n_candidates = n;
	exact.approximate = &approximate;
	return am->search_segment(&exact);
}

/// Reads and offers the stored values of the rows that pass, one by one. False if a page was foreign.
bool
search_values(const ValueFormat *values, const SegmentSearch *search)
{
	const IndexShape shape = shape_of_meta(search->meta);
	ValueBuffer value = {nullptr, 0};

	for (uint64 row = 0; row < search->segment->n_rows; row++)
	{
		RowId id;
		double score;

		if (!search_row_passes(search, row))
			continue;
		CHECK_FOR_INTERRUPTS();
		if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds, row * sizeof(RowId),
				sizeof(RowId), &id, search->strategy) ||
			!values->read_value(search->index, search->meta, search->segment, row, &value, search->strategy))
			return false;
		score = values->score(&shape, search->query, value.data);
		++*search->n_compared;
		if (search->approximate != nullptr)
			search_offer(search, &score, &id, 1);
		else
			engine::topk_push(search->topk, &score, &id, 1, nullptr, 0);
	}
	return true;
}

} // namespace

bool
few_rows_pass(const AccessMethod *am, const SegmentSearch *search, uint64 n_passing)
{
	const uint64 n_rows = search->segment->n_rows;
	uint64 all_bytes = n_rows * meta_vector_bytes(search->meta);

	if (am->values != nullptr && am->values->reads_all)
		all_bytes = search->segment->streams[static_cast<int>(StreamKind::kVectors)].n_bytes;
	else if (am->values != nullptr)
		return n_passing <= n_rows / (search->meta->metric == Metric::kEdit ? kFewOfTexts : kFewOfValues);
	if (am->approximate != nullptr)
		return n_passing <= n_rows / kFewOfApproximate;
	return n_passing * (kBytesOfRead + all_bytes / n_rows) <= n_rows * kBytesOfRow + all_bytes;
}

bool
few_search_segment(const AccessMethod *am, const SegmentSearch *search)
{
	const uint64 n_rows = search->segment->n_rows;
	FewRows few = {};

	if (am->values != nullptr)
		return search_values(am->values, search);
	if (am->format != nullptr && am->format->reads_back != nullptr && !am->format->reads_back(search->meta))
		return search_table_rows(am, search);
	few.stride = meta_vector_bytes(search->meta);
	few.capacity = Max(UINT64CONST(1), Min(kBatchRows, kBatchBytes / few.stride));
	few.vectors = static_cast<char *>(palloc(few.capacity * few.stride));
	few.rows = static_cast<RowId *>(palloc(few.capacity * sizeof(RowId)));
	few.scores = static_cast<double *>(palloc(few.capacity * sizeof(double)));
	for (uint64 row = 0; row < n_rows;)
	{
		uint64 n = 0;

		if (row % 8 == 0 && search->passing[row / 8] == 0)
		{
			row = next_byte(search->passing, row / 8, n_rows) * 8;
			continue;
		}
		while (row + n < n_rows && few.n + n < few.capacity && search_row_passes(search, row + n))
			n++;
		if (n > 0 && !read_run(am, search, row, n, &few))
			return false;
		row += Max(n, UINT64CONST(1));
		if (few.n == few.capacity)
			offer(search, &few);
	}
	if (few.n > 0)
		offer(search, &few);
	return true;
}

} // namespace vectorgpu::am

// Live rows in order of row id. See row_merge.hpp.
//
// Every source keeps a batch of rows in memory, so no page stays locked while others are read. The sort of the delta
// (row_count.hpp) holds keys only; vectors are fetched batch by batch.
#include "am/maintain/row_merge.hpp"

#include "pg/fault.hpp"
#include "storage/key_stream.hpp"

#include <cstring>

extern "C"
{
#include "commands/vacuum.h"
#include "port/pg_bswap.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kBatchBytes = 256 * 1024; // bytes of the vectors of one batch
constexpr uint32 kBatchRows = 1024;      // at most

/// Read tombstone bits [first, first + n) of a segment into bits 0 .. n-1 of dest ((n + 7) / 8 bytes).
void
read_tombstones(RowMerge *merge, const SegmentEntry *segment, uint64 first, uint32 n, uint8 *dest)
{
	uint8 raw[kBatchRows / 8 + 2];
	const uint64 start = first / 8;

	must_not_be_foreign(merge->index,
		stream_read(merge->index, merge->meta, segment, StreamKind::kTombstones, start, (first + n + 7) / 8 - start,
			raw, merge->strategy),
		segment_block(segment, StreamKind::kTombstones));
	memset(dest, 0, (n + 7) / 8);
	for (uint32 i = 0; i < n; i++)
		if (tombstone_get(raw, first % 8 + i))
			dest[i / 8] |= static_cast<uint8>(1 << (i % 8));
}

void
fill_from_segment(RowMerge *merge, RowSource *source)
{
	const SegmentEntry *segment = source->segment;
	const StreamKind ids = source->null_rows ? StreamKind::kNullRowIds : StreamKind::kRowIds;
	const uint32 n = static_cast<uint32>(Min(static_cast<uint64>(merge->batch_rows), source->n_rows - source->next));
	const Size vector_size = meta_vector_bytes(merge->meta);

	must_not_be_foreign(merge->index,
		stream_read(merge->index, merge->meta, segment, ids, source->next * sizeof(RowId), n * sizeof(RowId),
			source->rows, merge->strategy),
		segment_block(segment, ids));
	read_tombstones(merge, segment, (source->null_rows ? segment->n_rows : 0) + source->next, n, source->dead);
	if (source->vectors != nullptr)
		must_not_be_foreign(merge->index,
			merge->format != nullptr && merge->format->read_vectors != nullptr
				? merge->format->read_vectors(
					  merge->index, merge->meta, segment, source->next, n, source->vectors, merge->strategy)
				: stream_read(merge->index, merge->meta, segment, StreamKind::kVectors, source->next * vector_size,
					  n * vector_size, source->vectors, merge->strategy),
			segment_block(segment, StreamKind::kVectors));
	if (source->keys != nullptr)
		must_not_be_foreign(merge->index,
			key_read_images(merge->index, merge->meta, segment, ids, source->next, n, source->keys, merge->strategy),
			segment_block(segment, ids));
	source->n_batch = n;
	source->next += n;
}

/// Read vectors and codes of the batch's rows of the delta. Rows are usually inserted in TID order, so runs of
/// consecutive numbers are read together.
void
read_delta_bodies(RowMerge *merge, RowSource *source)
{
	const Size vector_size = meta_vector_bytes(merge->meta);
	const Size key_size = meta_key_bytes(merge->meta);
	const Size body_size = vector_size + key_size;

	for (uint32 i = 0; i < source->n_batch;)
	{
		uint64 headers[kBatchRows];
		char *bodies = source->bodies != nullptr ? source->bodies : source->vectors + i * vector_size;
		uint32 run = 1;

		while (i + run < source->n_batch && source->numbers[i + run] == source->numbers[i] + run)
			run++;
		must_not_be_foreign(merge->index,
			delta_read_bodies(merge->index, merge->meta, source->numbers[i], run, headers, bodies, body_size), 0);
		for (uint32 j = 0; j < run && source->bodies != nullptr; j++)
		{
			memcpy(source->vectors + (i + j) * vector_size, bodies + j * body_size, vector_size);
			memcpy(source->keys + (i + j) * key_size, bodies + j * body_size + vector_size, key_size);
		}
		i += run;
	}
}

/// Read the codes of the batch's rows of the delta, which have stored values.
void
read_delta_keys(RowMerge *merge, RowSource *source)
{
	const Size key_size = meta_key_bytes(merge->meta);

	for (uint32 i = 0; i < source->n_batch; i++)
		must_not_be_foreign(merge->index,
			delta_read_keys(merge->index, merge->meta, source->numbers[i], source->keys + i * key_size), 0);
}

void
fill_from_delta(RowMerge *merge, RowSource *source)
{
	uint32 n = 0;
	Datum datum;
	bool is_null;

	while (n < merge->batch_rows && pg::next_sorted(merge->delta, &datum, &is_null))
	{
		DeltaKey key;

		memcpy(&key, DatumGetPointer(datum), sizeof(key));
		pfree(DatumGetPointer(datum));
		source->rows[n] = pg_ntoh64(key.row);
		source->numbers[n] = pg_ntoh64(key.number) >> 1;
		source->is_null[n] = (pg_ntoh64(key.number) & 1) != 0;
		n++;
	}
	source->n_batch = n;
	if (source->vectors != nullptr)
		read_delta_bodies(merge, source);
	else if (source->keys != nullptr)
		read_delta_keys(merge, source);
}

/// Read the stored value of the source's current row.
const char *
read_value(RowMerge *merge, const RowSource *source)
{
	const MemoryContext old = MemoryContextSwitchTo(merge->context);
	bool intact;

	if (source->segment != nullptr)
		intact = merge->values->read_value(
			merge->index, merge->meta, source->segment, row_origin(source).number, &merge->value, merge->strategy);
	else
		intact = delta_read_value(merge->index, merge->meta, source->numbers[source->at], &merge->value);
	MemoryContextSwitchTo(old);
	must_not_be_foreign(
		merge->index, intact, source->segment != nullptr ? segment_block(source->segment, StreamKind::kVectors) : 0);
	return merge->value.data;
}

/// Advance to the source's next live row; read the next batch if needed.
void
advance(RowMerge *merge, RowSource *source)
{
	source->at++;
	for (;;)
	{
		if (source->segment != nullptr)
			while (source->at < source->n_batch && tombstone_get(source->dead, source->at))
				source->at++;
		if (source->at < source->n_batch)
			return;
		if (source->segment != nullptr && source->next == source->n_rows)
			break;
		pg::vacuum_pause();
		(void) VG_FAULT("row_merge_fill");
		source->at = 0;
		if (source->segment != nullptr)
			fill_from_segment(merge, source);
		else
			fill_from_delta(merge, source);
		if (source->n_batch == 0)
			break;
	}
	source->finished = true;
}

void
add_source(RowMerge *merge, const SegmentEntry *segment, bool null_rows, bool with_vectors)
{
	RowSource *source = &merge->sources[merge->n_sources++];

	memset(source, 0, sizeof(*source));
	source->segment = segment;
	source->null_rows = null_rows;
	if (segment != nullptr)
	{
		source->n_rows = null_rows ? segment->n_null_rows : segment->n_rows;
		source->dead = static_cast<uint8 *>(palloc((merge->batch_rows + 7) / 8));
	}
	else
	{
		source->numbers = static_cast<uint64 *>(palloc(merge->batch_rows * sizeof(uint64)));
		source->is_null = static_cast<bool *>(palloc(merge->batch_rows * sizeof(bool)));
	}
	source->rows = static_cast<RowId *>(palloc(merge->batch_rows * sizeof(RowId)));
	if (with_vectors && !null_rows && merge->values == nullptr)
		source->vectors = static_cast<char *>(palloc(merge->batch_rows * meta_vector_bytes(merge->meta)));
	if (merge->with_vectors && meta_key_bytes(merge->meta) > 0)
	{
		source->keys = static_cast<char *>(palloc(merge->batch_rows * meta_key_bytes(merge->meta)));
		if (segment == nullptr && merge->values == nullptr)
			source->bodies = static_cast<char *>(palloc(merge->batch_rows * delta_body_bytes(merge->meta)));
	}
}

const char *
source_name(const RowSource *source)
{
	return source->segment == nullptr ? "the delta" : psprintf("segment %u", source->segment->id);
}

/// Return the block to report if a row of the source is wrong: that of its row id, or the metapage for the delta.
BlockNumber
source_block(const RowSource *source)
{
	uint64 position;

	if (source->segment == nullptr)
		return 0;
	position = source->next - source->n_batch + Min(source->at, source->n_batch - 1);
	return segment_block(source->segment, source->null_rows ? StreamKind::kNullRowIds : StreamKind::kRowIds) +
		static_cast<BlockNumber>(position * sizeof(RowId) / kPayloadBytes);
}

} // namespace

void
row_merge_begin(RowMerge *merge, Relation index, const MetaData *meta, const uint32 *segments, uint32 n_segments,
	Tuplesortstate *delta, bool with_vectors, BufferAccessStrategy strategy)
{
	MemoryContext old;

	memset(merge, 0, sizeof(*merge));
	merge->index = index;
	merge->meta = meta;
	merge->strategy = strategy;
	merge->format = access_method(index, meta)->format;
	merge->values = access_method(index, meta)->values;
	merge->with_vectors = with_vectors;
	merge->delta = delta;
	merge->batch_rows = with_vectors && merge->values == nullptr
		? static_cast<uint32>(Max(Min(kBatchBytes / meta_vector_bytes(meta), kBatchRows), 1))
		: kBatchRows;
	merge->context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu row merge", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(merge->context);
	for (uint32 i = 0; i < n_segments; i++)
	{
		const SegmentEntry *segment = &meta->segments[segments[i]];

		if (segment->n_rows > 0)
			add_source(merge, segment, false, with_vectors);
		if (segment->n_null_rows > 0)
			add_source(merge, segment, true, false);
	}
	if (delta != nullptr)
		add_source(merge, nullptr, false, with_vectors);
	MemoryContextSwitchTo(old);

	for (uint32 i = 0; i < merge->n_sources; i++)
	{
		merge->sources[i].at = PG_UINT32_MAX; // one before the first row
		advance(merge, &merge->sources[i]);
	}
}

bool
row_merge_next(RowMerge *merge, MergedRow *row)
{
	RowSource *best = nullptr;

	// Advance the source of the previously returned row only now, so that the row's vector stayed valid until this
	// call.
	if (merge->last != 0)
		for (uint32 i = 0; i < merge->n_sources; i++)
			if (!merge->sources[i].finished && merge->sources[i].rows[merge->sources[i].at] == merge->last)
			{
				advance(merge, &merge->sources[i]);
				break;
			}

	for (uint32 i = 0; i < merge->n_sources; i++)
	{
		RowSource *source = &merge->sources[i];

		if (!source->finished && (best == nullptr || source->rows[source->at] < best->rows[best->at]))
			best = source;
	}
	if (best == nullptr)
		return false;

	row->row = best->rows[best->at];
	row->source = best;
	row->is_null = best->segment != nullptr ? best->null_rows : best->is_null[best->at];
	row->vector =
		row->is_null || best->vectors == nullptr ? nullptr : best->vectors + best->at * meta_vector_bytes(merge->meta);
	row->keys = best->keys != nullptr ? best->keys + best->at * meta_key_bytes(merge->meta) : nullptr;
	if (merge->values != nullptr && merge->with_vectors && !row->is_null)
		row->vector = read_value(merge, best);
	if (unlikely(row->row <= merge->last))
		page_corrupted(merge->index, source_block(best),
			psprintf("Row (%u,%u) of %s is out of order or indexed twice.", row_id_block(row->row),
				row_id_offset(row->row), source_name(best)));
	merge->last = row->row;
	return true;
}

void
row_merge_end(RowMerge *merge)
{
	MemoryContextDelete(merge->context);
}

} // namespace vectorgpu::am

// Writes a segment's common streams one after the other. Row ids wait in temporary files (core spills them to disk as
// needed), because their stream starts where that of the vectors ends. See segment_writer.hpp.
#include "storage/segment_writer.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// Copy a spool of row ids into a stream.
BlockNumber
write_spooled(SegmentWriter *writer, BufFile *spool, StreamKind kind, uint64 n_items, BlockNumber start)
{
	StreamWriter stream;
	uint64 left = n_items * sizeof(RowId);
	char chunk[BLCKSZ];
	StreamEntry *entry = &writer->entry.streams[static_cast<int>(kind)];

	if (n_items == 0)
		return start;
	if (BufFileSeek(spool, 0, 0, SEEK_SET) != 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not rewind a temporary file of the index build")));
	stream_write_begin(&stream, writer->index, writer->mode, writer->meta->uuid, writer->entry.id, kind, start);
	while (left > 0)
	{
		const Size part = Min(left, sizeof(chunk));

		if (BufFileRead(spool, chunk, part) != part)
			ereport(ERROR, (errcode_for_file_access(), errmsg("could not read a temporary file of the index build")));
		stream_write(&stream, chunk, part);
		left -= part;
	}
	stream_write_end(&stream, entry);
	return static_cast<BlockNumber>(start + stream_blocks(entry->n_bytes));
}

uint64
tombstone_bytes(uint64 n_rows, uint64 n_null_rows)
{
	return (n_rows + n_null_rows + 7) / 8;
}

/// End the format's state and free its memory.
void
end_format(SegmentWriter *writer)
{
	const MemoryContext old = MemoryContextSwitchTo(writer->format_context);

	writer->format->end(writer->format_state);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(writer->format_context);
	writer->format_context = nullptr;
}

} // namespace

uint64
segment_blocks(const MetaData *meta, uint64 n_rows, uint64 n_null_rows)
{
	return stream_blocks(n_rows * meta_vector_bytes(meta)) + stream_blocks(n_rows * sizeof(RowId)) +
		stream_blocks(n_null_rows * sizeof(RowId)) + stream_blocks(tombstone_bytes(n_rows, n_null_rows));
}

void
segment_write_begin(SegmentWriter *writer, const SegmentFormat *format, const SegmentPlan *plan)
{
	memset(writer, 0, sizeof(*writer));
	writer->index = plan->index;
	writer->mode = plan->mode;
	writer->meta = plan->meta;
	writer->format = format;
	writer->row_ids = BufFileCreateTemp(false);
	writer->null_row_ids = BufFileCreateTemp(false);
	if (format != nullptr)
	{
		MemoryContext old;

		writer->format_context =
			AllocSetContextCreate(CurrentMemoryContext, "vectorgpu segment", ALLOCSET_DEFAULT_SIZES);
		old = MemoryContextSwitchTo(writer->format_context);
		writer->format_state = format->begin(plan);
		MemoryContextSwitchTo(old);
	}
}

void
segment_write_place(SegmentWriter *writer, uint32 segment_id, BlockNumber start_block)
{
	writer->entry.id = segment_id;
	writer->start_block = start_block;
	if (writer->format == nullptr)
		stream_write_begin(&writer->vectors, writer->index, writer->mode, writer->meta->uuid, segment_id,
			StreamKind::kVectors, start_block);
}

void
segment_write_row(SegmentWriter *writer, RowId row, const void *vector, const RowOrigin &origin)
{
	RowId *last = vector == nullptr ? &writer->last_null_row : &writer->last_row;

	// TID offsets begin at 1, so 0 is before every row id.
	if (unlikely(row <= *last))
		ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("rows of index \"%s\" are not in order", RelationGetRelationName(writer->index)),
				errdetail("Row (%u,%u) came after row (%u,%u).", row_id_block(row), row_id_offset(row),
					row_id_block(*last), row_id_offset(*last))));
	*last = row;
	if (vector == nullptr)
	{
		BufFileWrite(writer->null_row_ids, &row, sizeof(row));
		writer->entry.n_null_rows++;
		return;
	}
	BufFileWrite(writer->row_ids, &row, sizeof(row));
	if (writer->format != nullptr)
	{
		const MemoryContext old = MemoryContextSwitchTo(writer->format_context);

		writer->format->put(writer->format_state, row, vector, origin);
		MemoryContextSwitchTo(old);
	}
	else
		stream_write(&writer->vectors, vector, meta_vector_bytes(writer->meta));
	writer->entry.n_rows++;
}

bool
segment_write_prepare(SegmentWriter *writer, uint64 *n_blocks)
{
	const SegmentEntry *entry = &writer->entry;
	MemoryContext old;
	bool done;

	*n_blocks = segment_blocks(writer->meta, entry->n_rows, entry->n_null_rows);
	if (writer->format == nullptr)
		return true;
	old = MemoryContextSwitchTo(writer->format_context);
	done = writer->format->prepare(writer->format_state, &writer->entry);
	MemoryContextSwitchTo(old);
	if (!done)
		return false;
	*n_blocks -= stream_blocks(entry->n_rows * meta_vector_bytes(writer->meta));
	for (const StreamEntry &stream : entry->streams)
		*n_blocks += stream_blocks(stream.n_bytes);
	return true;
}

void
segment_write_abandon(SegmentWriter *writer)
{
	BufFileClose(writer->row_ids);
	BufFileClose(writer->null_row_ids);
	if (writer->format != nullptr)
		end_format(writer);
}

BlockNumber
segment_write_end(SegmentWriter *writer)
{
	SegmentEntry *entry = &writer->entry;
	StreamEntry *vectors = &entry->streams[static_cast<int>(StreamKind::kVectors)];
	StreamEntry *tombstones = &entry->streams[static_cast<int>(StreamKind::kTombstones)];
	StreamWriter stream;
	BlockNumber block;

	if (writer->format != nullptr)
	{
		const MemoryContext old = MemoryContextSwitchTo(writer->format_context);

		block = writer->format->write(writer->format_state, entry, writer->start_block);
		MemoryContextSwitchTo(old);
		if (block == InvalidBlockNumber)
			return block;
		end_format(writer);
	}
	else
	{
		stream_write_end(&writer->vectors, vectors);
		block = static_cast<BlockNumber>(vectors->start_block + stream_blocks(vectors->n_bytes));
	}
	block = write_spooled(writer, writer->row_ids, StreamKind::kRowIds, entry->n_rows, block);
	block = write_spooled(writer, writer->null_row_ids, StreamKind::kNullRowIds, entry->n_null_rows, block);
	BufFileClose(writer->row_ids);
	BufFileClose(writer->null_row_ids);

	stream_write_begin(
		&stream, writer->index, writer->mode, writer->meta->uuid, entry->id, StreamKind::kTombstones, block);
	stream_write_zeros(&stream, tombstone_bytes(entry->n_rows, entry->n_null_rows));
	stream_write_end(&stream, tombstones);
	return static_cast<BlockNumber>(block + stream_blocks(tombstones->n_bytes));
}

} // namespace vectorgpu::am

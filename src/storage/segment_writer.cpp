// Writes a segment's common streams one after the other. Row ids wait in temporary files (core spills them to disk as
// needed), because their stream starts where that of the vectors ends. See segment_writer.hpp.
#include "storage/segment_writer.hpp"

#include "storage/spool.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// Copy a spool of n_bytes into a stream.
void
copy_spool(StreamWriter *stream, BufFile *spool, uint64 n_bytes)
{
	char chunk[BLCKSZ];

	spool_seek(spool, 0);
	for (uint64 left = n_bytes; left > 0;)
	{
		const Size part = Min(left, sizeof(chunk));

		spool_read(spool, chunk, part);
		stream_write(stream, chunk, part);
		left -= part;
	}
}

constexpr uint64 kImagesPerRead = 1024; // a multiple of 8

/// Images of rows, read from the spool some at a time.
struct Images
{
	BufFile *spool;
	Size image_bytes;
	uint64 n_left;
	uint64 n;     // in data
	char *data;   // [kImagesPerRead, image_bytes]
	char *column; // [kImagesPerRead, 8]: scratch
};

void
images_begin(Images *images, BufFile *spool, const KeyLayout *layout, uint64 n_rows)
{
	images->spool = spool;
	images->image_bytes = key_image_bytes(layout);
	images->n_left = n_rows;
	images->data = static_cast<char *>(palloc(kImagesPerRead * images->image_bytes));
	images->column = static_cast<char *>(palloc(kImagesPerRead * sizeof(uint64)));
	spool_seek(spool, 0);
}

/// Read the next images. False: there are no more, and the memory is freed.
bool
images_next(Images *images)
{
	images->n = Min(images->n_left, kImagesPerRead);
	images->n_left -= images->n;
	if (images->n > 0)
	{
		spool_read(images->spool, images->data, images->n * images->image_bytes);
		return true;
	}
	pfree(images->data);
	pfree(images->column);
	return false;
}

/// Write the codes of stream `stream` of n rows, whose images are in the spool.
void
write_codes(StreamWriter *writer, BufFile *spool, const KeyLayout *layout, uint32 stream, uint64 n_rows)
{
	const Size width = layout->widths[stream];
	Images images;
	Size offset = 0;

	for (uint32 i = 0; i < stream; i++)
		offset += layout->widths[i];
	images_begin(&images, spool, layout, n_rows);
	while (images_next(&images))
	{
		for (uint64 i = 0; i < images.n; i++)
			memcpy(images.column + i * width, images.data + i * images.image_bytes + offset, width);
		stream_write(writer, images.column, images.n * width);
	}
	stream_write_zeros(writer, MAXALIGN(n_rows * width) - n_rows * width);
}

/// Write the NULL bits of a key column of n rows.
void
write_nulls(StreamWriter *writer, BufFile *spool, const KeyLayout *layout, uint32 column, uint64 n_rows)
{
	const Size flags = key_flags_offset(layout) + column / 8;
	Images images;

	images_begin(&images, spool, layout, n_rows);
	while (images_next(&images))
	{
		const Size n_bytes = (images.n + 7) / 8;

		memset(images.column, 0, n_bytes);
		for (uint64 i = 0; i < images.n; i++)
			if ((images.data[i * images.image_bytes + flags] & (1 << (column % 8))) != 0)
				images.column[i / 8] |= static_cast<char>(1 << (i % 8));
		stream_write(writer, images.column, n_bytes);
	}
	stream_write_zeros(writer, key_bits_bytes(n_rows) - (n_rows + 7) / 8);
}

/// Write the stream of the row ids and, behind them, the codes of the rows' key columns.
BlockNumber
write_spooled(SegmentWriter *writer, BufFile *row_ids, BufFile *keys, StreamKind kind, uint64 n_rows, BlockNumber start)
{
	const KeyLayout *layout = &writer->meta->keys;
	StreamWriter stream;
	StreamEntry *entry = &writer->entry.streams[static_cast<int>(kind)];

	if (n_rows == 0)
		return start;
	stream_write_begin(&stream, writer->index, writer->mode, writer->meta->uuid, writer->entry.id, kind, start);
	copy_spool(&stream, row_ids, n_rows * sizeof(RowId));
	for (uint32 i = 0; i < layout->n_streams; i++)
		write_codes(&stream, keys, layout, i, n_rows);
	for (uint32 i = 0; i < layout->n_columns; i++)
		write_nulls(&stream, keys, layout, i, n_rows);
	stream_write_end(&stream, entry);
	return static_cast<BlockNumber>(start + stream_blocks(entry->n_bytes));
}

void
close_spools(SegmentWriter *writer)
{
	spool_close(&writer->row_ids);
	spool_close(&writer->null_row_ids);
	spool_close(&writer->keys);
	spool_close(&writer->null_keys);
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
	return stream_blocks(n_rows * meta_vector_bytes(meta)) + stream_blocks(meta_row_id_bytes(meta, n_rows)) +
		stream_blocks(meta_row_id_bytes(meta, n_null_rows)) + stream_blocks(tombstone_bytes(n_rows, n_null_rows));
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
	if (plan->meta->keys.n_columns > 0)
	{
		writer->keys = BufFileCreateTemp(false);
		writer->null_keys = BufFileCreateTemp(false);
	}
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
segment_write_row(SegmentWriter *writer, RowId row, const void *vector, const char *keys, const RowOrigin &origin)
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
	if (writer->keys != nullptr)
		BufFileWrite(vector == nullptr ? writer->null_keys : writer->keys, const_cast<char *>(keys),
			key_image_bytes(&writer->meta->keys));
	if (vector == nullptr)
	{
		BufFileWrite(writer->null_row_ids, &row, sizeof(row));
		writer->entry.n_null_rows++;
		return;
	}
	BufFileWrite(writer->row_ids, &row, sizeof(row));
	if (writer->placed)
	{
		writer->entry.n_rows++;
		return;
	}
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

const RowPaths *
segment_write_share(SegmentWriter *writer, double n_rows)
{
	const RowPaths *paths = nullptr;

	if (writer->format != nullptr && writer->format->share != nullptr)
	{
		const MemoryContext old = MemoryContextSwitchTo(writer->format_context);

		paths = writer->format->share(writer->format_state, n_rows);
		MemoryContextSwitchTo(old);
	}
	writer->shared = paths != nullptr;
	return paths;
}

void
segment_write_expect_placed(SegmentWriter *writer)
{
	writer->placed = true;
	if (writer->format != nullptr && !writer->shared)
		stream_write_begin(&writer->vectors, writer->index, writer->mode, writer->meta->uuid, writer->entry.id,
			StreamKind::kVectors, writer->start_block);
}

void
segment_write_placed(SegmentWriter *writer, uint32 n_pages, const void *tail, Size tail_bytes)
{
	StreamEntry *vectors = &writer->entry.streams[static_cast<int>(StreamKind::kVectors)];
	MemoryContext old;

	if (!writer->shared)
	{
		stream_write_skip(&writer->vectors, n_pages);
		stream_write(&writer->vectors, tail, tail_bytes);
		if (writer->format == nullptr)
			return;
		stream_write_end(&writer->vectors, vectors);
		writer->start_block += static_cast<BlockNumber>(stream_blocks(vectors->n_bytes));
	}
	old = MemoryContextSwitchTo(writer->format_context);
	writer->format->placed(writer->format_state, &writer->entry);
	MemoryContextSwitchTo(old);
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
	close_spools(writer);
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
	block = write_spooled(writer, writer->row_ids, writer->keys, StreamKind::kRowIds, entry->n_rows, block);
	block = write_spooled(
		writer, writer->null_row_ids, writer->null_keys, StreamKind::kNullRowIds, entry->n_null_rows, block);
	close_spools(writer);

	stream_write_begin(
		&stream, writer->index, writer->mode, writer->meta->uuid, entry->id, StreamKind::kTombstones, block);
	stream_write_zeros(&stream, tombstone_bytes(entry->n_rows, entry->n_null_rows));
	stream_write_end(&stream, tombstones);
	return static_cast<BlockNumber>(block + stream_blocks(tombstones->n_bytes));
}

} // namespace vectorgpu::am

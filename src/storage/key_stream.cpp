// See key_stream.hpp.
#include "storage/key_stream.hpp"

namespace vectorgpu::am
{

namespace
{

/// Rows of the stream of row ids.
uint64
rows_of(const SegmentEntry *segment, StreamKind ids)
{
	return ids == StreamKind::kRowIds ? segment->n_rows : segment->n_null_rows;
}

/// Where the area of codes begins in the stream.
uint64
area_offset(const SegmentEntry *segment, StreamKind ids)
{
	return rows_of(segment, ids) * sizeof(RowId);
}

} // namespace

bool
key_read_codes(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids, uint32 stream,
	uint64 first, uint64 n, void *dest, BufferAccessStrategy strategy)
{
	const KeyLayout *layout = &meta->keys;
	const Size width = layout->widths[stream];
	const uint64 codes = area_offset(segment, ids) + key_codes_offset(layout, rows_of(segment, ids), stream);

	return stream_read(index, meta, segment, ids, codes + first * width, n * width, dest, strategy);
}

bool
key_read_nulls(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids, uint32 column,
	uint64 first, uint64 n, void *dest, BufferAccessStrategy strategy)
{
	const uint64 bits = area_offset(segment, ids) + key_nulls_offset(&meta->keys, rows_of(segment, ids), column);

	Assert(first % 8 == 0);
	return stream_read(index, meta, segment, ids, bits + first / 8, (n + 7) / 8, dest, strategy);
}

bool
key_read_area(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, uint64 n_bytes,
	void *dest, BufferAccessStrategy strategy)
{
	return stream_read(index, meta, segment, StreamKind::kRowIds, area_offset(segment, StreamKind::kRowIds) + position,
		n_bytes, dest, strategy);
}

bool
key_read_images(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids, uint64 first,
	uint64 n, char *images, BufferAccessStrategy strategy)
{
	const KeyLayout *layout = &meta->keys;
	const Size image_bytes = key_image_bytes(layout);
	const uint64 first_bit = first / 8 * 8;
	char *codes = static_cast<char *>(palloc(n * sizeof(uint64) + sizeof(uint64)));
	uint8 *bits = reinterpret_cast<uint8 *>(codes);
	Size offset = 0;
	bool intact = true;

	memset(images, 0, n * image_bytes);
	for (uint32 i = 0; i < layout->n_streams && intact; i++)
	{
		const Size width = layout->widths[i];

		intact = key_read_codes(index, meta, segment, ids, i, first, n, codes, strategy);
		for (uint64 row = 0; row < n && intact; row++)
			memcpy(images + row * image_bytes + offset, codes + row * width, width);
		offset += width;
	}
	for (uint32 i = 0; i < layout->n_columns && intact; i++)
	{
		char *flags = images + offset + i / 8;

		intact = key_read_nulls(index, meta, segment, ids, i, first_bit, first + n - first_bit, bits, strategy);
		for (uint64 row = 0; row < n && intact; row++)
			if ((bits[(first - first_bit + row) / 8] & (1 << ((first + row) % 8))) != 0)
				flags[row * image_bytes] |= static_cast<char>(1 << (i % 8));
	}
	pfree(codes);
	return intact;
}

} // namespace vectorgpu::am

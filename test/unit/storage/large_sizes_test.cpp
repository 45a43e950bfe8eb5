// Sizes beyond 2^31 and 2^32 in the layout of pages: bytes and blocks of streams, places of rows of the delta, extents
// at the end of the largest possible index. Each is compared with arithmetic of more bits, or is an error.
#include "fake_buffers.hpp"

#include "am/feed/copy_feed.hpp"
#include "storage/delta_map.hpp"
#include "storage/extent.hpp"
#include "storage/segment_writer.hpp"
#include "common/limits.hpp"

#include <gtest/gtest.h>

namespace vectorgpu::am
{
namespace
{

using unit::stream;

__extension__ using Wide = unsigned __int128;

constexpr uint64 k2To31 = UINT64CONST(1) << 31;
constexpr uint64 k2To32 = UINT64CONST(1) << 32;
constexpr uint32 kLastBlock = MaxBlockNumber; // 0xFFFFFFFE

/// Byte numbers around limits of 31 and 32 bits: of bytes and of blocks.
std::vector<uint64>
byte_numbers()
{
	std::vector<uint64> bytes;

	for (const uint64 around :
		{uint64{kPayloadBytes}, k2To31, k2To32, k2To31 * kPayloadBytes, k2To32 * kPayloadBytes - kPayloadBytes})
		for (const int64 d : {-8129, -8128, -9, -1, 0, 1, 8, 8127, 8128, 8129})
			if (d >= 0 || around >= static_cast<uint64>(-d))
				bytes.push_back(around + static_cast<uint64>(d));
	return bytes;
}

Wide
blocks_of(Wide n_bytes)
{
	return (n_bytes + kPayloadBytes - 1) / kPayloadBytes;
}

MetaData
meta_of(ElementType element, uint32 dim)
{
	MetaData meta = {};

	meta.element = element;
	meta.dim = dim;
	meta.uuid = {0x1122334455667788, 0x99AABBCCDDEEFF00};
	meta.high_water = 1;
	return meta;
}

TEST(LargeStorage, blocks_of_streams_are_exact)
{
	for (const uint64 n_bytes : byte_numbers())
		EXPECT_TRUE(stream_blocks(n_bytes) == blocks_of(n_bytes)) << n_bytes;
	EXPECT_EQ(stream_blocks(0), 0u);
	EXPECT_TRUE(stream_blocks(PG_UINT64_MAX) == blocks_of(PG_UINT64_MAX));
	EXPECT_GT(stream_blocks(k2To32 * kPayloadBytes), uint64{MaxBlockNumber})
		<< "more than an index can have is seen to be more";
}

TEST(LargeStorage, blocks_of_segments_are_exact)
{
	for (const uint32 dim : {1u, 3u, 1000u, static_cast<uint32>(kMaxDimensions)})
		for (const uint64 n_rows : {k2To31 / (4 * dim), k2To32 / (4 * dim) + 1, k2To32, k2To32 * 291})
			for (const uint64 n_null_rows : {uint64{0}, k2To31, k2To32 + 7})
			{
				const MetaData meta = meta_of(ElementType::kFloat32, dim);
				const Wide expected = blocks_of(Wide{n_rows} * dim * 4) + blocks_of(Wide{n_rows} * 8) +
					blocks_of(Wide{n_null_rows} * 8) + blocks_of((Wide{n_rows} + n_null_rows + 7) / 8);

				EXPECT_TRUE(segment_blocks(&meta, n_rows, n_null_rows) == expected)
					<< dim << " dimensions, " << n_rows << " rows, " << n_null_rows << " of NULL";
			}
}

TEST(LargeStorage, bytes_of_copies_are_exact)
{
	for (const uint32 dim : {1u, 1000u, static_cast<uint32>(kMaxDimensions)})
		for (const uint64 n_rows : {k2To31 / (4 * dim) + 1, k2To32 / (4 * dim) + 1, k2To32 + 5})
		{
			MetaData meta = meta_of(ElementType::kFloat32, dim);

			meta.n_segments = 3;
			for (uint32 i = 0; i < meta.n_segments; i++)
				meta.segments[i].n_rows = n_rows + i;
			meta.delta_first_row = k2To32 * 7;
			EXPECT_TRUE(copy_bytes(&meta, k2To32 * 8) == (Wide{3} * n_rows + 3 + k2To32) * dim * 4)
				<< dim << " dimensions, " << n_rows << " rows";
			EXPECT_TRUE(copy_bytes(&meta, 5) == (Wide{3} * n_rows + 3) * dim * 4)
				<< "a delta that ends before it begins has no rows";
		}
}

TEST(LargeStorage, rows_of_the_delta_are_found_at_their_places)
{
	for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBit})
		for (const uint32 dim : {1u, 9u, 1014u, static_cast<uint32>(kMaxDimensions)})
			for (const uint32 n_blocks : {8u, 1u << 20, 0x7FFFFFFFu, kLastBlock})
				for (const uint64 first_row : {uint64{0}, k2To31, k2To32 + 1, UINT64CONST(1) << 46})
				{
					MetaData meta = meta_of(element, dim);
					const Wide row_bytes = 8 + (Wide{vector_bytes(element, dim)} + 7) / 8 * 8;
					const Wide capacity = Wide{n_blocks} * kPayloadBytes / row_bytes;
					const DeltaChunk *chunk = &meta.chunks[1];

					meta.n_chunks = 2;
					meta.chunks[0] = {first_row, 1, 8, 1, 0};
					meta.chunks[1] = {first_row + chunk_capacity(&meta, &meta.chunks[0]), 9, n_blocks, 2, 0};
					ASSERT_TRUE(chunk_capacity(&meta, chunk) == capacity);
					EXPECT_TRUE(delta_room_end(&meta) == chunk->first_row + capacity);
					EXPECT_EQ(delta_find_chunk(&meta, delta_room_end(&meta)), nullptr);
					for (const Wide number : {Wide{0}, Wide{1}, capacity / 2, capacity - 1})
					{
						const uint64 row = chunk->first_row + static_cast<uint64>(Min(number, capacity - 1));
						const Wide byte = Wide{row - chunk->first_row} * row_bytes;
						const DeltaPlace place = delta_place(&meta, chunk, row);

						EXPECT_EQ(delta_find_chunk(&meta, row), chunk);
						EXPECT_TRUE(place.position == byte / kPayloadBytes && place.offset == byte % kPayloadBytes)
							<< dim << " dimensions, row " << row;
						EXPECT_LT(place.position, n_blocks);
						// The first row that starts on its page is not behind it, the first of the next page is.
						EXPECT_LE(delta_first_start(&meta, chunk, place.position), row);
						EXPECT_GT(delta_first_start(&meta, chunk, place.position + 1), row);
					}
				}
}

/// A stream of n_bytes that ends at the last possible block of an index, and its segment.
SegmentEntry
large_stream(const MetaData &meta, StreamKind kind, uint64 n_bytes)
{
	SegmentEntry segment = {};
	StreamEntry *entry = &segment.streams[static_cast<int>(kind)];

	segment.id = 7;
	entry->n_bytes = n_bytes;
	entry->start_block = static_cast<BlockNumber>(kLastBlock - (stream_blocks(n_bytes) - 1));
	stream = {meta.uuid, segment.id, kind, *entry};
	unit::blocks_read.clear();
	return segment;
}

/// Whether the bytes are those of the stream from `first` on.
bool
are_bytes(const void *bytes, uint64 first, Size n)
{
	for (Size i = 0; i < n; i++)
		if (static_cast<const char *>(bytes)[i] != unit::byte_at(first + i))
			return false;
	return true;
}

TEST(LargeStorage, bytes_of_streams_are_read_from_their_blocks)
{
	const MetaData meta = meta_of(ElementType::kFloat32, 1);
	const uint64 n_bytes = (uint64{kLastBlock} - 5) * kPayloadBytes - 100;
	const SegmentEntry segment = large_stream(meta, StreamKind::kVectors, n_bytes);
	char bytes[64];

	for (uint64 first : byte_numbers())
	{
		first = Min(first, n_bytes - sizeof(bytes));
		unit::blocks_read.clear();
		ASSERT_TRUE(
			stream_read(unit::index(), &meta, &segment, StreamKind::kVectors, first, sizeof(bytes), bytes, nullptr));
		EXPECT_TRUE(are_bytes(bytes, first, sizeof(bytes))) << first;
		EXPECT_TRUE(unit::blocks_read.front() == segment.streams[0].start_block + Wide{first} / kPayloadBytes) << first;
	}
	ASSERT_TRUE(stream_read(unit::index(), &meta, &segment, StreamKind::kVectors, n_bytes - 1, 1, bytes, nullptr));
	EXPECT_EQ(unit::blocks_read.back(), kLastBlock);
}

TEST(LargeStorage, items_of_streams_are_gathered_from_their_blocks)
{
	const MetaData meta = meta_of(ElementType::kFloat32, 1);
	const uint64 n_bytes = (uint64{kLastBlock} - 5) * kPayloadBytes;
	const SegmentEntry segment = large_stream(meta, StreamKind::kRowIds, n_bytes);
	std::vector<uint64> items;

	for (const uint64 byte : byte_numbers())
		items.push_back(Min(byte, n_bytes - 8) / 8);

	std::vector<char> found(items.size() * 8);

	ASSERT_TRUE(stream_gather(
		unit::index(), &meta, &segment, StreamKind::kRowIds, 8, items.data(), items.size(), found.data(), nullptr));
	for (size_t i = 0; i < items.size(); i++)
		EXPECT_TRUE(are_bytes(found.data() + i * 8, items[i] * 8, 8)) << items[i];
}

TEST(LargeStorage, runs_of_items_cross_2_to_32_bytes)
{
	// Items that cross borders of pages, and whose numbers times their size pass 31 and 32 bits.
	for (const Size item_bytes : {Size{4}, Size{12}, Size{64000}})
	{
		const MetaData meta = meta_of(ElementType::kFloat32, static_cast<uint32>(item_bytes / 4));
		const uint64 n_bytes = k2To32 * 3 / item_bytes * item_bytes;
		const SegmentEntry segment = large_stream(meta, StreamKind::kVectors, n_bytes);

		for (const uint64 around : {k2To31, k2To32, n_bytes})
		{
			const uint64 n_wanted = 3 + (UINT64CONST(1) << 20) / item_bytes; // a megabyte from there on
			const uint64 first_item = around / item_bytes - 3;
			uint64 item = first_item;
			StreamCursor cursor;
			const void *items;
			uint64 n;

			stream_open(&cursor, unit::index(), &meta, &segment, StreamKind::kVectors, item_bytes, first_item, nullptr);
			while (item < first_item + n_wanted && stream_next_run(&cursor, &items, &n))
			{
				ASSERT_TRUE(are_bytes(items, item * item_bytes, n * item_bytes))
					<< "item " << item << " of " << item_bytes << " bytes";
				item += n;
			}
			ASSERT_FALSE(cursor.foreign);
			if (around == n_bytes)
			{
				EXPECT_EQ(item, n_bytes / item_bytes) << "it ends behind the last one";
				continue; // it has closed itself
			}
			EXPECT_GE(item, first_item + n_wanted);
			stream_close(&cursor);
		}
	}
}

TEST(LargeStorage, a_bit_for_each_block_is_asked_for)
{
	const MetaData meta = meta_of(ElementType::kFloat32, 1);
	const SegmentEntry segment = large_stream(meta, StreamKind::kVectors, kPayloadBytes);
	char byte;

	unit::most_memory = 0;
	ASSERT_TRUE(stream_read(unit::index(), &meta, &segment, StreamKind::kVectors, 0, 1, &byte, nullptr));
	EXPECT_EQ(unit::blocks_read.back(), kLastBlock);
	EXPECT_GE(unit::most_memory, Size{kLastBlock} / 8);
}

TEST(LargeStorage, extents_end_at_the_last_block)
{
	static MetaData meta;
	static MetaUpdate update;
	static BlockNumber taken;

	meta = meta_of(ElementType::kFloat32, 1);
	meta.high_water = kLastBlock - 20;
	update = {};
	update.index = unit::index();
	update.meta = &meta;
	EXPECT_EQ(extent_new_end(&meta, nullptr, 20), kLastBlock);
	EXPECT_EQ(extent_new_end(&meta, nullptr, 21), 0u);
	EXPECT_EQ(extent_new_end(&meta, nullptr, PG_UINT32_MAX), 0u);
	for (const uint32 too_many : {21u, 0x7FFFFFFFu, 0x80000000u, PG_UINT32_MAX})
	{
		static uint32 n;

		n = too_many;
		EXPECT_FALSE(fuzz::no_error([] { taken = extent_take(&update, nullptr, n); })) << n;
		EXPECT_EQ(fuzz::error_code, ERRCODE_PROGRAM_LIMIT_EXCEEDED) << fuzz::error_text;
		EXPECT_EQ(meta.high_water, kLastBlock - 20);
	}
	ASSERT_TRUE(fuzz::no_error([] { taken = extent_take(&update, nullptr, 20); })) << fuzz::error_text;
	EXPECT_EQ(taken, kLastBlock - 20);
	EXPECT_EQ(meta.high_water, kLastBlock);

	// Adjacent extents there become one.
	extent_give(&meta, kLastBlock - 20, 10, 5);
	extent_give(&meta, kLastBlock - 10, 10, 5);
	ASSERT_EQ(meta.n_free, 1u);
	EXPECT_EQ(meta.free_extents[0].start_block, kLastBlock - 20);
	EXPECT_EQ(meta.free_extents[0].n_blocks, 20u);
}

TEST(LargeStorage, a_segment_too_large_for_any_index_counts_too_many_blocks)
{
	// A merge's request, which is refused: its vectors alone are 2^32 blocks and some, which 32 bits would truncate to
	// the rest.
	const MetaData meta = meta_of(ElementType::kFloat32, static_cast<uint32>(kMaxDimensions));
	const uint64 n_rows = (k2To32 * kPayloadBytes + 1000) / (uint64{kMaxDimensions} * 4);

	EXPECT_GT(segment_blocks(&meta, n_rows, 0), uint64{MaxBlockNumber});
}

} // namespace
} // namespace vectorgpu::am

// vectorgpu_check, the metapage: its numbers must be consistent, and every block must have one owner. See
// verify_meta.hpp.
#include "am/check/verify_meta.hpp"

#include "am/method/am_interface.hpp"
#include "storage/alias.hpp"
#include "storage/segment_writer.hpp"
#include "common/limits.hpp"
#include "engine/distance/distance.hpp"

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

/// A run of blocks and its owner according to the metapage.
struct Extent
{
	uint64 start;
	uint64 n_blocks;
	const char *owner;
	uint32 number;
};

constexpr uint32 kMaxExtents =
	kMaxSegments * kMaxStreams + kMaxChunks + kMaxAliasChunks + kMaxFreeExtents + kPendingSlots;

struct ExtentList
{
	uint32 n;
	Extent extents[kMaxExtents];
};

void
require(Relation index, bool holds, const char *what)
{
	if (!holds)
		page_corrupted(index, 0, what);
}

void
add_extent(ExtentList *list, uint64 start, uint64 n_blocks, const char *owner, uint32 number)
{
	if (n_blocks > 0)
		list->extents[list->n++] = {start, n_blocks, owner, number};
}

void
check_shape(Relation index, const MetaData *meta)
{
	const AccessMethod *am = access_method(index, meta);
	const int max_dim = meta->element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions;
	const int32 typmod = TupleDescAttr(RelationGetDescr(index), 0)->atttypmod;

	const int32 code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));
	const char *problem;

	require(index, am->supports(meta->element, meta->metric), "The metapage names no known kind of index.");
	// The metapage determines how values of the column are read.
	require(index, (code & 0xFFFF) == shape_code(meta->element, meta->metric),
		"The metapage belongs to another operator class.");
	problem = am->check_options != nullptr ? am->check_options(index, meta) : nullptr;
	require(index, problem == nullptr, problem);
	if (meta->element == ElementType::kSet)
	{
		require(index, meta->dim > sizeof(uint32) && meta->dim <= 1024 && kPayloadBytes % delta_row_bytes(meta) == 0,
			"The size of a slot in the metapage is out of range.");
		return;
	}
	require(index, meta->dim >= 1 && meta->dim <= static_cast<uint32>(max_dim),
		"The number of dimensions in the metapage is out of range.");
	if (typmod >= 1 && static_cast<uint32>(typmod) != meta->dim)
		page_corrupted(index, 0, psprintf("The metapage has %u dimensions, the column %d.", meta->dim, typmod));
}

/// What an earlier release would not understand is not in an index of that release's version.
void
check_version(Relation index, const MetaData *meta)
{
	const SegmentFormat *format = access_method(index, meta)->format;

	if (format == nullptr || meta->version >= format->version)
		return;
	require(index, format->may_be_older != nullptr && format->may_be_older(meta, nullptr),
		"The metapage has the version of an earlier release, which had no such indexes.");
	for (uint32 i = 0; i < meta->n_segments; i++)
		if (!format->may_be_older(meta, &meta->segments[i]))
			page_corrupted(index, 0,
				psprintf("The metapage has the version of an earlier release, which had no segments like %u.",
					meta->segments[i].id));
}

void
check_stream(Relation index, const SegmentEntry *segment, StreamKind kind, uint64 n_bytes)
{
	const StreamEntry *stream = &segment->streams[static_cast<int>(kind)];

	if (stream->n_bytes != n_bytes)
		page_corrupted(index, 0,
			psprintf("Stream %d of segment %u has " UINT64_FORMAT " bytes instead of " UINT64_FORMAT ".",
				static_cast<int>(kind), segment->id, stream->n_bytes, n_bytes));
}

/// Check the sizes of the vectors and of the access method's own streams.
void
check_vector_streams(Relation index, const MetaData *meta, const SegmentEntry *segment)
{
	const SegmentFormat *format = access_method(index, meta)->format;
	const char *problem;

	if (format == nullptr)
	{
		check_stream(index, segment, StreamKind::kVectors, segment->n_rows * meta_vector_bytes(meta));
		for (uint32 i = static_cast<uint32>(StreamKind::kFirstAmStream); i < kMaxStreams; i++)
			check_stream(index, segment, static_cast<StreamKind>(i), 0);
		return;
	}
	problem = format->check_entry(meta, segment);
	if (problem != nullptr)
		page_corrupted(index, 0, psprintf("Segment %u: %s", segment->id, problem));
}

void
check_segments(Relation index, const MetaData *meta, ExtentList *list)
{
	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		const SegmentEntry *segment = &meta->segments[i];
		const uint64 max_bytes = static_cast<uint64>(meta->high_water) * kPayloadBytes;

		require(index, segment->id < meta->next_segment_id, "A segment has an ID that was never assigned.");
		require(
			index, i == 0 || segment->id > meta->segments[i - 1].id, "The segments are not in the order of their IDs.");
		for (uint32 j = 0; j < kMaxStreams; j++)
		{
			const StreamEntry *stream = &segment->streams[j];

			require(index, stream->n_bytes <= max_bytes, "A stream is larger than the index.");
			add_extent(list, stream->start_block, stream_blocks(stream->n_bytes), "segment", segment->id);
		}
		// Check the bounds before multiplying.
		require(index, segment->n_rows <= max_bytes && segment->n_null_rows <= max_bytes,
			"A segment has more rows than the index has room for.");
		require(index, segment->n_dead <= segment->n_rows + segment->n_null_rows,
			"A segment has more dead rows than rows.");
		require(index, segment->tombstone_generation <= meta->tombstone_generation,
			"A segment's tombstones are newer than the index's.");
		check_vector_streams(index, meta, segment);
		check_stream(index, segment, StreamKind::kRowIds, meta_row_id_bytes(meta, segment->n_rows));
		check_stream(index, segment, StreamKind::kNullRowIds, meta_row_id_bytes(meta, segment->n_null_rows));
		check_stream(index, segment, StreamKind::kTombstones, (segment->n_rows + segment->n_null_rows + 7) / 8);
	}
}

void
check_chunks(Relation index, const MetaData *meta, const ChunkList &chunks, const char *owner, ExtentList *list)
{
	uint64 next_row = 0;

	for (uint32 i = 0; i < chunks.n_chunks; i++)
	{
		const DeltaChunk *chunk = &chunks.chunks[i];

		require(index, chunk->id < meta->next_chunk_id, "A chunk has an ID that was never assigned.");
		require(index, i == 0 || chunk->first_row == next_row, kChunkGaps);
		require(index, chunk_capacity(chunks, chunk) > 0, "A chunk has no room for a row.");
		next_row = chunk->first_row + chunk_capacity(chunks, chunk);
		add_extent(list, chunk->start_block, chunk->n_blocks, owner, chunk->id);
	}
	if (chunks.n_chunks > 0)
		require(index, chunks.first_row >= chunks.chunks[0].first_row && chunks.first_row <= next_row,
			"The first row of the delta or of the shared entries lies outside of its chunks.");
}

/// Check that every block between the metapage and high_water has one owner or is counted as leaked.
void
check_extents(Relation index, const MetaData *meta, ExtentList *list, CheckResult *result)
{
	const BlockNumber n_file = RelationGetNumberOfBlocks(index);
	uint64 next = 1;
	uint64 owned = 1;

	std::sort(
		list->extents, list->extents + list->n, [](const Extent &a, const Extent &b) { return a.start < b.start; });
	for (uint32 i = 0; i < list->n; i++)
	{
		const Extent *extent = &list->extents[i];
		const bool in_use = extent->owner[0] == 's' || extent->owner[0] == 'd';

		if (extent->start < next)
			page_corrupted(index, 0,
				psprintf("Block " UINT64_FORMAT " belongs to %s %u and to something else.", extent->start,
					extent->owner, extent->number));
		next = extent->start + extent->n_blocks;
		owned += extent->n_blocks;
		if (next > meta->high_water)
			page_corrupted(index, 0,
				psprintf("Blocks up to " UINT64_FORMAT " of %s %u lie beyond the end of the index's blocks.", next,
					extent->owner, extent->number));
		if (in_use && next > n_file)
			page_corrupted(index, n_file,
				psprintf(
					"The file ends before block " UINT64_FORMAT ", in %s %u.", next, extent->owner, extent->number));
	}
	result->leaked_blocks = meta->high_water - owned;
	if (result->leaked_blocks != meta->leaked_blocks)
		page_corrupted(index, 0,
			psprintf(UINT64_FORMAT " blocks have no owner, the metapage says %u.", result->leaked_blocks,
				meta->leaked_blocks));
}

} // namespace

void
check_metapage(Relation index, const MetaData *meta, CheckResult *result)
{
	ExtentList *list = static_cast<ExtentList *>(palloc0(sizeof(ExtentList)));

	require(index, meta->high_water >= 1, "The metapage says that the index has no blocks.");
	check_shape(index, meta);
	check_segments(index, meta, list);
	check_version(index, meta);
	check_chunks(index, meta, delta_list(meta), "delta chunk", list);
	check_chunks(index, meta, alias_list(meta), "shared-entry chunk", list);
	require(index, meta->version != kPlainVersion || (meta->alias_first == 0 && meta->n_alias_chunks == 0),
		"The metapage has shared entries, but the version without.");
	for (int i = 0; i < kPendingSlots; i++)
		add_extent(list, meta->pending[i].start_block, meta->pending[i].n_blocks, "pending extent", i);
	for (uint32 i = 0; i < meta->n_free; i++)
	{
		add_extent(list, meta->free_extents[i].start_block, meta->free_extents[i].n_blocks, "free extent", i);
		result->free_blocks += meta->free_extents[i].n_blocks;
	}
	check_extents(index, meta, list, result);
	result->segments = meta->n_segments;
	pfree(list);
}

} // namespace vectorgpu::am

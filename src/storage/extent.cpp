// Taking and parking extents. See extent.hpp.
#include "storage/extent.hpp"

#include <cstring>

extern "C"
{
#include "access/transam.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

void
remove_free(MetaData *meta, uint32 i)
{
	memmove(&meta->free_extents[i], &meta->free_extents[i + 1], sizeof(FreeExtent) * (meta->n_free - i - 1));
	meta->n_free--;
	memset(&meta->free_extents[meta->n_free], 0, sizeof(FreeExtent));
}

/// Join any two adjacent extents for which may_join is true. The result is as young as the younger one.
template <class MayJoin>
void
join_neighbours(MetaData *meta, MayJoin may_join)
{
	for (uint32 i = 0; i < meta->n_free; i++)
	{
		for (uint32 j = 0; j < meta->n_free;)
		{
			FreeExtent *a = &meta->free_extents[i];
			const FreeExtent *b = &meta->free_extents[j];

			if (i == j || a->start_block + a->n_blocks != b->start_block || !may_join(*a, *b))
			{
				j++;
				continue;
			}
			a->n_blocks += b->n_blocks;
			a->parked_xid = Max(a->parked_xid, b->parked_xid);
			remove_free(meta, j);
			if (j < i)
				i--;
			j = 0;
		}
	}
}

/// Remove extents that are adjacent to the given one from the table and add their blocks to it: those of the same age,
/// or of any age.
void
absorb_neighbours(MetaData *meta, FreeExtent *given, bool of_any_age)
{
	for (uint32 i = 0; i < meta->n_free;)
	{
		const FreeExtent extent = meta->free_extents[i];

		if ((of_any_age || extent.parked_xid == given->parked_xid) &&
			(extent.start_block + extent.n_blocks == given->start_block ||
				given->start_block + given->n_blocks == extent.start_block))
		{
			given->start_block = Min(given->start_block, extent.start_block);
			given->n_blocks += extent.n_blocks;
			given->parked_xid = Max(given->parked_xid, extent.parked_xid);
			remove_free(meta, i);
			i = 0;
		}
		else
			i++;
	}
}

/// True if every running snapshot is newer than the parking of the extent.
bool
is_free_for_all(Relation heap, const FreeExtent &extent)
{
	return GlobalVisCheckRemovableFullXid(heap, FullTransactionIdFromU64(extent.parked_xid));
}

/// Return the first in the file of the extents that have n_blocks and that no running snapshot can still read; n_free
/// if there is none. Joins neighbours.
uint32
find_free(MetaData *meta, Relation heap, uint32 n_blocks)
{
	uint32 first;

	// Join neighbours only if both may be written again: joined earlier, the young one would make the old one young.
	join_neighbours(meta, [heap](const FreeExtent &a, const FreeExtent &b)
		{ return is_free_for_all(heap, a) && is_free_for_all(heap, b); });
	first = meta->n_free;
	for (uint32 i = 0; i < meta->n_free; i++)
	{
		const FreeExtent *extent = &meta->free_extents[i];

		if (extent->n_blocks < n_blocks ||
			(first < meta->n_free && extent->start_block >= meta->free_extents[first].start_block))
			continue;
		if (is_free_for_all(heap, *extent))
			first = i;
	}
	return first;
}

} // namespace

uint64
current_parking_xid()
{
	return U64FromFullTransactionId(ReadNextFullTransactionId());
}

BlockNumber
extent_take(MetaUpdate *update, Relation heap, uint32 n_blocks)
{
	MetaData *meta = update->meta;
	const uint32 first = find_free(meta, heap, n_blocks);
	BlockNumber start;

	if (first < meta->n_free)
	{
		FreeExtent *extent = &meta->free_extents[first];

		start = extent->start_block;
		extent->start_block += n_blocks;
		extent->n_blocks -= n_blocks;
		if (extent->n_blocks == 0)
			remove_free(meta, first);
		return start;
	}

	return extent_take_end(update, n_blocks);
}

BlockNumber
extent_take_end(MetaUpdate *update, uint32 n_blocks)
{
	MetaData *meta = update->meta;
	const BlockNumber start = meta->high_water;

	if (n_blocks > MaxBlockNumber - start)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("index \"%s\" cannot have more than %u blocks", RelationGetRelationName(update->index),
					MaxBlockNumber),
				errdetail("It has %u blocks and needs %u more contiguous ones.", start, n_blocks),
				errhint("Rebuild it with REINDEX INDEX, or partition the table.")));
	meta->high_water += n_blocks;
	return start;
}

BlockNumber
extent_new_end(const MetaData *meta, Relation heap, uint32 n_blocks)
{
	MetaData *copy = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	bool found;

	memcpy(copy, meta, sizeof(*copy));
	found = find_free(copy, heap, n_blocks) < copy->n_free;
	pfree(copy);
	return found || n_blocks > MaxBlockNumber - meta->high_water ? 0 : meta->high_water + n_blocks;
}

bool
extent_fits_before(const MetaData *meta, Relation heap, BlockNumber start, uint32 n_blocks)
{
	MetaData *copy = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	uint32 first;
	bool fits;

	memcpy(copy, meta, sizeof(*copy));
	first = find_free(copy, heap, n_blocks);
	fits = first < copy->n_free && copy->free_extents[first].start_block + n_blocks <= start;
	pfree(copy);
	return fits;
}

void
extent_release_all(MetaData *meta)
{
	for (uint32 i = 0; i < meta->n_free; i++)
		meta->free_extents[i].parked_xid = 0;
	join_neighbours(meta, [](const FreeExtent &, const FreeExtent &) { return true; });
	for (uint32 i = 0; i < meta->n_free; i++)
	{
		const FreeExtent extent = meta->free_extents[i];

		if (extent.start_block + extent.n_blocks != meta->high_water)
			continue;
		meta->high_water = extent.start_block;
		remove_free(meta, i);
		return;
	}
}

void
extent_give(MetaData *meta, BlockNumber start, uint32 n_blocks, uint64 parked_xid)
{
	if (n_blocks == 0)
		return;

	// Extents of the same age, such as those of one merge, are joined immediately; others only if the table is full.
	FreeExtent given = {start, n_blocks, parked_xid};

	absorb_neighbours(meta, &given, false);
	if (meta->n_free == kMaxFreeExtents)
	{
		absorb_neighbours(meta, &given, true);
		join_neighbours(meta, [](const FreeExtent &, const FreeExtent &) { return true; });
	}
	if (meta->n_free == kMaxFreeExtents)
	{
		uint32 smallest = 0;

		for (uint32 i = 1; i < meta->n_free; i++)
			if (meta->free_extents[i].n_blocks < meta->free_extents[smallest].n_blocks)
				smallest = i;
		if (meta->free_extents[smallest].n_blocks >= given.n_blocks)
		{
			meta->leaked_blocks += given.n_blocks; // lost until REINDEX
			return;
		}
		meta->leaked_blocks += meta->free_extents[smallest].n_blocks;
		remove_free(meta, smallest);
	}
	meta->free_extents[meta->n_free++] = given;
}

void
extent_give_segment(MetaData *meta, const SegmentEntry *segment, uint64 parked_xid)
{
	for (uint32 i = 0; i < kMaxStreams; i++)
		extent_give(meta, segment->streams[i].start_block,
			static_cast<uint32>(stream_blocks(segment->streams[i].n_bytes)), parked_xid);
}

} // namespace vectorgpu::am

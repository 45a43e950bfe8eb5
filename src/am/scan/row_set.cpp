// See row_set.hpp.
#include "am/scan/row_set.hpp"

#include "am/scan/row_lookup.hpp"

#include <algorithm>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kPageRows = kPayloadBytes / sizeof(RowId);
constexpr uint64 kLeastRoom = 256;
constexpr Size kBytesPerKb = 1024;
constexpr uint64 kSparse = 1; // of fewer rows than one for that many pages of row ids each is looked up

/// What a bitmap's pages are collected in.
struct Collection
{
	RowId *rows;
	uint64 n_rows;
	uint64 rows_room;
	BlockNumber *blocks;
	uint64 n_blocks;
	uint64 blocks_room;
	uint64 most_rows;
	bool exact;
};

template <class T>
void
reserve(T **array, uint64 *room, uint64 n)
{
	if (n <= *room)
		return;
	*room = Max(n, Max(kLeastRoom, 2 * *room));
	*array = static_cast<T *>(*array == nullptr ? palloc_extended(*room * sizeof(T), MCXT_ALLOC_HUGE)
												: repalloc_huge(*array, *room * sizeof(T)));
}

/// A page of the bitmap. n < 0: lossy.
void
collect(void *state, BlockNumber block, const OffsetNumber *offsets, int n, bool recheck)
{
	Collection *all = static_cast<Collection *>(state);

	if (n < 0 || all->n_rows + static_cast<uint64>(n) > all->most_rows)
	{
		reserve(&all->blocks, &all->blocks_room, all->n_blocks + 1);
		all->blocks[all->n_blocks++] = block;
		all->exact = false;
		return;
	}
	reserve(&all->rows, &all->rows_room, all->n_rows + static_cast<uint64>(n));
	for (int i = 0; i < n; i++)
		all->rows[all->n_rows++] = make_row_id(block, offsets[i]);
	all->exact = all->exact && !recheck;
}

void
mark(uint8 *bits, uint64 row)
{
	bits[row / 8] |= static_cast<uint8>(1 << (row % 8));
}

/// The first of rows [from, n) that is not less than `row`: near `from` where the set is dense.
uint64
gallop(const RowId *rows, uint64 from, uint64 n, RowId row)
{
	uint64 step = 1;

	while (from + step < n && rows[from + step] < row)
	{
		from += step;
		step *= 2;
	}
	return static_cast<uint64>(std::lower_bound(rows + from, rows + Min(from + step + 1, n), row) - rows);
}

/// Few rows: each is looked up.
bool
mark_each(const RowSet *set, Relation index, const MetaData *meta, const SegmentEntry *segment, uint8 *bits,
	BufferAccessStrategy strategy)
{
	uint64 *numbers = static_cast<uint64 *>(palloc(Max(set->n_rows, UINT64CONST(1)) * sizeof(uint64)));

	if (!find_rows(index, meta, segment, set->rows, set->n_rows, numbers, strategy))
		return false;
	for (uint64 i = 0; i < set->n_rows; i++)
		if (numbers[i] != kNoRowNumber)
			mark(bits, numbers[i]);
	pfree(numbers);
	return true;
}

/// Where a pass over row ids is in the set.
struct SetPlace
{
	uint64 row;
	uint64 block;
};

/// Marks the rows of a page of row ids [n]. first: the number of its first row.
void
mark_page(const RowSet *set, SetPlace *place, const RowId *ids, uint64 first, uint64 n, uint8 *bits)
{
	const RowId last = ids[n - 1];
	uint64 at = 0;

	for (; place->row < set->n_rows && set->rows[place->row] <= last; place->row++)
		for (at = gallop(ids, at, n, set->rows[place->row]); at < n && ids[at] == set->rows[place->row]; at++)
			mark(bits, first + at);
	at = 0;
	for (; place->block < set->n_blocks && set->blocks[place->block] <= row_id_block(last); place->block++)
	{
		const BlockNumber block = set->blocks[place->block];

		for (at = gallop(ids, at, n, make_row_id(block, 0)); at < n && row_id_block(ids[at]) == block; at++)
			mark(bits, first + at);
		if (block == row_id_block(last)) // others of its rows may be on the next page
			break;
	}
}

} // namespace

RowSet
row_set_of_bitmap(TIDBitmap *bitmap)
{
	Collection all = {};

	all.exact = true;
	all.most_rows = static_cast<Size>(work_mem) * kBytesPerKb / sizeof(RowId);
	pg::visit_bitmap(bitmap, collect, &all);
	return {all.rows, all.n_rows, all.blocks, all.n_blocks, all.exact};
}

RowSet
row_set_with(const RowSet *set, RowId *others, uint64 n)
{
	RowId *rows =
		static_cast<RowId *>(palloc_extended(Max(set->n_rows + n, UINT64CONST(1)) * sizeof(RowId), MCXT_ALLOC_HUGE));
	RowSet joint = *set;

	std::sort(others, others + n);
	joint.n_rows = static_cast<uint64>(
		std::set_union(set->rows, set->rows + set->n_rows, others, std::unique(others, others + n), rows) - rows);
	joint.rows = rows;
	return joint;
}

bool
row_set_is_empty(const RowSet *set)
{
	return set->n_rows == 0 && set->n_blocks == 0;
}

bool
row_set_has(const RowSet *set, RowId row)
{
	return std::binary_search(set->rows, set->rows + set->n_rows, row) ||
		(set->n_blocks > 0 && std::binary_search(set->blocks, set->blocks + set->n_blocks, row_id_block(row)));
}

bool
row_set_mark(const RowSet *set, Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids,
	uint64 n_rows, uint8 *bits, BufferAccessStrategy strategy)
{
	SetPlace place = {};
	RowId *page;

	if (ids == StreamKind::kRowIds && set->n_blocks == 0 && set->n_rows * kSparse < n_rows / kPageRows)
		return mark_each(set, index, meta, segment, bits, strategy);
	page = static_cast<RowId *>(palloc(kPageRows * sizeof(RowId)));
	for (uint64 first = 0; first < n_rows && (place.row < set->n_rows || place.block < set->n_blocks);
		first += kPageRows)
	{
		const uint64 n = Min(kPageRows, n_rows - first);

		CHECK_FOR_INTERRUPTS();
		if (!stream_read(index, meta, segment, ids, first * sizeof(RowId), n * sizeof(RowId), page, strategy))
			return false;
		mark_page(set, &place, page, first, n, bits);
	}
	pfree(page);
	return true;
}

} // namespace vectorgpu::am

// See alias_resolve.hpp, and "Shared entries" in src/storage/README.md. Works on slices of the list that fit in
// maintenance_work_mem. Holds no content lock where it pauses.
#include "am/alias/alias_resolve.hpp"

#include "am/scan/row_lookup.hpp"
#include "pg/fault.hpp"
#include "storage/alias.hpp"
#include "storage/delta_append.hpp"

#include <algorithm>

extern "C"
{
#include "access/table.h"
#include "catalog/index.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kReadRows = 1024;
constexpr Size kBytesPerAlias = 2 * sizeof(Alias) + 2 * sizeof(uint64); // memory of a slice

/// A slice of the list: the aliases that need an entry.
struct Resolve
{
	Relation index;
	Relation heap;
	const MetaData *meta;
	const SegmentFormat *format;
	uint64 delta_end;
	BufferAccessStrategy strategy;
	Alias *aliases; // [n]
	uint64 n;
	RowId *rows;     // [n] of the aliases: their rows or their keys
	uint64 *numbers; // [n]
	char *vector;    // of one entry
};

void
must_be_intact(const Resolve *resolve, bool intact)
{
	if (!intact)
		page_corrupted(resolve->index, 0, "A page belongs to something else than the metapage says.");
}

/// Read aliases [first, first + n) and keep the live ones. Returns the number of dead ones.
uint64
read_live(Resolve *resolve, uint64 first, uint64 n, const DeadRows &dead)
{
	resolve->n = 0;
	for (uint64 done = 0; done < n;)
	{
		const uint64 part = Min(kReadRows, n - done);
		Alias *read = resolve->aliases + resolve->n;

		pg::vacuum_pause();
		must_be_intact(resolve, alias_read(resolve->index, resolve->meta, first + done, part, read));
		for (uint64 i = 0; i < part; i++)
			if (!row_is_dead(dead, read[i].row))
				resolve->aliases[resolve->n++] = read[i];
		done += part;
	}
	return n - resolve->n;
}

/// Sort the aliases by one of their row ids, and set `rows` to these.
void
sort_by(Resolve *resolve, RowId Alias::*member)
{
	std::sort(resolve->aliases, resolve->aliases + resolve->n,
		[member](const Alias &a, const Alias &b) { return a.*member < b.*member; });
	for (uint64 i = 0; i < resolve->n; i++)
		resolve->rows[i] = resolve->aliases[i].*member;
}

/// Calls use(resolve, number, row, state) for each live row of the delta that has a value and whose row id is in
/// `rows`.
template <class Use>
void
visit_delta(Resolve *resolve, Use use)
{
	uint64 *headers = static_cast<uint64 *>(palloc(kReadRows * sizeof(uint64)));

	for (uint64 row = resolve->meta->delta_first_row; row < resolve->delta_end;)
	{
		const uint64 n = Min(kReadRows, resolve->delta_end - row);

		pg::vacuum_pause();
		must_be_intact(resolve, delta_read(resolve->index, resolve->meta, row, n, headers, nullptr, 0));
		for (uint64 i = 0; i < n; i++)
			if ((headers[i] & ~kDeltaRowIdMask) == 0 &&
				std::binary_search(resolve->rows, resolve->rows + resolve->n, headers[i]))
				use(row + i, headers[i]);
		row += n;
	}
	pfree(headers);
}

/// Remove the aliases whose rows have entries of their own: an interrupted VACUUM has made these.
void
drop_copied(Resolve *resolve)
{
	bool *copied =
		static_cast<bool *>(palloc_extended(Max(resolve->n, UINT64CONST(1)), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	uint64 kept = 0;

	sort_by(resolve, &Alias::row);
	for (uint32 i = 0; i < resolve->meta->n_segments; i++)
	{
		pg::vacuum_pause();
		must_be_intact(resolve,
			find_rows(resolve->index, resolve->meta, &resolve->meta->segments[i], resolve->rows, resolve->n,
				resolve->numbers, resolve->strategy));
		for (uint64 j = 0; j < resolve->n; j++)
			copied[j] |= resolve->numbers[j] != kNoRowNumber;
	}
	visit_delta(resolve, [&](uint64, RowId row)
		{ copied[std::lower_bound(resolve->rows, resolve->rows + resolve->n, row) - resolve->rows] = true; });
	for (uint64 i = 0; i < resolve->n; i++)
		if (!copied[i])
			resolve->aliases[kept++] = resolve->aliases[i];
	resolve->n = kept;
	pfree(copied);
}

/// Append a row with the value of resolve->vector.
void
append(Resolve *resolve, RowId row)
{
	pg::vacuum_pause();
	(void) VG_FAULT("vacuum_resolve");
	delta_append(resolve->index, resolve->heap, row, resolve->vector, nullptr); // there are no key columns
}

void
read_entry(Resolve *resolve, const SegmentEntry *segment, uint64 number)
{
	const Size n_bytes = meta_vector_bytes(resolve->meta);

	must_be_intact(resolve,
		resolve->format != nullptr && resolve->format->read_vectors != nullptr
			? resolve->format->read_vectors(
				  resolve->index, resolve->meta, segment, number, 1, resolve->vector, resolve->strategy)
			: stream_read(resolve->index, resolve->meta, segment, StreamKind::kVectors, number * n_bytes, n_bytes,
				  resolve->vector, resolve->strategy));
}

/// Append a row for each alias, with the value of the entry that it names.
void
append_all(Resolve *resolve)
{
	uint64 n_done = 0;

	sort_by(resolve, &Alias::key);
	for (uint32 i = 0; i < resolve->meta->n_segments; i++)
	{
		const SegmentEntry *segment = &resolve->meta->segments[i];
		uint64 held = kNoRowNumber;

		must_be_intact(resolve,
			find_rows(resolve->index, resolve->meta, segment, resolve->rows, resolve->n, resolve->numbers,
				resolve->strategy));
		for (uint64 j = 0; j < resolve->n; j++)
		{
			if (resolve->numbers[j] == kNoRowNumber)
				continue;
			if (resolve->numbers[j] != held)
				read_entry(resolve, segment, resolve->numbers[j]);
			held = resolve->numbers[j];
			append(resolve, resolve->aliases[j].row);
			n_done++;
		}
	}
	visit_delta(resolve,
		[&](uint64 number, RowId key)
		{
			uint64 header;

			must_be_intact(resolve,
				delta_read(resolve->index, resolve->meta, number, 1, &header, resolve->vector,
					meta_vector_bytes(resolve->meta)));
			for (const RowId *at = std::lower_bound(resolve->rows, resolve->rows + resolve->n, key);
				at < resolve->rows + resolve->n && *at == key; at++)
			{
				append(resolve, resolve->aliases[at - resolve->rows].row);
				n_done++;
			}
		});
	if (n_done != resolve->n)
		page_corrupted(resolve->index, 0,
			psprintf("The index lacks the entries of " UINT64_FORMAT " rows that share another row's entry.",
				resolve->n - Min(n_done, resolve->n)));
}

} // namespace

bool
row_is_dead(const DeadRows &dead, RowId row)
{
	ItemPointerData tid;

	ItemPointerSet(&tid, row_id_block(row), row_id_offset(row));
	return dead.callback(&tid, dead.state);
}

uint64
resolve_aliases(
	Relation index, const MetaData *meta, uint64 delta_end, const DeadRows &dead, BufferAccessStrategy strategy)
{
	const uint64 end = alias_end(index, meta, nullptr);
	const uint64 slice =
		Max(kReadRows, Min(end - meta->alias_first, static_cast<uint64>(maintenance_work_mem) * 1024 / kBytesPerAlias));
	Resolve resolve = {.index = index, .meta = meta, .delta_end = delta_end, .strategy = strategy};
	MetaUpdate update;
	uint64 n_dead = 0;

	if (end == meta->alias_first)
		return 0;
	// VACUUM holds the table's lock, in a parallel worker through its leader.
	resolve.heap = table_open(IndexGetRelation(RelationGetRelid(index), false), NoLock);
	resolve.format = access_method(index, meta)->format;
	resolve.aliases = static_cast<Alias *>(palloc_extended(slice * sizeof(Alias), MCXT_ALLOC_HUGE));
	resolve.rows = static_cast<RowId *>(palloc_extended(slice * sizeof(RowId), MCXT_ALLOC_HUGE));
	resolve.numbers = static_cast<uint64 *>(palloc_extended(slice * sizeof(uint64), MCXT_ALLOC_HUGE));
	resolve.vector = static_cast<char *>(palloc(meta_vector_bytes(meta)));
	for (uint64 first = meta->alias_first; first < end; first += slice)
	{
		n_dead += read_live(&resolve, first, Min(slice, end - first), dead);
		drop_copied(&resolve);
		append_all(&resolve);
	}
	(void) VG_FAULT("vacuum_resolved");
	meta_update_begin(&update, index);
	alias_resolved(update.meta, end);
	meta_update_finish(&update);
	(void) VG_FAULT("vacuum_after_resolved");
	pfree(resolve.aliases);
	pfree(resolve.rows);
	pfree(resolve.numbers);
	pfree(resolve.vector);
	table_close(resolve.heap, NoLock);
	return n_dead;
}

} // namespace vectorgpu::am

// Counting rows, and sorting the delta. See row_count.hpp. PG dialect.
//
// The delta's rows are sorted as 16-byte keys (row id, number and NULL flag, both big-endian) under the type uuid,
// which core sorts by memcmp with abbreviated keys.
#include "am/maintain/row_count.hpp"

#include "pg/fault.hpp"

extern "C"
{
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "utils/typcache.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kHeaderBatch = 1024; // delta headers read at a time

bool
stopped(StopCheck *stop)
{
	if (stop != nullptr && !stop->stopped)
		stop->stopped = stop->should_stop(stop->state);
	return stop != nullptr && stop->stopped;
}

} // namespace

void
count_segment(Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy,
	RowCounts *counts, StopCheck *stop)
{
	const uint64 n_bits = segment->n_rows + segment->n_null_rows;
	uint8 *bits = static_cast<uint8 *>(palloc(kPayloadBytes));
	uint64 dead = 0;
	uint64 dead_rows = 0; // dead rows among those that are not NULL

	for (uint64 first = 0; first < n_bits; first += kPayloadBytes * 8)
	{
		const uint64 n = Min(kPayloadBytes * 8, n_bits - first);

		pg::vacuum_pause();
		if (stopped(stop))
			return;
		must_not_be_foreign(index,
			stream_read(index, meta, segment, StreamKind::kTombstones, first / 8, (n + 7) / 8, bits, strategy),
			segment_block(segment, StreamKind::kTombstones));
		dead += pg_popcount(reinterpret_cast<char *>(bits), static_cast<int>(n / 8));
		for (uint64 i = n & ~UINT64CONST(7); i < n; i++)
			dead += tombstone_get(bits, i);
		if (first + n <= segment->n_rows)
			dead_rows = dead;
		else if (first < segment->n_rows)
		{
			// The NULL rows begin on this page.
			const uint64 n_here = segment->n_rows - first;

			dead_rows += pg_popcount(reinterpret_cast<char *>(bits), static_cast<int>(n_here / 8));
			for (uint64 i = n_here & ~UINT64CONST(7); i < n_here; i++)
				dead_rows += tombstone_get(bits, i);
		}
	}
	pfree(bits);
	counts->rows += segment->n_rows - dead_rows;
	counts->null_rows += segment->n_null_rows - (dead - dead_rows);
	counts->dead_rows += dead;
}

Tuplesortstate *
sort_delta(Relation index, const MetaData *meta, uint64 first, uint64 end, RowCounts *counts, StopCheck *stop)
{
	const TypeCacheEntry *type;
	Tuplesortstate *sort;
	uint64 *headers;

	if (first >= end)
		return nullptr;
	type = lookup_type_cache(UUIDOID, TYPECACHE_LT_OPR);
	sort =
		tuplesort_begin_datum(UUIDOID, type->lt_opr, InvalidOid, false, maintenance_work_mem, nullptr, TUPLESORT_NONE);
	headers = static_cast<uint64 *>(palloc(kHeaderBatch * sizeof(uint64)));
	for (uint64 row = first; row < end;)
	{
		const uint64 n = Min(static_cast<uint64>(kHeaderBatch), end - row);

		pg::vacuum_pause();
		(void) VG_FAULT("sort_delta_read");
		if (stopped(stop))
		{
			tuplesort_end(sort);
			return nullptr;
		}
		must_not_be_foreign(index, delta_read(index, meta, row, n, headers, nullptr, 0), 0);
		for (uint64 i = 0; i < n; i++)
		{
			const bool is_null = (headers[i] & kDeltaNull) != 0;
			DeltaKey key;

			if (!delta_starts_row(headers[i]))
				continue;
			if ((headers[i] & kDeltaDead) != 0)
			{
				counts->dead_rows++;
				continue;
			}
			if (is_null)
				counts->null_rows++;
			else
				counts->rows++;
			key.row = pg_hton64(headers[i] & kDeltaRowIdMask);
			key.number = pg_hton64((row + i) << 1 | (is_null ? 1 : 0));
			tuplesort_putdatum(sort, PointerGetDatum(&key), false);
		}
		row += n;
	}
	pfree(headers);
	tuplesort_performsort(sort);
	return sort;
}

} // namespace vectorgpu::am

// See recall_stats.hpp. Entries are few and changed a few times a second at most: one spinlock for all.
#include "am/recall/recall_stats.hpp"

#include "pg/clock.hpp"
#include "pg/privilege.hpp"
#include "pg/shared_memory.hpp"

#include <cstring>
#include <initializer_list>

extern "C"
{
#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "storage/spin.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

	PG_FUNCTION_INFO_V1(vectorgpu_recall_samples);
}

namespace vectorgpu::am
{

namespace
{

constexpr int kEntries = 64;
constexpr double kWindow = 200;            // samples: a new one weighs 1 / kWindow
constexpr uint64 kClaimLifeMs = 60 * 1000; // of a claim whose process ended without releasing it

struct Entry
{
	Oid database; // InvalidOid: free
	Oid index;
	Oid file_node;
	int64 n_samples; // in all
	int64 n_dropped;
	TimestampTz last;
	RecallCount count; // weighted
};

struct RecallTable
{
	slock_t lock;
	uint64 n_claims; // given so far: the number of the last one
	uint64 claimed;  // pg::monotonic_ms; 0: no sample is under way
	Entry entries[kEntries];
};

static_assert(sizeof(RecallTable) <= 8192, "taken from the server's spare shared memory");

RecallTable *attached = nullptr;
bool unavailable = false;

void
init_table(void *piece)
{
	RecallTable *made = static_cast<RecallTable *>(piece);

	memset(made, 0, sizeof(RecallTable));
	SpinLockInit(&made->lock);
}

/// Null if no shared memory is left: then no scan is sampled.
RecallTable *
table()
{
	if (attached != nullptr || unavailable || !IsUnderPostmaster)
		return attached;
	attached = static_cast<RecallTable *>(pg::shared_piece("vectorgpu recall", sizeof(RecallTable), init_table));
	unavailable = attached == nullptr;
	return attached;
}

/// The index's entry, under the lock: its own, a free one, or that of the index that was sampled longest ago.
Entry *
entry_of(RecallTable *recalls, Oid index, Oid file_node)
{
	Entry *oldest = &recalls->entries[0];

	for (Entry &entry : recalls->entries)
	{
		if (entry.database == MyDatabaseId && entry.index == index && entry.file_node == file_node)
			return &entry;
		// An index that was rebuilt begins anew, in the place of the old one.
		if ((entry.database == MyDatabaseId && entry.index == index) || entry.database == InvalidOid)
		{
			oldest = &entry;
			if (entry.database != InvalidOid)
				break;
		}
		else if (oldest->database != InvalidOid && entry.last < oldest->last)
			oldest = &entry;
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->database = MyDatabaseId;
	oldest->index = index;
	oldest->file_node = file_node;
	return oldest;
}

} // namespace

uint64
recall_stats_claim()
{
	RecallTable *recalls = table();
	const uint64 now = pg::monotonic_ms();
	uint64 claim = 0;

	if (recalls == nullptr)
		return 0;
	SpinLockAcquire(&recalls->lock);
	if (recalls->claimed == 0 || now > recalls->claimed + kClaimLifeMs)
	{
		recalls->claimed = now;
		claim = ++recalls->n_claims;
	}
	SpinLockRelease(&recalls->lock);
	return claim;
}

void
recall_stats_release(uint64 claim)
{
	RecallTable *recalls = table();

	if (recalls == nullptr)
		return;
	SpinLockAcquire(&recalls->lock);
	if (recalls->n_claims == claim)
		recalls->claimed = 0;
	SpinLockRelease(&recalls->lock);
}

void
recall_stats_add(Oid index, Oid file_node, const RecallCount *sample)
{
	RecallTable *recalls = table();
	const TimestampTz now = GetCurrentTimestamp();
	Entry *entry;

	if (recalls == nullptr)
		return;
	SpinLockAcquire(&recalls->lock);
	entry = entry_of(recalls, index, file_node);
	for (double *sum : {&entry->count.n_queries, &entry->count.found, &entry->count.wanted, &entry->count.sum_squares,
			 &entry->count.sum})
		*sum *= 1 - 1 / kWindow;
	entry->count.n_queries += sample->n_queries;
	entry->count.found += sample->found;
	entry->count.wanted += sample->wanted;
	entry->count.sum_squares += sample->sum_squares;
	entry->count.sum += sample->sum;
	entry->n_samples++;
	entry->last = now;
	SpinLockRelease(&recalls->lock);
}

void
recall_stats_add_dropped(Oid index, Oid file_node)
{
	RecallTable *recalls = table();
	const TimestampTz now = GetCurrentTimestamp();
	Entry *entry;

	if (recalls == nullptr)
		return;
	SpinLockAcquire(&recalls->lock);
	entry = entry_of(recalls, index, file_node);
	entry->n_dropped++;
	entry->last = now;
	SpinLockRelease(&recalls->lock);
}

namespace
{

enum Column
{
	kIndexOid,
	kSamples,
	kDropped,
	kRecall,
	kRecallLow,
	kRecallHigh,
	kLastSample,
	kColumns,
};

/// The index's present file; InvalidOid if it is gone.
Oid
file_node_of(Oid index)
{
	const HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Oid file_node = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		file_node = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relfilenode;
		ReleaseSysCache(tuple);
	}
	return file_node;
}

/// Puts a row for an index that has the file it was sampled with, and that the caller may read.
void
put_entry(ReturnSetInfo *result, const Entry *entry)
{
	const RecallInterval interval = recall_interval(&entry->count);
	const Oid heap = IndexGetRelation(entry->index, true);
	Datum values[kColumns] = {ObjectIdGetDatum(entry->index), Int64GetDatum(entry->n_samples),
		Int64GetDatum(entry->n_dropped), Float8GetDatum(interval.recall), Float8GetDatum(interval.low),
		Float8GetDatum(interval.high), TimestampTzGetDatum(entry->last)};
	bool nulls[kColumns] = {};

	if (!OidIsValid(heap) || !pg::may_read_table(heap) || file_node_of(entry->index) != entry->file_node)
		return;
	for (int i = kRecall; i <= kRecallHigh; i++)
		nulls[i] = !(entry->count.wanted > 0);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

} // namespace
} // namespace vectorgpu::am

/// vectorgpu_recall_samples(): a row for each index of this database that was sampled.
Datum
vectorgpu_recall_samples(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	RecallTable *recalls = table();
	RecallTable *copy = static_cast<RecallTable *>(palloc0(sizeof(RecallTable)));

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != kColumns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	if (recalls != nullptr)
	{
		SpinLockAcquire(&recalls->lock);
		memcpy(copy->entries, recalls->entries, sizeof(copy->entries));
		SpinLockRelease(&recalls->lock);
	}
	for (const Entry &entry : copy->entries)
		if (entry.database == MyDatabaseId)
			put_entry(result, &entry);
	return (Datum) 0;
}

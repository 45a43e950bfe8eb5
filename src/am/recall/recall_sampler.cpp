// See recall_sampler.hpp.
//
// A sample travels in a file, since it may be larger than bgw_extra, and since making a segment of shared memory may
// raise errors: pgsql_tmp_vectorgpu/pgsql_tmp_recall in the data directory, readable by the server only. The claim on
// the statistics (recall_stats_claim) tells whose file it is.
#include "am/recall/recall_sampler.hpp"

#include "am/method/index_access.hpp"
#include "am/recall/recall.hpp"
#include "am/recall/recall_stats.hpp"
#include "pg/clock.hpp"
#include "pg/define_setting.hpp"
#include "wire/address.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C"
{
#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "common/pg_prng.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

/// The noted part of a scan.
struct RecallSample
{
	Oid database;
	Oid index;
	Oid file_node;
	uint32 k;
	uint32 n_rows;
	uint32 row_capacity;
	uint32 query_bytes;
	struct varlena *query;
	RowId *rows;
};

namespace
{

constexpr uint64 kMostRows = 1000;   // of a LIMIT that is sampled
constexpr uint32 kRowsPerWanted = 4; // rows noted for each wanted row: invisible and rechecked rows come on top
constexpr uint32 kSpareRows = 100;
constexpr int kDefaultTimeMs = 2000;
constexpr int kMostTimeMs = 4000; // DROP DATABASE waits five seconds for connections to end

double sample_rate = 0;
int sample_time_ms = kDefaultTimeMs;

/// The head of the file; rows and query follow.
struct FileHead
{
	uint64 magic;
	uint64 claim;
	Oid database;
	Oid index;
	Oid file_node;
	uint32 k;
	uint32 n_rows;
	uint32 query_bytes;
};

constexpr uint64 kFileMagic = UINT64CONST(0x56475243414C4C32);

void
format_path(char (&path)[MAXPGPATH])
{
	snprintf(path, sizeof(path), "%s/pgsql_tmp_recall", wire::kSocketFolder);
}

bool
write_all(int file, const void *data, size_t n)
{
	const char *bytes = static_cast<const char *>(data);

	while (n > 0)
	{
		const ssize_t written = write(file, bytes, n);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		bytes += written;
		n -= static_cast<size_t>(written);
	}
	return true;
}

bool
write_sample(const RecallSample *sample, uint64 claim)
{
	const FileHead head = {kFileMagic, claim, sample->database, sample->index, sample->file_node, sample->k,
		sample->n_rows, sample->query_bytes};
	char path[MAXPGPATH];
	bool written;
	int file;

	(void) mkdir(wire::kSocketFolder, S_IRWXU);
	format_path(path);
	(void) unlink(path);
	file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
	if (file < 0)
		return false;
	written = write_all(file, &head, sizeof(head)) && write_all(file, sample->rows, sample->n_rows * sizeof(RowId)) &&
		write_all(file, sample->query, sample->query_bytes);
	if (close(file) != 0 || !written)
	{
		(void) unlink(path);
		return false;
	}
	return true;
}

bool
read_all(int file, void *data, size_t n)
{
	char *bytes = static_cast<char *>(data);

	while (n > 0)
	{
		const ssize_t got = read(file, bytes, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		bytes += got;
		n -= static_cast<size_t>(got);
	}
	return true;
}

/// The worker's argument (bgw_extra).
struct WorkerOrder
{
	uint64 claim;
	Oid database;
	Oid index;
};

static_assert(sizeof(WorkerOrder) <= BGW_EXTRALEN);

WorkerOrder order; // of this worker process

/// Reads the file and deletes it. False if it was written for another worker.
bool
read_sample(RecallSample *sample)
{
	char path[MAXPGPATH];
	FileHead head;
	bool whole;
	int file;

	format_path(path);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	if (!read_all(file, &head, sizeof(head)) || head.magic != kFileMagic || head.claim != order.claim)
	{
		(void) close(file);
		return false;
	}
	(void) unlink(path);
	whole = head.index == order.index && head.k >= 1 && head.k <= kMostRows &&
		head.n_rows <= kRowsPerWanted * kMostRows + kSpareRows && head.query_bytes >= VARHDRSZ &&
		head.query_bytes <= MaxAllocSize;
	if (whole)
	{
		*sample = {head.database, head.index, head.file_node, head.k, head.n_rows, head.n_rows, head.query_bytes,
			static_cast<struct varlena *>(palloc(head.query_bytes)),
			static_cast<RowId *>(palloc(Max(head.n_rows, 1) * sizeof(RowId)))};
		whole = read_all(file, sample->rows, head.n_rows * sizeof(RowId)) &&
			read_all(file, sample->query, head.query_bytes) && VARSIZE_4B(sample->query) == head.query_bytes;
	}
	(void) close(file);
	return whole;
}

bool
start_worker(const RecallSample *sample, uint64 claim)
{
	const WorkerOrder told = {claim, sample->database, sample->index};
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_name, BGW_MAXLEN, "vectorgpu recall of index %u", sample->index);
	strlcpy(worker.bgw_type, "vectorgpu recall", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "vectorgpu", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "vectorgpu_recall_main", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &told, sizeof(told));
	return RegisterDynamicBackgroundWorker(&worker, nullptr);
}

/// Time limit of a measurement: at most the database's statement_timeout.
int
most_time_ms()
{
	return StatementTimeout > 0 ? Min(sample_time_ms, StatementTimeout) : sample_time_ms;
}

/// The worker's transaction. It waits for no lock: an index that is locked is not sampled.
void
measure(const RecallSample *sample)
{
	IndexAccess access;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (index_access_try_open(&access, sample->index, AccessShareLock, AccessShareLock))
	{
		const RecallOperator op = recall_operator(access.index);
		RecallQuery query = recall_new_query(PointerGetDatum(sample->query), sample->k, sample->n_rows);
		RecallCount count = {};

		memcpy(query.answer, sample->rows, sample->n_rows * sizeof(RowId));
		query.n_answer = sample->n_rows;
		if (pg::file_number(pg::file_of(access.index)) == sample->file_node)
		{
			if (recall_scan_table(access.index, access.heap, GetActiveSnapshot(), &op, &query, 1, sample->k,
					pg::monotonic_ms() + static_cast<uint64>(most_time_ms())))
			{
				recall_count(&query, &count);
				recall_stats_add(sample->index, sample->file_node, &count);
			}
			else
				recall_stats_add_dropped(sample->index, sample->file_node);
		}
		index_access_close(&access);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
}

void
on_worker_exit(int status, Datum argument)
{
	recall_stats_release(order.claim);
}

} // namespace

void
recall_define_gucs()
{
	pg::define_real("vectorgpu.recall_sample_rate",
		"Share of the scans under a LIMIT whose recall is measured in the background.",
		"The view vectorgpu_index_recall shows the results.", &sample_rate, 0, 0, 1, PGC_SUSET, 0, nullptr, nullptr,
		nullptr);
	pg::define_int("vectorgpu.recall_sample_time", "Longest time that one such measurement takes.", nullptr,
		&sample_time_ms, kDefaultTimeMs, 1, kMostTimeMs, PGC_SUSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
}

RecallSample *
recall_sample_begin(IndexScanDesc scan, uint64 limit, MemoryContext context)
{
	Relation index = scan->indexRelation;
	RecallSample *sample;
	MemoryContext caller;

	if (likely(sample_rate <= 0) || limit < 1 || limit > kMostRows || scan->heapRelation == nullptr ||
		IsParallelWorker() || !IsUnderPostmaster || pg_prng_double(&pg_global_prng_state) >= sample_rate)
		return nullptr;
	// Another process cannot see indexes of this session or this transaction only.
	if (RelationUsesLocalBuffers(index) || pg::made_by_this_transaction(index))
		return nullptr;
	caller = MemoryContextSwitchTo(context);
	sample = static_cast<RecallSample *>(palloc0(sizeof(RecallSample)));
	sample->database = MyDatabaseId;
	sample->index = RelationGetRelid(index);
	sample->file_node = pg::file_number(pg::file_of(index));
	sample->k = static_cast<uint32>(limit);
	sample->row_capacity = kRowsPerWanted * sample->k + kSpareRows;
	sample->rows = static_cast<RowId *>(palloc(sample->row_capacity * sizeof(RowId)));
	sample->query = PG_DETOAST_DATUM_COPY(scan->orderByData[0].sk_argument);
	sample->query_bytes = VARSIZE_4B(sample->query);
	MemoryContextSwitchTo(caller);
	return sample;
}

void
recall_sample_row(RecallSample *sample, RowId row)
{
	// A sample that overflows is dropped by recall_sample_end.
	if (sample->n_rows < sample->row_capacity)
		sample->rows[sample->n_rows] = row;
	sample->n_rows++;
}

void
recall_sample_end(RecallSample *sample, bool complete)
{
	uint64 claim;

	if (sample->n_rows > sample->row_capacity || (!complete && sample->n_rows < sample->k))
		return;
	claim = recall_stats_claim();
	if (claim != 0 && (!write_sample(sample, claim) || !start_worker(sample, claim)))
		recall_stats_release(claim);
}

/// The background worker's work, once it is connected.
void
recall_worker_run()
{
	const MemoryContext context = AllocSetContextCreate(TopMemoryContext, "vectorgpu recall", ALLOCSET_DEFAULT_SIZES);
	RecallSample sample;

	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, psprintf("vectorgpu: recall of index %u", order.index));
	MemoryContextSwitchTo(context);
	if (read_sample(&sample))
		measure(&sample);
	pgstat_report_activity(STATE_IDLE, nullptr);
}

void
recall_worker_begin(const void *told)
{
	memcpy(&order, told, sizeof(order));
	before_shmem_exit(on_worker_exit, 0);
	BackgroundWorkerInitializeConnectionByOid(order.database, InvalidOid, 0);
	// Administrators count sequential scans to find missing indexes; those of samples are no queries.
	SetConfigOption("track_counts", "off", PGC_SUSET, PGC_S_OVERRIDE);
}

} // namespace vectorgpu::am

extern "C" PGDLLEXPORT void vectorgpu_recall_main(Datum argument);

void
vectorgpu_recall_main(Datum argument)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	vectorgpu::am::recall_worker_begin(MyBgworkerEntry->bgw_extra);
	vectorgpu::am::recall_worker_run();
	proc_exit(0);
}

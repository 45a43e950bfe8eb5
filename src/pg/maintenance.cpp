// The maintenance worker and requests for it. See maintenance.hpp.
//
// The worker performs one merge. It connects as the bootstrap superuser, becomes the table's owner for the merge, and
// runs no user code: a merge copies stored bytes and evaluates neither index expressions nor predicates. It does not
// wait for a table lock, and stops when another session waits for its own, so it delays neither DDL nor DROP DATABASE.
#include "pg/maintenance.hpp"

#include "pg/clock.hpp"
#include "pg/define_setting.hpp"
#include "pg/fault.hpp"

#include <climits>
#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::pg
{

namespace
{

constexpr int kRememberedIndexes = 256;
constexpr int kMostRequests =
	16; // of a backend within one pause, for all indexes: workers that find their table locked end at once
constexpr uint64 kRequestPauseMs = 3 * 1000; // least time between two requests of a backend for one index;
constexpr uint64 kMostPauseMs =
	60 * 1000; // grows to this while no merge results, because one takes long or the table is locked
constexpr uint64 kNoSlotPauseMs = 500; // least time before the next request after no background worker was free
constexpr int kMostRunning = 8;        // most workers at a time for one backend,
constexpr int kRunningShare = 4; // and at most 1 / this of max_worker_processes, so that a table of many partitions
								 // leaves background workers to others
constexpr int kDefaultDeltaKb = 64 * 1024;
constexpr int kMinDeltaKb = 64;

/// The worker's task, in bgw_extra.
struct MaintenanceOrder
{
	Oid database;
	Oid index;
	uint64 threshold_bytes;
};

static_assert(sizeof(MaintenanceOrder) <= BGW_EXTRALEN);

struct Request
{
	Oid index;
	uint64 delta_first;
	uint64 at; // monotonic_ms
	uint64 pause_ms;
};

bool auto_merge = true;
int merge_delta_size = kDefaultDeltaKb; // kB
MaintenanceTask maintenance_task = nullptr;
Request recent_requests[kRememberedIndexes];
BackgroundWorkerHandle *asked_for[kMostRunning]; // workers, in TopMemoryContext; nullptr: none
uint64 no_slot_until = 0;                        // monotonic_ms

/// Return a free place in asked_for; nullptr if this backend already has as many workers as it may.
BackgroundWorkerHandle **
free_place()
{
	const int most = Min(kMostRunning, Max(1, max_worker_processes / kRunningShare));
	BackgroundWorkerHandle **place = nullptr;
	int n_running = 0;

	for (BackgroundWorkerHandle *&handle : asked_for)
	{
		pid_t pid;

		if (handle != nullptr && GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED)
		{
			pfree(handle);
			handle = nullptr;
		}
		if (handle != nullptr)
			n_running++;
		else if (place == nullptr)
			place = &handle;
	}
	return n_running < most ? place : nullptr;
}

/// Fill in a request made now and return the place to remember it in; nullptr if this backend requested the index, or
/// many indexes, recently.
Request *
next_request(Oid index, uint64 delta_first, uint64 now, Request *next)
{
	Request *known = nullptr;
	Request *oldest = &recent_requests[0];
	int n_lately = 0;

	for (Request &request : recent_requests)
	{
		if (request.index == index)
			known = &request;
		if (request.index != InvalidOid && now - request.at < kRequestPauseMs)
			n_lately++;
		if (request.at < oldest->at)
			oldest = &request;
	}
	if (n_lately >= kMostRequests)
		return nullptr;
	if (known == nullptr)
	{
		*next = {index, delta_first, now, kRequestPauseMs};
		return oldest;
	}

	const bool is_merged = known->delta_first != delta_first; // since then
	const uint64 pause_ms = is_merged ? kRequestPauseMs : known->pause_ms;

	if (now - known->at < pause_ms)
		return nullptr;
	*next = {index, delta_first, now, is_merged ? pause_ms : Min(2 * pause_ms, kMostPauseMs)};
	return known;
}

/// Start a worker, in a free place of asked_for. False if there is no free slot: the request is dropped; a later insert
/// or VACUUM repeats it.
bool
start_worker(Relation index, uint64 threshold_bytes, BackgroundWorkerHandle **place)
{
	const MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);
	BackgroundWorker worker;
	MaintenanceOrder order;
	bool started;

	memset(&order, 0, sizeof(order));
	order.database = MyDatabaseId;
	order.index = RelationGetRelid(index);
	order.threshold_bytes = threshold_bytes;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_name, BGW_MAXLEN, "vectorgpu maintenance of index %u", order.index);
	strlcpy(worker.bgw_type, "vectorgpu maintenance", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "vectorgpu", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "vectorgpu_maintenance_main", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &order, sizeof(order));
	started = RegisterDynamicBackgroundWorker(&worker, place);
	MemoryContextSwitchTo(context);
	return started;
}

} // namespace

void
maintenance_init(MaintenanceTask task)
{
	maintenance_task = task;
	define_bool("vectorgpu.auto_merge", "Merges the delta of an index in the background when it has grown.",
		"When off, only VACUUM and vectorgpu_merge() merge.", &auto_merge, true, PGC_SUSET, 0, nullptr, nullptr,
		nullptr);
	define_int("vectorgpu.merge_delta_size", "Size of an index's delta that starts a background merge.", nullptr,
		&merge_delta_size, kDefaultDeltaKb, kMinDeltaKb, INT_MAX, PGC_SUSET, GUC_UNIT_KB, nullptr, nullptr, nullptr);
}

void
maintenance_request(Relation index, uint64 delta_first, uint64 delta_bytes)
{
	const uint64 threshold = static_cast<uint64>(merge_delta_size) * 1024;
	uint64 now;
	BackgroundWorkerHandle **place;
	Request *remembered;
	Request next;

	if (!auto_merge || delta_bytes < threshold || !IsUnderPostmaster || IsInParallelMode())
		return;
	// A worker cannot see a temporary table, or one that this transaction has created or rewritten.
	if (RelationUsesLocalBuffers(index) || made_by_this_transaction(index))
		return;
	now = monotonic_ms();
	if (now < no_slot_until)
		return;
	remembered = next_request(RelationGetRelid(index), delta_first, now, &next);
	if (remembered == nullptr)
		return;
	place = free_place();
	if (place == nullptr)
		return;

	if (start_worker(index, threshold, place))
		*remembered = next;
	else
		no_slot_until = now + kNoSlotPauseMs;
}

void
maintenance_request_shrink(Relation index)
{
	BackgroundWorkerHandle **place = IsUnderPostmaster && !RelationUsesLocalBuffers(index) ? free_place() : nullptr;

	if (place != nullptr)
		(void) start_worker(index, 0, place);
}

} // namespace vectorgpu::pg

extern "C" PGDLLEXPORT void vectorgpu_maintenance_main(Datum argument);

void
vectorgpu_maintenance_main(Datum argument)
{
	vectorgpu::pg::MaintenanceOrder order;

	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(order.database, InvalidOid, 0);

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	pgstat_report_activity(STATE_RUNNING, psprintf("vectorgpu: maintenance of index %u", order.index));
	vectorgpu::pg::maintenance_task(order.index, order.threshold_bytes);
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, nullptr);
	pgstat_report_stat(true);
	proc_exit(0);
}

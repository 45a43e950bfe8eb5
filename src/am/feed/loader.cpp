// See loader.hpp.
//
// A load of a large index takes long and must not delay other sessions. It therefore works in slices of a fifth of a
// second. Each slice is a transaction that opens table and index with ConditionalLock and releases them at its end, so
// DROP INDEX waits for at most one slice. The worker reports how much of the copy it has (copy_feed.hpp), so a slice
// needs nothing from the previous one except the session, which holds the lease.
//
// DROP DATABASE, ALTER DATABASE and CREATE DATABASE ... TEMPLATE wait for up to five seconds until no process is
// connected, and in PostgreSQL 15 a process leaves a database only by exiting. These commands hold a lock on the
// database that new connections take too. Before each slice the loader tries to take that lock, and exits if it cannot.
// The next scan requests a new loader.
#include "am/feed/loader.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/method/index_access.hpp"
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/settings.hpp"
#include "pg/clock.hpp"
#include "pg/fault.hpp"

#include <csignal>
#include <cstdio>
#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_database_d.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kSliceMs = 150; // the last request of a slice may take longer
constexpr long kPauseMs = 100;   // while the index is locked or another session loads it
constexpr int kLongestWaitMs = 60 * 1000;
constexpr uint64 kOrderLifeMs = 30 * 1000; // lifetime of an order whose loader does not start
constexpr int kStalesInARow = 100;

struct LoadOrder
{
	Oid database;
	Oid index;
	int slot;
};

static_assert(sizeof(LoadOrder) <= BGW_EXTRALEN);

LoadOrder current_order; // of this loader

uint64
order_code(Oid database, Oid index_oid)
{
	return static_cast<uint64>(database) << 32 | index_oid;
}

bool
slot_is_dead(bridge::LoaderSlot *slot, uint64 now)
{
	const uint32 pid = pg_atomic_read_u32(&slot->pid);

	if (pid != 0)
		return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
	// Another session may have made its order after `now` was read, so compare without a subtraction.
	return now > pg_atomic_read_u64(&slot->since) + kOrderLifeMs;
}

/// Take a slot for the order; return -1 if the same order exists or no slot is free.
int
take_slot(bridge::SharedState *shared, uint64 code)
{
	const uint64 now = pg::monotonic_ms();

	for (bridge::LoaderSlot &slot : shared->loaders)
		if (pg_atomic_read_u64(&slot.order) == code && !slot_is_dead(&slot, now))
			return -1;
	for (int i = 0; i < bridge::kLoaderSlots; i++)
	{
		bridge::LoaderSlot *slot = &shared->loaders[i];
		uint64 seen = pg_atomic_read_u64(&slot->order);

		if (seen != 0 && !slot_is_dead(slot, now))
			continue;
		pg_atomic_write_u64(&slot->since, now);
		pg_atomic_write_u32(&slot->pid, 0);
		if (pg_atomic_compare_exchange_u64(&slot->order, &seen, code))
			return i;
	}
	return -1;
}

void
free_slot(bridge::SharedState *shared, int slot, uint64 code)
{
	pg_atomic_write_u32(&shared->loaders[slot].pid, 0);
	(void) pg_atomic_compare_exchange_u64(&shared->loaders[slot].order, &code, 0);
}

void
on_loader_exit(int status, Datum argument)
{
	bridge::session_close();
	free_slot(bridge::shared_state(), current_order.slot, order_code(current_order.database, current_order.index));
}

/// True if the database is open for connections: no session is dropping, copying or renaming it.
bool
database_is_free()
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	LockRelease(&tag, RowExclusiveLock, false);
	return true;
}

enum class Slice
{
	kMore,
	kWait, // then try again
	kEnd,
};

Slice
after_feed(const FeedOutcome *outcome, int *stales)
{
	static bool made = false; // by any slice

	made = made || outcome->made;
	*stales = outcome->result == FeedResult::kStale ? *stales + 1 : 0;
	switch (outcome->result)
	{
		case FeedResult::kDone:
			pg_atomic_fetch_add_u64(
				made ? &bridge::shared_state()->n_background_loads : &bridge::shared_state()->n_background_updates, 1);
			return Slice::kEnd;
		case FeedResult::kMore:
			return Slice::kMore;
		case FeedResult::kBusy:
			return Slice::kWait;
		case FeedResult::kStale:
			return *stales < kStalesInARow ? Slice::kMore : Slice::kEnd;
		case FeedResult::kTooMuch:
		case FeedResult::kFailed:
			break;
	}
	bridge::note_fallback(outcome->reason, "It did not accept an index that was to be loaded in the background.");
	bridge::count_index_fallback(current_order.index, outcome->reason);
	return Slice::kEnd;
}

/// Run one slice in its own transaction.
Slice
load_slice(int *stales)
{
	const FeedLimits limits = {PG_UINT64_MAX, PG_UINT64_MAX, wire::monotonic_ns() + kSliceMs * kNsPerMs};
	IndexAccess access;
	FeedOutcome outcome;
	Slice next = Slice::kWait;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	if (!database_is_free() || !OidIsValid(IndexGetRelation(current_order.index, true)))
		next = Slice::kEnd;
	else if (index_access_try_open(&access, current_order.index, AccessShareLock, AccessShareLock))
	{
		if (bridge::session_ready(true))
		{
			(void) VG_FAULT("loader_slice");
			feed_copy(access.index, &limits, &outcome);
			next = after_feed(&outcome, stales);
		}
		else
		{
			bridge::count_index_fallback(current_order.index, bridge::last_fallback());
			next = Slice::kEnd;
		}
		index_access_close(&access);
	}
	CommitTransactionCommand();
	return next;
}

void
pause_loader()
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kPauseMs, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

} // namespace

void
loader_request(Relation index)
{
	bridge::SharedState *shared = bridge::shared_state();
	BackgroundWorker worker;
	LoadOrder order;
	uint64 code;

	// Another process cannot see a relation that this transaction has created.
	if (shared == nullptr || RelationUsesLocalBuffers(index) || pg::made_by_this_transaction(index))
		return;
	memset(&order, 0, sizeof(order));
	order.database = MyDatabaseId;
	order.index = RelationGetRelid(index);
	code = order_code(order.database, order.index);
	order.slot = take_slot(shared, code);
	if (order.slot < 0)
		return;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_name, BGW_MAXLEN, "vectorgpu loader of index %u", order.index);
	strlcpy(worker.bgw_type, "vectorgpu loader", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "vectorgpu", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "vectorgpu_loader_main", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &order, sizeof(order));
	if (VG_FAULT("loader_register") || !RegisterDynamicBackgroundWorker(&worker, nullptr))
		free_slot(shared, order.slot, code);
}

int
loader_pid(Oid database, Oid index_oid)
{
	bridge::SharedState *shared = bridge::shared_state();

	if (shared != nullptr)
		for (bridge::LoaderSlot &slot : shared->loaders)
			if (pg_atomic_read_u64(&slot.order) == order_code(database, index_oid))
				return static_cast<int>(pg_atomic_read_u32(&slot.pid));
	return 0;
}

/// The loader's main loop. Returns when the copy is complete or cannot be completed.
void
loader_run()
{
	int stales = 0;
	int waited_ms = 0;

	for (;;)
	{
		Slice next;

		CHECK_FOR_INTERRUPTS();
		next = load_slice(&stales);
		if (next == Slice::kEnd)
			return;
		waited_ms = next == Slice::kWait ? waited_ms + static_cast<int>(kPauseMs) : 0;
		if (waited_ms > kLongestWaitMs)
			return;
		if (next == Slice::kWait)
			pause_loader();
	}
}

void
loader_begin(const void *order)
{
	bridge::SharedState *shared = bridge::shared_state();

	memcpy(&current_order, order, sizeof(current_order));
	if (shared == nullptr || current_order.slot < 0 || current_order.slot >= bridge::kLoaderSlots ||
		pg_atomic_read_u64(&shared->loaders[current_order.slot].order) !=
			order_code(current_order.database, current_order.index))
		proc_exit(0);
	pg_atomic_write_u32(&shared->loaders[current_order.slot].pid, static_cast<uint32>(MyProcPid));
	before_shmem_exit(on_loader_exit, 0);
	bridge::session_set_role(wire::Role::kLoader);
	BackgroundWorkerInitializeConnectionByOid(current_order.database, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
}

} // namespace vectorgpu::am

extern "C" PGDLLEXPORT void vectorgpu_loader_main(Datum argument);

void
vectorgpu_loader_main(Datum argument)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	vectorgpu::am::loader_begin(MyBgworkerEntry->bgw_extra);
	vectorgpu::am::loader_run();
	proc_exit(0);
}

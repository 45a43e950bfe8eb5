// The SQL functions vectorgpu_prewarm and vectorgpu_evict. PG dialect.
#include "am/method/am_interface.hpp"
#include "am/feed/copy_feed.hpp"
#include "am/method/index_access.hpp"
#include "storage/value_format.hpp"
#include "bridge/client_session.hpp"
#include "bridge/require.hpp"

extern "C"
{
#include "storage/latch.h"
#include "utils/wait_event.h"

	PG_FUNCTION_INFO_V1(vectorgpu_prewarm);
	PG_FUNCTION_INFO_V1(vectorgpu_evict);
}

namespace
{

using namespace vectorgpu;
using namespace vectorgpu::am;

constexpr int kTries = 1000; // tries while another session loads the index: 20 s
constexpr long kPauseMs = 20;
constexpr int kNextSessionMs = 1000;
constexpr uint64 kLargeLoadBytes =
	32 * 1024 * 1024; // bytes that justify another session: a request costs as much as copying about 100 KB

void
open_for_worker(IndexAccess *access, Oid index_oid, MetaData *meta)
{
	index_access_open(access, index_oid, AccessShareLock, AccessShareLock, IndexRight::kRead);
	if (RelationUsesLocalBuffers(access->index))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("index \"%s\" is on a temporary table", RelationGetRelationName(access->index)),
				errdetail(
					"Indexes of temporary tables are never copied to the worker: their pages are the session's own.")));
	meta_read(access->index, nullptr, meta);

	const AccessMethod *am = access_method(access->index, meta);

	if (!worker_holds(am, meta))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("the worker does not hold copies of %s indexes %s", am->name, am->worker_structure->not_held),
				errdetail("Scans of index \"%s\" are answered from its pages.", RelationGetRelationName(access->index)),
				errhint("%s", am->worker_structure->not_held_hint)));
}

/// Load until the copy equals the pages. If the worker ends meanwhile, or has ended since the session's last request,
/// the next worker gets the index. This is done only once, since the index may be the reason why workers end.
void
load(Relation index)
{
	const FeedLimits limits = {PG_UINT64_MAX, PG_UINT64_MAX, 0};
	FeedOutcome outcome = {};
	bool replaced = false;

	for (int i = 0; i < kTries; i++)
	{
		bridge::require_session();
		feed_copy(index, &limits, &outcome);
		if (outcome.result == FeedResult::kDone)
			return;
		if (outcome.result == FeedResult::kFailed && outcome.reason == bridge::Fallback::kGone && !replaced)
		{
			replaced = true;
			continue;
		}
		if (outcome.result == FeedResult::kFailed)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kPauseMs, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	bridge::session_close(); // which also ends a lease
	bridge::raise_fallback(outcome.reason);
}

} // namespace

/// vectorgpu_prewarm(index regclass): update the worker's copy; return the bytes of its vectors.
Datum
vectorgpu_prewarm(PG_FUNCTION_ARGS)
{
	IndexAccess access;
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	uint64 bytes;

	open_for_worker(&access, PG_GETARG_OID(0), meta);
	PG_TRY();
	{
		bridge::session_set_room(
			copy_bytes(meta, meta->delta_first_row) >= kLargeLoadBytes ? bridge::Room::kLoad : bridge::Room::kSmall);
		load(access.index);
		bridge::session_set_room(bridge::Room::kSmall);
		(void) bridge::await_session(kNextSessionMs); // for the scans that follow
	}
	PG_CATCH();
	{
		bridge::session_close();
		bridge::session_set_room(bridge::Room::kSmall);
		PG_RE_THROW();
	}
	PG_END_TRY();
	meta_read(access.index, nullptr, meta);
	bytes = copy_bytes(meta, meta->delta_first_row);
	index_access_close(&access);
	PG_RETURN_INT64(static_cast<int64>(bytes));
}

/// vectorgpu_evict(index regclass): drop the worker's copy; return true if there was one.
Datum
vectorgpu_evict(PG_FUNCTION_ARGS)
{
	IndexAccess access;
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	wire::CopyKey key;
	wire::ReplyHeader header;

	open_for_worker(&access, PG_GETARG_OID(0), meta);
	copy_key(access.index, meta, &key);
	index_access_close(&access);
	bridge::require_reply(wire::RequestType::kDrop, &key, nullptr, 0, &header, nullptr, 0);
	PG_RETURN_BOOL(header.status == wire::ReplyStatus::kOk);
}

// See require.hpp.
#include "bridge/require.hpp"

#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "wire/address.hpp"

extern "C"
{
#include "storage/latch.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kWaitMs = 5000;
constexpr int kStepMs = 20;

} // namespace

void
require_session()
{
	for (int waited_ms = 0; !session_ready(false); waited_ms += kStepMs)
	{
		if (waited_ms >= kWaitMs || shared_state() == nullptr)
			raise_fallback(Fallback::kNotRunning);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kStepMs, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
raise_fallback(Fallback reason)
{
	SharedState *state = shared_state();
	char path[wire::kSocketPathBytes] = "none";

	if (state != nullptr)
		wire::format_socket_path(state->epoch, path);
	switch (reason)
	{
		case Fallback::kTooLarge:
			ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES), errmsg("the vectorgpu worker has no room for this index"),
					errdetail("Its copies may take %d MB.", settings.worker_memory_mb),
					errhint("Raise vectorgpu.worker_memory.")));
			break;
		case Fallback::kOutOfMemory:
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("the vectorgpu worker is out of memory")));
			break;
		case Fallback::kLoading:
			ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE), errmsg("another session is loading this index"),
							   errhint("Try again when it has finished.")));
			break;
		case Fallback::kRefused:
		case Fallback::kWrongAnswer:
			ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the vectorgpu worker did not do what it was asked to"),
					errdetail("The reason is \"%s\".", fallback_name(reason))));
			break;
		case Fallback::kNotRunning:
		case Fallback::kSilent:
		case Fallback::kUnreachable:
		case Fallback::kGone:
		case Fallback::kSlotBusy:
		case Fallback::kCount:
			break;
	}
	ereport(ERROR,
		(errcode(ERRCODE_CONNECTION_FAILURE), errmsg("could not reach the vectorgpu worker: %s", fallback_name(reason)),
			errdetail("Its socket is \"%s\" under the data directory.", path),
			errhint("The view vectorgpu_worker tells whether it runs; the server log tells why it does not.")));
	pg_unreachable();
}

} // namespace vectorgpu::bridge

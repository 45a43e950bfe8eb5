// See engine_call.hpp.
#include "am/method/engine_call.hpp"

extern "C"
{
#include "commands/progress.h"
#include "miscadmin.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

/// engine::ivf::ProgressFn.
bool
on_progress(void *context, uint64_t done, uint64_t total)
{
	return watch_goes_on(static_cast<const Watch *>(context), done, total);
}

int
sqlstate_of(StatusCode code)
{
	switch (code)
	{
		case StatusCode::kInvalidArgument:
			return ERRCODE_INVALID_PARAMETER_VALUE;
		case StatusCode::kOutOfMemory:
			return ERRCODE_OUT_OF_MEMORY;
		case StatusCode::kUnsupported:
			return ERRCODE_FEATURE_NOT_SUPPORTED;
		default:
			return ERRCODE_INTERNAL_ERROR;
	}
}

} // namespace

bool
watch_goes_on(const Watch *watch, uint64_t done, uint64_t total)
{
	CHECK_FOR_INTERRUPTS();
	if (watch->report)
	{
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(total));
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, static_cast<int64>(done));
	}
	return watch->give_way == nullptr || !watch->give_way(watch->give_way_state);
}

engine::ivf::Call
watched_call(const Watch *watch)
{
	engine::ivf::Call call;

	call.progress = on_progress;
	call.progress_context = const_cast<Watch *>(watch);
	return call;
}

bool
check_engine_outcome(const engine::ivf::Outcome &outcome, const char *what)
{
	if (outcome.is_ok())
		return true;
	if (outcome.code == StatusCode::kCancelled)
		return false;
	ereport(ERROR, (errcode(sqlstate_of(outcome.code)), errmsg("could not %s: %s", what, outcome.message)));
	pg_unreachable();
}

} // namespace vectorgpu::am

// See assign.hpp.
#include "am/gpuivf/assign.hpp"

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kBatchBytes = 4 * 1024 * 1024; // of float32 rows
constexpr Size kMaxBatchRows = 2048;          // more are no faster

/// engine::ivf::ProgressFn; may leave by an error, since the engine has no more than this thread and nothing to free.
bool
on_progress(void *context, uint64_t done, uint64_t total)
{
	const Watch *watch = static_cast<const Watch *>(context);

	CHECK_FOR_INTERRUPTS();
	if (watch->report)
	{
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(total));
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, static_cast<int64>(done));
	}
	return watch->give_way == nullptr || !watch->give_way(watch->give_way_state);
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

engine::ivf::Call
watched_call(const Watch *watch)
{
	engine::ivf::Call call;

	call.progress = on_progress;
	call.progress_context = const_cast<Watch *>(watch);
	return call;
}

bool
check_outcome(const engine::ivf::Outcome &outcome)
{
	if (outcome.is_ok())
		return true;
	if (outcome.code == StatusCode::kCancelled)
		return false;
	ereport(ERROR, (errcode(sqlstate_of(outcome.code)),
					   errmsg("could not train or use the lists and codes of the index: %s", outcome.message)));
	pg_unreachable();
}

void
assigner_begin(Assigner *assigner, const engine::DistanceSpec &rows, const float *centroids, uint32 n_lists)
{
	const Size row_bytes = rows.dim * sizeof(float);
	const Size memory_bytes = engine::ivf::coarse_bytes(rows.dim, n_lists);

	assigner->rows = rows;
	assigner->batch_rows = static_cast<uint32>(Max(Min(kBatchBytes / row_bytes, kMaxBatchRows), 1));
	assigner->memory = MemoryContextAllocHuge(CurrentMemoryContext, memory_bytes);
	(void) check_outcome(engine::ivf::coarse_init(
		centroids, n_lists, rows.dim, assigner->memory, memory_bytes, &assigner->coarse));
	assigner->work_bytes = engine::ivf::coarse_assign_work_bytes(assigner->coarse, 1);
	assigner->work = MemoryContextAllocHuge(CurrentMemoryContext, Max(assigner->work_bytes, 1));
	assigner->vectors = static_cast<char *>(palloc(assigner->batch_rows * vector_bytes(rows.element, rows.dim)));
	assigner->floats = static_cast<float *>(palloc(assigner->batch_rows * row_bytes));
	assigner->labels = static_cast<uint32 *>(palloc(assigner->batch_rows * sizeof(uint32)));
	assigner->scores = static_cast<float *>(palloc(assigner->batch_rows * sizeof(float)));
}

bool
assigner_run(Assigner *assigner, uint64 n, bool (*give_way)(void *), void *give_way_state)
{
	const Watch watch = {give_way, give_way_state, false};

	CHECK_FOR_INTERRUPTS();
	ivf_rows_to_floats(assigner->rows, assigner->vectors, n, assigner->floats);
	return check_outcome(engine::ivf::coarse_assign(assigner->coarse, assigner->floats, assigner->rows.dim, n, assigner->labels,
		assigner->scores, assigner->work, assigner->work_bytes, watched_call(&watch)));
}

void
assigner_end(Assigner *assigner)
{
	pfree(assigner->memory);
	pfree(assigner->work);
	pfree(assigner->vectors);
	pfree(assigner->floats);
	pfree(assigner->labels);
	pfree(assigner->scores);
}

} // namespace vectorgpu::am

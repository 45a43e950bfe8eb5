// What a build tells while it runs, and what becomes of the engine's outcomes. PG dialect.
#include "am/gpugraph/writer.hpp"

#include "pg/fault.hpp"

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

/// engine::graph::Call::progress; may leave by an error, since the engine has no more than this thread and nothing to free.
bool
on_progress(void *context, uint64_t done, uint64_t total)
{
	const GraphWriter *writer = static_cast<const GraphWriter *>(context);

	CHECK_FOR_INTERRUPTS();
	if (writer->report)
	{
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(total));
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, static_cast<int64>(done));
	}
	(void) VG_FAULT("graph_progress");
	return writer->plan.give_way == nullptr || !writer->plan.give_way(writer->plan.give_way_state);
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

engine::graph::Call
graph_call(GraphWriter *writer)
{
	engine::graph::Call call;

	call.progress = on_progress;
	call.progress_context = writer;
	return call;
}

void
graph_on_stage(void *context, engine::graph::BuildStage stage)
{
	graph_start_phase(static_cast<const GraphWriter *>(context),
		stage == engine::graph::BuildStage::kNeighbors ? kPhaseNeighbors : kPhaseEdges);
}

bool
graph_check_outcome(const engine::graph::Outcome &outcome)
{
	if (outcome.is_ok())
		return true;
	if (outcome.code == StatusCode::kCancelled)
		return false;
	ereport(ERROR,
		(errcode(sqlstate_of(outcome.code)), errmsg("could not build the graph of the index: %s", outcome.message)));
	pg_unreachable();
}

void
graph_start_phase(const GraphWriter *writer, GraphBuildPhase phase)
{
	if (!writer->report)
		return;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, phase);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(writer->n_rows));
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, 0);
}

const char *
graph_phase_name(int64 phase)
{
	switch (phase)
	{
		case kPhaseNeighbors:
			return "finding neighbors";
		case kPhaseEdges:
			return "choosing edges";
		case kPhaseMeasure:
			return "measuring recall";
		case kPhaseWriteGraph:
			return "writing graph";
		case kPhaseSendRows:
			return "handing rows to the worker";
		default:
			return nullptr;
	}
}

} // namespace vectorgpu::am

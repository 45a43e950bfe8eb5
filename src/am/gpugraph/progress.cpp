// Progress of a build, and errors for the engine's outcomes. PG dialect.
#include "am/gpugraph/writer.hpp"

#include "pg/fault.hpp"

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

/// engine::graph::Call::progress.
bool
on_progress(void *context, uint64_t done, uint64_t total)
{
	(void) VG_FAULT("graph_progress");
	return watch_goes_on(&static_cast<const GraphWriter *>(context)->watch, done, total);
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
	return check_engine_outcome(outcome, "build the graph of the index");
}

void
graph_start_phase(const GraphWriter *writer, GraphBuildPhase phase)
{
	if (!writer->watch.report)
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

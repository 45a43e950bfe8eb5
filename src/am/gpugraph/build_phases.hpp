// Phases of a build behind the table scan, as pg_stat_progress_create_index names them. PG dialect.
#pragma once

#include "am/build/build.hpp"

namespace vectorgpu::am
{

enum GraphBuildPhase
{
	kPhaseNeighbors = kPhaseOfAm,
	kPhaseEdges = kPhaseOfAm + 1,
	kPhaseMeasure = kPhaseOfAm + 2,
	kPhaseWriteGraph = kPhaseOfAm + 3,
	kPhaseSendRows = kPhaseOfAm + 4,
};

/// AccessMethod::phase_name.
const char *graph_phase_name(int64 phase);

} // namespace vectorgpu::am

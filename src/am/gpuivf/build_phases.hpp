// Phases of a build behind the table scan, as pg_stat_progress_create_index names them. PG dialect.
#pragma once

#include "am/build/build.hpp"

namespace vectorgpu::am
{

enum IvfBuildPhase
{
	kPhaseTrain = kPhaseOfAm,
	kPhaseAssign = kPhaseOfAm + 1,
	kPhaseCalibrate = kPhaseOfAm + 2,
	kPhaseWriteLists = kPhaseOfAm + 3,
	kPhaseTrainCodes = kPhaseOfAm + 4,
};

/// AccessMethod::phase_name.
const char *ivf_phase_name(int64 phase);

} // namespace vectorgpu::am

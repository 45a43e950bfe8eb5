// See read_ahead.hpp.
#include "pg/read_ahead.hpp"

extern "C"
{
#include "nodes/extensible.h"
}

namespace vectorgpu::pg
{

const char kReadAheadName[] = "Vectorgpu Read Ahead";

void
read_ahead_note_join(PlanState *state)
{
	PlanState *outer;

	if (!IsA(state, NestLoopState))
		return;
	outer = outerPlanState(state);
	if (IsA(outer, CustomScanState) &&
		reinterpret_cast<const CustomScanState *>(outer)->methods->CustomName == kReadAheadName)
		reinterpret_cast<ReadAheadNode *>(outer)->join = reinterpret_cast<const NestLoopState *>(state);
}

} // namespace vectorgpu::pg

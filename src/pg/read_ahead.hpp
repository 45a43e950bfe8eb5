// The node on the outer side of a nested loop that reads rows ahead (am/ahead), as the ExecutorStart hook knows it: a
// node cannot see what is above it, so the hook tells it. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/execnodes.h"
}

namespace vectorgpu::pg
{

/// The name of the custom scan in paths, plans and states, which are recognized by this very pointer.
extern const char kReadAheadName[];

struct ReadAheadNode
{
	CustomScanState custom;    // first
	const NestLoopState *join; // whose outer side it is; null: not known (EXPLAIN, EvalPlanQual), so nothing is read
							   // ahead
};

/// If the node is a nested loop over one that reads ahead, tell the latter. For the ExecutorStart hook.
void read_ahead_note_join(PlanState *state);

} // namespace vectorgpu::pg

// See parallel_build.hpp.
#include "pg/parallel_build.hpp"

extern "C"
{
#include "access/amapi.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
}

namespace vectorgpu::pg
{

void
allow_parallel_build(IndexAmRoutine *routine)
{
#if PG_VERSION_NUM >= 170000
	routine->amcanbuildparallel = true;
#endif
}

int
planned_build_workers(Relation heap, Relation index, const IndexInfo *info)
{
#if PG_VERSION_NUM >= 170000
	return info->ii_ParallelWorkers;
#else
	return plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index));
#endif
}

} // namespace vectorgpu::pg

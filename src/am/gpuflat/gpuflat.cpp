// The handler of gpuflat: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpuflat/gpuflat.hpp"

#include "am/shared/cost.hpp"
#include "am/shared/vacuum.hpp"
#include "engine/distance.hpp"

extern "C"
{
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(vectorgpu_gpuflat_handler);
}

namespace vectorgpu::am
{

namespace
{

bool
supports(ElementType element, Metric metric)
{
	return engine::metric_supports(metric, element);
}

double recall_target = 1; // gpuflat.recall_target

const AccessMethod kFlat = {
	.name = "gpuflat",
	.id = AmId::kFlat,
	.supports = supports,
	.search_segment = flat_search_segment,
	.approximate = false,
	.in_worker = true,
	.format = nullptr,
	.store_options = nullptr,
	.phase_name = nullptr,
	.recall_target = &recall_target,
};

IndexBuildResult *
flatbuild(Relation heap, Relation index, IndexInfo *info)
{
	return shared_build(&kFlat, heap, index, info);
}

void
flatbuildempty(Relation index)
{
	shared_build_empty(&kFlat, index);
}

bool
flatinsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap, IndexUniqueCheck check_unique,
	bool index_unchanged, IndexInfo *info)
{
	return shared_insert(&kFlat, index, values, isnull, tid, heap);
}

char *
flatbuildphasename(int64 phase)
{
	return shared_build_phase_name(&kFlat, phase);
}

bool
flatvalidate(Oid opclass_oid)
{
	return shared_validate(&kFlat, opclass_oid);
}

IndexScanDesc
flatbeginscan(Relation index, int n_keys, int n_orderbys)
{
	return shared_begin_scan(&kFlat, index, n_keys, n_orderbys);
}

} // namespace

void
flat_init()
{
	register_access_method(&kFlat);
	DefineCustomRealVariable("gpuflat.recall_target",
		"Share of the nearest rows that a search has to find, in expectation.",
		"Below 1 a GPU may pass over nearly all comparisons of distances. Searches on the CPU are exact all the same.",
		&recall_target, 1, 0.01, 1, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	MarkGUCPrefixReserved("gpuflat");
}

} // namespace vectorgpu::am

Datum
vectorgpu_gpuflat_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = new_routine();

	routine->ambuild = flatbuild;
	routine->ambuildempty = flatbuildempty;
	routine->aminsert = flatinsert;
	routine->ambulkdelete = shared_bulkdelete;
	routine->amvacuumcleanup = shared_vacuumcleanup;
	routine->amcostestimate = exact_cost_estimate;
	routine->amoptions = no_options;
	routine->ambuildphasename = flatbuildphasename;
	routine->amvalidate = flatvalidate;
	routine->ambeginscan = flatbeginscan;
	routine->amrescan = shared_rescan;
	routine->amgettuple = shared_get_tuple;
	routine->amendscan = shared_end_scan;
	PG_RETURN_POINTER(routine);
}

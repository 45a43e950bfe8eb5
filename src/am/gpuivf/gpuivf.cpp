// The handler of gpuivf: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpuivf/gpuivf.hpp"

#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/ivf.hpp"
#include "am/shared/vacuum.hpp"
#include "engine/distance.hpp"

extern "C"
{
PG_FUNCTION_INFO_V1(vectorgpu_gpuivf_handler);
}

namespace vectorgpu::am
{

namespace
{

/// Centroids are means, which bit strings do not have.
bool
supports(ElementType element, Metric metric)
{
	return element != ElementType::kBit && engine::metric_supports(metric, element);
}

const AccessMethod kIvf = {
	.name = "gpuivf",
	.id = AmId::kIvf,
	.supports = supports,
	.search_segment = ivf_search_segment,
	.approximate = true,
	.in_worker = false,
	.format = &kIvfFormat,
	.values = nullptr,
	.options_support = 0,
	.store_options = ivf_store_options,
	.phase_name = ivf_phase_name,
};

IndexBuildResult *
ivfbuild(Relation heap, Relation index, IndexInfo *info)
{
	return shared_build(&kIvf, heap, index, info);
}

void
ivfbuildempty(Relation index)
{
	shared_build_empty(&kIvf, index);
}

char *
ivfbuildphasename(int64 phase)
{
	return shared_build_phase_name(&kIvf, phase);
}

bool
ivfinsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap, IndexUniqueCheck check_unique,
	bool index_unchanged, IndexInfo *info)
{
	return shared_insert(&kIvf, index, values, isnull, tid, heap);
}

bool
ivfvalidate(Oid opclass_oid)
{
	return shared_validate(&kIvf, opclass_oid);
}

IndexScanDesc
ivfbeginscan(Relation index, int n_keys, int n_orderbys)
{
	return shared_begin_scan(&kIvf, index, n_keys, n_orderbys);
}

} // namespace

void
ivf_init()
{
	ivf_define_options();
	register_access_method(&kIvf);
}

} // namespace vectorgpu::am

Datum
vectorgpu_gpuivf_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = new_routine();

	routine->ambuild = ivfbuild;
	routine->ambuildempty = ivfbuildempty;
	routine->aminsert = ivfinsert;
	routine->ambulkdelete = shared_bulkdelete;
	routine->amvacuumcleanup = shared_vacuumcleanup;
	routine->amcostestimate = ivf_cost_estimate;
	routine->amoptions = ivf_parse_options;
	routine->ambuildphasename = ivfbuildphasename;
	routine->amvalidate = ivfvalidate;
	routine->ambeginscan = ivfbeginscan;
	routine->amrescan = shared_rescan;
	routine->amgettuple = shared_get_tuple;
	routine->amendscan = shared_end_scan;
	PG_RETURN_POINTER(routine);
}

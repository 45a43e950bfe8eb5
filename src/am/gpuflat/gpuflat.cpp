// The handler of gpuflat: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpuflat/gpuflat.hpp"

#include "am/method/callbacks.hpp"
#include "am/method/cost.hpp"
#include "am/sparse/sparse.hpp"
#include "engine/distance/distance.hpp"
#include "pg/define_setting.hpp"

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

const AccessMethod kSparseFlat = sparse_method("gpuflat", false);

const AccessMethod kFlat = {
	.name = "gpuflat",
	.id = AmId::kFlat,
	.supports = supports,
	.sparse = &kSparseFlat,
	.search_segment = flat_search_segment,
	.recall_target = &recall_target,
};

} // namespace

void
flat_init()
{
	register_access_method(&kFlat);
	register_access_method(&kSparseFlat);
	pg::define_real("gpuflat.recall_target", "Share of the nearest rows that a search has to find, in expectation.",
		"Below 1 a GPU may pass over nearly all comparisons of distances. Searches on the CPU are exact all the same.",
		&recall_target, 1, 0.01, 1, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::reserve_prefix("gpuflat");
}

} // namespace vectorgpu::am

Datum
vectorgpu_gpuflat_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = shared_routine<&kFlat>();

	routine->amcostestimate = exact_cost_estimate;
	PG_RETURN_POINTER(routine);
}

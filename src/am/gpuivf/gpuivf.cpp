// The handler of gpuivf: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpuivf/gpuivf.hpp"

#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/ivf.hpp"
#include "am/method/callbacks.hpp"
#include "engine/distance/distance.hpp"

extern "C"
{
	PG_FUNCTION_INFO_V1(vectorgpu_gpuivf_handler);
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

const ApproximateMethod kApproximate = {
	// The kernels for few queries take this number of rows. LIMIT 1000 there: 4,200 searches a second, 2,400 with all
	// from the first.
	.most_from_first = 128,
	.width_name = "Probes",
	.describe_lists = ivf_describe_lists,
	.describe_reach = ivf_describe_reach,
	.target_setting = "gpuivf.recall_target",
};

} // namespace

AccessMethod
ivf_method(const char *name, bool named_for_pgvector)
{
	return {
		.name = name,
		.id = AmId::kIvf,
		.named_for_pgvector = named_for_pgvector,
		.supports = supports,
		.search_segment = ivf_search_segment,
		.approximate = &kApproximate,
		.worker_structure = &kIvfWorkerStructure,
		.format = &kIvfFormat,
		.phase_name = ivf_phase_name,
		.store_options = ivf_store_options,
	};
}

namespace
{

const AccessMethod kIvf = ivf_method("gpuivf", false);

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
	IndexAmRoutine *routine = shared_routine<&kIvf>();

	routine->amcostestimate = ivf_cost_estimate;
	routine->amoptions = ivf_parse_options;
	PG_RETURN_POINTER(routine);
}

// The handler of gpuivf: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpuivf/gpuivf.hpp"

#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/ivf.hpp"
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

const AccessMethod kIvf = {
	.name = "gpuivf",
	.id = AmId::kIvf,
	.supports = supports,
	.search_segment = ivf_search_segment,
	.approximate = true,
	.in_worker = true,
	.worker_structure = &kIvfWorkerStructure,
	.format = &kIvfFormat,
	.values = nullptr,
	.options_support = 0,
	.store_options = ivf_store_options,
	.phase_name = ivf_phase_name,
	.describe_lists = ivf_describe_lists,
	.most_from_first = 128, // what the kernels for few queries take; there, LIMIT 1000: 4,200 searches a second, 2,400
							// with all from the first
	.width_name = "Probes",
};

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

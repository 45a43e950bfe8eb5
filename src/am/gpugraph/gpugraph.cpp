// The handler of gpugraph: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpugraph/gpugraph.hpp"

#include "am/gpugraph/build_phases.hpp"
#include "am/gpugraph/graph.hpp"
#include "am/method/callbacks.hpp"
#include "engine/distance/distance.hpp"

extern "C"
{
	PG_FUNCTION_INFO_V1(vectorgpu_gpugraph_handler);
}

namespace vectorgpu::am
{

namespace
{

bool
supports(ElementType element, Metric metric)
{
	return element != ElementType::kSet && engine::metric_supports(metric, element);
}

const ApproximateMethod kApproximate = {
	// H200, 150,000 rows of 256 dimensions, 16 clients, LIMIT 100: 15,000 searches a second, 8,800 if a step goes on
	// behind the last row.
	.most_from_first = 8192,
	.width_name = "Search Width",
	.describe_reach = graph_describe_reach,
	.target_setting = "gpugraph.recall_target",
};

} // namespace

AccessMethod
graph_method(const char *name, bool named_for_pgvector)
{
	return {
		.name = name,
		.id = AmId::kGraph,
		.named_for_pgvector = named_for_pgvector,
		.supports = supports,
		.search_segment = graph_search_segment,
		.approximate = &kApproximate,
		.worker_structure = &kGraphWorkerStructure,
		.format = &kGraphFormat,
		.phase_name = graph_phase_name,
		.store_options = graph_store_options,
	};
}

namespace
{

const AccessMethod kGraph = graph_method("gpugraph", false);

} // namespace

void
graph_init()
{
	graph_define_options();
	register_access_method(&kGraph);
}

} // namespace vectorgpu::am

Datum
vectorgpu_gpugraph_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = shared_routine<&kGraph>();

	routine->amcostestimate = graph_cost_estimate;
	routine->amoptions = graph_parse_options;
	PG_RETURN_POINTER(routine);
}

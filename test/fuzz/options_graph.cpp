// Storage parameters of gpugraph: see fuzz_options.cpp.
#include "options_shape.hpp"

#include "am/gpugraph/graph.hpp"

namespace vectorgpu::fuzz
{

void
define_graph()
{
	am::graph_define_options();
}

void
try_graph(Draw draw)
{
	const Relation index = the_relation();

	draw_shape(&draw);
	const am::IndexShape shape = shape_now();

	options_draw = draw;
	if (!no_error([&] { index->rd_options = am::graph_parse_options(0, true); }))
		return require_refusal();
	if (!no_error([&] { am::graph_store_options(index, &shape, meta.am_options); }))
		return require_refusal();

	const am::GraphOptions *options = am::graph_options(&meta);

	REQUIRE(am::graph_check_entry(&meta, &meta.segments[0]) == nullptr);
	REQUIRE(am::graph_plan_degree(index) == (options->degree != 0 ? options->degree : am::kDefaultDegree) &&
		options->code_bits == am::graph_plan_code_bits(index));
	REQUIRE(options->prune <= static_cast<uint32>(engine::graph::PruneKind::kRng));
	REQUIRE(
		options->code_bits == 0 || (engine::graph::code_bits_valid(options->code_bits) && meta.metric != Metric::kL1));
}

} // namespace vectorgpu::fuzz

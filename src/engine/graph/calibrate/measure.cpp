// See measure.hpp.
#include "engine/graph/calibrate/measure.hpp"

#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

Outcome
measure_without(const GraphRows &rows, const BuildSpec &spec, uint32_t *queries, uint32_t n_queries,
	MeasuredGraph *measured, void *work, size_t work_bytes, const Call &call, const Helper *helper)
{
	const HeldOutRows held = {queries, n_queries, queries, n_queries};
	const uint32_t *edges = nullptr;

	if (n_queries == 0)
		return {};
	for (uint32_t q = 0; q < n_queries; q++)
		queries[q] = static_cast<uint32_t>(stratified_row(q, n_queries, rows.n_rows));

	const Outcome outcome = graph_build_held_out(
		rows, spec, held, 0, nullptr, measured->entries, measured->n_entries, &edges, work, work_bytes, call, helper);

	if (outcome.code == StatusCode::kUnsupported)
		return {};
	if (!outcome.is_ok())
		return outcome;
	measured->edges = edges;
	measured->held_out = queries;
	measured->n_held_out = n_queries;
	measured->left_out = queries;
	measured->n_left_out = n_queries;
	return {};
}

} // namespace vectorgpu::engine::graph

// See rounded_lists.hpp.
#include "cuda/search/rounded_lists.hpp"

#include "cuda/search/source_scan.hpp"
#include "kernels/filter/tuning.hpp"
#include "kernels/ivf/ivf_rounded.hpp"

namespace vectorgpu::cuda
{

using kernels::Form;

bool
rounded_lists_serve(
	const SearchCall &call, const Source &source, uint32_t n_queries, uint32_t max_k, kernels::Rows *rows)
{
	const bool has_metric = call.spec.metric == Metric::kL2 || call.spec.metric == Metric::kInnerProduct ||
		call.spec.metric == Metric::kCosine;

	if (!call.options.rounded_lists || !has_metric || !source.filterable || source.block->on_host() ||
		source.block->form == Form::kBit)
		return false;
	// Many queries share what is read: then the narrower bound of binary16 saves more.
	*rows = n_queries > kernels::kRoundedListsMostScaled && source.rounded.halves != nullptr
		? source.bins_rows()
		: source.filter_rows(n_queries, max_k);
	return (rows->form == Form::kFloat16 || rows->form == Form::kScaled) &&
		kernels::ivf_rounded_queries_per_tile(rows->form, call.shape.dim_pad) > 0;
}

bool
rounded_lists_pay(const SearchCall &call, const Source &source, size_t s, const ListChunk &chunk, uint32_t n_groups,
	kernels::Rows *rows)
{
	const uint32_t n_queries = chunk.queries.n_queries;

	if (!rounded_lists_serve(call, source, n_queries, chunk.max_k, rows))
		return false;

	const double n_lists = source.lists->n_lists();
	const auto n_pairs = static_cast<double>(chunk.n_pairs[s]);
	const double n_rows = n_pairs / n_lists * source.n_rows; // of all queries
	const double n_sampled = static_cast<double>(n_groups) * kernels::kIvfGroupRows * n_queries;

	// Of fewer rows most may pass.
	return n_rows >= n_sampled &&
		(n_pairs >= kLeastQueriesPerList * n_lists ||
			n_rows * source.block->pitch_bytes >= static_cast<double>(kernels::kRoundedListsLeastBytes));
}

size_t
rounded_query_bytes(const Shape &shape)
{
	return kernels::filter_operand_bytes(Form::kFloat16, shape.dim_pad) + 2 * sizeof(double) + 3 * sizeof(float) + 1;
}

Status
scan_rounded_lists(const SearchCall &call, Arena *arena, const Source &source, const kernels::Rows &rows,
	const kernels::IvfScanArgs &scan)
{
	const bool is_scaled = rows.form == Form::kScaled;
	const size_t n = scan.queries.n_queries;
	kernels::IvfRounded rounded;
	kernels::FilterQueries &queries = rounded.queries;

	rounded.rows = rows;
	rounded.bound = filter_bound_of(call.spec, source, rows);
	queries.operand = arena->take<uint8_t>(n * kernels::filter_operand_bytes(rows.form, call.shape.dim_pad));
	queries.norms = arena->take<double>(n);
	queries.redo = arena->take<uint8_t>(n);
	rounded.limits = arena->take<float>(n);
	rounded.square_sums = arena->take<float>(n);
	if (is_scaled)
	{
		queries.scaled.factors = arena->take<float>(n);
		queries.scaled.lost = arena->take<double>(n);
		rounded.scaled_values = source.scaled_pass(call.spec).values;
	}
	else
		rounded.row_values = source.block->values.as<float>() + source.first;
	if (arena->failed())
		return too_small();
	VECTORGPU_TRY(call.check(cudaMemsetAsync(queries.redo, 0, n, call.stream()), "clear marks"));
	VECTORGPU_TRY(call.check(is_scaled
			? kernels::launch_scale_queries(call.spec.metric, scan.queries,
				  kernels::scaled_most_factor(call.spec.metric, call.spec.dim, source.max_norm), {}, queries,
				  call.stream())
			: kernels::launch_prepare_queries(call.spec.metric, rows.form, scan.queries, {}, queries, call.stream()),
		"prepare queries"));
	VECTORGPU_TRY(
		call.check(kernels::launch_ivf_scan_rounded(scan, rounded, call.stream()), "scan lists of rounded rows"));
	call.counts->n_rounded_lists += n;
	return Status::ok();
}

} // namespace vectorgpu::cuda

// See coded_search.hpp.
#include "cuda/search/coded_search.hpp"

#include <algorithm>

#include "cuda/device/stop.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Entry;

constexpr uint64_t kFullBlocks = 264;        // keep a large device busy
constexpr uint64_t kRowsOfBlock = 1024;      // of a query, for which another block makes the query's tables once more
constexpr uint64_t kRabitqRowsOfBlock = 512; // the same of RaBitQ, whose tables are made once
constexpr size_t kFewQueries = SearchContext::kMostAnswers; // whose search ends in one launch
constexpr uint32_t kPassesBetween = 4;                      // two waits for the device

uint32_t
candidates_of_pass(const Source &source, uint32_t most_candidates)
{
	return std::min({most_candidates, kernels::kMostPassCandidates, source.n_rows});
}

/// Blocks that share a query, so that few queries keep the device busy.
uint32_t
n_splits(const CodedRequest &request)
{
	const engine::ListsLayout &layout = request.source->lists->layout;
	const uint64_t n = request.queries.n_queries;
	const uint64_t rows = request.n_pairs * layout.n_rows / layout.n_lists / n; // of a query, on average
	const bool rabitq = request.source->lists->codes->view().form == kernels::CodeForm::kRabitq;
	const uint64_t wanted = std::min(kFullBlocks / n, rows / (rabitq ? kRabitqRowsOfBlock : kRowsOfBlock));

	return static_cast<uint32_t>(std::max<uint64_t>(wanted, 1));
}

/// Pieces of the arena for the scan; false if there is too little room.
bool
plan_scan(const CodedRequest &request, uint32_t stride, Arena *arena, kernels::CodedScanArgs *scan)
{
	const size_t n = request.queries.n_queries;

	scan->codes = request.source->lists->codes->view();
	scan->n_queries = static_cast<uint32_t>(n);
	scan->dim_pad = request.queries.dim_pad;
	scan->prepared.state_stride = kernels::code_state_floats(scan->codes);
	scan->prepared.units = arena->take<float>(n * scan->dim_pad);
	scan->prepared.states = arena->take<float>(n * scan->prepared.state_stride);
	scan->prepared.constants = arena->take<double>(n);
	scan->probes = request.probes;
	scan->stride = stride;
	scan->last = arena->take<Entry>(n);
	scan->found.capacity = stride;
	scan->found.keys = arena->take<uint64_t>(n * stride);
	scan->found.rows = arena->take<uint32_t>(n * stride);
	scan->found.counts = arena->take<uint32_t>(n);
	scan->n_splits = n_splits(request);
	if (scan->n_splits > 1 || ends_in_one_launch(request))
	{
		scan->parts = arena->take<Entry>(n * scan->n_splits * stride);
		scan->part_counts = arena->take<uint32_t>(n * scan->n_splits);
	}
	if (arena->failed())
		return false;
	if (!kernels::code_table_fits(scan->codes, stride))
	{
		const size_t bytes = kernels::code_table_bytes(scan->codes);
		const size_t room = arena->left() > kArenaAlignment ? (arena->left() - kArenaAlignment) / bytes : 0;

		scan->table_blocks =
			static_cast<uint32_t>(std::min({room, static_cast<size_t>(kFullBlocks), n * scan->n_splits}));
		if (scan->table_blocks == 0)
			return false;
		scan->tables = arena->take<uint8_t>(scan->table_blocks * bytes);
	}
	return true;
}

/// Passes over the codes. One finds up to kMostPassCandidates candidates of a query; each further one continues after
/// the last candidate of the one before.
Status
search_in_passes(const SearchCall &call, const CodedRequest &request, const kernels::RescoreArgs &refine,
	const kernels::CodePasses &passes, kernels::CodedScanArgs *scan)
{
	const cudaStream_t stream = call.stream();
	const bool with_vectors = request.source->lists->with_vectors;
	const uint64_t most = std::min<uint64_t>(request.most_candidates, request.source->n_rows);

	for (uint64_t done = 0, pass = 0; done < most; done += kernels::kMostPassCandidates, pass++)
	{
		// The watchdog must see progress, and the search must notice a stop.
		if (pass > 0 && pass % kPassesBetween == 0)
		{
			VECTORGPU_TRY(call.context->stream.synchronize());
			call.progress();
		}
		if (is_stopped(call.control))
			return stopped();
		VECTORGPU_TRY(call.check(kernels::launch_coded_scan(*scan, stream), "scan codes"));
		VECTORGPU_TRY(with_vectors ? call.check(kernels::launch_code_refine(refine, stream), "score candidates")
								   : call.check(kernels::launch_code_keep(refine, stream), "keep candidates"));
		VECTORGPU_TRY(call.check(kernels::launch_merge(request.queries, scan->found, refine.rows.row_ids, request.best,
									 request.max_k, stream),
			"merge"));
		VECTORGPU_TRY(call.check(kernels::launch_code_next(scan->n_queries, scan->found.counts, passes.left,
									 passes.wanted, request.n_scored, stream),
			"count candidates"));
		scan->after = scan->last;
	}
	return Status::ok();
}

} // namespace

size_t
coded_query_bytes(const Source &source, uint32_t dim_pad, uint32_t most_candidates)
{
	const size_t stride = candidates_of_pass(source, most_candidates);
	const size_t floats = dim_pad + kernels::code_state_floats(source.lists->codes->view());

	return floats * sizeof(float) + stride * (sizeof(uint64_t) + sizeof(uint32_t)) + sizeof(Entry) + kQueryScratchBytes;
}

bool
chosen_by_codes(const engine::SearchQuery &query, const Source &source)
{
	if (source.lists->codes == nullptr || !source.lists->with_vectors)
		return source.lists->codes != nullptr;
	return engine::probes_of(query.probes, source.segment, source.lists->n_lists()) < source.lists->n_lists() &&
		engine::candidates_of(query.probes, source.segment) <= kMostCodedCandidates;
}

bool
ends_in_one_launch(const CodedRequest &request)
{
	return request.queries.n_queries <= kFewQueries && request.most_candidates <= kernels::kMostPassCandidates &&
		kernels::coded_finish_pays(
			request.source->rows(), candidates_of_pass(*request.source, request.most_candidates), request.max_k);
}

Status
search_codes(const SearchCall &call, Arena *arena, const CodedRequest &request)
{
	const cudaStream_t stream = call.stream();
	const Source &source = *request.source;
	const size_t n = request.queries.n_queries;
	kernels::CodePasses passes;
	kernels::CodedScanArgs scan;
	kernels::RescoreArgs refine;

	passes.candidates = request.candidates;
	passes.left = arena->take<uint32_t>(n);
	passes.wanted = arena->take<uint32_t>(n);
	scan.metric = call.spec.metric;
	scan.wanted = passes.wanted;
	if (!plan_scan(request, candidates_of_pass(source, request.most_candidates), arena, &scan))
		return too_small();
	refine.metric = call.spec.metric;
	refine.rows = source.rows();
	refine.queries = request.queries;
	refine.candidates = scan.found;

	VECTORGPU_TRY(call.check(kernels::launch_code_queries(call.spec.metric, scan.codes, request.queries, passes,
								 scan.prepared, request.after_select, stream),
		"prepare queries for codes"));
	if (!ends_in_one_launch(request))
		return search_in_passes(call, request, refine, passes, &scan);
	VECTORGPU_TRY(call.check(kernels::launch_coded_parts(scan, stream), "scan codes"));

	kernels::CodedFinishArgs finish;

	finish.scan = scan;
	finish.refine = refine;
	finish.scores = source.lists->with_vectors;
	finish.best = request.best;
	finish.max_k = request.max_k;
	finish.n_scored = request.n_scored;
	finish.answers = request.answers;
	return call.check(kernels::launch_coded_finish(finish, stream), "score candidates");
}

} // namespace vectorgpu::cuda

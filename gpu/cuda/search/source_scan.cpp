// See source_scan.hpp.
#include "cuda/search/source_scan.hpp"

#include <algorithm>
#include <utility>

#include "cuda/device/stop.hpp"
#include "cuda/search/answers.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// Rows [first, first + n) of a block of rows.
kernels::Rows
part(kernels::Rows rows, uint32_t first, uint32_t n)
{
	rows.vectors = static_cast<const uint8_t *>(rows.vectors) + static_cast<size_t>(first) * rows.pitch_bytes;
	rows.row_ids += first;
	rows.dead_start += first;
	rows.n_rows = n;
	return rows;
}

/// Queries [first, first + n) of a chunk.
void
cut(const ExactChunk &chunk, uint32_t first, uint32_t n, const Shape &shape, kernels::Queries *queries,
	kernels::Best *best)
{
	*queries = chunk.queries;
	*best = chunk.best;
	queries->vectors = static_cast<const uint8_t *>(queries->vectors) + static_cast<size_t>(first) * shape.query_bytes;
	queries->k += first;
	if (queries->after != nullptr)
		queries->after += first;
	queries->has_after += first;
	queries->n_queries = n;
	best->entries += static_cast<size_t>(first) * best->stride;
	best->counts += first;
}

} // namespace

uint32_t
rows_per_group(uint32_t n_rows)
{
	const uint32_t least = (n_rows + kernels::kMaxGroups - 1) / kernels::kMaxGroups;

	return std::max(32u, (least + 31) / 32 * 32);
}

kernels::FilterBound
filter_bound_of(const engine::DistanceSpec &spec, const Source &source, const kernels::Rows &rows)
{
	kernels::FilteredRows filtered;

	filtered.form = rows.form;
	filtered.max_norm = source.max_norm;
	filtered.max_inverse = source.max_inverse;
	filtered.rows_rounded = rows.form == kernels::Form::kFloat16 && source.block->form == kernels::Form::kFloat32;
	filtered.off = rows.form == kernels::Form::kScaled ? source.rounded.scaled->off : 0;
	filtered.queries_rounded = spec.element == ElementType::kFloat32;
	return kernels::filter_bound(spec.metric, spec.dim, filtered);
}

Status
SourceScan::prepare_operand(kernels::Form form, ExactChunk *chunk)
{
	void *&operand = chunk->operands[static_cast<size_t>(form)];

	if (operand == nullptr)
	{
		operand =
			arena_->take<uint8_t>(chunk->queries.n_queries * kernels::filter_operand_bytes(form, call_.shape.dim_pad));
		if (arena_->failed())
			return too_small();
		chunk->prepared.operand = operand;

		const kernels::Incoming incoming = std::exchange(chunk->incoming, {});

		if (form == kernels::Form::kScaled)
			return scale_queries(incoming, chunk);
		return call_.check(kernels::launch_prepare_queries(
							   call_.spec.metric, form, chunk->queries, incoming, chunk->prepared, call_.stream()),
			"prepare queries");
	}
	chunk->prepared.operand = operand;
	return Status::ok();
}

/// Prepares the queries for all sources with scaled rows.
Status
SourceScan::scale_queries(const kernels::Incoming &incoming, ExactChunk *chunk)
{
	const size_t n = chunk->queries.n_queries;
	double max_norm = 0;

	for (const Source &source : call_.snapshot.sources)
		if (source.rounded.scaled != nullptr)
			max_norm = std::max(max_norm, source.max_norm);
	chunk->prepared.scaled.factors = arena_->take<float>(n);
	chunk->prepared.scaled.lost = arena_->take<double>(n);
	if (arena_->failed())
		return too_small();
	return call_.check(kernels::launch_scale_queries(call_.spec.metric, chunk->queries,
						   kernels::scaled_most_factor(call_.spec.metric, call_.spec.dim, max_norm), incoming,
						   chunk->prepared, call_.stream()),
		"prepare queries");
}

Status
SourceScan::bounded(const Source &source, const ExactChunk &chunk)
{
	const size_t n = chunk.queries.n_queries;
	kernels::BoundedScanArgs scan;

	scan.metric = call_.spec.metric;
	scan.rows = source.rows();
	scan.queries = chunk.queries;
	scan.best = chunk.best;
	scan.candidates.capacity = source.n_rows;
	scan.candidates.keys = arena_->take<uint64_t>(n * source.n_rows);
	scan.candidates.rows = arena_->take<uint32_t>(n * source.n_rows);
	scan.candidates.counts = chunk.n_bounded;
	if (arena_->failed())
		return too_small();
	return call_.check(kernels::launch_bounded_scan(scan, chunk.max_k, call_.stream()), "scan rows behind others");
}

/// The arguments that the passes over a source share.
struct SourceScan::Passes
{
	kernels::FilterArgs filter;
	kernels::FilterSelect select;
	kernels::RescoreArgs rescore;
};

Status
SourceScan::begin_passes(
	const Source &source, const kernels::Rows &rows, uint32_t capacity, ExactChunk *chunk, Passes *passes)
{
	const size_t n = chunk->queries.n_queries;
	kernels::Candidates candidates;

	candidates.capacity = capacity;
	candidates.keys = arena_->take<uint64_t>(n * capacity);
	candidates.rows = arena_->take<uint32_t>(n * capacity);
	candidates.estimates = arena_->take<float>(n * capacity);
	candidates.counts = arena_->take<uint32_t>(n);
	if (arena_->failed())
		return too_small();

	passes->filter.metric = call_.spec.metric;
	passes->filter.rows = rows;
	passes->filter.row_values = source.block->values.as<float>() + source.first;
	passes->filter.operand = chunk->prepared.operand;
	passes->filter.n_queries = chunk->queries.n_queries;
	passes->filter.dim_pad = call_.shape.dim_pad;
	passes->filter.thresholds = chunk->thresholds;
	passes->filter.candidates = candidates;

	passes->select.bound = filter_bound_of(call_.spec, source, rows);
	passes->select.queries = chunk->queries;
	passes->select.prepared = chunk->prepared;
	if (rows.form == kernels::Form::kScaled)
	{
		passes->filter.scaled = source.scaled_pass(call_.spec);
		passes->filter.scaled.factors = chunk->prepared.scaled.factors;
	}
	else
		passes->select.prepared.scaled = {}; // other products are of the queries as they are
	passes->select.best = chunk->best;
	passes->select.thresholds = chunk->thresholds;
	passes->select.candidates = candidates;
	passes->select.n_rescored = chunk->n_rescored;

	passes->rescore.metric = call_.spec.metric;
	passes->rescore.rows = source.rows();
	passes->rescore.queries = chunk->queries;
	passes->rescore.candidates = candidates;
	return Status::ok();
}

/// Reduces the candidates, rescores them, and merges.
Status
SourceScan::end_passes(Passes *passes, ExactChunk *chunk)
{
	const cudaStream_t stream = call_.stream();

	passes->select.last = true;
	if (chunk->max_k <= kernels::kFinishMostK)
	{
		// With one source the search ends here, and the rows counted here are all that were rescored.
		if (ends_search_ && call_.snapshot.sources.size() == 1)
			chunk->answers = begin_answers(call_.context, chunk->queries.n_queries, chunk->max_k);
		return call_.check(
			kernels::launch_finish(passes->select, passes->rescore, stream, chunk->answers), "rescore and merge rows");
	}
	VECTORGPU_TRY(call_.check(kernels::launch_filter_tighten(passes->select, stream), "tighten thresholds"));
	VECTORGPU_TRY(call_.check(kernels::launch_rescore(passes->rescore, stream), "rescore rows"));
	return call_.check(kernels::launch_merge(chunk->queries, passes->rescore.candidates, passes->rescore.rows.row_ids,
						   chunk->best, chunk->max_k, stream),
		"merge");
}

/// Lets some tiles of the rows stay in L2 for the next search, the sampled ones first, in proportion to the source.
void
SourceScan::keep_in_cache(const FilterPlan &plan, const ExactChunk &chunk, kernels::FilterArgs *args) const
{
	uint64_t row_bytes = 0;

	if (!ends_search_) // other rows are read meanwhile
		return;
	for (const Source &source : call_.snapshot.sources)
		row_bytes += uint64_t{source.n_rows} * source.filter_rows(chunk.queries.n_queries, chunk.max_k).pitch_bytes;

	const uint32_t n_kept = kernels::filter_kept_tiles(plan.stride, row_bytes);

	if (plan.n_sampled > 0 && n_kept > 0 && n_kept < plan.stride)
	{
		args->kept_period = plan.stride;
		args->n_kept = n_kept;
	}
}

Status
SourceScan::filter(const Source &source, uint64_t n_before, ExactChunk *chunk)
{
	const FilterPlan plan = plan_filter(source, n_before, chunk->queries.n_queries, chunk->max_k);
	const cudaStream_t stream = call_.stream();
	float *minima = arena_->take<float>(static_cast<size_t>(chunk->queries.n_queries) * plan.n_minima);
	Passes passes;

	VECTORGPU_TRY(begin_passes(
		source, source.filter_rows(chunk->queries.n_queries, chunk->max_k), plan.capacity, chunk, &passes));

	kernels::FilterArgs &args = passes.filter;

	keep_in_cache(plan, *chunk, &args);
	args.n_tiles = plan.n_sampled;
	args.tile_stride = plan.stride;
	args.minima = minima;
	args.minima_stride = plan.n_minima;
	passes.select.minima = minima;
	passes.select.n_minima = plan.n_minima;
	if (plan.n_sampled > 0)
		VECTORGPU_TRY(call_.check(kernels::launch_filter_minima(args, stream), "sample rows"));
	VECTORGPU_TRY(call_.check(kernels::launch_filter_thresholds(passes.select, stream), "find thresholds"));
	args.tile_stride = 1;
	for (uint32_t first = 0, end = plan.n_first; first < plan.n_tiles; first = end, end = plan.next_stage(end))
	{
		args.first_tile = first;
		args.n_tiles = end - first;
		VECTORGPU_TRY(call_.check(kernels::launch_filter_candidates(args, stream), "filter rows"));
		passes.select.last = end == plan.n_tiles;
		if (!passes.select.last)
			VECTORGPU_TRY(call_.check(kernels::launch_filter_tighten(passes.select, stream), "tighten thresholds"));
	}
	return end_passes(&passes, chunk);
}

Status
SourceScan::bins(const Source &source, ExactChunk *chunk, uint32_t n_bins)
{
	const size_t n = chunk->queries.n_queries;
	BinsPlan plan;
	Passes passes;

	VECTORGPU_TRY(plan_bins(call_.device, source, call_.shape, chunk->queries.n_queries, n_bins, &plan));
	if (plan.form.key_tile_bits > 0)
		passes.filter.bin_keys = arena_->take<int32_t>(n * plan.n_places);
	else
	{
		passes.filter.bin_estimates = arena_->take<float>(n * plan.n_places);
		passes.filter.bin_rows = arena_->take<uint32_t>(n * plan.n_places);
	}
	VECTORGPU_TRY(begin_passes(source, source.bins_rows(), n_bins, chunk, &passes));
	passes.filter.n_tiles = plan.n_tiles;
	passes.filter.n_stripes = plan.form.n_stripes;
	passes.filter.key_tile_bits = plan.form.key_tile_bits;
	VECTORGPU_TRY(call_.check(kernels::launch_filter_bins(passes.filter, call_.stream()), "reduce rows to bins"));
	VECTORGPU_TRY(call_.check(
		kernels::launch_collect_bins(passes.select, passes.filter, n_bins, call_.stream()), "collect bins"));
	return end_passes(&passes, chunk);
}

/// Rows and queries that the direct way takes at once, and the room for them.
struct SourceScan::Ranges
{
	uint32_t n_rows;
	size_t n_queries;
	uint64_t *keys;       // [n_queries, n_rows]
	uint64_t *minima;     // [n_queries, kMaxGroups]
	uint64_t *thresholds; // [n_queries]
	kernels::Candidates candidates;
};

Status
SourceScan::plan_ranges(const Source &source, const ExactChunk &chunk, Ranges *ranges)
{
	constexpr size_t kEachRow = 2 * sizeof(uint64_t) + sizeof(uint32_t); // key; candidate's key and row
	constexpr size_t kEachQuery = kernels::kMaxGroups * sizeof(uint64_t) + kQueryScratchBytes; // the minima first
	constexpr size_t kLeastRows = 64;
	constexpr uint32_t kPass = 8;          // queries of a pass over the rows
	constexpr size_t kMostQueries = 32768; // grid.y of other kernels stays small
	const uint32_t n = chunk.queries.n_queries;
	const size_t room = room_left(*arena_);
	const size_t least_queries = std::min(n, kPass);

	if (room / least_queries <= kEachQuery + kLeastRows * kEachRow)
		return too_small();
	ranges->n_rows = static_cast<uint32_t>(
		std::min<size_t>(source.n_rows, (room / least_queries - kEachQuery) / kEachRow / 32 * 32));
	ranges->n_queries = std::min<size_t>(n, room / (kEachQuery + ranges->n_rows * kEachRow));
	if (ranges->n_queries > kPass)
		ranges->n_queries = std::min<size_t>(ranges->n_queries / kPass * kPass, kMostQueries);

	const size_t n_keys = ranges->n_queries * ranges->n_rows;

	ranges->keys = arena_->take<uint64_t>(n_keys);
	ranges->minima = arena_->take<uint64_t>(ranges->n_queries * kernels::kMaxGroups);
	ranges->thresholds = arena_->take<uint64_t>(ranges->n_queries);
	ranges->candidates.capacity = ranges->n_rows;
	ranges->candidates.keys = arena_->take<uint64_t>(n_keys);
	ranges->candidates.rows = arena_->take<uint32_t>(n_keys);
	ranges->candidates.counts = arena_->take<uint32_t>(ranges->n_queries);
	return arena_->failed() ? too_small() : Status::ok();
}

Status
SourceScan::direct(const Source &source, const ExactChunk &chunk)
{
	Ranges ranges;

	VECTORGPU_TRY(plan_ranges(source, chunk, &ranges));
	for (uint32_t first = 0; first < chunk.queries.n_queries; first += static_cast<uint32_t>(ranges.n_queries))
		for (uint32_t row = 0; row < source.n_rows; row += ranges.n_rows)
			VECTORGPU_TRY(scan_range(source, chunk, ranges, first, row));
	return Status::ok();
}

/// The queries from `first` on over the rows from `row` on.
Status
SourceScan::scan_range(
	const Source &source, const ExactChunk &chunk, const Ranges &ranges, uint32_t first, uint32_t row)
{
	const uint32_t n_queries = std::min(static_cast<uint32_t>(ranges.n_queries), chunk.queries.n_queries - first);
	const cudaStream_t stream = call_.stream();
	kernels::ScoreArgs score;
	kernels::Best best;

	cut(chunk, first, n_queries, call_.shape, &score.queries, &best);
	score.metric = call_.spec.metric;
	score.rows = part(source.rows(), row, std::min(ranges.n_rows, source.n_rows - row));
	score.keys = ranges.keys;
	score.key_stride = ranges.n_rows;
	score.minima = ranges.minima;
	score.group_rows = rows_per_group(score.rows.n_rows);

	const uint32_t n_groups = (score.rows.n_rows + score.group_rows - 1) / score.group_rows;

	if (is_stopped(call_.control))
		return stopped();
	VECTORGPU_TRY(call_.check(kernels::launch_scores(score, stream), "score rows"));
	VECTORGPU_TRY(call_.check(kernels::launch_thresholds(score.queries, ranges.minima, n_groups, best,
								  ranges.thresholds, ranges.candidates.counts, stream),
		"find thresholds"));
	VECTORGPU_TRY(call_.check(kernels::launch_compact(score.queries, ranges.keys, ranges.n_rows, score.rows.n_rows,
								  ranges.thresholds, ranges.candidates, stream),
		"collect rows"));
	return call_.check(
		kernels::launch_merge(score.queries, ranges.candidates, score.rows.row_ids, best, chunk.max_k, stream),
		"merge");
}

} // namespace vectorgpu::cuda

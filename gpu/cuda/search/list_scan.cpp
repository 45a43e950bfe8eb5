// See list_scan.hpp.
#include "cuda/search/list_scan.hpp"

#include <algorithm>

#include "cuda/device/stop.hpp"
#include "cuda/search/coded_search.hpp"
#include "cuda/search/rounded_lists.hpp"
#include "cuda/search/source_scan.hpp"
#include "kernels/ivf/ivf_rounded.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Entry;

constexpr size_t kLeastByteQueries = 16; // as kLeastQueriesPerList on the integer units, where others cost little
constexpr size_t kManyQueries = 128;     // a block for each keeps the device busy
constexpr uint32_t kFewGroups = 128;     // a block for a query samples them in no time
constexpr uint32_t kLeastFilteredQueries = 512; // whose lists the filter ranks

/// Centroids as rows of a search.
Source
rows_of(const Filled &ranked)
{
	Source rows;

	rows.block = ranked.block;
	rows.n_rows = ranked.n_rows;
	rows.rows_ascending = true;
	rows.max_norm = ranked.max_norm;
	rows.max_inverse = ranked.max_inverse;
	rows.n_untrusted = ranked.n_untrusted;
	rows.filterable = ranked.filterable;
	rows.rounded = ranked.rounded;
	return rows;
}

/// All but the lists and the answers.
CodedRequest
coded_request(const Source &source, size_t s, const ListChunk &chunk)
{
	CodedRequest request;

	request.source = &source;
	request.queries = chunk.queries;
	request.candidates = chunk.candidates + s * chunk.queries.n_queries;
	request.most_candidates = chunk.max_candidates[s];
	request.n_pairs = chunk.n_pairs[s];
	request.best = chunk.best;
	request.max_k = chunk.max_k;
	request.n_scored = source.lists->with_vectors ? chunk.n_scored : nullptr;
	return request;
}

} // namespace

uint32_t
list_groups(uint32_t max_k)
{
	return std::min(kernels::kMaxGroups, std::max(64u, 4 * max_k));
}

uint32_t
list_candidates(const Source &source, uint32_t max_k)
{
	return std::min(source.n_rows, 32 * max_k + 2048);
}

/// Ranks the lists and fills in what both ways of scanning share.
Status
ListScan::begin(const Source &source, size_t s, const ListChunk &chunk, kernels::IvfScanArgs *scan)
{
	scan->thresholds = arena_->take<uint64_t>(chunk.queries.n_queries);
	VECTORGPU_TRY(rank_lists(source, s, chunk, &scan->probes));
	scan->metric = call_.spec.metric;
	scan->rows = source.rows();
	scan->queries = chunk.queries;
	scan->n_groups = list_groups(chunk.max_k);
	scan->end_place = source.n_rows;
	scan->best = chunk.best;
	return arena_->failed() ? too_small() : Status::ok();
}

Status
ListScan::scan(const Source &source, size_t s, const ListChunk &chunk)
{
	const size_t n = chunk.queries.n_queries;
	kernels::IvfScanArgs scan;

	VECTORGPU_TRY(begin(source, s, chunk, &scan));
	VECTORGPU_TRY(take_candidates(n, list_candidates(source, chunk.max_k), &scan.candidates));
	if (scan.n_groups <= (n >= kManyQueries ? kernels::kIvfMostSampled : kFewGroups))
		VECTORGPU_TRY(call_.check(kernels::launch_ivf_thresholds(scan, call_.stream()), "find thresholds"));
	else
	{
		VECTORGPU_TRY(sample(n, &scan));
		VECTORGPU_TRY(find_thresholds(chunk, scan));
	}

	const bool bytes = chunk.byte_queries != nullptr && n >= kLeastByteQueries && !source.block->on_host() &&
		kernels::ivf_bytes_are_exact(call_.spec.metric, source.block->form, call_.shape.dim_pad);
	kernels::Rows narrow;
	ListWay way = bytes ? ListWay::kBytes : ListWay::kScores;

	if (!bytes && rounded_lists_pay(call_, source, s, chunk, scan.n_groups, &narrow))
		way = ListWay::kRounded;
	if (way == ListWay::kScores &&
		static_cast<double>(chunk.n_pairs[s]) < kLeastQueriesPerList * source.lists->n_lists())
		VECTORGPU_TRY(call_.check(kernels::launch_ivf_scan_queries(scan, call_.stream()), "scan lists"));
	else
		VECTORGPU_TRY(scan_list_by_list(source, chunk, way, narrow, &scan));
	return merge(chunk, scan, chunk.redo);
}

Status
ListScan::scan_carefully(const Source &source, size_t s, const ListChunk &chunk)
{
	constexpr size_t kEach = sizeof(uint64_t) + sizeof(uint32_t); // a candidate's key and row
	const size_t n = chunk.queries.n_queries;
	kernels::IvfScanArgs scan;

	VECTORGPU_TRY(begin(source, s, chunk, &scan));
	VECTORGPU_TRY(sample(n, &scan));

	const uint32_t window = static_cast<uint32_t>(std::min<size_t>(source.n_rows, room_left(*arena_) / n / kEach));

	if (window == 0)
		return too_small();
	VECTORGPU_TRY(take_candidates(n, window, &scan.candidates));
	for (uint64_t first = 0; first < source.n_rows; first += window)
	{
		if (is_stopped(call_.control))
			return stopped();
		scan.first_place = static_cast<uint32_t>(first);
		scan.end_place = static_cast<uint32_t>(std::min<uint64_t>(source.n_rows, first + window));
		VECTORGPU_TRY(find_thresholds(chunk, scan));
		VECTORGPU_TRY(call_.check(kernels::launch_ivf_scan_queries(scan, call_.stream()), "scan lists"));
		VECTORGPU_TRY(merge(chunk, scan, nullptr));
	}
	return Status::ok();
}

Status
ListScan::scan_codes(const Source &source, size_t s, const ListChunk &chunk, const kernels::Answers &answers)
{
	CodedRequest request = coded_request(source, s, chunk);

	VECTORGPU_TRY(rank_lists(source, s, chunk, &request.probes, &request.after_select));
	request.answers = answers;
	return search_codes(call_, arena_, request);
}

bool
ListScan::can_answer(const Source &source, size_t s, const ListChunk &chunk)
{
	return source.cut.n_pass == nullptr && ends_in_one_launch(coded_request(source, s, chunk));
}

/// probes->ranked becomes the nearest lists of each query. Gives the scratch back. by_select: set to true if the last
/// launch is the selection.
Status
ListScan::rank_lists(
	const Source &source, size_t s, const ListChunk &chunk, kernels::IvfProbes *probes, bool *by_select)
{
	const DeviceLists &lists = *source.lists;
	const size_t n = chunk.queries.n_queries;
	kernels::Best ranked;
	kernels::ScoreArgs score;

	ranked.stride = chunk.max_probes[s];
	ranked.entries = arena_->take<Entry>(n * ranked.stride);
	ranked.counts = arena_->take<uint32_t>(n);
	probes->offsets = lists.offsets.as<uint64_t>();
	probes->n_lists = lists.n_lists();
	probes->ranked = ranked.entries;
	probes->counts = chunk.probes + s * n;
	probes->stride = ranked.stride;

	if (arena_->failed())
		return too_small();

	const size_t mark = arena_->mark();

	if (filter_ranks(source, chunk, ranked.stride))
	{
		VECTORGPU_TRY(rank_by_filter(source, chunk, chunk.probes + s * n, ranked));
		arena_->release(mark);
		return Status::ok();
	}
	score.metric = call_.spec.metric;
	score.rows = lists.rows_of_centroids();
	score.queries = chunk.queries;
	score.queries.k = probes->counts;
	score.queries.after = nullptr;
	score.keys = arena_->take<uint64_t>(n * lists.n_lists());
	score.key_stride = lists.n_lists();
	score.group_rows = std::max(32u, (lists.n_lists() / kernels::kMaxGroups + 31) / 32 * 32);
	if (arena_->failed())
		return too_small();
	VECTORGPU_TRY(call_.check(kernels::launch_scores(score, call_.stream()), "score centroids"));
	if (ranked.stride > kernels::kMaxSelectK)
		VECTORGPU_TRY(sort_lists(lists, score, ranked));
	else
		VECTORGPU_TRY(call_.check(kernels::launch_select_keys(score.queries, score.keys, score.key_stride,
									  lists.n_lists(), ranked, ranked.stride, call_.stream()),
			"rank lists"));
	arena_->release(mark);
	if (by_select != nullptr)
		*by_select = ranked.stride <= kernels::kMaxSelectK && source.cut.n_pass == nullptr;
	if (source.cut.n_pass == nullptr)
		return Status::ok();
	return call_.check(kernels::launch_ivf_cut(*probes, source.cut, chunk.queries.n_queries, chunk.probes + s * n,
						   chunk.redo, call_.stream()),
		"choose lists with rows that pass");
}

/// Whether the filter ranks the lists of a chunk: for many queries, if there is room.
bool
ListScan::filter_ranks(const Source &source, const ListChunk &chunk, uint32_t n_probes) const
{
	const Filled &ranked = source.lists->ranked;
	const uint32_t n = chunk.queries.n_queries;

	if (ranked.block == nullptr || chunk.careful || chunk.redo == nullptr || source.cut.n_pass != nullptr ||
		n < kLeastFilteredQueries || n_probes > kernels::kMaxSelectK)
		return false;

	const Source rows = rows_of(ranked);
	const size_t each = filter_bytes(rows, call_.shape, 0, n, n_probes) + sizeof(double) + sizeof(float);

	return filter_pays(rows, 0, n, n_probes) && n * each <= room_left(*arena_);
}

/// best becomes the first n_probes [n_queries] lists of each query. A query that the filter cannot answer is marked in
/// chunk.redo; its n_probes become 0, since there is nothing to scan before it is searched again. (Its entries are list
/// 0 in all places: a list that is named twice would have more tiles than are counted in 32 bits.)
Status
ListScan::rank_by_filter(const Source &source, const ListChunk &chunk, uint32_t *n_probes, const kernels::Best &best)
{
	const Source rows = rows_of(source.lists->ranked);
	const size_t n = chunk.queries.n_queries;
	SourceScan scan(call_, arena_, false);
	ExactChunk exact;

	exact.numbers = chunk.numbers;
	exact.queries = chunk.queries;
	exact.queries.k = n_probes;
	exact.queries.after = nullptr;
	exact.best = best;
	exact.max_k = best.stride;
	exact.prepared.redo = chunk.redo;
	exact.prepared.norms = arena_->take<double>(n);
	exact.thresholds = arena_->take<float>(n);
	exact.n_rescored = arena_->take<uint64_t>(1);
	if (arena_->failed())
		return too_small();
	VECTORGPU_TRY(call_.check(cudaMemsetAsync(best.counts, 0, n * sizeof(uint32_t), call_.stream()), "clear ranks"));
	VECTORGPU_TRY(
		call_.check(cudaMemsetAsync(best.entries, 0, n * best.stride * sizeof(Entry), call_.stream()), "clear ranks"));
	VECTORGPU_TRY(call_.check(cudaMemsetAsync(exact.n_rescored, 0, sizeof(uint64_t), call_.stream()), "clear counts"));
	VECTORGPU_TRY(scan.prepare_operand(rows.filter_form(static_cast<uint32_t>(n), best.stride), &exact));
	VECTORGPU_TRY(scan.filter(rows, 0, &exact));
	return call_.check(
		kernels::launch_ivf_skip(chunk.redo, chunk.queries.n_queries, n_probes, call_.stream()), "skip queries");
}

/// More lists than the selection can rank: sorts all of them.
Status
ListScan::sort_lists(const DeviceLists &lists, const kernels::ScoreArgs &score, const kernels::Best &ranked)
{
	const uint32_t n_lists = lists.n_lists();
	uint64_t *ids = lists.list_ids.as<uint64_t>();
	size_t temp_bytes = 0;

	VECTORGPU_TRY(call_.check(
		kernels::sort_entries(nullptr, &temp_bytes, nullptr, nullptr, nullptr, nullptr, n_lists, true, call_.stream()),
		"ask for the room of a sort"));

	uint64_t *sorted_keys = arena_->take<uint64_t>(n_lists);
	uint64_t *sorted_lists = arena_->take<uint64_t>(n_lists);
	uint8_t *temp = arena_->take<uint8_t>(temp_bytes);

	if (arena_->failed())
		return too_small();
	for (size_t q = 0; q < score.queries.n_queries; q++)
	{
		VECTORGPU_TRY(call_.check(kernels::sort_entries(temp, &temp_bytes, score.keys + q * score.key_stride, ids,
									  sorted_keys, sorted_lists, n_lists, true, call_.stream()),
			"sort lists"));
		VECTORGPU_TRY(call_.check(kernels::launch_zip(sorted_keys, sorted_lists, ranked.stride,
									  ranked.entries + q * ranked.stride, call_.stream()),
			"rank lists"));
	}
	return Status::ok();
}

/// The smallest keys of groups of rows, which find_thresholds reads.
Status
ListScan::sample(size_t n, kernels::IvfScanArgs *scan)
{
	scan->minima = arena_->take<uint64_t>(n * kernels::kMaxGroups);
	if (arena_->failed())
		return too_small();
	return call_.check(kernels::launch_ivf_minima(*scan, call_.stream()), "sample lists");
}

Status
ListScan::find_thresholds(const ListChunk &chunk, const kernels::IvfScanArgs &scan)
{
	return call_.check(kernels::launch_thresholds(chunk.queries, scan.minima, scan.n_groups, chunk.best,
						   scan.thresholds, scan.candidates.counts, call_.stream()),
		"find thresholds");
}

Status
ListScan::take_candidates(size_t n, uint32_t room, kernels::Candidates *candidates)
{
	candidates->capacity = room;
	candidates->keys = arena_->take<uint64_t>(n * room);
	candidates->rows = arena_->take<uint32_t>(n * room);
	candidates->counts = arena_->take<uint32_t>(n);
	return arena_->failed() ? too_small() : Status::ok();
}

Status
ListScan::scan_list_by_list(
	const Source &source, const ListChunk &chunk, ListWay way, const kernels::Rows &narrow, kernels::IvfScanArgs *scan)
{
	const size_t n_lists = source.lists->n_lists();

	scan->plan.counts = arena_->take<uint32_t>(n_lists);
	scan->plan.firsts = arena_->take<uint32_t>(n_lists + 1);
	scan->plan.cursors = arena_->take<uint32_t>(n_lists);
	scan->plan.tile_firsts = arena_->take<uint32_t>(n_lists + 1);
	scan->plan.next_tile = arena_->take<uint32_t>(1);
	scan->plan.queries = arena_->take<uint32_t>(size_t{chunk.queries.n_queries} * scan->probes.stride);
	if (arena_->failed())
		return too_small();
	VECTORGPU_TRY(
		call_.check(cudaMemsetAsync(scan->plan.counts, 0, n_lists * sizeof(uint32_t), call_.stream()), "clear counts"));
	if (way == ListWay::kBytes)
		scan->plan.queries_per_tile = kernels::kIvfByteQueriesPerTile;
	if (way == ListWay::kRounded)
		scan->plan.queries_per_tile = kernels::ivf_rounded_queries_per_tile(narrow.form, call_.shape.dim_pad);
	VECTORGPU_TRY(
		call_.check(kernels::launch_ivf_plan(scan->probes, chunk.queries.n_queries, scan->plan, call_.stream()),
			"sort queries by lists"));
	if (way == ListWay::kRounded)
		return scan_rounded_lists(call_, arena_, source, narrow, *scan);
	if (way == ListWay::kBytes)
	{
		scan->byte_queries = chunk.byte_queries;
		scan->byte_norms = chunk.byte_norms;
		scan->row_values = source.block->values.as<float>() + source.first;
		return call_.check(kernels::launch_ivf_scan_bytes(*scan, call_.stream()), "scan lists of bytes");
	}
	return call_.check(kernels::launch_ivf_scan_lists(*scan, call_.stream()), "scan lists");
}

Status
ListScan::merge(const ListChunk &chunk, const kernels::IvfScanArgs &scan, uint8_t *redo)
{
	return call_.check(kernels::launch_merge(chunk.queries, scan.candidates, scan.rows.row_ids, chunk.best, chunk.max_k,
						   call_.stream(), redo),
		"merge");
}

} // namespace vectorgpu::cuda

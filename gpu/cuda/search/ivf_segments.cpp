// See ivf_segments.hpp. In chunks, over one segment after another:
//   coarse      canonical scores of all centroids, the n_probes first
//   threshold   from the smallest scores of groups of rows of the nearest lists, and from what was found before
//   scan        canonical scores of all rows of the lists; those up to the threshold are candidates. Few queries go one
//   by one, many
//               list by list
//   merge       into what the query has found
// Where lists have codes, these choose the rows whose scores are computed (coded_search.hpp), but for segments all of
// whose lists a query looks at, or of which it wants very many candidates. Where there are no vectors beside codes,
// what these choose is the answer. A query with more candidates than there is room for is answered again in windows of
// places. Few queries go the way of ivf_few.hpp first.
#include "cuda/search/ivf_segments.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cuda/device/arena.hpp"
#include "cuda/search/coded_search.hpp"
#include "cuda/search/ivf_few.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "engine/distance/distance.hpp"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;
using kernels::Entry;

constexpr size_t kMostQueries = 16384; // of a chunk
constexpr size_t kCarefulQueries = 16; // of a chunk that goes in windows
constexpr double kLeastQueriesPerList =
	1.25; // on average, from which the scan goes list by list (gpu/kernels/ivf/README.md)
constexpr size_t kLeastByteQueries = 16; // ... on the integer units, where queries cost next to nothing
constexpr size_t kManyQueries = 128;     // a block for each keeps the device busy
constexpr uint32_t kFewGroups = 128;     // that a block for a query samples in no time
constexpr uint32_t kProbesRatio = 4;     // of the queries of a chunk at most: each has room for the most

Status
too_small()
{
	return Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search");
}

class ListSearch
{
public:
	ListSearch(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
		std::vector<const Source *> sources, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control)
		: device_(device), context_(context), stream_(context->stream.get()), spec_(spec), shape_(shape),
		  sources_(std::move(sources)), queries_(queries), results_(results), counts_(counts), control_(control),
		  arena_(context->workspace.get(), context->workspace.bytes())
	{
		byte_rows_ = std::any_of(sources_.begin(), sources_.end(), [&](const Source *source)
			{ return kernels::ivf_bytes_are_exact(spec.metric, source->block->form, shape.dim_pad); });
	}

	/// All queries have probes and 1 ... kMaxSelectK as k. Where lists have codes, these choose the rows for all
	/// queries in the same segments.
	Status run()
	{
		const std::vector<uint32_t> numbers = prepare();

		VECTORGPU_TRY(search_all(numbers, false));

		const std::vector<uint32_t> again = std::move(redo_);

		counts_->n_redone += again.size();
		return search_all(again, true);
	}

	/// The queries of these numbers alone, in windows of places.
	Status run_carefully(std::vector<uint32_t> numbers)
	{
		if (numbers.empty())
			return Status::ok();
		(void) prepare();
		std::stable_sort(numbers.begin(), numbers.end(),
			[this](uint32_t a, uint32_t b) { return most_probes_[a] < most_probes_[b]; });
		counts_->n_redone += numbers.size();
		return search_all(numbers, true);
	}

private:
	/// The queries' numbers in order of their probes.
	std::vector<uint32_t> prepare()
	{
		for (const Source *source : sources_)
			by_codes_.push_back(!queries_.empty() && chosen_by_codes(queries_[0], *source));
		std::vector<uint32_t> numbers(queries_.size());

		std::iota(numbers.begin(), numbers.end(), 0);
		most_probes_.resize(queries_.size());
		most_candidates_.resize(queries_.size());
		for (const uint32_t number : numbers)
		{
			most_probes_[number] = most_probes(number);
			for (size_t s = 0; s < sources_.size(); s++)
				if (by_codes_[s])
					most_candidates_[number] = std::max(most_candidates_[number], candidates(number, *sources_[s]));
		}
		if (!std::is_sorted(most_probes_.begin(), most_probes_.end()))
			std::stable_sort(numbers.begin(), numbers.end(),
				[this](uint32_t a, uint32_t b) { return most_probes_[a] < most_probes_[b]; });
		return numbers;
	}

	struct Chunk
	{
		std::span<const uint32_t> numbers; // of queries_
		kernels::Queries queries;
		kernels::Best best;
		uint32_t *probes = nullptr;   // [n_sources, n_queries]
		uint32_t *n_scored = nullptr; // [n_queries]: rows that codes named
		uint8_t *redo = nullptr;
		uint8_t *byte_queries = nullptr;      // [n_queries, dim_pad], if all of them are bytes
		int32_t *byte_norms = nullptr;        // [n_queries]
		std::vector<uint64_t> n_pairs;        // [n_sources]: lists looked at by all queries together
		std::vector<uint32_t> max_probes;     // [n_sources]
		uint32_t *candidates = nullptr;       // [n_sources, n_queries]
		std::vector<uint32_t> max_candidates; // [n_sources]
		uint32_t max_k = 0;
		bool any_after = false;
	};

	uint32_t probes(uint32_t number, const Source &source) const
	{
		return engine::probes_of(queries_[number].probes, source.segment, source.lists->n_lists());
	}

	uint32_t most_probes(uint32_t number) const
	{
		uint32_t most = 1;

		for (const Source *source : sources_)
			most = std::max(most, probes(number, *source));
		return most;
	}

	Status check(cudaError_t error, const char *what) const { return device_->check(error, what); }

	static uint32_t n_groups(uint32_t max_k) { return std::min(kernels::kMaxGroups, std::max(64u, 4 * max_k)); }

	static uint32_t capacity(const Source &source, uint32_t max_k)
	{
		return std::min(source.n_rows, 32 * max_k + 2048);
	}

	uint32_t candidates(uint32_t number, const Source &source) const
	{
		return engine::candidates_of(queries_[number].probes, source.segment);
	}

	/// Device memory that a query of a chunk needs.
	size_t query_bytes(uint32_t max_probes, uint32_t max_candidates, uint32_t max_k, bool careful) const
	{
		size_t scratch = 0;

		for (size_t s = 0; s < sources_.size(); s++)
		{
			const Source *source = sources_[s];
			const size_t n_probes = std::min(max_probes, source->lists->n_lists());
			const size_t coarse = source->lists->n_lists() * sizeof(uint64_t);
			const size_t scan = by_codes_[s] ? coded_query_bytes(*source, shape_.dim_pad, max_candidates)
				: careful                    ? 0
											 : capacity(*source, max_k) * (sizeof(uint64_t) + sizeof(uint32_t));

			scratch = std::max(scratch, n_probes * (sizeof(Entry) + sizeof(uint32_t)) + std::max(coarse, scan));
		}
		if (careful ||
			n_groups(max_k) > kernels::kIvfMostSampled) // fewer are sampled without them, or by a few queries
			scratch += kernels::kMaxGroups * sizeof(uint64_t);
		return query_in_bytes() + 128 + 2 * sources_.size() * sizeof(uint32_t) + max_k * sizeof(Entry) + scratch;
	}

	/// What is sent of a query.
	size_t query_in_bytes() const
	{
		return shape_.query_bytes + 64 + 2 * sources_.size() * sizeof(uint32_t) + (byte_rows_ ? shape_.dim_pad : 0);
	}

	/// How many of the queries, in order of their probes, go together.
	size_t chunk_size(std::span<const uint32_t> numbers, bool careful) const
	{
		const uint32_t least_probes = most_probes_[numbers.front()];
		const size_t room = context_->workspace.bytes() / 4 * 3; // the rest: per list, and candidates of windows
		uint64_t n_rows = 0;
		uint32_t max_k = 1;
		uint32_t max_probes = 0;
		uint32_t max_candidates = 0;
		size_t each = 0; // device memory of a query, of so many probes and rows
		size_t n = 0;

		for (const Source *source : sources_)
			n_rows = std::max<uint64_t>(n_rows, source->n_rows);

		// Tiles are counted in 32 bits.
		const uint64_t most_tiles = (n_rows / kernels::kIvfRowsPerTile + 1) / kernels::kIvfQueriesPerTile + 1;
		const size_t most = std::min<size_t>(careful ? kCarefulQueries : kMostQueries,
			std::max<uint64_t>(kernels::kIvfQueriesPerTile, (uint64_t{1} << 30) / most_tiles));

		for (const uint32_t number : numbers)
		{
			const uint32_t k = std::max(max_k, static_cast<uint32_t>(queries_[number].k));
			const uint32_t n_probes = most_probes_[number];
			const uint32_t n_candidates = most_candidates_[number];
			const size_t in_each = query_in_bytes();

			if (n_probes > max_probes || k > max_k || n_candidates > max_candidates)
			{
				max_probes = std::max(max_probes, n_probes);
				max_candidates = std::max(max_candidates, n_candidates);
				each = query_bytes(max_probes, max_candidates, k, careful);
			}

			if (n > 0 &&
				(n == most || n_probes / kProbesRatio > least_probes ||
					(n + 1) * in_each + 8192 > context_->pinned_in.bytes() ||
					(n + 1) * (k * sizeof(Entry) + 16) + 8192 > context_->pinned_out.bytes() || (n + 1) * each > room))
				break;
			max_k = k;
			n++;
		}
		return n;
	}

	/// careful: in windows of places, so that there is always room.
	Status search_all(std::span<const uint32_t> numbers, bool careful)
	{
		while (!numbers.empty())
		{
			const size_t n = chunk_size(numbers, careful);
			Chunk chunk;

			if (is_stopped(control_))
				return stopped();
			arena_.release(0);
			VECTORGPU_TRY(send_queries(numbers.first(n), &chunk));
			for (size_t s = 0; s < sources_.size(); s++)
			{
				const size_t mark = arena_.mark();

				VECTORGPU_TRY(search_source(s, chunk, careful));
				arena_.release(mark); // the stream uses the pieces in order
			}
			VECTORGPU_TRY(read_results(chunk));
			numbers = numbers.subspan(n);
		}
		return Status::ok();
	}

	/// One copy to the device: all pieces lie in both places alike.
	Status send_queries(std::span<const uint32_t> numbers, Chunk *chunk)
	{
		const size_t n = numbers.size();
		Arena host(context_->pinned_in.as<uint8_t>(), context_->pinned_in.bytes());
		uint8_t *h_vectors = host.take<uint8_t>(n * shape_.query_bytes);
		uint32_t *h_k = host.take<uint32_t>(n);
		Entry *h_after = host.take<Entry>(n);
		uint8_t *h_has_after = host.take<uint8_t>(n);
		uint32_t *h_probes = host.take<uint32_t>(sources_.size() * n);
		uint32_t *h_candidates = host.take<uint32_t>(sources_.size() * n);
		uint8_t *h_bytes = host.take<uint8_t>(byte_rows_ ? n * shape_.dim_pad : 0);
		int32_t *h_norms = host.take<int32_t>(n);
		uint32_t *h_counts = host.take<uint32_t>(n);
		uint32_t *h_scored = host.take<uint32_t>(n);
		uint8_t *h_redo = host.take<uint8_t>(n);
		uint8_t *d_vectors = arena_.take<uint8_t>(n * shape_.query_bytes);
		uint32_t *d_k = arena_.take<uint32_t>(n);
		Entry *d_after = arena_.take<Entry>(n);
		uint8_t *d_has_after = arena_.take<uint8_t>(n);

		chunk->probes = arena_.take<uint32_t>(sources_.size() * n);
		chunk->candidates = arena_.take<uint32_t>(sources_.size() * n);
		chunk->byte_queries = arena_.take<uint8_t>(byte_rows_ ? n * shape_.dim_pad : 0);
		chunk->byte_norms = arena_.take<int32_t>(n);
		chunk->best.counts = arena_.take<uint32_t>(n);
		chunk->n_scored = arena_.take<uint32_t>(n);
		chunk->redo = arena_.take<uint8_t>(n);
		if (arena_.failed() || host.failed())
			return too_small();
		chunk->n_pairs.assign(sources_.size(), 0);
		chunk->max_probes.assign(sources_.size(), 1);
		chunk->max_candidates.assign(sources_.size(), 1);
		std::memset(h_counts, 0, n * sizeof(uint32_t));
		std::memset(h_scored, 0, n * sizeof(uint32_t));
		std::memset(h_redo, 0, n);

		for (size_t i = 0; i < n; i++)
		{
			const SearchQuery &query = queries_[numbers[i]];

			h_k[i] = static_cast<uint32_t>(query.k);
			h_has_after[i] = query.has_after;
			h_after[i] = {kernels::score_to_key(query.after.score), query.after.row};
			chunk->any_after |= query.has_after;
			chunk->max_k = std::max(chunk->max_k, h_k[i]);
			for (size_t s = 0; s < sources_.size(); s++)
			{
				const uint32_t n_probes = probes(numbers[i], *sources_[s]);

				h_probes[s * n + i] = n_probes;
				chunk->n_pairs[s] += n_probes;
				chunk->max_probes[s] = std::max(chunk->max_probes[s], n_probes);
				if (by_codes_[s])
				{
					const uint32_t n_candidates = candidates(numbers[i], *sources_[s]);

					h_candidates[s * n + i] = n_candidates;
					chunk->max_candidates[s] = std::max(chunk->max_candidates[s], n_candidates);
				}
			}
		}

		const bool all_bytes =
			stage_queries(spec_, shape_, queries_, numbers, h_vectors, byte_rows_ ? h_bytes : nullptr, h_norms);
		const size_t result_bytes =
			(n * chunk->max_k * sizeof(Entry) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
		size_t sent_bytes = host.mark();

		// Whole arrays of results are read back, so places that no result fills are zeros, few of them from here.
		chunk->best.stride = chunk->max_k;
		chunk->best.entries = arena_.take<Entry>(n * chunk->max_k);
		if (arena_.failed())
			return too_small();
		if (Entry *h_entries =
				result_bytes <= kernels::kMostCopiedByKernel ? host.take<Entry>(n * chunk->max_k) : nullptr;
			h_entries != nullptr)
		{
			std::memset(h_entries, 0, result_bytes);
			sent_bytes = host.mark();
		}
		else
			VECTORGPU_TRY(check(cudaMemsetAsync(chunk->best.entries, 0, result_bytes, stream_), "clear results"));
		VECTORGPU_TRY(
			check(cudaMemcpyAsync(d_vectors, h_vectors, sent_bytes, cudaMemcpyHostToDevice, stream_), "send queries"));
		if (!all_bytes)
			chunk->byte_queries = nullptr;
		chunk->numbers = numbers;
		chunk->queries.vectors = d_vectors;
		chunk->queries.k = d_k;
		chunk->queries.after = chunk->any_after ? d_after : nullptr;
		chunk->queries.has_after = d_has_after;
		chunk->queries.n_queries = static_cast<uint32_t>(n);
		chunk->queries.dim_pad = shape_.dim_pad;
		return Status::ok();
	}

	Status search_source(size_t s, const Chunk &chunk, bool careful)
	{
		const Source &source = *sources_[s];
		const size_t n = chunk.queries.n_queries;
		kernels::IvfScanArgs scan;

		scan.thresholds = arena_.take<uint64_t>(n);
		VECTORGPU_TRY(rank_lists(s, chunk, &scan.probes));
		if (by_codes_[s])
			return scan_codes(s, chunk, scan.probes);
		scan.metric = spec_.metric;
		scan.rows = source.rows();
		scan.queries = chunk.queries;
		scan.n_groups = n_groups(chunk.max_k);
		scan.end_place = source.n_rows;
		scan.best = chunk.best;
		if (arena_.failed())
			return too_small();
		if (careful)
			return scan_in_windows(source, chunk, &scan);

		VECTORGPU_TRY(take_candidates(n, capacity(source, chunk.max_k), &scan.candidates));
		if (scan.n_groups <= (n >= kManyQueries ? kernels::kIvfMostSampled : kFewGroups))
			VECTORGPU_TRY(check(kernels::launch_ivf_thresholds(scan, stream_), "find thresholds"));
		else
		{
			VECTORGPU_TRY(sample(n, &scan));
			VECTORGPU_TRY(find_thresholds(chunk, scan));
		}

		const bool bytes = chunk.byte_queries != nullptr && n >= kLeastByteQueries &&
			kernels::ivf_bytes_are_exact(spec_.metric, source.block->form, shape_.dim_pad);

		if (!bytes && static_cast<double>(chunk.n_pairs[s]) < kLeastQueriesPerList * source.lists->n_lists())
			VECTORGPU_TRY(check(kernels::launch_ivf_scan_queries(scan, stream_), "scan lists"));
		else
			VECTORGPU_TRY(scan_list_by_list(source, chunk, bytes, &scan));
		return merge(chunk, scan, chunk.redo);
	}

	/// The candidates of codes.
	Status scan_codes(size_t s, const Chunk &chunk, const kernels::IvfProbes &ranked)
	{
		CodedRequest request;

		request.metric = spec_.metric;
		request.source = sources_[s];
		request.queries = chunk.queries;
		request.probes = ranked;
		request.candidates = chunk.candidates + s * chunk.queries.n_queries;
		request.most_candidates = chunk.max_candidates[s];
		request.n_pairs = chunk.n_pairs[s];
		request.best = chunk.best;
		request.max_k = chunk.max_k;
		request.n_scored = sources_[s]->lists->with_vectors ? chunk.n_scored : nullptr;
		return search_codes(device_, context_->stream, &arena_, request, control_);
	}

	/// probes->ranked: the first lists of each query. Scratch is given back.
	Status rank_lists(size_t s, const Chunk &chunk, kernels::IvfProbes *probes)
	{
		const DeviceLists &lists = *sources_[s]->lists;
		const size_t n = chunk.queries.n_queries;
		kernels::Best ranked;
		kernels::ScoreArgs score;

		ranked.stride = chunk.max_probes[s];
		ranked.entries = arena_.take<Entry>(n * ranked.stride);
		ranked.counts = arena_.take<uint32_t>(n);
		probes->offsets = lists.offsets.as<uint64_t>();
		probes->n_lists = lists.n_lists();
		probes->ranked = ranked.entries;
		probes->counts = chunk.probes + s * n;
		probes->stride = ranked.stride;

		const size_t mark = arena_.mark();

		score.metric = spec_.metric;
		score.rows = lists.rows_of_centroids();
		score.queries = chunk.queries;
		score.queries.k = probes->counts;
		score.queries.after = nullptr;
		score.keys = arena_.take<uint64_t>(n * lists.n_lists());
		score.key_stride = lists.n_lists();
		score.group_rows = std::max(32u, (lists.n_lists() / kernels::kMaxGroups + 31) / 32 * 32);
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(check(kernels::launch_scores(score, stream_), "score centroids"));
		if (ranked.stride > kernels::kMaxSelectK)
			VECTORGPU_TRY(sort_lists(lists, score, ranked));
		else
			VECTORGPU_TRY(check(kernels::launch_select_keys(score.queries, score.keys, score.key_stride,
									lists.n_lists(), ranked, ranked.stride, stream_),
				"rank lists"));
		arena_.release(mark);
		return Status::ok();
	}

	/// More lists than the selection gives: all of them in order.
	Status sort_lists(const DeviceLists &lists, const kernels::ScoreArgs &score, const kernels::Best &ranked)
	{
		const uint32_t n_lists = lists.n_lists();
		uint64_t *ids = lists.list_ids.as<uint64_t>();
		size_t temp_bytes = 0;

		VECTORGPU_TRY(check(
			kernels::sort_entries(nullptr, &temp_bytes, nullptr, nullptr, nullptr, nullptr, n_lists, true, stream_),
			"ask for the room of a sort"));

		uint64_t *sorted_keys = arena_.take<uint64_t>(n_lists);
		uint64_t *sorted_lists = arena_.take<uint64_t>(n_lists);
		uint8_t *temp = arena_.take<uint8_t>(temp_bytes);

		if (arena_.failed())
			return too_small();
		for (size_t q = 0; q < score.queries.n_queries; q++)
		{
			VECTORGPU_TRY(check(kernels::sort_entries(temp, &temp_bytes, score.keys + q * score.key_stride, ids,
									sorted_keys, sorted_lists, n_lists, true, stream_),
				"sort lists"));
			VECTORGPU_TRY(check(kernels::launch_zip(sorted_keys, sorted_lists, ranked.stride,
									ranked.entries + q * ranked.stride, stream_),
				"rank lists"));
		}
		return Status::ok();
	}

	/// The smallest keys of groups of rows; for find_thresholds.
	Status sample(size_t n, kernels::IvfScanArgs *scan)
	{
		scan->minima = arena_.take<uint64_t>(n * kernels::kMaxGroups);
		if (arena_.failed())
			return too_small();
		return check(kernels::launch_ivf_minima(*scan, stream_), "sample lists");
	}

	Status find_thresholds(const Chunk &chunk, const kernels::IvfScanArgs &scan)
	{
		return check(kernels::launch_thresholds(chunk.queries, scan.minima, scan.n_groups, chunk.best, scan.thresholds,
						 scan.candidates.counts, stream_),
			"find thresholds");
	}

	Status take_candidates(size_t n, uint32_t room, kernels::Candidates *candidates)
	{
		candidates->capacity = room;
		candidates->keys = arena_.take<uint64_t>(n * room);
		candidates->rows = arena_.take<uint32_t>(n * room);
		candidates->counts = arena_.take<uint32_t>(n);
		return arena_.failed() ? too_small() : Status::ok();
	}

	Status scan_list_by_list(const Source &source, const Chunk &chunk, bool bytes, kernels::IvfScanArgs *scan)
	{
		const size_t n_lists = source.lists->n_lists();

		scan->plan.counts = arena_.take<uint32_t>(n_lists);
		scan->plan.firsts = arena_.take<uint32_t>(n_lists + 1);
		scan->plan.cursors = arena_.take<uint32_t>(n_lists);
		scan->plan.tile_firsts = arena_.take<uint32_t>(n_lists + 1);
		scan->plan.next_tile = arena_.take<uint32_t>(1);
		scan->plan.queries = arena_.take<uint32_t>(size_t{chunk.queries.n_queries} * scan->probes.stride);
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(
			check(cudaMemsetAsync(scan->plan.counts, 0, n_lists * sizeof(uint32_t), stream_), "clear counts"));
		if (bytes)
			scan->plan.queries_per_tile = kernels::kIvfByteQueriesPerTile;
		VECTORGPU_TRY(check(kernels::launch_ivf_plan(scan->probes, chunk.queries.n_queries, scan->plan, stream_),
			"sort queries by lists"));
		if (bytes)
		{
			scan->byte_queries = chunk.byte_queries;
			scan->byte_norms = chunk.byte_norms;
			scan->row_values = source.block->values.as<float>() + source.first;
			return check(kernels::launch_ivf_scan_bytes(*scan, stream_), "scan lists of bytes");
		}
		return check(kernels::launch_ivf_scan_lists(*scan, stream_), "scan lists");
	}

	Status merge(const Chunk &chunk, const kernels::IvfScanArgs &scan, uint8_t *redo)
	{
		return check(kernels::launch_merge(
						 chunk.queries, scan.candidates, scan.rows.row_ids, chunk.best, chunk.max_k, stream_, redo),
			"merge");
	}

	/// Each window has room for all of its rows.
	Status scan_in_windows(const Source &source, const Chunk &chunk, kernels::IvfScanArgs *scan)
	{
		constexpr size_t kEach = sizeof(uint64_t) + sizeof(uint32_t);
		const size_t n = chunk.queries.n_queries;

		VECTORGPU_TRY(sample(n, scan));

		const size_t room = arena_.left() > 16 * kArenaAlignment ? arena_.left() - 16 * kArenaAlignment : 0;
		const uint32_t window = static_cast<uint32_t>(std::min<size_t>(source.n_rows, room / n / kEach));

		if (window == 0)
			return too_small();
		VECTORGPU_TRY(take_candidates(n, window, &scan->candidates));
		for (uint64_t first = 0; first < source.n_rows; first += window)
		{
			if (is_stopped(control_))
				return stopped();
			scan->first_place = static_cast<uint32_t>(first);
			scan->end_place = static_cast<uint32_t>(std::min<uint64_t>(source.n_rows, first + window));
			VECTORGPU_TRY(find_thresholds(chunk, *scan));
			VECTORGPU_TRY(check(kernels::launch_ivf_scan_queries(*scan, stream_), "scan lists"));
			VECTORGPU_TRY(merge(chunk, *scan, nullptr));
		}
		return Status::ok();
	}

	Status read_results(const Chunk &chunk)
	{
		const size_t n = chunk.queries.n_queries;
		Arena host(context_->pinned_out.as<uint8_t>(), context_->pinned_out.bytes());
		uint32_t *counts = host.take<uint32_t>(n);
		uint32_t *n_scored = host.take<uint32_t>(n);
		uint8_t *redo = host.take<uint8_t>(n);
		Entry *entries = host.take<Entry>(n * chunk.best.stride);

		if (host.failed())
			return too_small();
		// All lie in both places alike.
		VECTORGPU_TRY(check(
			cudaMemcpyAsync(counts, chunk.best.counts, host.mark(), cudaMemcpyDeviceToHost, stream_), "read results"));
		VECTORGPU_TRY(context_->stream.synchronize());
		if (control_ != nullptr)
			control_->progress.fetch_add(1, std::memory_order_relaxed);
		for (size_t i = 0; i < n; i++)
			if (redo[i] != 0)
				redo_.push_back(chunk.numbers[i]); // and is counted then
			else
				counts_->n_rescored += n_scored[i];
		take_results(chunk.numbers, counts, entries, chunk.best.stride, redo, results_);
		return Status::ok();
	}

	const Device *device_;
	SearchContext *context_;
	cudaStream_t stream_;
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	std::vector<const Source *> sources_;
	std::span<const SearchQuery> queries_;
	std::vector<std::vector<Neighbor>> *results_;
	SearchCounts *counts_;
	engine::SearchControl *control_;
	Arena arena_;
	bool byte_rows_ = false;                // some source's rows are scanned as bytes
	std::vector<bool> by_codes_;            // [n_sources]: codes choose the rows
	std::vector<uint32_t> most_probes_;     // [queries]
	std::vector<uint32_t> most_candidates_; // [queries]
	std::vector<uint32_t> redo_;
};

} // namespace

Status
search_segments(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const std::vector<const Source *> &sources, std::span<const SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control)
{
	ListSearch search(device, context, spec, shape, sources, queries, results, counts, control);
	std::vector<uint32_t> redo;
	bool taken = false;

	VECTORGPU_TRY(search_few(device, context, spec, shape, sources, queries, options, results, counts, &redo, &taken));
	if (!taken)
		return search.run();
	if (control != nullptr)
		control->progress.fetch_add(1, std::memory_order_relaxed);
	return search.run_carefully(std::move(redo));
}

} // namespace vectorgpu::cuda

// See search.hpp. A batch is cut into chunks that fit the workspace and the pinned buffers. Each chunk goes over the
// sources (segments, blocks of the delta) one after another; what a query has found so far (Best) stays on the device
// and sharpens the thresholds of the sources to come. Ways over a source:
//   bounded canonical scores of all rows of a small source, those kept that are not behind what was found before ->
//   merge direct  canonical scores of all rows, minima of groups of rows -> threshold -> the few rows below it -> merge
//   filter  tensor-core estimates of a sample -> threshold -> of all rows, keeping those below it -> rescore -> merge
//   bins    tensor-core estimates of all rows, keeping the smallest of each bin -> rescore the k first -> merge
//   (PartialReduce)
// Queries that the filter cannot take (and those it could not finish) are answered again by the direct way.
// k beyond kMaxSelectK is answered by sorting all scores, or in slices where the workspace is too small for that.
#include "cuda/search/search.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "cuda/search/answers.hpp"
#include "cuda/device/arena.hpp"
#include "cuda/search/filter_plan.hpp"
#include "cuda/search/one_pass.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/partial_reduce.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/one_pass.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;
using kernels::Entry;

uint32_t
rows_per_group(uint32_t n_rows)
{
	const uint32_t least = (n_rows + kernels::kMaxGroups - 1) / kernels::kMaxGroups;

	return std::max(32u, (least + 31) / 32 * 32);
}

Status
too_small()
{
	return Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search");
}

class Search
{
public:
	Search(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
		const Snapshot &snapshot, std::span<const SearchQuery> queries, const SearchOptions &options,
		std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control)
		: device_(device), context_(context), stream_(context->stream.get()), spec_(spec), shape_(shape),
		  snapshot_(snapshot), queries_(queries), options_(options), results_(results), counts_(counts),
		  control_(control), arena_(context->workspace.get(), context->workspace.bytes()),
		  new_rows_(options.lane, context->stream.get())
	{
	}

	Status run()
	{
		std::map<uint32_t, std::vector<uint32_t>> by_bins; // 0: exact

		results_->resize(queries_.size());
		for (std::vector<Neighbor> &result : *results_)
			result.clear(); // and its room stays: large answers would ask the system for theirs each time
		for (uint32_t i = 0; i < queries_.size(); i++)
		{
			const uint64_t k = std::min<uint64_t>(queries_[i].k, snapshot_.n_rows);

			if (k == 0)
				continue;
			if (k <= kernels::kMaxSelectK)
				by_bins[bins_of(queries_[i], k)].push_back(i);
			else
				VECTORGPU_TRY(search_large(i, k));
		}
		for (const auto &[n_bins, numbers] : by_bins)
		{
			bool taken = false;

			if (n_bins == 0 && !is_stopped(control_))
				VECTORGPU_TRY(search_one_pass(device_, context_, spec_, shape_, snapshot_, queries_, numbers, options_,
					results_, counts_, &redo_, &taken));
			if (taken)
				progress();
			else
				VECTORGPU_TRY(search_all(numbers, true, n_bins));
		}

		const std::vector<uint32_t> redo = std::move(redo_);

		counts_->n_redone += redo.size();
		return search_all(redo, false, 0);
	}

private:
	/// The queries of a chunk on the device.
	struct Chunk
	{
		std::span<const uint32_t> numbers; // of queries_
		kernels::Queries queries;
		kernels::Best best;
		kernels::FilterQueries prepared;
		std::array<void *, 4> operands{}; // by form; null: not yet made
		float *thresholds = nullptr;
		uint64_t *n_rescored = nullptr;
		uint32_t *n_bounded = nullptr; // [queries] candidates of a bounded scan; 0 between two of them
		kernels::Answers answers;      // that the last kernel of the chunk is to give; none: the results are copied
		uint32_t max_k = 0;
		bool any_after = false;
	};

	/// Bins of PartialReduce for a query; 0: it is answered exactly. It does not depend on the rest of the batch.
	uint32_t bins_of(const SearchQuery &query, uint64_t k) const
	{
		if (!options_.bins || !(query.recall_target > 0 && query.recall_target < 1) || query.has_after)
			return 0;
		return static_cast<uint32_t>(std::min<uint64_t>(engine::partial_reduce_bins(k, query.recall_target), 1u << 30));
	}

	uint32_t k_of(uint32_t number) const
	{
		return static_cast<uint32_t>(std::min<uint64_t>(queries_[number].k, snapshot_.n_rows));
	}

	void progress()
	{
		if (control_ != nullptr)
			control_->progress.fetch_add(1, std::memory_order_relaxed);
	}

	Status check(cudaError_t error, const char *what) const { return device_->check(error, what); }

	Status to_device(void *to, const void *from, size_t bytes)
	{
		if (bytes <= kernels::kMostCopiedByKernel)
			return check(kernels::launch_copy(to, from, bytes, stream_), "send queries");
		return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "send queries");
	}

	Status to_host(void *to, const void *from, size_t bytes)
	{
		if (bytes <= kernels::kMostCopiedByKernel)
			return check(kernels::launch_copy(to, from, bytes, stream_), "read results");
		return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "read results");
	}

	/// n_bins: of PartialReduce, the same for all; 0: exact.
	Status search_all(std::span<const uint32_t> numbers, bool may_filter, uint32_t n_bins)
	{
		while (!numbers.empty())
		{
			if (is_stopped(control_))
				return stopped();

			const size_t n = chunk_size(numbers, may_filter, n_bins);

			VECTORGPU_TRY(search_chunk(numbers.first(n), may_filter, n_bins));
			numbers = numbers.subspan(n);
		}
		return Status::ok();
	}

	/// How many of the queries fit the buffers together, and no more after a stop has been asked for than that.
	size_t chunk_size(std::span<const uint32_t> numbers, bool may_filter, uint32_t n_bins) const
	{
		constexpr size_t kMostQueries = 16384;
		const size_t in_each = shape_.query_bytes + 64;
		const size_t operands = may_filter ? operands_bytes(snapshot_.sources, shape_) : 0;
		size_t max_k = 1;
		size_t n = 0;

		for (const uint32_t number : numbers)
		{
			const size_t k = std::max<size_t>(max_k, k_of(number));
			const size_t out_each = k * sizeof(Entry) + 16;
			size_t scratch_each = 0;
			uint64_t n_before = 0;

			for (const Source &source : snapshot_.sources)
			{
				if (may_filter)
					scratch_each = std::max(scratch_each,
						source_bytes(device_, source, shape_, n_before, static_cast<uint32_t>(n + 1),
							static_cast<uint32_t>(k), n_bins));
				n_before += source.n_rows;
			}

			const size_t device_each = in_each + out_each + 64 + operands + scratch_each;

			// A quarter of the workspace is kept for the direct way.
			if (n > 0 &&
				(n == kMostQueries || (n + 1) * in_each + 4096 > context_->pinned_in.bytes() ||
					(n + 1) * out_each + 4096 > context_->pinned_out.bytes() ||
					(n + 1) * device_each + 65536 > context_->workspace.bytes() / 4 * 3))
				break;
			max_k = k;
			n++;
		}
		return n;
	}

	bool wants_filter(const Source &source, uint64_t n_before, const Chunk &chunk) const
	{
		const kernels::Form form = source.block->form;
		const uint32_t least =
			options_.filter_min_queries != 0 ? options_.filter_min_queries : kernels::filter_min_queries(form);

		return !chunk.any_after && chunk.queries.n_queries >= least &&
			filter_pays(source, n_before, chunk.queries.n_queries, chunk.max_k);
	}

	/// The chunk's queries as the products of this form take them, made once for all sources of the form.
	Status prepare_operand(kernels::Form form, Chunk *chunk)
	{
		void *&operand = chunk->operands[static_cast<size_t>(form)];

		if (operand == nullptr)
		{
			operand =
				arena_.take<uint8_t>(chunk->queries.n_queries * kernels::filter_operand_bytes(form, shape_.dim_pad));
			if (arena_.failed())
				return too_small();
			chunk->prepared.operand = operand;
			return check(kernels::launch_prepare_queries(spec_.metric, form, chunk->queries, chunk->prepared, stream_),
				"prepare queries");
		}
		chunk->prepared.operand = operand;
		return Status::ok();
	}

	Status search_chunk(std::span<const uint32_t> numbers, bool may_filter, uint32_t n_bins)
	{
		Chunk chunk;

		arena_.release(0);
		VECTORGPU_TRY(send_queries(numbers, &chunk));

		uint64_t n_before = 0;

		for (const Source &source : snapshot_.sources)
		{
			VECTORGPU_TRY(new_rows_.await(source.ticket));

			const bool bins = may_filter && !chunk.any_after && bins_fit(source, n_bins); // first: whatever the batch
			const bool bounded =
				may_filter && !bins && bounded_scan_pays(source, shape_, n_before, chunk.queries.n_queries);
			const bool filter = may_filter && !bounded && !bins && wants_filter(source, n_before, chunk);

			if (bins || filter)
				VECTORGPU_TRY(prepare_operand(source.block->form, &chunk));

			const size_t mark = arena_.mark();

			if (bounded)
				VECTORGPU_TRY(search_bounded(source, chunk));
			else if (bins)
				VECTORGPU_TRY(search_bins(source, &chunk, n_bins));
			else if (filter)
				VECTORGPU_TRY(search_filter(source, n_before, &chunk));
			else
				VECTORGPU_TRY(search_direct(source, chunk));
			arena_.release(mark); // the stream uses the pieces in order
			n_before += source.n_rows;
			progress();
		}
		return read_results(chunk);
	}

	/// One copy to the device: vectors, k, after, has_after and zeros lie in both places alike.
	Status send_queries(std::span<const uint32_t> numbers, Chunk *chunk)
	{
		const size_t n = numbers.size();
		Arena host(context_->pinned_in.as<uint8_t>(), context_->pinned_in.bytes());
		const size_t first = arena_.mark();
		uint8_t *h_vectors = host.take<uint8_t>(n * shape_.query_bytes);
		uint32_t *h_k = host.take<uint32_t>(n);
		Entry *h_after = host.take<Entry>(n);
		uint8_t *h_has_after = host.take<uint8_t>(n);
		const size_t h_zero = host.mark(); // of what follows the queries: n_best, redo, n_rescored, n_bounded

		host.take<uint32_t>(n);
		host.take<uint8_t>(n);
		host.take<uint64_t>(1);
		host.take<uint32_t>(n);

		uint8_t *d_vectors = arena_.take<uint8_t>(n * shape_.query_bytes);
		uint32_t *d_k = arena_.take<uint32_t>(n);
		Entry *d_after = arena_.take<Entry>(n);
		uint8_t *d_has_after = arena_.take<uint8_t>(n);

		chunk->best.counts = arena_.take<uint32_t>(n);
		chunk->prepared.redo = arena_.take<uint8_t>(n);
		chunk->n_rescored = arena_.take<uint64_t>(1);
		chunk->n_bounded = arena_.take<uint32_t>(n);

		const size_t sent = arena_.mark() - first;

		if (arena_.failed() || host.failed())
			return too_small();
		for (size_t i = 0; i < n; i++)
		{
			const SearchQuery &query = queries_[numbers[i]];

			h_k[i] = k_of(numbers[i]);
			h_has_after[i] = query.has_after;
			h_after[i] = {kernels::score_to_key(query.after.score), query.after.row};
			chunk->any_after |= query.has_after;
			chunk->max_k = std::max(chunk->max_k, h_k[i]);
		}
		(void) stage_queries(spec_, shape_, queries_, numbers, h_vectors, nullptr, nullptr);
		std::memset(context_->pinned_in.as<uint8_t>() + h_zero, 0, host.mark() - h_zero);
		VECTORGPU_TRY(to_device(d_vectors, h_vectors, sent));

		chunk->numbers = numbers;
		chunk->queries.vectors = d_vectors;
		chunk->queries.k = d_k;
		chunk->queries.after = chunk->any_after ? d_after : nullptr;
		chunk->queries.has_after = d_has_after;
		chunk->queries.n_queries = static_cast<uint32_t>(n);
		chunk->queries.dim_pad = shape_.dim_pad;

		chunk->best.stride = chunk->max_k;
		chunk->best.entries = arena_.take<Entry>(n * chunk->max_k);
		chunk->prepared.norms = arena_.take<double>(n);
		chunk->thresholds = arena_.take<float>(n);
		return arena_.failed() ? too_small() : Status::ok();
	}

	/// What the passes over a source share: room for candidates, arguments. Room in the arena is checked.
	struct Passes
	{
		kernels::FilterArgs filter;
		kernels::FilterSelect select;
		kernels::RescoreArgs rescore;
	};

	Status begin_passes(const Source &source, uint32_t capacity, Chunk *chunk, Passes *passes)
	{
		const kernels::Rows rows = source.rows();
		const size_t n = chunk->queries.n_queries;
		kernels::Candidates candidates;

		candidates.capacity = capacity;
		candidates.keys = arena_.take<uint64_t>(n * capacity);
		candidates.rows = arena_.take<uint32_t>(n * capacity);
		candidates.estimates = arena_.take<float>(n * capacity);
		candidates.counts = arena_.take<uint32_t>(n);
		if (arena_.failed())
			return too_small();

		passes->filter.metric = spec_.metric;
		passes->filter.rows = rows;
		passes->filter.row_values = source.block->values.as<float>() + source.first;
		passes->filter.operand = chunk->prepared.operand;
		passes->filter.n_queries = chunk->queries.n_queries;
		passes->filter.dim_pad = shape_.dim_pad;
		passes->filter.thresholds = chunk->thresholds;
		passes->filter.candidates = candidates;

		passes->select.bound = kernels::filter_bound(spec_.metric, rows.form, spec_.dim, source.max_norm);
		passes->select.queries = chunk->queries;
		passes->select.prepared = chunk->prepared;
		passes->select.best = chunk->best;
		passes->select.thresholds = chunk->thresholds;
		passes->select.candidates = candidates;
		passes->select.n_rescored = chunk->n_rescored;

		passes->rescore.metric = spec_.metric;
		passes->rescore.rows = rows;
		passes->rescore.queries = chunk->queries;
		passes->rescore.candidates = candidates;
		return Status::ok();
	}

	/// Cuts the candidates back, rescores them, and merges.
	Status end_passes(Passes *passes, Chunk *chunk)
	{
		passes->select.last = true;
		if (chunk->max_k <= kernels::kFinishMostK)
		{
			// Of one source its end is the search's, and the candidates counted there are all.
			if (snapshot_.sources.size() == 1)
				chunk->answers = begin_answers(context_, chunk->queries.n_queries, chunk->max_k);
			return check(kernels::launch_finish(passes->select, passes->rescore, stream_, chunk->answers),
				"rescore and merge rows");
		}
		VECTORGPU_TRY(check(kernels::launch_filter_tighten(passes->select, stream_), "tighten thresholds"));
		VECTORGPU_TRY(check(kernels::launch_rescore(passes->rescore, stream_), "rescore rows"));
		return check(kernels::launch_merge(chunk->queries, passes->rescore.candidates, passes->rescore.rows.row_ids,
						 chunk->best, chunk->max_k, stream_),
			"merge");
	}

	Status search_filter(const Source &source, uint64_t n_before, Chunk *chunk)
	{
		const FilterPlan plan = plan_filter(source, n_before, chunk->queries.n_queries, chunk->max_k);
		float *minima = arena_.take<float>(static_cast<size_t>(chunk->queries.n_queries) * plan.n_minima);
		Passes passes;

		VECTORGPU_TRY(begin_passes(source, plan.capacity, chunk, &passes));

		kernels::FilterArgs &filter = passes.filter;

		filter.n_tiles = plan.n_sampled;
		filter.tile_stride = plan.stride;
		filter.minima = minima;
		filter.minima_stride = plan.n_minima;
		passes.select.minima = minima;
		passes.select.n_minima = plan.n_minima;
		if (plan.n_sampled > 0)
			VECTORGPU_TRY(check(kernels::launch_filter_minima(filter, stream_), "sample rows"));
		VECTORGPU_TRY(check(kernels::launch_filter_thresholds(passes.select, stream_), "find thresholds"));
		filter.tile_stride = 1;
		for (uint32_t first = 0, end = plan.n_first; first < plan.n_tiles;
			first = end, end = std::min(plan.n_tiles, end * kernels::kStageGrowth))
		{
			filter.first_tile = first;
			filter.n_tiles = end - first;
			VECTORGPU_TRY(check(kernels::launch_filter_candidates(filter, stream_), "filter rows"));
			passes.select.last = end == plan.n_tiles;
			if (!passes.select.last)
				VECTORGPU_TRY(check(kernels::launch_filter_tighten(passes.select, stream_), "tighten thresholds"));
		}
		return end_passes(&passes, chunk);
	}

	/// PartialReduce: one pass, the nearest row of each bin, of which the k first are rescored.
	Status search_bins(const Source &source, Chunk *chunk, uint32_t n_bins)
	{
		const size_t n = chunk->queries.n_queries;
		BinsPlan plan;
		Passes passes;

		VECTORGPU_TRY(plan_bins(device_, source, shape_, chunk->queries.n_queries, n_bins, &plan));
		if (plan.form.key_tile_bits > 0)
			passes.filter.bin_keys = arena_.take<int32_t>(n * plan.n_places);
		else
		{
			passes.filter.bin_estimates = arena_.take<float>(n * plan.n_places);
			passes.filter.bin_rows = arena_.take<uint32_t>(n * plan.n_places);
		}
		VECTORGPU_TRY(begin_passes(source, n_bins, chunk, &passes));
		passes.filter.n_tiles = plan.n_tiles;
		passes.filter.n_stripes = plan.form.n_stripes;
		passes.filter.key_tile_bits = plan.form.key_tile_bits;
		VECTORGPU_TRY(check(kernels::launch_filter_bins(passes.filter, stream_), "reduce rows to bins"));
		VECTORGPU_TRY(
			check(kernels::launch_collect_bins(passes.select, passes.filter, n_bins, stream_), "collect bins"));
		return end_passes(&passes, chunk);
	}

	/// A source that is small beside those before it.
	Status search_bounded(const Source &source, const Chunk &chunk)
	{
		const size_t n = chunk.queries.n_queries;
		kernels::BoundedScanArgs scan;

		scan.metric = spec_.metric;
		scan.rows = source.rows();
		scan.queries = chunk.queries;
		scan.best = chunk.best;
		scan.candidates.capacity = source.n_rows;
		scan.candidates.keys = arena_.take<uint64_t>(n * source.n_rows);
		scan.candidates.rows = arena_.take<uint32_t>(n * source.n_rows);
		scan.candidates.counts = chunk.n_bounded;
		if (arena_.failed())
			return too_small();
		return check(kernels::launch_bounded_scan(scan, chunk.max_k, stream_), "scan rows behind others");
	}

	/// Queries [first, first + n) of a chunk.
	static void cut(const Chunk &chunk, uint32_t first, uint32_t n, const Shape &shape, kernels::Queries *queries,
		kernels::Best *best)
	{
		*queries = chunk.queries;
		*best = chunk.best;
		queries->vectors =
			static_cast<const uint8_t *>(queries->vectors) + static_cast<size_t>(first) * shape.query_bytes;
		queries->k += first;
		if (queries->after != nullptr)
			queries->after += first;
		queries->has_after += first;
		queries->n_queries = n;
		best->entries += static_cast<size_t>(first) * best->stride;
		best->counts += first;
	}

	Status search_direct(const Source &source, const Chunk &chunk)
	{
		constexpr size_t kEachRow = 2 * sizeof(uint64_t) + sizeof(uint32_t);       // key; candidate's key and row
		constexpr size_t kEachQuery = kernels::kMaxGroups * sizeof(uint64_t) + 64; // minima, threshold, count
		constexpr uint32_t kPass = 8;                                              // queries of a pass over the rows
		const uint32_t n = chunk.queries.n_queries;
		const size_t room = arena_.left() > 16 * kArenaAlignment ? arena_.left() - 16 * kArenaAlignment : 0;
		const size_t least_queries = std::min(n, kPass);

		if (room / least_queries <= kEachQuery + 64 * kEachRow)
			return too_small();

		const uint32_t n_range = static_cast<uint32_t>(
			std::min<size_t>(source.n_rows, (room / least_queries - kEachQuery) / kEachRow / 32 * 32));
		size_t n_at_once = std::min<size_t>(n, room / (kEachQuery + n_range * kEachRow));

		if (n_at_once > kPass)
			n_at_once = std::min<size_t>(n_at_once / kPass * kPass, 32768); // grid.y of other kernels stays small

		kernels::Candidates candidates;
		uint64_t *keys = arena_.take<uint64_t>(n_at_once * n_range);
		uint64_t *minima = arena_.take<uint64_t>(n_at_once * kernels::kMaxGroups);
		uint64_t *thresholds = arena_.take<uint64_t>(n_at_once);

		candidates.capacity = n_range;
		candidates.keys = arena_.take<uint64_t>(n_at_once * n_range);
		candidates.rows = arena_.take<uint32_t>(n_at_once * n_range);
		candidates.counts = arena_.take<uint32_t>(n_at_once);
		if (arena_.failed())
			return too_small();

		for (uint32_t first = 0; first < n; first += static_cast<uint32_t>(n_at_once))
			for (uint32_t row = 0; row < source.n_rows; row += n_range)
			{
				kernels::ScoreArgs score;
				kernels::Best best;

				cut(chunk, first, std::min(static_cast<uint32_t>(n_at_once), n - first), shape_, &score.queries, &best);
				score.metric = spec_.metric;
				score.rows = part(source.rows(), row, std::min(n_range, source.n_rows - row));
				score.keys = keys;
				score.key_stride = n_range;
				score.minima = minima;
				score.group_rows = rows_per_group(score.rows.n_rows);

				const uint32_t n_groups = (score.rows.n_rows + score.group_rows - 1) / score.group_rows;

				if (is_stopped(control_))
					return stopped();
				VECTORGPU_TRY(check(kernels::launch_scores(score, stream_), "score rows"));
				VECTORGPU_TRY(check(kernels::launch_thresholds(
										score.queries, minima, n_groups, best, thresholds, candidates.counts, stream_),
					"find thresholds"));
				VECTORGPU_TRY(check(kernels::launch_compact(score.queries, keys, n_range, score.rows.n_rows, thresholds,
										candidates, stream_),
					"collect rows"));
				VECTORGPU_TRY(check(
					kernels::launch_merge(score.queries, candidates, score.rows.row_ids, best, chunk.max_k, stream_),
					"merge"));
			}
		return Status::ok();
	}

	/// Rows [first, first + n) of a block of rows.
	static kernels::Rows part(kernels::Rows rows, uint32_t first, uint32_t n)
	{
		rows.vectors = static_cast<const uint8_t *>(rows.vectors) + static_cast<size_t>(first) * rows.pitch_bytes;
		rows.row_ids += first;
		rows.dead_start += first;
		rows.n_rows = n;
		return rows;
	}

	static Neighbor neighbor(const Entry &entry) { return {kernels::key_to_score(entry.key), entry.row}; }

	Status read_results(const Chunk &chunk)
	{
		if (chunk.answers.heads != nullptr)
		{
			VECTORGPU_TRY(end_answers(device_, context_, chunk.answers, chunk.numbers, results_, counts_, &redo_));
			new_rows_.has_run();
			progress();
			return Status::ok();
		}

		const size_t n = chunk.queries.n_queries;
		Arena host(context_->pinned_out.as<uint8_t>(), context_->pinned_out.bytes());
		uint32_t *counts = host.take<uint32_t>(n);
		uint8_t *redo = host.take<uint8_t>(n);
		uint64_t *n_rescored = host.take<uint64_t>(1);

		host.take<uint32_t>(n); // n_bounded

		const size_t head = host.mark();
		Entry *entries = host.take<Entry>(n * chunk.best.stride);

		if (host.failed())
			return too_small();
		// All lie in both places alike.
		VECTORGPU_TRY(to_host(counts, chunk.best.counts, head + n * chunk.best.stride * sizeof(Entry)));
		VECTORGPU_TRY(context_->stream.synchronize());
		new_rows_.has_run();
		progress();
		counts_->n_rescored += *n_rescored;
		for (size_t i = 0; i < n; i++)
			if (redo[i] != 0)
				redo_.push_back(chunk.numbers[i]);
		take_results(chunk.numbers, counts, entries, chunk.best.stride, redo, results_);
		return Status::ok();
	}

	/// One query with a k that the selection does not reach.
	Status search_large(uint32_t number, uint64_t k)
	{
		const uint64_t n = snapshot_.n_rows;
		size_t temp_bytes = 0;

		VECTORGPU_TRY(
			check(kernels::sort_entries(nullptr, &temp_bytes, nullptr, nullptr, nullptr, nullptr, n, false, stream_),
				"ask for the room of a sort"));
		if (4 * n * sizeof(uint64_t) + temp_bytes + shape_.query_bytes + 65536 > context_->workspace.bytes())
			return search_in_slices(number, k);

		const uint32_t numbers[] = {number};
		Chunk chunk;

		arena_.release(0);
		VECTORGPU_TRY(send_one(numbers, &chunk));

		uint64_t *keys = arena_.take<uint64_t>(n);
		uint64_t *rows = arena_.take<uint64_t>(n);
		uint64_t *sorted_keys = arena_.take<uint64_t>(n);
		uint64_t *sorted_rows = arena_.take<uint64_t>(n);
		uint8_t *temp = arena_.take<uint8_t>(temp_bytes);
		uint64_t at = 0;

		if (arena_.failed())
			return search_in_slices(number, k);
		for (const Source &source : snapshot_.sources)
		{
			kernels::ScoreArgs score;

			VECTORGPU_TRY(new_rows_.await(source.ticket));
			score.metric = spec_.metric;
			score.rows = source.rows();
			score.queries = chunk.queries;
			score.keys = keys + at;
			score.key_stride = source.n_rows;
			score.group_rows = rows_per_group(source.n_rows);
			VECTORGPU_TRY(check(kernels::launch_scores(score, stream_), "score rows"));
			VECTORGPU_TRY(check(cudaMemcpyAsync(rows + at, score.rows.row_ids, source.n_rows * sizeof(uint64_t),
									cudaMemcpyDeviceToDevice, stream_),
				"copy row ids"));
			at += source.n_rows;
		}

		const bool ascending = snapshot_.sources.size() == 1 && snapshot_.sources.front().rows_ascending;
		Entry *zipped = reinterpret_cast<Entry *>(keys); // keys and rows together, not needed after the sort

		VECTORGPU_TRY(
			check(kernels::sort_entries(temp, &temp_bytes, keys, rows, sorted_keys, sorted_rows, n, ascending, stream_),
				"sort rows"));
		VECTORGPU_TRY(check(kernels::launch_zip(sorted_keys, sorted_rows, k, zipped, stream_), "collect rows"));

		const size_t per_round = context_->pinned_out.bytes() / sizeof(Entry);
		Entry *pinned = context_->pinned_out.as<Entry>();
		std::vector<Neighbor> &result = (*results_)[number];

		result.reserve(k);
		for (uint64_t done = 0; done < k;)
		{
			const size_t here = static_cast<size_t>(std::min<uint64_t>(per_round, k - done));

			VECTORGPU_TRY(to_host(pinned, zipped + done, here * sizeof(Entry)));
			VECTORGPU_TRY(context_->stream.synchronize());
			new_rows_.has_run();
			progress();
			for (size_t i = 0; i < here; i++)
			{
				if (pinned[i].key == kernels::kExcludedKey)
					return Status::ok(); // only such follow
				result.push_back(neighbor(pinned[i]));
			}
			done += here;
		}
		return Status::ok();
	}

	/// send_queries for one query without results to keep.
	Status send_one(std::span<const uint32_t> numbers, Chunk *chunk)
	{
		Arena host(context_->pinned_in.as<uint8_t>(), context_->pinned_in.bytes());
		const SearchQuery &query = queries_[numbers[0]];
		uint8_t *h_vector = host.take<uint8_t>(shape_.query_bytes);
		Entry *h_after = host.take<Entry>(1);
		uint8_t *h_has_after = host.take<uint8_t>(1);
		uint8_t *d_vector = arena_.take<uint8_t>(shape_.query_bytes);
		Entry *d_after = arena_.take<Entry>(1);
		uint8_t *d_has_after = arena_.take<uint8_t>(1);

		if (arena_.failed() || host.failed())
			return too_small();
		put_query(spec_, shape_, query.query, h_vector);
		*h_after = {kernels::score_to_key(query.after.score), query.after.row};
		*h_has_after = query.has_after;
		VECTORGPU_TRY(to_device(d_vector, h_vector, arena_.mark()));
		chunk->queries.vectors = d_vector;
		chunk->queries.after = query.has_after ? d_after : nullptr;
		chunk->queries.has_after = d_has_after;
		chunk->queries.n_queries = 1;
		chunk->queries.dim_pad = shape_.dim_pad;
		return Status::ok();
	}

	/// kMaxSelectK results at a time, each time after the last.
	Status search_in_slices(uint32_t number, uint64_t k)
	{
		SearchQuery query = queries_[number];
		std::vector<Neighbor> &result = (*results_)[number];

		while (result.size() < k)
		{
			std::vector<std::vector<Neighbor>> slice;

			query.k = static_cast<size_t>(std::min<uint64_t>(kernels::kMaxSelectK, k - result.size()));
			VECTORGPU_TRY(search_snapshot(
				device_, context_, spec_, shape_, snapshot_, {&query, 1}, options_, &slice, counts_, control_));
			result.insert(result.end(), slice[0].begin(), slice[0].end());
			if (slice[0].size() < query.k)
				break;
			query.has_after = true;
			query.after = result.back();
		}
		return Status::ok();
	}

	const Device *device_;
	SearchContext *context_;
	cudaStream_t stream_;
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	const Snapshot &snapshot_;
	std::span<const SearchQuery> queries_;
	const SearchOptions &options_;
	std::vector<std::vector<Neighbor>> *results_;
	SearchCounts *counts_;
	engine::SearchControl *control_;
	Arena arena_;
	std::vector<uint32_t> redo_;
	NewRows new_rows_; // awaited in front of the first work that reads rows of a source
};

} // namespace

Status
search_snapshot(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Snapshot &snapshot, std::span<const SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control)
{
	VECTORGPU_TRY(device->provoke(context->stream.get()));

	Search search(device, context, spec, shape, snapshot, queries, options, results, counts, control);
	const Status status = search.run();

	// The snapshot's memory may go once we return: nothing on the stream may still read it.
	if (!status.is_ok() && !device->fatal())
		VECTORGPU_TRY(context->stream.synchronize());
	return status;
}

} // namespace vectorgpu::cuda

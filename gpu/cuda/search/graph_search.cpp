// See graph_search.hpp. Each query looks at a segment in one of three ways: by its graph; at all rows, where that is
// cheaper (gpu_choice.hpp) or the search would be wider than the kernel's; not at all, if it has no score with any row.
// Queries without probes look at every row of everything, as search.cpp does. Few searches of one graph are
// graph_alone.cpp's. For the graphs else, in chunks of queries, part by part of each segment:
//   begin       canonical scores of all entry points, the 8 first
//   search      kernels/graph/graph_search.cuh
//   merge       into what the query has found
// What the ways have found is joined on the host.
#include "cuda/search/graph_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "cuda/device/arena.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/search/filter_plan.hpp"
#include "cuda/device/gpu_choice.hpp"
#include "cuda/search/graph_alone.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "engine/distance/distance.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;
using kernels::Entry;

constexpr size_t kMostQueries = 16384; // of a chunk

// All engines find the same.
static_assert(kernels::kGraphDefaultSteps == engine::graph::kSearchSteps);

Status
too_small()
{
	return Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search");
}

bool
looks_at_all(uint32_t width, const Source &source)
{
	return width > kernels::kGraphMostWidth || engine::graph::looks_at_all(width, source.n_rows);
}

/// Searches of graphs by queries that have a score, 1 ... kMaxSelectK as k, and no width above kGraphMostWidth.
class GraphSearch
{
public:
	GraphSearch(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
		std::vector<const Source *> sources, std::span<const SearchQuery> queries, const kernels::GraphTuning &tuning,
		std::vector<std::vector<Neighbor>> *results, engine::SearchControl *control)
		: device_(device), context_(context), stream_(context->stream.get()), spec_(spec), shape_(shape),
		  sources_(std::move(sources)), queries_(queries), tuning_(tuning), results_(results), control_(control),
		  arena_(context->workspace.get(), context->workspace.bytes())
	{
		byte_rows_ = std::any_of(sources_.begin(), sources_.end(), [&](const Source *source)
			{ return kernels::graph_bytes_are_exact(spec.metric, source->block->form, shape.dim_pad); });
		for (const Source *source : sources_)
			for (const engine::GraphPartLayout &part : source->graph->parts)
			{
				most_entries_ = std::max(most_entries_, part.n_entries);
				n_begin_.insert(begin_size(part));
			}
	}

	Status run()
	{
		std::vector<uint32_t> numbers(queries_.size());

		// Alike widths together: shared memory is for the widest.
		std::iota(numbers.begin(), numbers.end(), 0);
		widths_.resize(queries_.size());
		for (const uint32_t number : numbers)
			for (const Source *source : sources_)
				widths_[number] = std::max(widths_[number], width(number, *source));
		if (!std::is_sorted(widths_.begin(), widths_.end()))
			std::stable_sort(
				numbers.begin(), numbers.end(), [this](uint32_t a, uint32_t b) { return widths_[a] < widths_[b]; });
		return search_all(numbers);
	}

private:
	struct Chunk
	{
		std::span<const uint32_t> numbers; // of queries_
		kernels::Queries queries;
		kernels::Best best;
		uint32_t *widths = nullptr;             // [n_sources, n_queries]
		std::map<uint32_t, uint32_t *> begin_k; // by begin_size: [n_queries] of that number
		uint8_t *byte_queries = nullptr;        // [n_queries, dim_pad], if all of them are bytes
		uint32_t max_width = 0;
		uint32_t max_k = 0;
		bool any_after = false;
	};

	static uint32_t begin_size(const engine::GraphPartLayout &part)
	{
		return std::min(part.n_entries, engine::graph::kSearchEntries);
	}

	uint32_t width(uint32_t number, const Source &source) const
	{
		return engine::width_of(queries_[number].probes, source.segment);
	}

	Status check(cudaError_t error, const char *what) const { return device_->check(error, what); }

	/// What is sent of a query.
	size_t query_in_bytes() const
	{
		return shape_.query_bytes + 64 + (sources_.size() + n_begin_.size()) * sizeof(uint32_t) +
			(byte_rows_ ? shape_.dim_pad : 0);
	}

	/// How many of the queries, in order of their widths, go together.
	size_t chunk_size(std::span<const uint32_t> numbers) const
	{
		const size_t room = context_->workspace.bytes() / 4 * 3;
		uint32_t max_k = 1;
		size_t n = 0;

		for (const uint32_t number : numbers)
		{
			const uint32_t k = std::max(max_k, static_cast<uint32_t>(queries_[number].k));
			const size_t scratch = std::max<size_t>(
				widths_[number] * (sizeof(uint64_t) + sizeof(uint32_t)), most_entries_ * sizeof(uint64_t));
			const size_t each =
				query_in_bytes() + k * sizeof(Entry) + engine::graph::kSearchEntries * sizeof(Entry) + scratch + 64;

			if (n > 0 &&
				(n == kMostQueries || (n + 1) * query_in_bytes() + 8192 > context_->pinned_in.bytes() ||
					(n + 1) * (k * sizeof(Entry) + 16) + 8192 > context_->pinned_out.bytes() || (n + 1) * each > room))
				break;
			max_k = k;
			n++;
		}
		return n;
	}

	Status search_all(std::span<const uint32_t> numbers)
	{
		while (!numbers.empty())
		{
			const size_t n = chunk_size(numbers);
			Chunk chunk;

			if (is_stopped(control_))
				return stopped();
			arena_.release(0);
			VECTORGPU_TRY(send_queries(numbers.first(n), &chunk));
			for (size_t s = 0; s < sources_.size(); s++)
				for (const engine::GraphPartLayout &part : sources_[s]->graph->parts)
				{
					const size_t mark = arena_.mark();

					VECTORGPU_TRY(search_part(s, part, chunk));
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
		const size_t n_widths = sources_.size() * n;
		Arena host(context_->pinned_in.as<uint8_t>(), context_->pinned_in.bytes());
		uint8_t *h_vectors = host.take<uint8_t>(n * shape_.query_bytes);
		uint32_t *h_k = host.take<uint32_t>(n);
		Entry *h_after = host.take<Entry>(n);
		uint8_t *h_has_after = host.take<uint8_t>(n);
		uint32_t *h_widths = host.take<uint32_t>(n_widths);
		std::map<uint32_t, uint32_t *> h_begin_k;

		for (const uint32_t size : n_begin_)
			h_begin_k[size] = host.take<uint32_t>(n);

		uint8_t *h_bytes = host.take<uint8_t>(byte_rows_ ? n * shape_.dim_pad : 0);
		uint32_t *h_counts = host.take<uint32_t>(n);
		uint8_t *d_vectors = arena_.take<uint8_t>(n * shape_.query_bytes);
		uint32_t *d_k = arena_.take<uint32_t>(n);
		Entry *d_after = arena_.take<Entry>(n);
		uint8_t *d_has_after = arena_.take<uint8_t>(n);

		chunk->widths = arena_.take<uint32_t>(n_widths);
		for (const uint32_t size : n_begin_)
			chunk->begin_k[size] = arena_.take<uint32_t>(n);
		chunk->byte_queries = arena_.take<uint8_t>(byte_rows_ ? n * shape_.dim_pad : 0);
		chunk->best.counts = arena_.take<uint32_t>(n); // the results follow: see read_results
		if (arena_.failed() || host.failed())
			return too_small();
		std::memset(h_counts, 0, n * sizeof(uint32_t));
		for (const auto &[size, values] : h_begin_k)
			std::fill_n(values, n, size);
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
				h_widths[s * n + i] = width(numbers[i], *sources_[s]);
				chunk->max_width = std::max(chunk->max_width, h_widths[s * n + i]);
			}
		}

		const bool all_bytes =
			stage_queries(spec_, shape_, queries_, numbers, h_vectors, byte_rows_ ? h_bytes : nullptr, nullptr);

		VECTORGPU_TRY(
			check(cudaMemcpyAsync(d_vectors, h_vectors, host.mark(), cudaMemcpyHostToDevice, stream_), "send queries"));
		if (!all_bytes)
			chunk->byte_queries = nullptr;
		chunk->numbers = numbers;
		chunk->queries.vectors = d_vectors;
		chunk->queries.k = d_k;
		chunk->queries.after = chunk->any_after ? d_after : nullptr;
		chunk->queries.has_after = d_has_after;
		chunk->queries.n_queries = static_cast<uint32_t>(n);
		chunk->queries.dim_pad = shape_.dim_pad;
		chunk->best.stride = chunk->max_k;
		chunk->best.entries = arena_.take<Entry>(n * chunk->max_k);
		return arena_.failed() ? too_small() : Status::ok();
	}

	Status search_part(size_t s, const engine::GraphPartLayout &part, const Chunk &chunk)
	{
		const Source &source = *sources_[s];
		const DeviceGraph &graph = *source.graph;
		const size_t n = chunk.queries.n_queries;
		kernels::GraphArgs search;
		kernels::Best begin;

		VECTORGPU_TRY(choose_entries(source, part, chunk, &begin));
		search.metric = spec_.metric;
		search.rows = source.rows();
		search.queries = chunk.queries;
		search.edges = graph.edges.as<uint32_t>();
		search.degree = graph.layout.header.degree;
		search.entry_nodes = graph.entry_nodes.as<uint32_t>() + part.first_entry;
		search.begin = begin.entries;
		search.n_begin = begin.stride;
		search.widths = chunk.widths + s * n;
		search.max_width = chunk.max_width;
		search.byte_queries = chunk.byte_queries;
		search.candidates.capacity = chunk.max_width;
		search.candidates.keys = arena_.take<uint64_t>(n * chunk.max_width);
		search.candidates.rows = arena_.take<uint32_t>(n * chunk.max_width);
		search.candidates.counts = arena_.take<uint32_t>(n);
		search.tuning = tuning_;
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(check(kernels::launch_graph_search(search, stream_), "search a graph"));
		return check(kernels::launch_merge(
						 chunk.queries, search.candidates, search.rows.row_ids, chunk.best, chunk.max_k, stream_),
			"merge");
	}

	/// The nearest entry points of a part: their numbers in it.
	Status choose_entries(
		const Source &source, const engine::GraphPartLayout &part, const Chunk &chunk, kernels::Best *begin)
	{
		const size_t n = chunk.queries.n_queries;
		kernels::ScoreArgs score;

		begin->stride = begin_size(part);
		begin->entries = arena_.take<Entry>(n * begin->stride);
		begin->counts = arena_.take<uint32_t>(n);
		score.metric = spec_.metric;
		score.rows = source.graph->rows_of_entries(*source.block, part);
		score.queries = chunk.queries;
		score.queries.k = chunk.begin_k.at(begin->stride);
		score.queries.after = nullptr;
		score.key_stride = part.n_entries;
		score.keys = arena_.take<uint64_t>(n * part.n_entries);
		score.group_rows = 32;
		while ((part.n_entries + score.group_rows - 1) / score.group_rows > kernels::kMaxGroups)
			score.group_rows *= 2;
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(check(kernels::launch_scores(score, stream_), "score entry points"));
		return check(kernels::launch_select_keys(
						 score.queries, score.keys, score.key_stride, part.n_entries, *begin, begin->stride, stream_),
			"choose entry points");
	}

	Status read_results(const Chunk &chunk)
	{
		const size_t n = chunk.queries.n_queries;
		Arena host(context_->pinned_out.as<uint8_t>(), context_->pinned_out.bytes());
		uint32_t *counts = host.take<uint32_t>(n);
		Entry *entries = host.take<Entry>(n * chunk.best.stride);

		if (host.failed())
			return too_small();
		// One copy: counts and entries lie in both places alike.
		VECTORGPU_TRY(check(
			cudaMemcpyAsync(counts, chunk.best.counts, host.mark(), cudaMemcpyDeviceToHost, stream_), "read results"));
		VECTORGPU_TRY(context_->stream.synchronize());
		if (control_ != nullptr)
			control_->progress.fetch_add(1, std::memory_order_relaxed);
		take_results(chunk.numbers, counts, entries, chunk.best.stride, nullptr, results_);
		return Status::ok();
	}

	const Device *device_;
	SearchContext *context_;
	cudaStream_t stream_;
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	std::vector<const Source *> sources_;
	std::span<const SearchQuery> queries_;
	const kernels::GraphTuning tuning_;
	std::vector<std::vector<Neighbor>> *results_;
	engine::SearchControl *control_;
	Arena arena_;
	bool byte_rows_ = false; // some source's rows are scored as bytes
	uint32_t most_entries_ = 1;
	std::set<uint32_t> n_begin_;   // begin_size of all parts
	std::vector<uint32_t> widths_; // [queries] the widest
};

/// Takes out rows without a score, which are the last. True if there were any.
bool
drop_nan(std::vector<Neighbor> *result)
{
	const size_t before = result->size();

	while (!result->empty() && std::isnan(result->back().score))
		result->pop_back();
	return result->size() < before;
}

/// Searches of one call.
class Call
{
public:
	Call(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
		const Snapshot &snapshot, const SearchOptions &options, SearchCounts *counts, engine::SearchControl *control)
		: device_(device), context_(context), spec_(spec), shape_(shape), snapshot_(snapshot), options_(options),
		  counts_(counts), control_(control)
	{
	}

	/// How a query looks at the snapshot: bit i: at source i, of those with a graph, by it. Other sources are looked at
	/// as a whole, those with a graph not at all under kNoScores.
	using Ways = uint64_t;
	static constexpr Ways kNoScores = Ways{1} << 63;
	static constexpr uint32_t kMostGraphs = 63; // more are looked at as a whole

	/// ahead: a query that is looked at soon. Both stay where they are for as long as this is asked.
	Ways ways(const SearchQuery &query, const SearchQuery &ahead)
	{
		if (query.probes.empty())
			return 0;
		if (!query_has_scores(query))
			return kNoScores;
		if (last_ == nullptr || !wants_the_same(*last_, query)) // as a rule all queries of a batch do
		{
			last_ = &query;
			last_graphs_ = graphs_of(query);
			last_exact_ = last_graphs_ != 0 && options_.graph_choice ? choose(query, last_graphs_, true) : 0;
		}
		return last_graphs_ &
			~(last_exact_ == 0 || !any_bytes() || query_is_bytes(query, ahead) ? last_exact_
																			   : choose(query, last_graphs_, false));
	}

	/// Queries that look at every source in the same way. Sets their coverage.
	Status search_alike(std::span<const SearchQuery> queries, Ways ways, std::vector<std::vector<Neighbor>> *results)
	{
		Snapshot rows;
		std::vector<const Source *> graphs;
		bool left_out = false;
		uint32_t graph = 0;

		results->clear();
		results->resize(queries.size());
		if (ways == 0)
			return search_all_rows(queries, results);
		for (const Source &source : snapshot_.sources)
		{
			const bool has_graph = source.graph != nullptr;
			const bool by_graph = has_graph && graph < kMostGraphs && (ways >> graph & 1) != 0;

			graph += has_graph ? 1 : 0;
			if (has_graph && ways == kNoScores)
				left_out = true;
			else if (by_graph)
				graphs.push_back(&source);
			else
			{
				rows.sources.push_back(source);
				rows.n_rows += source.n_rows;
			}
		}
		for (const SearchQuery &query : queries)
			if (query.coverage != nullptr)
				*query.coverage = !graphs.empty() ? engine::Coverage::kPart
					: left_out                    ? engine::Coverage::kScored
												  : engine::Coverage::kAll;
		if (!graphs.empty())
			VECTORGPU_TRY(search_graph_sources(std::move(graphs), queries, results));
		if (rows.n_rows > 0)
			VECTORGPU_TRY(add_rows(rows, queries, results));
		return Status::ok();
	}

private:
	static bool wants_the_same(const SearchQuery &a, const SearchQuery &b)
	{
		return a.k == b.k && a.has_after == b.has_after &&
			std::equal(a.probes.begin(), a.probes.end(), b.probes.begin(), b.probes.end(),
				[](const engine::SegmentProbes &x, const engine::SegmentProbes &y)
				{ return x.segment == y.segment && x.probes == y.probes; });
	}

	/// Those that the width alone does not have looked at as a whole.
	Ways graphs_of(const SearchQuery &query) const
	{
		uint32_t graph = 0;
		Ways ways = 0;

		for (const Source &source : snapshot_.sources)
			if (source.graph != nullptr && graph < kMostGraphs)
			{
				ways |= looks_at_all(engine::width_of(query.probes, source.segment), source) ? 0 : Ways{1} << graph;
				graph++;
			}
		return ways;
	}

	/// The graphs of `ways` all of whose rows the query had better look at. are_bytes: so are the query's elements, if
	/// rows are.
	Ways choose(const SearchQuery &query, Ways ways, bool are_bytes) const
	{
		const bool by_dot = spec_.metric == Metric::kL2 || spec_.metric == Metric::kInnerProduct;
		std::array<GraphChoice, kMostGraphs> choices;
		std::array<uint32_t, kMostGraphs> numbers;
		size_t n = 0;
		uint32_t graph = 0;
		Passes passes;
		Ways exact = 0;

		// As search_one_pass takes them.
		passes.shared = by_dot && are_bytes && options_.one_pass != nullptr && !query.has_after &&
			query.k <= kernels::kFinishMostK && snapshot_.sources.size() <= kernels::kMostParts;
		for (const Source &source : snapshot_.sources)
		{
			const kernels::Form form = source.block->form;
			const uint32_t number = source.graph != nullptr && graph < kMostGraphs ? graph++ : kMostGraphs;

			passes.shared = passes.shared && form == kernels::Form::kByte;
			if (number == kMostGraphs || (ways >> number & 1) == 0)
			{
				passes.begun = passes.begun || source.n_rows > 0;
				continue;
			}

			// Of rows that are narrower than the caller's not every query can go through the filter.
			const bool fits = form == own_form(spec_.element) || (form == kernels::Form::kByte && are_bytes);
			const uint32_t k = static_cast<uint32_t>(std::min<size_t>(query.k, UINT32_MAX));

			// A bit string takes the time of so many floats as have its size, as far as the model can tell.
			const uint32_t dim = form == kernels::Form::kBit ? source.block->pitch_bytes / sizeof(float) : spec_.dim;

			choices[n] = {source.n_rows, dim, source.block->pitch_bytes,
				by_dot && form == kernels::Form::kByte && are_bytes,
				options_.one_pass != nullptr && fits && !query.has_after && spec_.metric != Metric::kL1 &&
					filter_pays(source, 0, 1, k),
				engine::width_of(query.probes, source.segment)};
			numbers[n++] = number;
		}

		const uint64_t chosen = choose_exact(std::span(choices).first(n), query.k, passes);

		for (size_t i = 0; i < n; i++)
			exact |= (chosen >> i & 1) << numbers[i];
		return exact;
	}

	bool any_bytes() const
	{
		return std::any_of(snapshot_.sources.begin(), snapshot_.sources.end(),
			[](const Source &source) { return source.block->form == kernels::Form::kByte; });
	}

	bool query_is_bytes(const SearchQuery &query, const SearchQuery &ahead)
	{
		int32_t norm = 0;

		if (spec_.element != ElementType::kFloat32)
			return false;
		bytes_.resize(spec_.dim);
		return put_bytes(static_cast<const float *>(query.query), spec_.dim, bytes_.data(), &norm,
			static_cast<const float *>(ahead.query));
	}

	Status search_graph_sources(std::vector<const Source *> graphs, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results)
	{
		bool taken = false;

		if (options_.graph_alone && graphs.size() == 1)
			VECTORGPU_TRY(search_graph_alone(
				device_, context_, spec_, shape_, *graphs[0], queries, options_.graph, results, counts_, &taken));
		return taken ? Status::ok()
					 : GraphSearch(device_, context_, spec_, shape_, std::move(graphs), queries, options_.graph,
						   results, control_)
						   .run();
	}

	/// A zero vector has no cosine with any row. What has no finite distance is found by no graph either.
	bool query_has_scores(const SearchQuery &query) const
	{
		double score;

		if (spec_.metric != Metric::kCosine)
			return true;
		engine::compute_scores(spec_, query.query, query.query, shape_.row_bytes, 1, &score, 0);
		return !std::isnan(score);
	}

	/// Queries that look at every row of every source.
	Status search_all_rows(std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)
	{
		VECTORGPU_TRY(search_snapshot(
			device_, context_, spec_, shape_, snapshot_, queries, options_, results, counts_, control_));
		for (size_t i = 0; i < queries.size(); i++)
		{
			const bool left_out = !queries[i].probes.empty() && drop_nan(&(*results)[i]);

			if (queries[i].coverage != nullptr)
				*queries[i].coverage = left_out ? engine::Coverage::kScored : engine::Coverage::kAll;
		}
		return Status::ok();
	}

	/// Joins the answers from all rows of some sources.
	Status add_rows(
		const Snapshot &rows, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results)
	{
		std::vector<std::vector<Neighbor>> others;
		std::vector<Neighbor> joined;

		VECTORGPU_TRY(
			search_snapshot(device_, context_, spec_, shape_, rows, queries, options_, &others, counts_, control_));
		for (size_t i = 0; i < queries.size(); i++)
		{
			const bool approximate = !queries[i].probes.empty();

			if (approximate && drop_nan(&others[i]) && queries[i].coverage != nullptr)
				*queries[i].coverage = std::min(*queries[i].coverage, engine::Coverage::kScored);
			joined.resize((*results)[i].size() + others[i].size());
			std::merge((*results)[i].begin(), (*results)[i].end(), others[i].begin(), others[i].end(), joined.begin(),
				engine::neighbor_less);
			joined.resize(std::min(joined.size(), queries[i].k));
			(*results)[i].assign(joined.begin(), joined.end());
		}
		return Status::ok();
	}

	const Device *device_;
	SearchContext *context_;
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	const Snapshot &snapshot_;
	const SearchOptions &options_;
	SearchCounts *counts_;
	engine::SearchControl *control_;
	std::vector<uint8_t> bytes_;        // of a query
	const SearchQuery *last_ = nullptr; // that was chosen for, and how
	Ways last_graphs_ = 0;
	Ways last_exact_ = 0;
};

/// A query that goes through graphs finds at most so many rows there at a time; more come behind them.
Status
search_in_slices(Call *call, SearchQuery query, Call::Ways ways, std::vector<Neighbor> *result)
{
	const size_t k = query.k;
	std::vector<std::vector<Neighbor>> slice;

	while (result->size() < k)
	{
		query.k = std::min<size_t>(kernels::kMaxSelectK, k - result->size());
		VECTORGPU_TRY(call->search_alike({&query, 1}, ways, &slice));
		result->insert(result->end(), slice[0].begin(), slice[0].end());
		if (slice[0].size() < query.k)
			break;
		query.has_after = true;
		query.after = result->back();
	}
	return Status::ok();
}

} // namespace

Status
search_graphs(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Snapshot &snapshot, std::span<const SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, engine::SearchControl *control)
{
	Call call(device, context, spec, shape, snapshot, options, counts, control);
	std::vector<Call::Ways> ways(queries.size());
	std::vector<uint32_t> numbers(queries.size());
	Status status = device->provoke(context->stream.get());

	results->clear();
	results->resize(queries.size());
	std::iota(numbers.begin(), numbers.end(), 0);
	for (uint32_t i = 0; i < queries.size(); i++)
	{
		ways[i] = call.ways(queries[i], queries[std::min<size_t>(i + 1, queries.size() - 1)]);
		if (queries[i].coverage != nullptr)
			*queries[i].coverage = engine::Coverage::kAll;
	}
	if (!queries.empty() && snapshot.n_rows > 0 && std::equal(ways.begin() + 1, ways.end(), ways.begin()) &&
		std::all_of(queries.begin(), queries.end(), [&](const SearchQuery &query)
			{ return query.k > 0 && query.k <= std::min<uint64_t>(snapshot.n_rows, kernels::kMaxSelectK); }))
	{
		// As nearly always: nothing has to be sorted and put back.
		if (status.is_ok())
			status = call.search_alike(queries, ways[0], results);
		numbers.clear();
	}
	else if (!std::is_sorted(ways.begin(), ways.end()))
		std::stable_sort(numbers.begin(), numbers.end(), [&](uint32_t a, uint32_t b) { return ways[a] < ways[b]; });
	for (size_t first = 0; first < numbers.size() && status.is_ok();)
	{
		const Call::Ways alike = ways[numbers[first]];
		const bool by_graph = alike != 0 && alike != Call::kNoScores;
		std::vector<SearchQuery> group;
		std::vector<std::vector<Neighbor>> found;
		size_t end = first;
		bool large = false;

		for (; end < numbers.size() && ways[numbers[end]] == alike; end++)
		{
			group.push_back(queries[numbers[end]]);
			group.back().k =
				static_cast<size_t>(std::clamp<uint64_t>(group.back().k, 1, std::max<uint64_t>(snapshot.n_rows, 1)));
			large = large || (by_graph && group.back().k > kernels::kMaxSelectK);
		}
		if (snapshot.n_rows == 0 || large)
			found.resize(group.size());
		else
			status = call.search_alike(group, alike, &found);
		for (size_t i = 0; i < group.size() && status.is_ok(); i++)
		{
			if (large)
				status = search_in_slices(&call, group[i], alike, &found[i]);
			if (queries[numbers[first + i]].k > 0)
				(*results)[numbers[first + i]] = std::move(found[i]);
		}
		first = end;
	}

	// The snapshot's memory may go once we return: nothing on the stream may still read it.
	if (!status.is_ok() && !device->fatal())
		VECTORGPU_TRY(context->stream.synchronize());
	return status;
}

} // namespace vectorgpu::cuda

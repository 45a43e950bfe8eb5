// See graph_chunks.hpp.
#include "cuda/search/graph_chunks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/search/chunk.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Entry;

// All engines find the same rows.
static_assert(kernels::kGraphDefaultSteps == engine::graph::kSearchSteps);

class GraphSearch
{
public:
	GraphSearch(const SearchCall &call, std::vector<const Source *> sources)
		: call_(call), sources_(std::move(sources)),
		  arena_(call.context->workspace.get(), call.context->workspace.bytes())
	{
		byte_rows_ = std::any_of(sources_.begin(), sources_.end(), [&](const Source *source)
			{ return kernels::graph_bytes_are_exact(call_.spec.metric, source->block->form, call_.shape.dim_pad); });
		for (const Source *source : sources_)
			for (const engine::GraphPartLayout &part : source->graph->parts)
			{
				most_entries_ = std::max(most_entries_, part.n_entries);
				n_begin_.insert(begin_size(part));
			}
	}

	Status run()
	{
		std::vector<uint32_t> numbers(call_.queries.size());

		// Similar widths go together: the widest query of a chunk determines the shared memory.
		std::iota(numbers.begin(), numbers.end(), 0);
		widths_.resize(call_.queries.size());
		for (const uint32_t number : numbers)
			for (const Source *source : sources_)
				widths_[number] = std::max(widths_[number], width(number, *source));
		if (!std::is_sorted(widths_.begin(), widths_.end()))
			std::stable_sort(
				numbers.begin(), numbers.end(), [this](uint32_t a, uint32_t b) { return widths_[a] < widths_[b]; });
		return search_all(numbers);
	}

private:
	struct Chunk : QueryChunk
	{
		uint32_t *widths = nullptr;             // [n_sources, n_queries]
		std::map<uint32_t, uint32_t *> begin_k; // by begin_size: [n_queries] of that number
		uint8_t *byte_queries = nullptr;        // [n_queries, dim_pad], if all of them are bytes
		uint32_t max_width = 0;
	};

	static uint32_t begin_size(const engine::GraphPartLayout &part)
	{
		return std::min(part.n_entries, engine::graph::kSearchEntries);
	}

	uint32_t width(uint32_t number, const Source &source) const
	{
		return engine::width_of(call_.queries[number].probes, source.segment);
	}

	/// Bytes that are sent for a query.
	size_t query_in_bytes() const
	{
		return call_.shape.query_bytes + kQueryHeadBytes + (sources_.size() + n_begin_.size()) * sizeof(uint32_t) +
			(byte_rows_ ? call_.shape.dim_pad : 0);
	}

	/// Queries, from the first on, that fit the buffers together. numbers: in the order of their widths.
	size_t chunk_size(std::span<const uint32_t> numbers) const
	{
		const size_t in_each = query_in_bytes();
		size_t max_k = 1;
		size_t n = 0;

		for (const uint32_t number : numbers)
		{
			const size_t k = std::max<size_t>(max_k, call_.k_of(number));
			const size_t candidates = widths_[number] * (sizeof(uint64_t) + sizeof(uint32_t));
			const size_t scratch = std::max<size_t>(candidates, most_entries_ * sizeof(uint64_t));
			const size_t device_each = in_each + k * sizeof(Entry) + engine::graph::kSearchEntries * sizeof(Entry) +
				scratch + kQueryScratchBytes;

			if (n > 0 &&
				(n == kMostChunkQueries ||
					!chunk_fits(*call_.context, n + 1, {in_each, k * sizeof(Entry) + kResultHeadBytes, device_each},
						kIndexMargins)))
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

			if (is_stopped(call_.control))
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

	Status send_queries(std::span<const uint32_t> numbers, Chunk *chunk)
	{
		const size_t n = numbers.size();
		ChunkStaging staging(call_, numbers, &arena_);
		const ChunkStaging::Piece<uint32_t> widths = staging.take<uint32_t>(sources_.size() * n);
		std::map<uint32_t, uint32_t *> h_begin_k;

		for (const uint32_t size : n_begin_)
		{
			const ChunkStaging::Piece<uint32_t> piece = staging.take<uint32_t>(n);

			h_begin_k[size] = piece.host;
			chunk->begin_k[size] = piece.device;
		}

		const ChunkStaging::Piece<uint8_t> bytes = staging.take<uint8_t>(byte_rows_ ? n * call_.shape.dim_pad : 0);

		chunk->widths = widths.device;
		chunk->best.counts = staging.take_zeros<uint32_t>(n); // the results follow: see read_results
		if (staging.failed())
			return too_small();
		staging.put_heads(chunk);
		for (const auto &[size, values] : h_begin_k)
			std::fill_n(values, n, size);
		for (size_t i = 0; i < n; i++)
			for (size_t s = 0; s < sources_.size(); s++)
			{
				widths.host[s * n + i] = width(numbers[i], *sources_[s]);
				chunk->max_width = std::max(chunk->max_width, widths.host[s * n + i]);
			}
		chunk->byte_queries = staging.put_vectors(byte_rows_ ? bytes.host : nullptr, nullptr) ? bytes.device : nullptr;
		VECTORGPU_TRY(staging.send_by_driver());
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
		search.metric = call_.spec.metric;
		search.rows = source.rows();
		search.queries = chunk.queries;
		search.edges = graph.edges->as<uint32_t>();
		search.degree = graph.layout.header.degree;
		search.entry_nodes = graph.entry_nodes.as<uint32_t>() + part.first_entry;
		search.begin = begin.entries;
		search.n_begin = begin.stride;
		search.widths = chunk.widths + s * n;
		search.max_width = chunk.max_width;
		search.byte_queries = chunk.byte_queries;
		search.narrow = graph.narrow(call_.shape.dim_pad);
		search.candidates.capacity = chunk.max_width;
		search.candidates.keys = arena_.take<uint64_t>(n * chunk.max_width);
		search.candidates.rows = arena_.take<uint32_t>(n * chunk.max_width);
		search.candidates.counts = arena_.take<uint32_t>(n);
		search.tuning = call_.options.graph;
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(call_.check(kernels::launch_graph_search(search, call_.stream()), "search a graph"));
		return call_.check(kernels::launch_merge(chunk.queries, search.candidates, search.rows.row_ids, chunk.best,
							   chunk.max_k, call_.stream()),
			"merge");
	}

	/// *begin becomes the nearest entry points of a part, by their numbers there.
	Status choose_entries(
		const Source &source, const engine::GraphPartLayout &part, const Chunk &chunk, kernels::Best *begin)
	{
		const size_t n = chunk.queries.n_queries;
		kernels::ScoreArgs score;

		begin->stride = begin_size(part);
		begin->entries = arena_.take<Entry>(n * begin->stride);
		begin->counts = arena_.take<uint32_t>(n);
		score.metric = call_.spec.metric;
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
		VECTORGPU_TRY(call_.check(kernels::launch_scores(score, call_.stream()), "score entry points"));
		return call_.check(kernels::launch_select_keys(score.queries, score.keys, score.key_stride, part.n_entries,
							   *begin, begin->stride, call_.stream()),
			"choose entry points");
	}

	Status read_results(const Chunk &chunk)
	{
		const size_t n = chunk.queries.n_queries;
		Arena host(call_.context->pinned_out.as<uint8_t>(), call_.context->pinned_out.bytes());
		uint32_t *counts = host.take<uint32_t>(n);
		Entry *entries = host.take<Entry>(n * chunk.best.stride);

		if (host.failed())
			return too_small();
		// One copy: the entries have the same offset from the counts on the device as here.
		VECTORGPU_TRY(
			call_.check(cudaMemcpyAsync(counts, chunk.best.counts, host.mark(), cudaMemcpyDeviceToHost, call_.stream()),
				"read results"));
		VECTORGPU_TRY(call_.context->stream.synchronize());
		call_.progress();
		take_results(chunk.numbers, counts, entries, chunk.best.stride, nullptr, call_.results);
		return Status::ok();
	}

	const SearchCall &call_;
	const std::vector<const Source *> sources_;
	Arena arena_;
	bool byte_rows_ = false; // some source's rows are scored as bytes
	uint32_t most_entries_ = 1;
	std::set<uint32_t> n_begin_;   // begin_size of all parts
	std::vector<uint32_t> widths_; // [queries] the widest
};

} // namespace

Status
search_graph_chunks(const SearchCall &call, std::vector<const Source *> sources)
{
	return GraphSearch(call, std::move(sources)).run();
}

} // namespace vectorgpu::cuda

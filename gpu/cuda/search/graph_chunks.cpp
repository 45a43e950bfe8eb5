// See graph_chunks.hpp.
#include "cuda/search/graph_chunks.hpp"

#include <algorithm>
#include <numeric>

#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/search/chunk.hpp"
#include "cuda/search/graph_trace.hpp"
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
				n_parts_++;
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
		uint32_t *widths = nullptr;      // [n_sources, n_queries]
		uint8_t *byte_queries = nullptr; // [n_queries, dim_pad], if all of them are bytes
		uint32_t max_width = 0;
	};

	static uint32_t begin_size(const engine::GraphPartLayout &part)
	{
		return std::min(part.n_entries, engine::graph::kSearchEntries);
	}

	uint32_t width(uint32_t number, const Source &source) const { return width_of(call_.queries[number], source); }

	/// Bytes that are sent for a query.
	size_t query_in_bytes() const
	{
		return call_.shape.query_bytes + kQueryHeadBytes + sources_.size() * sizeof(uint32_t) +
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
			const size_t scratch = candidates + most_entries_ * sizeof(uint64_t);
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
			note(GraphMoment::kBegun);
			mark(GraphStage::kBegun);
			VECTORGPU_TRY(search_chunk(numbers.first(n), &chunk));
			VECTORGPU_TRY(read_results(chunk));
			numbers = numbers.subspan(n);
		}
		return Status::ok();
	}

	Status search_chunk(std::span<const uint32_t> numbers, Chunk *chunk)
	{
		const size_t n = numbers.size();
		ChunkStaging staging(call_, numbers, &arena_);
		const ChunkStaging::Piece<uint32_t> widths = staging.take<uint32_t>(sources_.size() * n);
		const ChunkStaging::Piece<uint8_t> bytes = staging.take<uint8_t>(byte_rows_ ? n * call_.shape.dim_pad : 0);
		bool are_bytes = false;

		chunk->widths = widths.device;
		chunk->best.counts = staging.take_zeros<uint32_t>(n); // the results follow: see read_results
		if (staging.failed())
			return too_small();
		staging.put_heads(chunk);
		for (size_t i = 0; i < n; i++)
			for (size_t s = 0; s < sources_.size(); s++)
			{
				widths.host[s * n + i] = width(numbers[i], *sources_[s]);
				chunk->max_width = std::max(chunk->max_width, widths.host[s * n + i]);
			}
		chunk->best.stride = chunk->max_k;
		chunk->best.entries = arena_.take<Entry>(n * chunk->max_k);
		if (arena_.failed())
			return too_small();
		if (const size_t n_shares = shares_of(n); n_shares > 1)
			return search_in_shares(&staging, *chunk, n_shares);
		VECTORGPU_TRY(staging.put_and_send_by_driver(byte_rows_ ? bytes.host : nullptr, &are_bytes));
		chunk->byte_queries = are_bytes ? bytes.device : nullptr;
		mark(GraphStage::kSent);
		note(GraphMoment::kStaged);
		for (size_t s = 0; s < sources_.size(); s++)
			for (const engine::GraphPartLayout &part : sources_[s]->graph->parts)
			{
				const size_t before = arena_.mark();

				VECTORGPU_TRY(search_part(s, part, *chunk, call_.stream()));
				arena_.release(before); // the stream uses the pieces in order
			}
		return Status::ok();
	}

	/// How many shares of a chunk's queries are searched one by one, each while the next is sent.
	size_t shares_of(size_t n) const
	{
		constexpr size_t kMostShares = 2;
		constexpr size_t kLeastOfShare = 1024; // a warp each (kernels/graph/graph.cu)
		const size_t asked = call_.options.graph.parts;

		if (n_parts_ != 1 || byte_rows_)
			return 1;
		return std::clamp<size_t>(n / kLeastOfShare, 1, asked != 0 ? asked : kMostShares);
	}

	/// Search the only part in shares of the queries, each on one of two streams behind its vectors' copy. So the host
	/// fills memory, the copy goes on and searches run at the same time, and the last searches of a share, which do not
	/// fill the device, run beside those of the next.
	Status search_in_shares(ChunkStaging *staging, const Chunk &chunk, size_t n_shares)
	{
		const size_t n = chunk.queries.n_queries;
		SideStreams sides(call_.device, call_.context);

		size_t sent = 0;
		size_t begun = 0; // shares
		const auto staged = [&](size_t last) -> Status
		{
			while (begun < n_shares && last >= n * (begun + 1) / n_shares)
			{
				const size_t first = n * begun / n_shares;
				const size_t end = n * (begun + 1) / n_shares;
				cudaStream_t stream = nullptr;

				VECTORGPU_TRY(staging->send_some(sent, end));
				sent = end;
				VECTORGPU_TRY(sides.begin(begun, &stream));
				VECTORGPU_TRY(
					search_part(0, sources_[0]->graph->parts[0], share_of(chunk, first, end - first), stream));
				begun++;
			}
			if (last - sent >= staging->part_size())
			{
				VECTORGPU_TRY(staging->send_some(sent, last));
				sent = last;
			}
			return Status::ok();
		};

		VECTORGPU_TRY(staging->send_heads());
		VECTORGPU_TRY(staging->put_and_send_in_order(staged));
		note(GraphMoment::kStaged);
		VECTORGPU_TRY(sides.end());
		mark(GraphStage::kSearched);
		return Status::ok();
	}

	/// n queries of a chunk of one source and no bytes, from number `first` on.
	Chunk share_of(const Chunk &chunk, size_t first, size_t n) const
	{
		Chunk share = chunk;
		kernels::Queries &queries = share.queries;

		share.numbers = chunk.numbers.subspan(first, n);
		queries.vectors = static_cast<const uint8_t *>(queries.vectors) + first * call_.shape.query_bytes;
		queries.k += first;
		queries.after = queries.after != nullptr ? queries.after + first : nullptr;
		queries.has_after += first;
		queries.n_queries = static_cast<uint32_t>(n);
		share.widths += first;
		share.max_width = widths_[share.numbers.back()]; // they are in the order of their widths
		share.best.entries += first * share.best.stride;
		share.best.counts += first;
		return share;
	}

	Status search_part(size_t s, const engine::GraphPartLayout &part, const Chunk &chunk, cudaStream_t stream)
	{
		const Source &source = *sources_[s];
		const DeviceGraph &graph = *source.graph;
		const size_t n = chunk.queries.n_queries;
		// Nothing else is searched, so there is nothing to merge with.
		const bool is_all = n_parts_ == 1 && chunk.max_width <= kernels::kGraphMostRanked;
		kernels::GraphArgs search;

		search.n_begin = begin_size(part);
		VECTORGPU_TRY(choose_entries(source, part, chunk, stream, &search.begin));
		search.metric = call_.spec.metric;
		search.rows = source.rows();
		search.queries = chunk.queries;
		search.edges = graph.edges->as<uint32_t>();
		search.degree = graph.layout.header.degree;
		search.entry_nodes = graph.entry_nodes.as<uint32_t>() + part.first_entry;
		search.widths = chunk.widths + s * n;
		search.max_width = chunk.max_width;
		search.byte_queries = chunk.byte_queries;
		search.narrow = graph.narrow(call_.shape.dim_pad);
		if (is_all)
			search.best = chunk.best;
		else
		{
			search.candidates.capacity = chunk.max_width;
			search.candidates.keys = arena_.take<uint64_t>(n * chunk.max_width);
			search.candidates.rows = arena_.take<uint32_t>(n * chunk.max_width);
			search.candidates.counts = arena_.take<uint32_t>(n);
		}
		search.tuning = call_.options.graph;
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(call_.check(kernels::launch_graph_search(search, stream), "search a graph"));
		mark(GraphStage::kSearched, stream);
		if (is_all)
			return Status::ok();
		VECTORGPU_TRY(call_.check(kernels::launch_merge(chunk.queries, search.candidates, search.rows.row_ids,
									  chunk.best, chunk.max_k, stream),
			"merge"));
		mark(GraphStage::kMerged, stream);
		return Status::ok();
	}

	/// *begin becomes the nearest entry points of a part, by their numbers there.
	Status choose_entries(const Source &source, const engine::GraphPartLayout &part, const Chunk &chunk,
		cudaStream_t stream, const Entry **begin)
	{
		const uint32_t n = chunk.queries.n_queries;
		Entry *entries = arena_.take<Entry>(size_t{n} * begin_size(part));
		kernels::ScoreArgs score;

		*begin = entries;
		score.metric = call_.spec.metric;
		score.rows = source.graph->rows_of_entries(*source.block, part);
		score.queries = chunk.queries;
		score.queries.after = nullptr;
		score.key_stride = part.n_entries;
		score.keys = arena_.take<uint64_t>(size_t{n} * part.n_entries);
		score.group_rows = 32;
		while ((part.n_entries + score.group_rows - 1) / score.group_rows > kernels::kMaxGroups)
			score.group_rows *= 2;
		if (arena_.failed())
			return too_small();
		VECTORGPU_TRY(call_.check(kernels::launch_scores(score, stream), "score entry points"));
		mark(GraphStage::kScored, stream);
		VECTORGPU_TRY(
			call_.check(kernels::launch_graph_begin(score.keys, part.n_entries, n, begin_size(part), entries, stream),
				"choose entry points"));
		mark(GraphStage::kChosen, stream);
		return Status::ok();
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
		mark(GraphStage::kRead);
		note(GraphMoment::kLaunched);
		VECTORGPU_TRY(call_.context->stream.synchronize());
		call_.progress();
		note(GraphMoment::kAnswered);
		take_results(chunk.numbers, counts, entries, chunk.best.stride, nullptr, call_.results);
		note(GraphMoment::kTaken);
		return Status::ok();
	}

	/// Times of a chunk, if the engine's options ask for them; not of shares on other streams.
	void mark(GraphStage stage) const { mark(stage, call_.stream()); }
	void mark(GraphStage stage, cudaStream_t stream) const
	{
		if (call_.options.graph_trace != nullptr && stream == call_.stream())
			call_.options.graph_trace->mark(stage, stream);
	}
	void note(GraphMoment moment) const
	{
		if (call_.options.graph_trace != nullptr)
			call_.options.graph_trace->note(moment);
	}

	const SearchCall &call_;
	const std::vector<const Source *> sources_;
	Arena arena_;
	bool byte_rows_ = false; // some source's rows are scored as bytes
	uint32_t most_entries_ = 1;
	uint32_t n_parts_ = 0;         // of all sources
	std::vector<uint32_t> widths_; // [queries] the widest
};

} // namespace

Status
search_graph_chunks(const SearchCall &call, std::vector<const Source *> sources)
{
	return GraphSearch(call, std::move(sources)).run();
}

} // namespace vectorgpu::cuda

// See ivf_segments.hpp. Chunks of queries go over one segment after another (list_scan.hpp). Codes choose the rows that
// are scored, except in segments where a query searches all lists or wants very many candidates. A query with more
// candidates than there is room for is searched again in windows of places. Small batches are tried by ivf_few.hpp
// first.
#include "cuda/search/ivf_segments.hpp"

#include <algorithm>
#include <numeric>

#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/search/answers.hpp"
#include "cuda/search/coded_search.hpp"
#include "cuda/search/ivf_few.hpp"
#include "cuda/search/list_scan.hpp"
#include "cuda/search/rounded_lists.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Entry;

constexpr size_t kCarefulQueries = 16; // of a chunk that goes in windows
constexpr uint32_t kProbesRatio = 4;   // of the most and the least probes in a chunk: each query has room for the most
constexpr uint64_t kMostTiles = uint64_t{1} << 30; // of a chunk, or a few more: they are counted in 32 bits

class ListSearch
{
public:
	ListSearch(const SearchCall &call, const std::vector<const Source *> &sources)
		: call_(call), sources_(sources), arena_(call.context->workspace.get(), call.context->workspace.bytes()),
		  scan_(call, &arena_)
	{
		byte_rows_ = std::any_of(sources_.begin(), sources_.end(),
			[&](const Source *source)
			{
				return !source->block->on_host() &&
					kernels::ivf_bytes_are_exact(call.spec.metric, source->block->form, call.shape.dim_pad);
			});
	}

	/// As search_segments.
	Status run()
	{
		const std::vector<uint32_t> numbers = prepare();

		VECTORGPU_TRY(search_all(numbers, false));

		const std::vector<uint32_t> again = std::move(redo_);

		call_.counts->n_redone += again.size();
		return search_all(again, true);
	}

	/// Only the queries of these numbers, in windows of places.
	Status run_carefully(std::vector<uint32_t> numbers)
	{
		if (numbers.empty())
			return Status::ok();
		(void) prepare();
		std::stable_sort(numbers.begin(), numbers.end(),
			[this](uint32_t a, uint32_t b) { return most_probes_[a] < most_probes_[b]; });
		call_.counts->n_redone += numbers.size();
		return search_all(numbers, true);
	}

private:
	/// Returns the queries' numbers in the order of their probes.
	std::vector<uint32_t> prepare()
	{
		std::vector<uint32_t> numbers(call_.queries.size());

		for (const Source *source : sources_)
			by_codes_.push_back(!call_.queries.empty() && chosen_by_codes(call_.queries[0], *source));
		std::iota(numbers.begin(), numbers.end(), 0);
		most_probes_.resize(call_.queries.size());
		most_candidates_.resize(call_.queries.size());
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

	uint32_t probes(uint32_t number, const Source &source) const
	{
		return engine::probes_of(call_.queries[number].probes, source.segment, source.lists->n_lists());
	}

	uint32_t most_probes(uint32_t number) const
	{
		uint32_t most = 1;

		for (const Source *source : sources_)
			most = std::max(most, probes(number, *source));
		return most;
	}

	uint32_t candidates(uint32_t number, const Source &source) const
	{
		return engine::candidates_of(call_.queries[number].probes, source.segment);
	}

	/// Bytes of the workspace that a query of a chunk needs.
	size_t workspace_bytes(uint32_t max_probes, uint32_t max_candidates, uint32_t max_k, bool careful) const
	{
		const size_t fixed = query_in_bytes() + 2 * kQueryScratchBytes + 2 * sources_.size() * sizeof(uint32_t);
		size_t scratch = 0;
		kernels::Rows rounded; // one query may have some where many have none, never the other way round

		for (size_t s = 0; s < sources_.size(); s++)
		{
			const Source *source = sources_[s];
			const size_t n_probes = std::min(max_probes, source->lists->n_lists());
			const size_t coarse = source->lists->n_lists() * sizeof(uint64_t);
			const size_t scan = by_codes_[s] ? coded_query_bytes(*source, call_.shape.dim_pad, max_candidates)
				: careful                    ? 0
											 : list_candidates(*source, max_k) * (sizeof(uint64_t) + sizeof(uint32_t)) +
					(rounded_lists_serve(call_, *source, 1, max_k, &rounded) ? rounded_query_bytes(call_.shape) : 0);

			scratch = std::max(scratch, n_probes * (sizeof(Entry) + sizeof(uint32_t)) + std::max(coarse, scan));
		}
		// Up to kIvfMostSampled groups need no minima, unless the queries are few: these have room in any case.
		if (careful || list_groups(max_k) > kernels::kIvfMostSampled)
			scratch += kernels::kMaxGroups * sizeof(uint64_t);
		return fixed + max_k * sizeof(Entry) + scratch;
	}

	/// Bytes that are sent for a query.
	size_t query_in_bytes() const
	{
		return call_.shape.query_bytes + kQueryHeadBytes + 2 * sources_.size() * sizeof(uint32_t) +
			(byte_rows_ ? call_.shape.dim_pad : 0);
	}

	/// Queries of a chunk at most, whatever their room.
	size_t most_queries(bool careful) const
	{
		uint64_t row_tiles = 0; // of scans in tiles: those of codes have none
		uint64_t host_bytes = 0;

		for (size_t s = 0; s < sources_.size(); s++)
			if (!by_codes_[s])
			{
				row_tiles = std::max<uint64_t>(
					row_tiles, sources_[s]->n_rows / kernels::kIvfRowsPerTile + sources_[s]->lists->n_lists());
				host_bytes += sources_[s]->host_bytes();
			}

		// n queries name a list once each, so that it has ceil(n / 8) groups of queries at most. With n * tiles_each up
		// to kMostTiles all lists have at most ceil(n / 8) * row_tiles tiles, below kMostTiles + row_tiles.
		const uint64_t tiles_each = row_tiles / kernels::kIvfQueriesPerTile + 1;

		return std::min<size_t>(std::min(careful ? kCarefulQueries : kMostChunkQueries, most_chunk_queries(host_bytes)),
			std::max<uint64_t>(kernels::kIvfQueriesPerTile, kMostTiles / tiles_each));
	}

	/// Queries, from the first on, that fit the buffers together. numbers: in the order of their probes.
	size_t chunk_size(std::span<const uint32_t> numbers, bool careful) const
	{
		const uint32_t least_probes = most_probes_[numbers.front()];
		const size_t most = most_queries(careful);
		uint32_t max_k = 1;
		uint32_t max_probes = 0;
		uint32_t max_candidates = 0;
		QueryRoom each = {query_in_bytes(), 0, 0};
		size_t n = 0;

		for (const uint32_t number : numbers)
		{
			const uint32_t k = std::max(max_k, static_cast<uint32_t>(call_.k_of(number)));
			const uint32_t n_probes = most_probes_[number];
			const uint32_t n_candidates = most_candidates_[number];

			each.out = k * sizeof(Entry) + kResultHeadBytes;
			if (n_probes > max_probes || k > max_k || n_candidates > max_candidates)
			{
				max_probes = std::max(max_probes, n_probes);
				max_candidates = std::max(max_candidates, n_candidates);
				each.workspace = workspace_bytes(max_probes, max_candidates, k, careful);
			}
			if (n > 0 &&
				(n == most || n_probes / kProbesRatio > least_probes ||
					!chunk_fits(*call_.context, n + 1, each, kIndexMargins)))
				break;
			max_k = k;
			n++;
		}
		return n;
	}

	/// careful: in windows of places, which have room for all their rows.
	Status search_all(std::span<const uint32_t> numbers, bool careful)
	{
		while (!numbers.empty())
		{
			const size_t n = chunk_size(numbers, careful);
			ListChunk chunk;

			if (is_stopped(call_.control))
				return stopped();
			arena_.release(0);
			VECTORGPU_TRY(send_queries(numbers.first(n), &chunk));
			chunk.careful = careful;

			const kernels::Answers answers = answers_of(chunk);

			for (size_t s = 0; s < sources_.size(); s++)
			{
				const size_t mark = arena_.mark();
				const bool last = s + 1 == sources_.size();

				VECTORGPU_TRY(by_codes_[s]
						? scan_.scan_codes(*sources_[s], s, chunk, last ? answers : kernels::Answers{})
						: careful ? scan_.scan_carefully(*sources_[s], s, chunk)
								  : scan_.scan(*sources_[s], s, chunk));
				arena_.release(mark); // the stream uses the pieces in order
			}
			VECTORGPU_TRY(answers.heads != nullptr ? read_answers(chunk, answers) : read_results(chunk));
			numbers = numbers.subspan(n);
		}
		return Status::ok();
	}

	Status send_queries(std::span<const uint32_t> numbers, ListChunk *chunk)
	{
		const size_t n = numbers.size();
		ChunkStaging staging(call_, numbers, &arena_);
		const ChunkStaging::Piece<uint32_t> n_probes = staging.take<uint32_t>(sources_.size() * n);
		const ChunkStaging::Piece<uint32_t> n_candidates = staging.take<uint32_t>(sources_.size() * n);
		const ChunkStaging::Piece<uint8_t> bytes = staging.take<uint8_t>(byte_rows_ ? n * call_.shape.dim_pad : 0);
		const ChunkStaging::Piece<int32_t> norms = staging.take<int32_t>(n);

		chunk->probes = n_probes.device;
		chunk->candidates = n_candidates.device;
		chunk->byte_norms = norms.device;
		chunk->best.counts = staging.take_zeros<uint32_t>(n); // this and what follows: see read_results
		chunk->n_scored = staging.take_zeros<uint32_t>(n);
		chunk->redo = staging.take_zeros<uint8_t>(n);
		if (staging.failed())
			return too_small();
		staging.put_heads(chunk);
		put_probes(n_probes.host, n_candidates.host, chunk);
		chunk->byte_queries =
			staging.put_vectors(byte_rows_ ? bytes.host : nullptr, norms.host) ? bytes.device : nullptr;
		VECTORGPU_TRY(clear_results(&staging, chunk));
		return staging.send();
	}

	/// Fills the pieces of probes and candidates, and the chunk's totals of them.
	void put_probes(uint32_t *h_probes, uint32_t *h_candidates, ListChunk *chunk) const
	{
		const size_t n = chunk->numbers.size();

		chunk->n_pairs.assign(sources_.size(), 0);
		chunk->max_probes.assign(sources_.size(), 1);
		chunk->max_candidates.assign(sources_.size(), 1);
		for (size_t i = 0; i < n; i++)
			for (size_t s = 0; s < sources_.size(); s++)
			{
				const uint32_t n_probes = probes(chunk->numbers[i], *sources_[s]);

				h_probes[s * n + i] = n_probes;
				chunk->n_pairs[s] += n_probes;
				chunk->max_probes[s] = std::max(chunk->max_probes[s], n_probes);
				if (by_codes_[s])
				{
					const uint32_t n_candidates = candidates(chunk->numbers[i], *sources_[s]);

					h_candidates[s * n + i] = n_candidates;
					chunk->max_candidates[s] = std::max(chunk->max_candidates[s], n_candidates);
				}
			}
	}

	/// Room for the results. Whole arrays of them are read back, so that places which no result fills must be zeros: if
	/// they are few, they are sent with the queries.
	Status clear_results(ChunkStaging *staging, ListChunk *chunk)
	{
		const size_t n_entries = chunk->numbers.size() * chunk->max_k;
		const size_t bytes = (n_entries * sizeof(Entry) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
		const bool sent = bytes <= kernels::kMostCopiedByKernel && bytes <= staging->host_left();

		chunk->best.stride = chunk->max_k;
		chunk->best.entries = sent ? staging->take_zeros<Entry>(n_entries) : arena_.take<Entry>(n_entries);
		if (arena_.failed())
			return too_small();
		return sent ? Status::ok()
					: call_.check(cudaMemsetAsync(chunk->best.entries, 0, bytes, call_.stream()), "clear results");
	}

	/// Room for the answers that the chunk's last launch writes to the host; none if it cannot. No source marks queries
	/// in redo then.
	kernels::Answers answers_of(const ListChunk &chunk) const
	{
		for (size_t s = 0; s < sources_.size(); s++)
			if (!by_codes_[s] || !ListScan::can_answer(*sources_[s], s, chunk))
				return {};
		return begin_answers(call_.context, chunk.numbers.size(), chunk.max_k);
	}

	Status read_answers(const ListChunk &chunk, const kernels::Answers &answers)
	{
		VECTORGPU_TRY(end_answers(call_, answers, chunk.numbers, &redo_));
		call_.progress();
		return Status::ok();
	}

	Status read_results(const ListChunk &chunk)
	{
		const size_t n = chunk.queries.n_queries;
		Arena host(call_.context->pinned_out.as<uint8_t>(), call_.context->pinned_out.bytes());
		uint32_t *counts = host.take<uint32_t>(n);
		uint32_t *n_scored = host.take<uint32_t>(n);
		uint8_t *redo = host.take<uint8_t>(n);
		Entry *entries = host.take<Entry>(n * chunk.best.stride);

		if (host.failed())
			return too_small();
		// One copy: the pieces have the same offsets from the counts on the device as here.
		VECTORGPU_TRY(
			call_.check(cudaMemcpyAsync(counts, chunk.best.counts, host.mark(), cudaMemcpyDeviceToHost, call_.stream()),
				"read results"));
		VECTORGPU_TRY(call_.context->stream.synchronize());
		call_.progress();
		for (size_t i = 0; i < n; i++)
			if (redo[i] == kernels::kAnswerIsAway)
				note_away(call_.queries[chunk.numbers[i]]);
			else if (redo[i] != 0)
				redo_.push_back(chunk.numbers[i]); // and is counted then
			else
				call_.counts->n_rescored += n_scored[i];
		take_results(chunk.numbers, counts, entries, chunk.best.stride, redo, call_.results);
		return Status::ok();
	}

	const SearchCall &call_;
	const std::vector<const Source *> &sources_;
	Arena arena_;
	ListScan scan_;
	bool byte_rows_ = false;                // some source's rows are scanned as bytes
	std::vector<bool> by_codes_;            // [n_sources]: codes choose the rows
	std::vector<uint32_t> most_probes_;     // [queries]
	std::vector<uint32_t> most_candidates_; // [queries]
	std::vector<uint32_t> redo_;
};

} // namespace

Status
search_segments(const SearchCall &call, const std::vector<const Source *> &sources)
{
	ListSearch search(call, sources);
	std::vector<uint32_t> redo;
	bool taken = false;

	VECTORGPU_TRY(search_few(call, sources, &redo, &taken));
	if (!taken)
		return search.run();
	call.progress();
	return search.run_carefully(std::move(redo));
}

} // namespace vectorgpu::cuda

// See search.hpp. A batch is cut into chunks (chunk.hpp). Each chunk goes over the sources (segments, blocks of the
// delta) one after another; the best results of each query (Best) stay on the device and sharpen the thresholds of the
// sources that follow. source_scan.hpp lists the ways over a source. Queries that the filter cannot take, or could not
// finish, are answered again by the direct way. large_search.hpp answers queries with a k beyond kMaxSelectK.
#include "cuda/search/search.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "cuda/device/staging.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/search/answers.hpp"
#include "cuda/search/filter_plan.hpp"
#include "cuda/search/large_search.hpp"
#include "cuda/search/one_pass.hpp"
#include "cuda/search/results.hpp"
#include "cuda/search/source_scan.hpp"
#include "engine/distance/partial_reduce.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;
using kernels::Entry;

class Search
{
public:
	explicit Search(const SearchCall &call)
		: call_(call), arena_(call.context->workspace.get(), call.context->workspace.bytes()), scan_(call, &arena_),
		  new_rows_(call.options.lane, call.stream())
	{
	}

	Status run()
	{
		std::map<uint32_t, std::vector<uint32_t>> by_bins; // 0: exact

		begin_results(call_.queries.size(), call_.results);
		for (uint32_t i = 0; i < call_.queries.size(); i++)
		{
			const uint64_t k = call_.k_of(i);

			if (k == 0)
				continue;
			if (k <= kernels::kMaxSelectK)
				by_bins[bins_of(call_.queries[i], k)].push_back(i);
			else
				VECTORGPU_TRY(search_large(call_, i, k, &arena_, &new_rows_));
		}
		for (const auto &[n_bins, numbers] : by_bins)
		{
			bool taken = false;

			if (n_bins == 0 && !is_stopped(call_.control))
				VECTORGPU_TRY(search_one_pass(call_, numbers, &redo_, &taken));
			if (taken)
				call_.progress();
			else
				VECTORGPU_TRY(search_all(numbers, true, n_bins));
		}

		const std::vector<uint32_t> redo = std::move(redo_);

		call_.counts->n_redone += redo.size();
		return search_all(redo, false, 0);
	}

private:
	/// Bins of PartialReduce for a query; 0: it is answered exactly. Does not depend on the rest of the batch.
	uint32_t bins_of(const SearchQuery &query, uint64_t k) const
	{
		if (!call_.options.bins || !(query.recall_target > 0 && query.recall_target < 1) || query.has_after)
			return 0;
		return static_cast<uint32_t>(std::min<uint64_t>(engine::partial_reduce_bins(k, query.recall_target), 1u << 30));
	}

	/// n_bins: of PartialReduce, the same for all queries; 0: exact.
	Status search_all(std::span<const uint32_t> numbers, bool may_filter, uint32_t n_bins)
	{
		while (!numbers.empty())
		{
			if (is_stopped(call_.control))
				return stopped();

			const size_t n = chunk_size(numbers, may_filter, n_bins);

			VECTORGPU_TRY(search_chunk(numbers.first(n), may_filter, n_bins));
			numbers = numbers.subspan(n);
		}
		return Status::ok();
	}

	/// True if n queries, with k up to max_k, fit the buffers together.
	bool fits(size_t n, size_t max_k, bool may_filter, uint32_t n_bins) const
	{
		const size_t in_each = call_.shape.query_bytes + kQueryHeadBytes;
		const size_t out_each = max_k * sizeof(Entry) + kResultHeadBytes;
		size_t scratch_each = 0;
		uint64_t n_before = 0;

		if (may_filter)
			for (const Source &source : call_.snapshot.sources)
			{
				scratch_each = std::max(scratch_each,
					source_bytes(call_.device, source, call_.shape, n_before, static_cast<uint32_t>(n),
						static_cast<uint32_t>(max_k), n_bins));
				n_before += source.n_rows;
			}

		const size_t operands = may_filter ? operands_bytes(call_.snapshot.sources, call_.shape,
												 static_cast<uint32_t>(n), static_cast<uint32_t>(max_k))
										   : 0;
		const size_t device_each = in_each + out_each + kQueryScratchBytes + operands + scratch_each;

		return chunk_fits(*call_.context, n, {in_each, out_each, device_each}, kExactMargins);
	}

	/// Number of queries, from the first on, that fit the buffers together; at most kMostChunkQueries, since a stop is
	/// noticed between chunks. All of them are tried first: to try one more at a time takes longer than some searches.
	size_t chunk_size(std::span<const uint32_t> numbers, bool may_filter, uint32_t n_bins) const
	{
		const size_t most = std::min(numbers.size(), most_chunk_queries(call_.snapshot.host_bytes()));
		size_t max_k = 1;
		size_t n = 0;

		for (size_t i = 0; i < most; i++)
			max_k = std::max<size_t>(max_k, call_.k_of(numbers[i]));
		if (fits(most, max_k, may_filter, n_bins))
			return most;
		for (max_k = 1; n < most; n++)
		{
			max_k = std::max<size_t>(max_k, call_.k_of(numbers[n]));
			if (n > 0 && !fits(n + 1, max_k, may_filter, n_bins))
				break;
		}
		return n;
	}

	bool wants_filter(const Source &source, uint64_t n_before, const ExactChunk &chunk) const
	{
		const uint32_t asked = call_.options.filter_min_queries;
		const uint32_t least = asked != 0 ? asked : kernels::filter_min_queries();

		return !chunk.any_after && chunk.queries.n_queries >= least &&
			filter_pays(source, n_before, chunk.queries.n_queries, chunk.max_k);
	}

	Status search_chunk(std::span<const uint32_t> numbers, bool may_filter, uint32_t n_bins)
	{
		ExactChunk chunk;
		uint64_t n_before = 0;

		arena_.release(0);
		VECTORGPU_TRY(send_queries(numbers, &chunk));
		for (const Source &source : call_.snapshot.sources)
		{
			VECTORGPU_TRY(search_source(source, n_before, may_filter, n_bins, &chunk));
			n_before += source.n_rows;
			call_.progress();
		}
		return read_results(chunk);
	}

	Status search_source(const Source &source, uint64_t n_before, bool may_filter, uint32_t n_bins, ExactChunk *chunk)
	{
		VECTORGPU_TRY(new_rows_.await(source.ticket));

		// Bins come first: whether a query is answered by them must not depend on the batch.
		const bool bins = may_filter && !chunk->any_after && bins_fit(source, call_.shape.dim_pad, n_bins);
		const bool bounded =
			may_filter && !bins && bounded_scan_pays(source, call_.shape, n_before, chunk->queries.n_queries);
		const bool filter = may_filter && !bounded && !bins && wants_filter(source, n_before, *chunk);

		if (bins || filter)
			VECTORGPU_TRY(scan_.prepare_operand(
				bins ? source.bins_form() : source.filter_form(chunk->queries.n_queries, chunk->max_k), chunk));
		if (chunk->incoming.from != nullptr) // no operand is prepared by this search's first kernels
		{
			const kernels::Incoming incoming = std::exchange(chunk->incoming, {});

			VECTORGPU_TRY(copy_in(call_, incoming.to, incoming.from, incoming.bytes));
		}

		const size_t mark = arena_.mark();

		if (bounded)
			VECTORGPU_TRY(scan_.bounded(source, *chunk));
		else if (bins)
			VECTORGPU_TRY(scan_.bins(source, chunk, n_bins));
		else if (filter)
			VECTORGPU_TRY(scan_.filter(source, n_before, chunk));
		else
			VECTORGPU_TRY(scan_.direct(source, *chunk));
		arena_.release(mark); // the stream uses the pieces in order
		return Status::ok();
	}

	Status send_queries(std::span<const uint32_t> numbers, ExactChunk *chunk)
	{
		const size_t n = numbers.size();
		const Source *const own = source_of_queries(call_, numbers);
		ChunkStaging staging(call_, numbers, &arena_);
		ChunkStaging::Piece<uint32_t> own_rows = {};

		if (own != nullptr)
			own_rows = staging.take<uint32_t>(n);
		chunk->best.counts = staging.take_zeros<uint32_t>(n);
		chunk->prepared.redo = staging.take_zeros<uint8_t>(n);
		chunk->n_rescored = staging.take_zeros<uint64_t>(1);
		chunk->n_bounded = staging.take_zeros<uint32_t>(n);
		if (staging.failed())
			return too_small();
		staging.put_heads(chunk);
		VECTORGPU_TRY(own != nullptr && staging.is_sent() ? staging.gather_and_send(*own, own_rows)
														  : staging.put_and_send(&chunk->incoming));

		chunk->best.stride = chunk->max_k;
		chunk->best.entries = arena_.take<Entry>(n * chunk->max_k); // read_results reads it with the zeros before it
		chunk->prepared.norms = arena_.take<double>(n);
		chunk->thresholds = arena_.take<float>(n);
		return arena_.failed() ? too_small() : Status::ok();
	}

	Status read_results(const ExactChunk &chunk)
	{
		if (chunk.answers.heads != nullptr)
		{
			VECTORGPU_TRY(end_answers(call_, chunk.answers, chunk.numbers, &redo_));
			new_rows_.has_run();
			call_.progress();
			return Status::ok();
		}

		const size_t n = chunk.queries.n_queries;
		Arena host(call_.context->pinned_out.as<uint8_t>(), call_.context->pinned_out.bytes());
		uint32_t *counts = host.take<uint32_t>(n);
		uint8_t *redo = host.take<uint8_t>(n);
		uint64_t *n_rescored = host.take<uint64_t>(1);

		host.take<uint32_t>(n); // n_bounded

		const size_t head = host.mark();
		Entry *entries = host.take<Entry>(n * chunk.best.stride);

		if (host.failed())
			return too_small();
		// One copy: the pieces have the same offsets from the counts on the device as here.
		VECTORGPU_TRY(copy_out(call_, counts, chunk.best.counts, head + n * chunk.best.stride * sizeof(Entry)));
		VECTORGPU_TRY(call_.context->stream.synchronize());
		new_rows_.has_run();
		call_.progress();
		call_.counts->n_rescored += *n_rescored;
		for (size_t i = 0; i < n; i++)
			if (redo[i] != 0)
				redo_.push_back(chunk.numbers[i]);
		take_results(chunk.numbers, counts, entries, chunk.best.stride, redo, call_.results);
		return Status::ok();
	}

	const SearchCall &call_;
	Arena arena_;
	SourceScan scan_;
	std::vector<uint32_t> redo_;
	NewRows new_rows_; // awaited before the first work that reads rows of a source
};

} // namespace

Status
search_snapshot(const SearchCall &call)
{
	VECTORGPU_TRY(call.device->provoke(call.stream()));
	return call.end(Search(call).run());
}

} // namespace vectorgpu::cuda

// See ivf_few.hpp. Segments are searched one after another, and their results joined on the host.
#include "cuda/search/ivf_few.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda/device/staging.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/answers.hpp"
#include "cuda/search/chunk.hpp"
#include "cuda/search/coded_search.hpp"
#include "cuda/search/list_ways.hpp"
#include "cuda/search/results.hpp"
#include "cuda/search/rounded_lists.hpp"
#include "kernels/filter/tuning.hpp"
#include "kernels/ivf/ivf_few.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;

constexpr size_t kMostSources = 4; // the host waits for each

// Bytes of a batch of real queries up to which each block of the first launch fetches its queries (up to 8) itself.
constexpr size_t kMostFetchedBytes = 4096;

/// True if the kernels can take the source with these queries. reals: those for any numbers.
bool
suits(const SearchCall &call, bool reals, const Source &source)
{
	const DeviceLists &lists = *source.lists;
	const bool serves = reals ? kernels::ivf_few_serves_reals(call.spec.metric, source.block->form, call.shape.dim_pad)
							  : kernels::ivf_few_serves(call.spec.metric, source.block->form, call.shape.dim_pad);

	return serves && lists.with_vectors && !source.block->on_host() && lists.n_lists() > 0 &&
		lists.n_lists() <= kernels::kIvfFewMostLists && source.n_rows > 0 &&
		std::all_of(call.queries.begin(), call.queries.end(),
			[&](const SearchQuery &query)
			{
				const uint32_t n_probes = engine::probes_of(query.probes, source.segment, lists.n_lists());

				return query.k <= kernels::kIvfFewMostK && !query.has_after && n_probes <= kernels::kIvfFewMostProbes &&
					!chosen_by_codes(query, source);
			});
}

/// True if it takes less time that each query reads its lists of reals separately than many launches that read each
/// list once.
bool
is_worth_it(const SearchCall &call, const Source &source)
{
	const double most = call.options.few_real_pairs;
	const uint32_t n_lists = source.lists->n_lists();
	double n_pairs = 0;
	size_t max_k = 1;
	kernels::Rows rounded;

	for (const SearchQuery &query : call.queries)
	{
		max_k = std::max(max_k, query.k);
		n_pairs += expected_probes(source, query);
	}

	const double per_list = n_pairs / n_lists;
	const double read_bytes = per_list * source.n_rows * source.block->pitch_bytes;

	if (most != 0)
		return per_list <= most;
	if (rounded_lists_serve(
			call, source, static_cast<uint32_t>(call.queries.size()), static_cast<uint32_t>(max_k), &rounded))
	{
		const double read_once = (1 - std::exp(-per_list)) * source.n_rows * rounded.pitch_bytes;
		const uint64_t spare =
			std::min(kernels::kFewRealsSpareBytes, call.queries.size() * kernels::kFewRealsSpareBytesOfOne);

		return read_bytes - read_once <= static_cast<double>(spare);
	}
	return per_list <= kernels::kFewRealsPairsPerList ||
		read_bytes <= static_cast<double>(kernels::kFewRealsLittleBytes);
}

/// Blocks that share a query: each passes on at most the k first of its rows, and a few more with equal scores.
uint32_t
n_splits(const kernels::IvfFewGrid &grid, const Source &source, size_t n_queries, uint32_t max_probes, uint32_t max_k)
{
	const uint64_t rows = uint64_t{source.n_rows} * max_probes / source.lists->n_lists();
	const uint64_t wanted =
		std::min({grid.full_blocks / n_queries, rows / grid.rows_of_block, grid.candidates / max_k});

	return static_cast<uint32_t>(std::max<uint64_t>(wanted, 1));
}

/// The queries as bytes [n, dim_pad]; false if one is not of bytes.
bool
stage_bytes(const engine::DistanceSpec &spec, const Shape &shape, std::span<const SearchQuery> queries, uint8_t *bytes,
	kernels::IvfFewQuery *heads)
{
	for (size_t i = 0; i < queries.size(); i++)
	{
		uint8_t *to = bytes + i * shape.dim_pad;

		if (!put_bytes(static_cast<const float *>(queries[i].query), spec.dim, to, &heads[i].norm))
			return false;
		std::fill(to + spec.dim, to + shape.dim_pad, uint8_t{0});
	}
	return true;
}

/// A search by the kernels for bytes, or by those for any numbers.
class FewSearch
{
public:
	FewSearch(const SearchCall &call, const std::vector<const Source *> &sources, bool reals)
		: call_(call), sources_(sources), reals_(reals), numbers_(call.queries.size())
	{
		std::iota(numbers_.begin(), numbers_.end(), 0);
		for (const SearchQuery &query : call.queries)
			max_k_ = std::max(max_k_, static_cast<uint32_t>(query.k));
	}

	/// As search_few.
	Status run(std::vector<uint32_t> *redo, bool *taken)
	{
		const size_t n = call_.queries.size();
		Results found;
		std::vector<Neighbor> scratch;

		if (!stage())
			return Status::ok();
		for (const Source *source : sources_)
		{
			const bool first = source == sources_.front();

			put_source(*source);
			args_.answers = begin_answers(call_.context, n, max_k_);
			if (args_.answers.heads == nullptr)
				return Status::ok(); // with the first source: all need the same room
			*taken = true;
			if (first && args_.vectors_are_there)
				VECTORGPU_TRY(copy_in(call_, args_.vectors, sent_, sent_bytes_));
			VECTORGPU_TRY(call_.check(
				kernels::launch_ivf_few(args_, travelling_, call_.stream()), "search lists for few queries"));
			found.resize(n);
			VECTORGPU_TRY(
				end_answers(first ? call_ : call_.with(call_.queries, &found), args_.answers, numbers_, redo));
			for (size_t i = 0; !first && i < n; i++)
				join_results(found[i], call_.queries[i].k, &scratch, &(*call_.results)[i]);
		}
		return Status::ok();
	}

private:
	/// Puts the queries where the kernel reads them, and takes room on the device. False if there is too little, or if
	/// the kernels are for bytes and a query is not of bytes.
	bool stage()
	{
		const size_t n = call_.queries.size();
		const size_t query_bytes = reals_ ? call_.shape.query_bytes : call_.shape.dim_pad;
		// Few bytes travel among the arguments of the kernel.
		const bool travels = n * query_bytes <= kernels::kIvfFewInlineBytes && n <= kernels::kIvfFewInlineQueries;
		Arena host(call_.context->pinned_in.as<uint8_t>(), call_.context->pinned_in.bytes());
		Arena arena(call_.context->workspace.get(), call_.context->workspace.bytes());
		uint8_t *vectors =
			travels ? reinterpret_cast<uint8_t *>(travelling_.words) : host.take<uint8_t>(n * query_bytes);
		uint32_t most_lists = 0;

		heads_ = travels ? travelling_.queries : host.take<kernels::IvfFewQuery>(n);
		for (const Source *source : sources_)
			most_lists = std::max(most_lists, source->lists->n_lists());
		args_.vectors = arena.take<uint8_t>(n * query_bytes);
		args_.queries = arena.take<kernels::IvfFewQuery>(n);
		args_.orders = arena.take<uint32_t>(n * most_lists);
		args_.lows = call_.spec.metric == Metric::kCosine ? arena.take<uint32_t>(n * most_lists) : nullptr;
		args_.n_found = arena.take<uint32_t>(n);
		args_.n_done = arena.take<uint32_t>(n);
		args_.found = arena.take<kernels::IvfFewCandidate>(n * kernels::kIvfFewCandidates);
		if (host.failed() || arena.failed() ||
			(!reals_ && !stage_bytes(call_.spec, call_.shape, call_.queries, vectors, heads_)))
			return false;
		if (reals_)
			(void) stage_queries(call_.spec, call_.shape, call_.queries, numbers_, vectors, nullptr, nullptr);
		args_.metric = call_.spec.metric;
		args_.reals = reals_;
		args_.n_queries = static_cast<uint32_t>(n);
		args_.dim_pad = call_.shape.dim_pad;
		args_.vectors_are_there = reals_ && n * query_bytes > kMostFetchedBytes; // too many to fetch in each block
		args_.host_vectors = args_.vectors_are_there ? args_.vectors : travels ? nullptr : vectors;
		args_.host_queries = travels ? nullptr : heads_;
		sent_ = vectors;
		sent_bytes_ = n * query_bytes;
		return true;
	}

	void put_source(const Source &source)
	{
		const DeviceLists &lists = *source.lists;
		uint32_t max_probes = 1;

		for (size_t i = 0; i < call_.queries.size(); i++)
		{
			heads_[i].k = static_cast<uint32_t>(call_.queries[i].k);
			heads_[i].n_probes = engine::probes_of(call_.queries[i].probes, source.segment, lists.n_lists());
			heads_[i].unused = 0;
			max_probes = std::max(max_probes, heads_[i].n_probes);
		}
		args_.rows = source.rows();
		args_.row_values = reals_ ? nullptr : source.block->values.as<float>() + source.first;
		args_.offsets = lists.offsets.as<uint64_t>();
		args_.centroids = lists.centroids.as<float>();
		args_.cut = source.cut;
		args_.n_lists = lists.n_lists();
		args_.n_splits = n_splits(
			kernels::ivf_few_grid(reals_, call_.shape.dim_pad), source, call_.queries.size(), max_probes, max_k_);
	}

	const SearchCall &call_;
	const std::vector<const Source *> &sources_;
	bool reals_;
	std::vector<uint32_t> numbers_;
	uint32_t max_k_ = 1;
	kernels::IvfFewInline travelling_{};
	kernels::IvfFewQuery *heads_ = nullptr; // in travelling_, or in pinned memory
	const uint8_t *sent_ = nullptr;         // the queries, in host memory
	size_t sent_bytes_ = 0;
	kernels::IvfFewArgs args_;
};

} // namespace

Status
search_few(const SearchCall &call, const std::vector<const Source *> &sources, std::vector<uint32_t> *redo, bool *taken)
{
	const SearchOptions &options = call.options;
	const size_t n = call.queries.size();

	*taken = false;
	if (n == 0 || n > kernels::kIvfFewMostQueries || sources.empty() || sources.size() > kMostSources)
		return Status::ok();
	for (const bool reals : {false, true})
	{
		if (!(reals ? options.few_real_lists : options.few_lists) ||
			!std::all_of(sources.begin(), sources.end(), [&](const Source *source)
				{ return suits(call, reals, *source) && (!reals || is_worth_it(call, *source)); }))
			continue;
		VECTORGPU_TRY(FewSearch(call, sources, reals).run(redo, taken));
		if (!*taken)
			continue;
		// A query that one source could not answer has no answer.
		std::sort(redo->begin(), redo->end());
		redo->erase(std::unique(redo->begin(), redo->end()), redo->end());
		for (const uint32_t number : *redo)
			(*call.results)[number].clear();
		(reals ? call.counts->n_few_real_lists : call.counts->n_few_lists) += n - redo->size();
		break;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda

// See ivf_few.hpp. Segments one after another, joined on the host.
#include "cuda/search/ivf_few.hpp"

#include <algorithm>
#include <numeric>

#include "cuda/search/answers.hpp"
#include "cuda/device/arena.hpp"
#include "cuda/search/coded_search.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/device/staging.hpp"
#include "kernels/ivf/ivf_few.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;

constexpr size_t kMostSources = 4; // each is waited for
constexpr size_t kMostFetchedBytes =
	4096; // of queries of reals that blocks of the first launch fetch themselves, each of them up to 8 queries

/// True if the kernels can take the source with these queries. reals: those for any numbers.
bool
is_for_few(const engine::DistanceSpec &spec, const Shape &shape, bool reals, const Source &source,
	std::span<const SearchQuery> queries)
{
	const DeviceLists &lists = *source.lists;
	const bool serves = reals ? kernels::ivf_few_serves_reals(spec.metric, source.block->form, shape.dim_pad)
							  : kernels::ivf_few_serves(spec.metric, source.block->form, shape.dim_pad);

	return serves && lists.with_vectors && lists.n_lists() > 0 && lists.n_lists() <= kernels::kIvfFewMostLists &&
		source.n_rows > 0 &&
		std::all_of(queries.begin(), queries.end(),
			[&](const SearchQuery &query)
			{
				const uint32_t n_probes = engine::probes_of(query.probes, source.segment, lists.n_lists());

				return query.k <= kernels::kIvfFewMostK && !query.has_after && n_probes <= kernels::kIvfFewMostProbes &&
					!chosen_by_codes(query, source);
			});
}

/// True if it costs less that each query reads its lists of reals by itself, than many launches that read each list
/// once. most: pairs of a query and a list for each list; 0: tuning.hpp.
bool
is_worth_it(const Source &source, std::span<const SearchQuery> queries, double most)
{
	const uint32_t n_lists = source.lists->n_lists();
	uint64_t n_pairs = 0;

	for (const SearchQuery &query : queries)
		n_pairs += engine::probes_of(query.probes, source.segment, n_lists);

	const double per_list = static_cast<double>(n_pairs) / n_lists;
	const double read_bytes = per_list * source.n_rows * source.block->pitch_bytes;

	if (most != 0)
		return per_list <= most;
	return per_list <= kernels::kFewRealsPairsPerList ||
		read_bytes <= static_cast<double>(kernels::kFewRealsLittleBytes);
}

/// Blocks that share a query: each lets at most the k first of its rows go on, and some more at one distance.
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

/// The k first of two answers.
void
join(const std::vector<Neighbor> &other, size_t k, std::vector<Neighbor> *result)
{
	std::vector<Neighbor> joined(result->size() + other.size());

	std::merge(result->begin(), result->end(), other.begin(), other.end(), joined.begin(), engine::neighbor_less);
	joined.resize(std::min(joined.size(), k));
	*result = std::move(joined);
}

/// A search by the kernels for bytes, or by those for any numbers.
class FewSearch
{
public:
	FewSearch(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
		const std::vector<const Source *> &sources, std::span<const SearchQuery> queries, bool reals)
		: device_(device), context_(context), spec_(spec), shape_(shape), sources_(sources), queries_(queries),
		  reals_(reals), numbers_(queries.size())
	{
		std::iota(numbers_.begin(), numbers_.end(), 0);
		for (const SearchQuery &query : queries)
			max_k_ = std::max(max_k_, static_cast<uint32_t>(query.k));
	}

	/// As search_few has it.
	Status run(
		std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, std::vector<uint32_t> *redo, bool *taken)
	{
		if (!stage())
			return Status::ok();
		for (const Source *source : sources_)
		{
			std::vector<std::vector<Neighbor>> *to = source == sources_.front() ? results : &found_;

			put_source(*source);
			args_.answers = begin_answers(context_, queries_.size(), max_k_);
			if (args_.answers.heads == nullptr)
				return Status::ok(); // with the first source: they need the same room
			*taken = true;
			if (source == sources_.front() && args_.vectors_are_there)
				VECTORGPU_TRY(send());
			VECTORGPU_TRY(device_->check(
				kernels::launch_ivf_few(args_, travelling_, context_->stream.get()), "search lists for few queries"));
			found_.resize(queries_.size());
			VECTORGPU_TRY(end_answers(device_, context_, args_.answers, numbers_, to, counts, redo));
			for (size_t i = 0; to == &found_ && i < queries_.size(); i++)
				join(found_[i], queries_[i].k, &(*results)[i]);
		}
		return Status::ok();
	}

private:
	/// The queries, where they are taken from, and room on the device. False if there is too little, or a query is not
	/// of bytes that should be.
	bool stage()
	{
		const size_t n = queries_.size();
		const size_t query_bytes = reals_ ? shape_.query_bytes : shape_.dim_pad;
		const bool travels = n * query_bytes <= kernels::kIvfFewInlineBytes &&
			n <= kernels::kIvfFewInlineQueries; // few bytes travel among the arguments
		Arena host(context_->pinned_in.as<uint8_t>(), context_->pinned_in.bytes());
		Arena arena(context_->workspace.get(), context_->workspace.bytes());
		uint8_t *vectors =
			travels ? reinterpret_cast<uint8_t *>(travelling_.words) : host.take<uint8_t>(n * query_bytes);
		uint32_t most_lists = 0;

		heads_ = travels ? travelling_.queries : host.take<kernels::IvfFewQuery>(n);
		for (const Source *source : sources_)
			most_lists = std::max(most_lists, source->lists->n_lists());
		args_.vectors = arena.take<uint8_t>(n * query_bytes);
		args_.queries = arena.take<kernels::IvfFewQuery>(n);
		args_.orders = arena.take<uint32_t>(n * most_lists);
		args_.lows = spec_.metric == Metric::kCosine ? arena.take<uint32_t>(n * most_lists) : nullptr;
		args_.n_found = arena.take<uint32_t>(n);
		args_.n_done = arena.take<uint32_t>(n);
		args_.found = arena.take<kernels::IvfFewCandidate>(n * kernels::kIvfFewCandidates);
		if (host.failed() || arena.failed() || (!reals_ && !stage_bytes(spec_, shape_, queries_, vectors, heads_)))
			return false;
		if (reals_)
			(void) stage_queries(spec_, shape_, queries_, numbers_, vectors, nullptr, nullptr);
		args_.metric = spec_.metric;
		args_.reals = reals_;
		args_.n_queries = static_cast<uint32_t>(n);
		args_.dim_pad = shape_.dim_pad;
		args_.vectors_are_there = reals_ && n * query_bytes > kMostFetchedBytes; // many blocks would have to fetch them
		args_.host_vectors = args_.vectors_are_there ? args_.vectors : travels ? nullptr : vectors;
		args_.host_queries = travels ? nullptr : heads_;
		sent_ = vectors;
		sent_bytes_ = n * query_bytes;
		return true;
	}

	Status send() const
	{
		const cudaStream_t stream = context_->stream.get();

		return device_->check(sent_bytes_ <= kernels::kMostCopiedByKernel
				? kernels::launch_copy(args_.vectors, sent_, sent_bytes_, stream)
				: cudaMemcpyAsync(args_.vectors, sent_, sent_bytes_, cudaMemcpyHostToDevice, stream),
			"send queries");
	}

	void put_source(const Source &source)
	{
		const DeviceLists &lists = *source.lists;
		uint32_t max_probes = 1;

		for (size_t i = 0; i < queries_.size(); i++)
		{
			heads_[i].k = static_cast<uint32_t>(queries_[i].k);
			heads_[i].n_probes = engine::probes_of(queries_[i].probes, source.segment, lists.n_lists());
			heads_[i].unused = 0;
			max_probes = std::max(max_probes, heads_[i].n_probes);
		}
		args_.rows = source.rows();
		args_.row_values = reals_ ? nullptr : source.block->values.as<float>() + source.first;
		args_.offsets = lists.offsets.as<uint64_t>();
		args_.centroids = lists.centroids.as<float>();
		args_.n_lists = lists.n_lists();
		args_.n_splits =
			n_splits(kernels::ivf_few_grid(reals_, shape_.dim_pad), source, queries_.size(), max_probes, max_k_);
	}

	const Device *device_;
	SearchContext *context_;
	const engine::DistanceSpec &spec_;
	const Shape &shape_;
	const std::vector<const Source *> &sources_;
	std::span<const SearchQuery> queries_;
	bool reals_;
	std::vector<uint32_t> numbers_;
	uint32_t max_k_ = 1;
	kernels::IvfFewInline travelling_{};
	kernels::IvfFewQuery *heads_ = nullptr; // in travelling_, or in pinned memory
	const uint8_t *sent_ = nullptr;         // the queries, in host memory
	size_t sent_bytes_ = 0;
	kernels::IvfFewArgs args_;
	std::vector<std::vector<Neighbor>> found_;
};

} // namespace

Status
search_few(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const std::vector<const Source *> &sources, std::span<const SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, std::vector<uint32_t> *redo, bool *taken)
{
	const size_t n = queries.size();

	*taken = false;
	if (n == 0 || n > kernels::kIvfFewMostQueries || sources.empty() || sources.size() > kMostSources)
		return Status::ok();
	for (const bool reals : {false, true})
	{
		if (!(reals ? options.few_real_lists : options.few_lists) ||
			!std::all_of(sources.begin(), sources.end(),
				[&](const Source *source)
				{
					return is_for_few(spec, shape, reals, *source, queries) &&
						(!reals || is_worth_it(*source, queries, options.few_real_pairs));
				}))
			continue;
		VECTORGPU_TRY(
			FewSearch(device, context, spec, shape, sources, queries, reals).run(results, counts, redo, taken));
		if (!*taken)
			continue;
		// A query without an answer from one source has none.
		std::sort(redo->begin(), redo->end());
		redo->erase(std::unique(redo->begin(), redo->end()), redo->end());
		for (const uint32_t number : *redo)
			(*results)[number].clear();
		(reals ? counts->n_few_real_lists : counts->n_few_lists) += n - redo->size();
		break;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda

// See ivf_few.hpp. Segments one after another, joined on the host.
#include "cuda/ivf_few.hpp"

#include <algorithm>
#include <numeric>

#include "cuda/answers.hpp"
#include "cuda/arena.hpp"
#include "cuda/coded_search.hpp"
#include "cuda/ivf_lists.hpp"
#include "cuda/staging.hpp"
#include "kernels/ivf_few.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;

constexpr size_t kMostSources = 4;        // each is waited for
constexpr uint64_t kFullBlocks = 132 * 3; // that keep a large device busy
constexpr uint64_t kRowsOfBlock = 256;    // worth choosing a query's lists once more

/// True if the kernels can take the source with these queries.
bool
is_for_few(const engine::DistanceSpec &spec, const Shape &shape, const Source &source, std::span<const SearchQuery> queries)
{
	const DeviceLists &lists = *source.lists;

	return lists.n_lists() <= kernels::kIvfFewMostLists && source.n_rows > 0 &&
		   kernels::ivf_few_serves(spec.metric, source.block->form, shape.dim_pad) &&
		   std::all_of(queries.begin(), queries.end(),
			   [&](const SearchQuery &query)
			   {
				   const uint32_t n_probes = engine::probes_of(query.probes, source.segment, lists.n_lists());

				   return query.k <= kernels::kIvfFewMostK && !query.has_after && n_probes <= kernels::kIvfFewMostProbes && !chosen_by_codes(query, source);
			   });
}

/// Blocks that share a query: each lets at most the k first of its rows go on, and some more at one distance.
uint32_t
n_splits(const Source &source, size_t n_queries, uint32_t max_probes, uint32_t max_k)
{
	const uint64_t rows = uint64_t{source.n_rows} * max_probes / source.lists->n_lists();
	const uint64_t wanted = std::min({kFullBlocks / n_queries, rows / kRowsOfBlock, uint64_t{kernels::kIvfFewCandidates / 2 / max_k}});

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

} // namespace

Status
search_few(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const std::vector<const Source *> &sources, std::span<const SearchQuery> queries, const SearchOptions &options,
	std::vector<std::vector<Neighbor>> *results, SearchCounts *counts, std::vector<uint32_t> *redo, bool *taken)
{
	const size_t n = queries.size();
	uint32_t max_k = 1;

	*taken = false;
	if (!options.few_lists || n == 0 || n > kernels::kIvfFewMostQueries || sources.empty() || sources.size() > kMostSources ||
		!std::all_of(sources.begin(), sources.end(), [&](const Source *source) { return is_for_few(spec, shape, *source, queries); }))
		return Status::ok();
	for (const SearchQuery &query : queries)
		max_k = std::max(max_k, static_cast<uint32_t>(query.k));

	// Few bytes travel among the arguments.
	const bool travels = n * shape.dim_pad <= kernels::kIvfFewInlineBytes && n <= kernels::kIvfFewInlineQueries;
	Arena host(context->pinned_in.as<uint8_t>(), context->pinned_in.bytes());
	Arena arena(context->workspace.get(), context->workspace.bytes());
	kernels::IvfFewInline travelling{};
	uint8_t *bytes = travels ? reinterpret_cast<uint8_t *>(travelling.words) : host.take<uint8_t>(n * shape.dim_pad);
	kernels::IvfFewQuery *heads = travels ? travelling.queries : host.take<kernels::IvfFewQuery>(n);
	uint32_t most_lists = 0;
	kernels::IvfFewArgs args;

	for (const Source *source : sources)
		most_lists = std::max(most_lists, source->lists->n_lists());
	args.bytes = arena.take<uint8_t>(n * shape.dim_pad);
	args.queries = arena.take<kernels::IvfFewQuery>(n);
	args.orders = arena.take<uint32_t>(n * most_lists);
	args.n_found = arena.take<uint32_t>(n);
	args.n_done = arena.take<uint32_t>(n);
	args.found = arena.take<kernels::IvfFewCandidate>(n * kernels::kIvfFewCandidates);
	if (host.failed() || arena.failed() || !stage_bytes(spec, shape, queries, bytes, heads))
		return Status::ok();

	std::vector<uint32_t> numbers(n);
	std::vector<std::vector<Neighbor>> found;

	std::iota(numbers.begin(), numbers.end(), 0);
	args.metric = spec.metric;
	args.n_queries = static_cast<uint32_t>(n);
	args.dim_pad = shape.dim_pad;
	args.host_bytes = travels ? nullptr : bytes;
	args.host_queries = heads;
	for (const Source *source : sources)
	{
		const DeviceLists &lists = *source->lists;
		uint32_t max_probes = 1;

		for (size_t i = 0; i < n; i++)
		{
			heads[i].k = static_cast<uint32_t>(queries[i].k);
			heads[i].n_probes = engine::probes_of(queries[i].probes, source->segment, lists.n_lists());
			heads[i].unused = 0;
			max_probes = std::max(max_probes, heads[i].n_probes);
		}
		args.rows = source->rows();
		args.row_values = source->block->values.as<float>() + source->first;
		args.offsets = lists.offsets.as<uint64_t>();
		args.centroids = lists.centroids.as<float>();
		args.n_lists = lists.n_lists();
		args.n_splits = n_splits(*source, n, max_probes, max_k);
		args.answers = begin_answers(context, n, max_k);
		if (args.answers.heads == nullptr)
			return Status::ok(); // with the first source: they need the same room
		*taken = true;
		VECTORGPU_TRY(device->check(kernels::launch_ivf_few(args, travelling, context->stream.get()), "search lists of bytes"));

		std::vector<std::vector<Neighbor>> *to = source == sources.front() ? results : &found;

		found.resize(n);
		VECTORGPU_TRY(end_answers(device, context, args.answers, numbers, to, counts, redo));
		for (size_t i = 0; to == &found && i < n; i++)
			join(found[i], queries[i].k, &(*results)[i]);
	}
	// A query without an answer from one source has none.
	std::sort(redo->begin(), redo->end());
	redo->erase(std::unique(redo->begin(), redo->end()), redo->end());
	for (const uint32_t number : *redo)
		(*results)[number].clear();
	counts->n_few_lists += n - redo->size();
	return Status::ok();
}

} // namespace vectorgpu::cuda

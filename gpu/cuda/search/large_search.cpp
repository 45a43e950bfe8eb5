// See large_search.hpp.
#include "cuda/search/large_search.hpp"

#include <algorithm>

#include "cuda/search/results.hpp"
#include "cuda/search/search.hpp"
#include "cuda/search/source_scan.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
using engine::SearchQuery;
using kernels::Entry;

Status
search_all_slices(const SearchCall &call, uint32_t number, uint64_t k)
{
	return search_in_slices(call.queries[number], k, &(*call.results)[number],
		[&](const SearchQuery &query, Results *slice) { return search_snapshot(call.with({&query, 1}, slice)); });
}

/// Compute scores and row ids of all sources, one after another: keys, rows [call.snapshot.n_rows].
Status
score_all(const SearchCall &call, const kernels::Queries &query, NewRows *new_rows, uint64_t *keys, uint64_t *rows)
{
	uint64_t at = 0;

	for (const Source &source : call.snapshot.sources)
	{
		kernels::ScoreArgs score;

		VECTORGPU_TRY(new_rows->await(source.ticket));
		score.metric = call.spec.metric;
		score.rows = source.rows();
		score.queries = query;
		score.keys = keys + at;
		score.key_stride = source.n_rows;
		score.group_rows = rows_per_group(source.n_rows);
		VECTORGPU_TRY(call.check(kernels::launch_scores(score, call.stream()), "score rows"));
		VECTORGPU_TRY(call.check(cudaMemcpyAsync(rows + at, score.rows.row_ids, source.n_rows * sizeof(uint64_t),
									 cudaMemcpyDeviceToDevice, call.stream()),
			"copy row ids"));
		at += source.n_rows;
	}
	return Status::ok();
}

/// Read the k first of the sorted entries, without excluded ones, in rounds that fit pinned_out.
Status
read_sorted(const SearchCall &call, const Entry *entries, uint64_t k, NewRows *new_rows, std::vector<Neighbor> *result)
{
	const size_t per_round = call.context->pinned_out.bytes() / sizeof(Entry);
	Entry *pinned = call.context->pinned_out.as<Entry>();

	result->reserve(k);
	for (uint64_t done = 0; done < k;)
	{
		const size_t here = static_cast<size_t>(std::min<uint64_t>(per_round, k - done));

		VECTORGPU_TRY(copy_out(call, pinned, entries + done, here * sizeof(Entry)));
		VECTORGPU_TRY(call.context->stream.synchronize());
		new_rows->has_run();
		call.progress();
		for (size_t i = 0; i < here; i++)
		{
			if (pinned[i].key == kernels::kExcludedKey)
				return Status::ok(); // all that follow are excluded, too
			result->push_back({kernels::key_to_score(pinned[i].key), pinned[i].row});
		}
		done += here;
	}
	return Status::ok();
}

} // namespace

Status
search_large(const SearchCall &call, uint32_t number, uint64_t k, Arena *arena, NewRows *new_rows)
{
	const uint64_t n = call.snapshot.n_rows;
	const cudaStream_t stream = call.stream();
	const uint32_t numbers[] = {number};
	size_t temp_bytes = 0;
	QueryChunk chunk;

	VECTORGPU_TRY(
		call.check(kernels::sort_entries(nullptr, &temp_bytes, nullptr, nullptr, nullptr, nullptr, n, false, stream),
			"ask for the room of a sort"));
	if (4 * n * sizeof(uint64_t) + temp_bytes + call.shape.query_bytes + kExactMargins.workspace >
		call.context->workspace.bytes())
		return search_all_slices(call, number, k);
	arena->release(0);

	ChunkStaging staging(call, numbers, arena);

	if (staging.failed())
		return too_small();
	staging.put_heads(&chunk);
	(void) staging.put_vectors(nullptr, nullptr);
	VECTORGPU_TRY(staging.send());

	uint64_t *keys = arena->take<uint64_t>(n);
	uint64_t *rows = arena->take<uint64_t>(n);
	uint64_t *sorted_keys = arena->take<uint64_t>(n);
	uint64_t *sorted_rows = arena->take<uint64_t>(n);
	uint8_t *temp = arena->take<uint8_t>(temp_bytes);

	if (arena->failed())
		return search_all_slices(call, number, k);
	VECTORGPU_TRY(score_all(call, chunk.queries, new_rows, keys, rows));

	const bool ascending = call.snapshot.sources.size() == 1 && call.snapshot.sources.front().rows_ascending;
	Entry *zipped = reinterpret_cast<Entry *>(keys); // keys and rows together, not needed after the sort

	VECTORGPU_TRY(
		call.check(kernels::sort_entries(temp, &temp_bytes, keys, rows, sorted_keys, sorted_rows, n, ascending, stream),
			"sort rows"));
	VECTORGPU_TRY(call.check(kernels::launch_zip(sorted_keys, sorted_rows, k, zipped, stream), "collect rows"));
	return read_sorted(call, zipped, k, new_rows, &(*call.results)[number]);
}

} // namespace vectorgpu::cuda

// See graph_alone.hpp.
#include "cuda/search/graph_alone.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cuda/search/answers.hpp"
#include "cuda/device/arena.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/device/staging.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::SearchQuery;
using kernels::Entry;

static_assert(kernels::kGraphMostBegin >= engine::graph::kSearchEntries);

constexpr uint32_t kClusterDims =
	256; // rows of so many dimensions are scored by several blocks (kernels/graph/README.md),
constexpr uint32_t kClusterByteDims = 384; // or of so many bytes

static_assert(kClusterByteDims > kernels::kGraphMostByteDims); // rows scored as whole numbers take few loads

/// What is sent of the queries: alike in pinned memory and on the device.
struct Sent
{
	uint8_t *vectors;
	uint8_t *bytes; // [n, dim_pad]; null: the graph's rows are none
	uint32_t *k;
	uint32_t *widths;
	Entry *after;
	uint8_t *has_after;

	void take(Arena *arena, size_t n, const Shape &shape, bool has_bytes)
	{
		vectors = arena->take<uint8_t>(n * shape.query_bytes);
		bytes = has_bytes ? arena->take<uint8_t>(n * shape.dim_pad) : nullptr;
		k = arena->take<uint32_t>(n);
		widths = arena->take<uint32_t>(n);
		after = arena->take<Entry>(n);
		has_after = arena->take<uint8_t>(n);
	}
};

/// How many blocks each of the queries has, where nobody has said so: several where rows have many dimensions, so that
/// scoring them is most of a step, and all queries of the batch have theirs at once, a multiprocessor each.
Status
choose_blocks(const Device *device, kernels::GraphArgs args, uint32_t *n_blocks)
{
	int n_processors = 0;

	*n_blocks = 1;
	if (args.rows.form == kernels::Form::kBit ||
		args.queries.dim_pad < (args.rows.form == kernels::Form::kByte ? kClusterByteDims : kClusterDims))
		return Status::ok();
	VECTORGPU_TRY(
		device->check(cudaDeviceGetAttribute(&n_processors, cudaDevAttrMultiProcessorCount, device->ordinal()),
			"count multiprocessors"));
	for (const uint32_t blocks : {4u, 2u})
	{
		uint32_t room = 0;

		if (uint64_t{args.queries.n_queries} * blocks > static_cast<uint64_t>(n_processors))
			continue;
		args.tuning.blocks = blocks;
		VECTORGPU_TRY(device->check(kernels::graph_cluster_room(args, &room), "ask for room for clusters"));
		if (args.queries.n_queries <=
			room) // a cluster lies in one part of the device, so that some multiprocessors may be left over
		{
			*n_blocks = blocks;
			break;
		}
	}
	return Status::ok();
}

} // namespace

Status
search_graph_alone(const Device *device, SearchContext *context, const engine::DistanceSpec &spec, const Shape &shape,
	const Source &source, std::span<const SearchQuery> queries, const kernels::GraphTuning &tuning,
	std::vector<std::vector<engine::Neighbor>> *results, SearchCounts *counts, bool *taken)
{
	const size_t n = queries.size();
	const DeviceGraph &graph = *source.graph;
	const bool byte_rows = kernels::graph_bytes_are_exact(spec.metric, source.block->form, shape.dim_pad);
	Arena host(context->pinned_in.as<uint8_t>(), context->pinned_in.bytes());
	Arena arena(context->workspace.get(), context->workspace.bytes());
	Sent sent;
	Sent read; // by the kernel
	bool any_after = false;
	uint32_t max_k = 0;
	uint32_t n_blocks = 1;
	kernels::GraphArgs args;

	*taken = false;
	if (n == 0 || n > SearchContext::kMostAnswers || (tuning.warps != 0 && tuning.warps != kernels::kGraphAloneWarps) ||
		tuning.lanes != 0 || graph.parts.size() != 1 || graph.parts[0].n_entries > kernels::kGraphMostEntries)
		return Status::ok();
	sent.take(&host, n, shape, byte_rows);
	read.take(&arena, n, shape, byte_rows);
	if (host.failed() || arena.failed())
		return Status::ok();
	for (size_t i = 0; i < n; i++)
	{
		const SearchQuery &query = queries[i];

		sent.k[i] = static_cast<uint32_t>(query.k);
		sent.widths[i] = engine::width_of(query.probes, source.segment);
		sent.has_after[i] = query.has_after;
		sent.after[i] = {kernels::score_to_key(query.after.score), query.after.row};
		any_after |= query.has_after;
		max_k = std::max(max_k, sent.k[i]);
		args.max_width = std::max(args.max_width, sent.widths[i]);
	}

	std::vector<uint32_t> numbers(n);

	std::iota(numbers.begin(), numbers.end(), 0);

	const bool bytes = stage_queries(spec, shape, queries, numbers, sent.vectors, sent.bytes, nullptr);
	const kernels::Answers answers = begin_answers(context, n, max_k);

	if (answers.heads == nullptr)
		return Status::ok();
	*taken = true;
	// Bytes are read once, into registers: from where they are that is sooner than a copy. What follows an earlier
	// round is looked at again and again.
	if (bytes && !any_after)
		read = sent;
	else
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(read.vectors, sent.vectors, host.mark(), cudaMemcpyHostToDevice, context->stream.get()),
			"send queries"));
	args.metric = spec.metric;
	args.rows = source.rows();
	args.queries.vectors = read.vectors;
	args.queries.k = read.k;
	args.queries.after = any_after ? read.after : nullptr;
	args.queries.has_after = read.has_after;
	args.queries.n_queries = static_cast<uint32_t>(n);
	args.queries.dim_pad = shape.dim_pad;
	args.byte_queries = bytes ? read.bytes : nullptr;
	args.edges = graph.edges.as<uint32_t>();
	args.degree = graph.layout.header.degree;
	args.entry_nodes = graph.entry_nodes.as<uint32_t>() + graph.parts[0].first_entry;
	args.entries = graph.rows_of_entries(*source.block, graph.parts[0]);
	args.n_begin = std::min(graph.parts[0].n_entries, engine::graph::kSearchEntries);
	args.widths = read.widths;
	args.answers = answers;
	args.tuning = tuning;
	if (tuning.blocks == 0)
		VECTORGPU_TRY(choose_blocks(device, args, &args.tuning.blocks));
	VECTORGPU_TRY(
		device->check(kernels::launch_graph_search(args, context->stream.get(), &n_blocks), "search a graph"));
	VECTORGPU_TRY(end_answers(device, context, answers, numbers, results, counts, nullptr));
	counts->n_graph_alone += n;
	counts->n_graph_blocks += n * n_blocks;
	return Status::ok();
}

} // namespace vectorgpu::cuda

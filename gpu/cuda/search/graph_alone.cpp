// See graph_alone.hpp.
#include "cuda/search/graph_alone.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cuda/device/arena.hpp"
#include "cuda/device/staging.hpp"
#include "cuda/resident/device_graph.hpp"
#include "cuda/search/answers.hpp"
#include "engine/graph/build.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::SearchQuery;
using kernels::Entry;

static_assert(kernels::kGraphMostBegin >= engine::graph::kSearchEntries);
static_assert(kernels::kGraphMostEntries >= engine::graph::kMaxEntries);

// Dimensions from which on several blocks score a row: of numbers, of bytes (kernels/graph/README.md).
constexpr uint32_t kClusterDims = 256;
constexpr uint32_t kClusterByteDims = 384;

// Bytes of entry points from which on a launch before scores them: it takes some 8 us, and as many bytes are as much
// for the multiprocessors of one query (kernels/graph/README.md).
constexpr size_t kEntryBytesApart = size_t{1} << 20;

static_assert(kClusterByteDims > kernels::kGraphMostByteDims); // rows that are scored as integers take few loads

/// The queries in pinned memory, or on the device at the same offsets.
struct Sent
{
	uint8_t *vectors;
	uint8_t *bytes; // [n, dim_pad]; null: the graph's rows are not scored as bytes
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

/// Choose the blocks of a query, if the tuning does not: several if rows have many dimensions, so that scores take most
/// of a step, and if all blocks of the batch run at once, each on its own multiprocessor.
Status
choose_blocks(const Device *device, kernels::GraphArgs args, uint32_t *n_blocks)
{
	int n_processors = 0;

	*n_blocks = 1;
	if (args.rows.form == kernels::Form::kBit || args.narrow.rows != nullptr ||
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
		// A cluster lies in one part of the device, so that some multiprocessors may be left over.
		if (args.queries.n_queries <= room)
		{
			*n_blocks = blocks;
			break;
		}
	}
	return Status::ok();
}

/// True if the entry points are to be scored by a launch of their own. by_integers: as the rows of bytes are, fast.
bool
scores_entries_apart(const SearchCall &call, const Source &source, bool by_integers)
{
	const uint32_t asked = call.options.graph.entries_apart;

	if (source.block->form == kernels::Form::kBit || asked == 1)
		return false;
	return asked == 2 ||
		(!by_integers && size_t{source.graph->parts[0].n_entries} * source.rows().pitch_bytes >= kEntryBytesApart);
}

bool
suits(const SearchCall &call, const DeviceGraph &graph)
{
	const kernels::GraphTuning &tuning = call.options.graph;
	const size_t n = call.queries.size();

	return n > 0 && n <= SearchContext::kMostAnswers &&
		(tuning.warps == 0 || tuning.warps == kernels::kGraphAloneWarps) && tuning.lanes == 0 &&
		graph.parts.size() == 1 && graph.parts[0].n_entries <= kernels::kGraphMostEntries;
}

/// Fills all pieces but the vectors and bytes. *max_k, *max_width: the largest. Returns whether a query has an `after`.
bool
put_heads(const SearchCall &call, const Source &source, const Sent &sent, uint32_t *max_k, uint32_t *max_width)
{
	bool any_after = false;

	for (size_t i = 0; i < call.queries.size(); i++)
	{
		const SearchQuery &query = call.queries[i];

		sent.k[i] = static_cast<uint32_t>(query.k);
		sent.widths[i] = width_of(query, source);
		sent.has_after[i] = query.has_after;
		sent.after[i] = {kernels::score_to_key(query.after.score), query.after.row};
		any_after |= query.has_after;
		*max_k = std::max(*max_k, sent.k[i]);
		*max_width = std::max(*max_width, sent.widths[i]);
	}
	return any_after;
}

void
put_graph(const Source &source, kernels::GraphArgs *args)
{
	const DeviceGraph &graph = *source.graph;

	args->rows = source.rows();
	args->edges = graph.edges->as<uint32_t>();
	args->degree = graph.layout.header.degree;
	args->entry_nodes = graph.entry_nodes.as<uint32_t>() + graph.parts[0].first_entry;
	args->entries = graph.rows_of_entries(*source.block, graph.parts[0]);
	args->n_begin = std::min(graph.parts[0].n_entries, engine::graph::kSearchEntries);
	args->narrow = graph.narrow(args->queries.dim_pad);
}

} // namespace

Status
search_graph_alone(const SearchCall &call, const Source &source, bool *taken)
{
	const size_t n = call.queries.size();
	const bool byte_rows = kernels::graph_bytes_are_exact(call.spec.metric, source.block->form, call.shape.dim_pad);
	Arena host(call.context->pinned_in.as<uint8_t>(), call.context->pinned_in.bytes());
	Arena arena(call.context->workspace.get(), call.context->workspace.bytes());
	Sent sent;
	Sent read; // by the kernel
	uint32_t max_k = 0;
	uint32_t n_blocks = 1;
	kernels::GraphArgs args;

	*taken = false;
	if (!suits(call, *source.graph))
		return Status::ok();
	sent.take(&host, n, call.shape, byte_rows);
	read.take(&arena, n, call.shape, byte_rows);
	if (host.failed() || arena.failed())
		return Status::ok();

	const bool any_after = put_heads(call, source, sent, &max_k, &args.max_width);
	std::vector<uint32_t> numbers(n);

	std::iota(numbers.begin(), numbers.end(), 0);

	const bool bytes = stage_queries(call.spec, call.shape, call.queries, numbers, sent.vectors, sent.bytes, nullptr);
	const kernels::Answers answers = begin_answers(call.context, n, max_k);

	if (answers.heads == nullptr)
		return Status::ok();
	*taken = true;

	uint64_t *items =
		scores_entries_apart(call, source, bytes) ? arena.take<uint64_t>(n * kernels::kGraphEntryItems) : nullptr;

	if (arena.failed())
		items = nullptr; // then the blocks of a query score them
	// The kernel reads bytes once, into registers: reading them from pinned memory takes less time than a copy. It
	// reads `after` again and again, and many blocks score entry points.
	if (bytes && !any_after && items == nullptr)
		read = sent;
	else
		VECTORGPU_TRY(
			call.check(cudaMemcpyAsync(read.vectors, sent.vectors, host.mark(), cudaMemcpyHostToDevice, call.stream()),
				"send queries"));
	args.metric = call.spec.metric;
	args.queries.vectors = read.vectors;
	args.queries.k = read.k;
	args.queries.after = any_after ? read.after : nullptr;
	args.queries.has_after = read.has_after;
	args.queries.n_queries = static_cast<uint32_t>(n);
	args.queries.dim_pad = call.shape.dim_pad;
	args.byte_queries = bytes ? read.bytes : nullptr;
	args.widths = read.widths;
	args.answers = answers;
	args.tuning = call.options.graph;
	put_graph(source, &args);
	if (items != nullptr)
	{
		VECTORGPU_TRY(call.check(kernels::launch_graph_entries(args, items, call.stream()), "score entry points"));
		args.entry_items = items;
		call.counts->n_entries_apart += n;
	}
	if (args.tuning.blocks == 0)
		VECTORGPU_TRY(choose_blocks(call.device, args, &args.tuning.blocks));
	VECTORGPU_TRY(call.check(kernels::launch_graph_search(args, call.stream(), &n_blocks), "search a graph"));
	VECTORGPU_TRY(end_answers(call, answers, numbers, nullptr));
	call.counts->n_graph_alone += n;
	call.counts->n_graph_blocks += n * n_blocks;
	return Status::ok();
}

} // namespace vectorgpu::cuda

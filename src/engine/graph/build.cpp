// See build.hpp.
#include "engine/graph/build.hpp"

#include <algorithm>

#include "engine/graph/connect.hpp"
#include "engine/graph/entries.hpp"
#include "engine/graph/reach.hpp"
#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/graph/reverse.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

// Of many rows the first nodes that cannot be reached tell whether whole groups cannot: these get entry points before
// the rest is connected, of which hardly any is left then. One thread would search for an edge to each group.
constexpr uint32_t kManyRows = 100000;
constexpr uint32_t kConnectedFirst = 64;

/// Memory of the steps after the k-NN graph. late may overlap with stage.
struct EdgeMemory
{
	uint32_t *forward; // [n_rows, degree]
	unsigned char *stage;
	size_t stage_bytes;
	unsigned char *late;
	size_t late_bytes;
};

/// Bytes of EdgeMemory::late.
size_t
late_stage_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads)
{
	return std::max({add_reverse_bytes(rows.n_rows, spec.degree), choose_entries_bytes(rows, spec, n_threads),
		connect_bytes(rows, spec.degree, entry_count(rows.n_rows, spec)),
		add_unreached_bytes(rows, spec.degree, entry_count(rows.n_rows, spec), n_threads)});
}

/// Choose edges, with those back, from the k-NN graph.
Outcome
make_edges(const GraphRows &rows, const BuildSpec &spec, const KnnLists &lists, const EdgeMemory &memory,
	uint32_t *edges, const Call &call, const Helper *helper)
{
	if (helper != nullptr && spec.prune == PruneKind::kRank)
		switch (helper->choose_edges(
			helper->context, {rows.n_rows, lists.k, spec.degree, lists.ids, nullptr, memory.forward, edges}))
		{
			case Helped::kYes:
				return {};
			case Helped::kCancelled:
				return ivf::cancelled();
			case Helped::kNo:
			case Helped::kFailed: // the lists are as they were
				break;
		}

	const Outcome outcome =
		prune(rows, lists, spec.prune, spec.degree, memory.forward, memory.stage, memory.stage_bytes, call);

	return outcome.is_ok()
		? add_reverse(rows.n_rows, spec.degree, memory.forward, edges, memory.late, memory.late_bytes, call)
		: outcome;
}

/// The first entry points, which the caller may have chosen meanwhile.
Outcome
first_entries(const GraphRows &rows, const BuildSpec &spec, const EdgeMemory &memory, uint32_t *entries,
	uint32_t *n_entries, const Call &call, const BuildHooks &hooks)
{
	switch (hooks.entries != nullptr ? hooks.entries(call.progress_context, entries, n_entries) : Found::kNo)
	{
		case Found::kYes:
			return {};
		case Found::kCancelled:
			return ivf::cancelled();
		case Found::kNo:
			break;
	}
	return choose_entries(rows, spec, entries, n_entries, memory.late, memory.late_bytes, call);
}

/// Add entry points for groups that searches do not find, and connect nodes that cannot be reached.
Outcome
lead_to_all(const GraphRows &rows, const BuildSpec &spec, uint32_t k, const EdgeMemory &memory, uint32_t *edges,
	uint32_t *entries, BuildReport *report, const Call &call, const Helper *helper)
{
	ConnectLimit limit = {rows.n_rows >= kManyRows && spec.n_entries == 0 ? kConnectedFirst : UINT32_MAX, 0};
	uint32_t n_more = 0;
	const auto connect_nodes = [&](uint32_t *n_added, ConnectLimit *most)
	{
		return connect(rows, spec.degree, edges, entries, report->n_entries, n_added, memory.late, memory.late_bytes,
			call, nullptr, most);
	};
	Outcome outcome = connect_nodes(&report->n_connected, &limit);
	const bool has_more = outcome.is_ok() && report->n_connected == limit.most;
	const bool are_groups = has_more && limit.n_reached >= uint64_t{k} * report->n_connected;

	if (has_more && !are_groups)
		outcome = connect_nodes(&n_more, nullptr);
	if (outcome.is_ok() && spec.n_entries == 0)
		outcome = add_unreached(rows, spec.degree, edges, entries, &report->n_entries, entry_count(rows.n_rows, spec),
			&report->n_unreached, memory.late, memory.late_bytes, call, helper);
	if (outcome.is_ok() && are_groups)
		outcome = connect_nodes(&n_more, nullptr);
	report->n_connected += n_more;
	return outcome;
}

/// Choose edges and entry points from the k-NN graph, whose scores may lie in memory.late.
Outcome
choose_edges(const GraphRows &rows, const BuildSpec &spec, const KnnLists &lists, const EdgeMemory &memory,
	uint32_t *edges, uint32_t *entries, BuildReport *report, const Call &call, const BuildHooks &hooks = {})
{
	Outcome outcome = make_edges(rows, spec, lists, memory, edges, call, hooks.helper);

	if (outcome.is_ok())
		outcome = first_entries(rows, spec, memory, entries, &report->n_entries, call, hooks);
	return outcome.is_ok() ? lead_to_all(rows, spec, lists.k, memory, edges, entries, report, call, hooks.helper)
						   : outcome;
}

bool
is_valid(const BuildSpec &spec)
{
	return spec.degree >= kMinDegree && spec.degree <= kMaxDegree && spec.n_entries <= kMaxEntries;
}

constexpr Outcome kInvalidSpec = {StatusCode::kInvalidArgument, "number of edges or entry points is out of range"};

/// The arrays that more than one stage uses. Memory that only one stage needs is shared by all stages.
struct Memory
{
	uint32_t *ids;     // [n_rows, k]
	float *scores;     // [n_rows, k]
	uint32_t *forward; // [n_rows, degree]
	unsigned char *stage;
	size_t stage_bytes;
	// After the pruning the scores are no longer needed: their memory and that of the stages together.
	unsigned char *late;
	size_t late_bytes;

	bool take(ivf::Arena *arena, const GraphRows &rows, const BuildSpec &spec, size_t n_threads)
	{
		const KnnSpec knn = knn_spec(rows, spec);
		const size_t n_scores = static_cast<size_t>(rows.n_rows) * knn.k;
		KnnLists lists;

		lists.k = knn.k;
		stage_bytes = std::max(knn_graph_bytes(rows, knn, n_threads), prune_bytes(lists, n_threads));
		late_bytes = std::max(stage_bytes + n_scores * sizeof(float), late_stage_bytes(rows, spec, n_threads));
		ids = arena->take<uint32_t>(n_scores);
		forward = arena->take<uint32_t>(static_cast<size_t>(rows.n_rows) * spec.degree);
		late = arena->take<unsigned char>(late_bytes + 64);
		if (late == nullptr)
			return false;
		scores = reinterpret_cast<float *>(late);
		stage = late + n_scores * sizeof(float);
		stage_bytes = late_bytes + 64 - n_scores * sizeof(float);
		return true;
	}
};

Outcome
find_neighbors(const GraphRows &rows, const KnnSpec &spec, KnnLists *lists, const Memory &memory, const Call &call,
	const BuildHooks &hooks)
{
	lists->k = spec.k;
	switch (hooks.neighbors != nullptr ? hooks.neighbors(call.progress_context, rows, *lists) : Found::kNo)
	{
		case Found::kYes:
			return {};
		case Found::kCancelled:
			return ivf::cancelled();
		case Found::kNo:
			break;
	}
	return knn_graph(rows, spec, lists, memory.stage, memory.stage_bytes, call);
}

} // namespace

KnnSpec
knn_spec(const GraphRows &rows, const BuildSpec &spec)
{
	KnnSpec knn = spec.knn;

	if (knn.k == 0)
		knn.k = spec.degree + spec.degree / 2;
	knn.k = std::clamp(knn.k, 1u, std::max(rows.n_rows, 2u) - 1);
	return knn;
}

size_t
graph_build_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) memory.take(&arena, rows, spec, n_threads);
	return arena.bytes_needed();
}

Outcome
graph_build(const GraphRows &rows, const BuildSpec &spec, uint32_t *edges, uint32_t *entries, BuildReport *report,
	void *work, size_t work_bytes, const Call &call, const BuildHooks &hooks)
{
	const KnnSpec knn = knn_spec(rows, spec);
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	KnnLists lists;

	*report = BuildReport();
	if (!is_valid(spec))
		return kInvalidSpec;
	if (rows.n_rows == 0)
		return {};
	if (!memory.take(&arena, rows, spec, call.n_threads))
		return ivf::work_memory_short();
	lists.ids = memory.ids;
	lists.scores = memory.scores;

	if (hooks.on_stage != nullptr)
		hooks.on_stage(call.progress_context, BuildStage::kNeighbors);
	Outcome outcome = find_neighbors(rows, knn, &lists, memory, call, hooks);
	if (outcome.is_ok() && hooks.on_stage != nullptr)
		hooks.on_stage(call.progress_context, BuildStage::kEdges);
	if (outcome.is_ok())
		outcome = choose_edges(rows, spec, lists,
			{memory.forward, memory.stage, memory.stage_bytes, memory.late, memory.late_bytes}, edges, entries, report,
			call, hooks);
	return outcome;
}

Outcome
graph_hold_out_copies(const GraphRows &rows, const BuildSpec &spec, uint32_t n_wanted, uint32_t most, HeldOutRows *held,
	void *work, size_t work_bytes, size_t n_threads)
{
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	KnnLists lists;

	if (!memory.take(&arena, rows, spec, n_threads))
		return ivf::work_memory_short();
	lists.ids = memory.ids;
	lists.k = knn_spec(rows, spec).k;
	hold_out_copies(rows, lists, n_wanted, most, held);
	return {};
}

Outcome
graph_build_held_out(const GraphRows &rows, const BuildSpec &spec, const HeldOutRows &held, uint32_t n_nearest,
	uint32_t *nearest, const uint32_t *entries, uint32_t n_entries, const uint32_t **edges, void *work,
	size_t work_bytes, const Call &call, const Helper *helper)
{
	const auto is_held = [&held](uint32_t row) { return std::binary_search(held.rows, held.rows + held.n_rows, row); };
	const KnnSpec knn = knn_spec(rows, spec);
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	HoldOutGraph graph;
	uint32_t n_left = 0;
	uint32_t n_connected;

	if (spec.prune != PruneKind::kRank || knn.k < spec.degree || std::all_of(entries, entries + n_entries, is_held))
		return {StatusCode::kUnsupported, "rows of this graph cannot be held out"};
	if (!memory.take(&arena, rows, spec, call.n_threads))
		return ivf::work_memory_short();
	graph.n_rows = rows.n_rows;
	graph.lists.ids = memory.ids;
	graph.lists.k = knn.k;
	graph.degree = spec.degree;
	graph.forward = memory.forward;
	*edges = memory.ids;

	const Outcome outcome =
		hold_out(graph, held, n_nearest, nearest, memory.ids, memory.late, memory.late_bytes, call, helper);

	if (!outcome.is_ok())
		return outcome;

	// The forward edges are no longer needed. They hold at least two numbers a row, and there are no more entry points
	// than rows.
	uint32_t *left = memory.forward;
	uint8_t *absent = reinterpret_cast<uint8_t *>(left + n_entries);

	for (uint32_t i = 0; i < n_entries; i++)
		if (!is_held(entries[i]))
			left[n_left++] = entries[i];
	std::fill_n(absent, rows.n_rows, uint8_t{0});
	for (uint32_t i = 0; i < held.n_rows; i++)
		absent[held.rows[i]] = 1;
	return connect(
		rows, spec.degree, memory.ids, left, n_left, &n_connected, memory.late, memory.late_bytes, call, absent);
}

size_t
graph_from_neighbors_bytes(const GraphRows &rows, const BuildSpec &spec, uint32_t k, size_t n_threads)
{
	KnnLists lists;

	lists.k = k;
	return size_t{rows.n_rows} * spec.degree * sizeof(uint32_t) + prune_bytes(lists, n_threads) +
		late_stage_bytes(rows, spec, n_threads) + 8 * 64;
}

Outcome
graph_from_neighbors(const GraphRows &rows, const BuildSpec &spec, const KnnLists &lists, uint32_t *edges,
	uint32_t *entries, BuildReport *report, void *work, size_t work_bytes, const Call &call)
{
	ivf::Arena arena(work, work_bytes);
	EdgeMemory memory;

	*report = BuildReport();
	if (!is_valid(spec))
		return kInvalidSpec;
	if (rows.n_rows == 0)
		return {};
	memory.forward = arena.take<uint32_t>(size_t{rows.n_rows} * spec.degree);
	memory.stage_bytes = prune_bytes(lists, call.n_threads) + 64;
	memory.stage = arena.take<unsigned char>(memory.stage_bytes);
	memory.late_bytes = late_stage_bytes(rows, spec, call.n_threads) + 64;
	memory.late = arena.take<unsigned char>(memory.late_bytes);
	if (memory.late == nullptr)
		return ivf::work_memory_short();
	return choose_edges(rows, spec, lists, memory, edges, entries, report, call);
}

} // namespace vectorgpu::engine::graph

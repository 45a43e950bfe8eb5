// See knn_graph.hpp.
#include "engine/graph/knn_graph.hpp"

#include <algorithm>
#include <cmath>

#include "engine/graph/knn_clusters.hpp"
#include "engine/graph/knn_compare.hpp"
#include "engine/graph/knn_list.hpp"
#include "engine/graph/visited.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kClusterRows = 256;  // on average
constexpr uint32_t kProgressRows = 256; // between calls of progress
constexpr size_t kMaxClusters = 1 << 14;
// A row that was aside is compared with the first kJoinWidth neighbours of its first kJoinWidth neighbours.
constexpr uint32_t kJoinWidth = 48;

uint32_t
cluster_count(const GraphRows &rows, const KnnSpec &spec)
{
	if (rows.n_rows <= spec.exact_rows)
		return 1;
	return static_cast<uint32_t>(std::min<size_t>((rows.n_rows + kClusterRows - 1) / kClusterRows, kMaxClusters));
}

/// The arrays that every stage needs, and the memory that the stages use one after the other.
struct Memory
{
	Clusters clusters;
	uint8_t *aside;       // bitmap of rows that are in no other row's list yet
	unsigned char *stage; // of the largest stage
	size_t stage_bytes;
};

struct RefineStage
{
	uint32_t *located;      // [refine_width²]
	double *located_scores; // [refine_width²]
	uint8_t *seen;
	VisitedSize seen_size;

	bool take(ivf::Arena *arena, const KnnSpec &spec)
	{
		const size_t n_located = static_cast<size_t>(spec.refine_width) * spec.refine_width;

		seen_size = {spec.k + size_t{1}, n_located};
		located = arena->take<uint32_t>(n_located);
		located_scores = arena->take<double>(n_located);
		seen = arena->take<uint8_t>(HashVisited::bytes(seen_size));
		return seen != nullptr;
	}
};

struct JoinStage
{
	uint32_t *numbers; // [n_aside]
	double *scores;    // [n_aside]
	KnnSpec wide;      // of NN-descent
	RefineStage refine;

	bool take(ivf::Arena *arena, const KnnSpec &spec)
	{
		wide = spec;
		wide.refine_width = std::min(spec.k, kJoinWidth);
		if (spec.n_aside > 0)
			(void) refine.take(arena, wide);
		numbers = arena->take<uint32_t>(spec.n_aside);
		scores = arena->take<double>(spec.n_aside);
		return scores != nullptr;
	}
};

bool
plan(ivf::Arena *arena, const GraphRows &rows, const KnnSpec &spec, size_t n_threads, Memory *memory)
{
	const uint32_t n_clusters = cluster_count(rows, spec);
	ivf::Arena stages[2];
	RefineStage refine;
	JoinStage join;

	(void) refine.take(&stages[0], spec);
	(void) join.take(&stages[1], spec);
	memory->stage_bytes = std::max({make_clusters_bytes(rows, n_clusters, n_threads),
		compare_bytes(rows, n_clusters, n_threads), stages[0].bytes_needed(), stages[1].bytes_needed()});
	memory->aside = arena->take<uint8_t>(size_t{rows.n_rows} / 8 + 1);
	memory->clusters.order = arena->take<uint32_t>(rows.n_rows);
	memory->clusters.first_of = arena->take<uint32_t>(n_clusters + size_t{1});
	memory->clusters.centroids = arena->take<float>(static_cast<size_t>(n_clusters) * cluster_dim(rows.spec));
	memory->stage = arena->take<unsigned char>(memory->stage_bytes);
	return memory->stage != nullptr;
}

/// Set stage.located to the first neighbours of the first neighbours of u that are not neighbours of u, each once;
/// return their number.
size_t
locate(const KnnLists &lists, const KnnSpec &spec, uint32_t u, const RefineStage &stage)
{
	const uint32_t width = std::min(spec.refine_width, lists.k);
	const uint32_t *own = lists.ids + static_cast<size_t>(u) * lists.k;
	HashVisited seen(stage.seen_size, stage.seen);
	size_t n = 0;

	(void) seen.insert(u);
	for (uint32_t i = 0; i < lists.k && own[i] != kNoNode; i++)
		(void) seen.insert(own[i]);
	for (uint32_t i = 0; i < width && own[i] != kNoNode; i++)
	{
		const uint32_t *theirs = lists.ids + static_cast<size_t>(own[i]) * lists.k;

		for (uint32_t j = 0; j < width && theirs[j] != kNoNode; j++)
			if (!seen.contains(theirs[j]))
			{
				(void) seen.insert(theirs[j]);
				stage.located[n++] = theirs[j];
			}
	}
	return n;
}

/// NN-descent of row u: a neighbour that is found goes into the list of u at once, and, unless `alone`, u into its
/// list.
void
refine_row(
	const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, uint32_t u, bool alone, const RefineStage &stage)
{
	const size_t n = locate(lists, spec, u, stage);
	KnnList list(lists, u);

	score_rows(rows, rows.row(u), stage.located, n, stage.located_scores);
	for (size_t j = 0; j < n; j++)
	{
		KnnList other(lists, stage.located[j]);

		if (stage.located_scores[j] < list.worst())
			list.insert(stage.located[j], stage.located_scores[j]);
		if (!alone && stage.located_scores[j] < other.worst() && !other.has(u))
			other.insert(u, stage.located_scores[j]);
	}
}

/// One pass of NN-descent, in the order of clusters.
bool
refine(const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, const Memory &memory, const Call &call)
{
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	RefineStage stage;

	(void) stage.take(&arena, spec); // plan() has counted it
	for (uint32_t i = 0; i < rows.n_rows; i++)
	{
		const uint32_t u = memory.clusters.order[i];

		if (i % kProgressRows == 0 && !ivf::go_on(call, {i, rows.n_rows}))
			return false;
		refine_row(rows, spec, lists, u, is_aside(memory.aside, u), stage);
	}
	return true;
}

/// Offer the rows that were aside to the lists of their neighbours, to each other's, and last to those of their
/// neighbours' neighbours: such a row may have one of them as a neighbour without being a neighbour of it.
bool
join_aside(const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, const Memory &memory, const Call &call)
{
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	JoinStage stage;

	(void) stage.take(&arena, spec); // plan() has counted it
	for (uint32_t i = 0; i < spec.n_aside; i++)
	{
		const uint32_t q = stage.numbers[i] = static_cast<uint32_t>(stratified_row(i, spec.n_aside, rows.n_rows));
		const uint32_t *ids = lists.ids + size_t{q} * lists.k;
		const float *scores = lists.scores + size_t{q} * lists.k;

		for (uint32_t j = 0; j < lists.k && ids[j] != kNoNode; j++)
			offer(lists, ids[j], q, static_cast<double>(scores[j]));
	}
	for (uint32_t i = 0; i < spec.n_aside; i++)
	{
		const uint32_t q = stage.numbers[i];

		if (i % kProgressRows == 0 && !ivf::go_on(call, {i, spec.n_aside}))
			return false;
		score_rows(rows, rows.row(q), stage.numbers, i, stage.scores);
		for (uint32_t j = 0; j < i; j++)
		{
			offer(lists, q, stage.numbers[j], stage.scores[j]);
			offer(lists, stage.numbers[j], q, stage.scores[j]);
		}
	}
	for (uint32_t i = 0; i < spec.n_aside; i++)
	{
		if (i % kProgressRows == 0 && !ivf::go_on(call, {i, spec.n_aside}))
			return false;
		refine_row(rows, stage.wide, lists, stage.numbers[i], false, stage.refine);
	}
	return true;
}

} // namespace

size_t
knn_graph_bytes(const GraphRows &rows, const KnnSpec &spec, size_t n_threads)
{
	ivf::Arena arena;
	Memory memory;

	(void) plan(&arena, rows, spec, n_threads, &memory);
	return arena.bytes_needed();
}

Outcome
knn_graph(const GraphRows &rows, const KnnSpec &spec, KnnLists *lists, void *work, size_t work_bytes, const Call &call)
{
	const uint32_t n_clusters = cluster_count(rows, spec);
	ivf::Arena arena(work, work_bytes);
	Memory memory;

	lists->k = spec.k;
	if (spec.k == 0 || rows.spec.element == ElementType::kSet)
		return {StatusCode::kInvalidArgument, "such rows have no graph of neighbors"};
	std::fill_n(lists->ids, static_cast<size_t>(rows.n_rows) * spec.k, kNoNode);
	std::fill_n(lists->scores, static_cast<size_t>(rows.n_rows) * spec.k, HUGE_VALF);
	if (rows.n_rows == 0)
		return {};
	if (spec.n_aside > rows.n_rows)
		return {StatusCode::kInvalidArgument, "more rows aside than there are rows"};
	if (!plan(&arena, rows, spec, call.n_threads, &memory))
		return ivf::work_memory_short();

	if (n_clusters == 1)
	{
		for (uint32_t i = 0; i < rows.n_rows; i++)
			memory.clusters.order[i] = i;
		return compare_all(rows, memory.clusters.order, *lists, memory.stage, memory.stage_bytes, call);
	}

	std::fill_n(memory.aside, size_t{rows.n_rows} / 8 + 1, uint8_t{0});
	for (uint32_t i = 0; i < spec.n_aside; i++)
	{
		const uint64_t u = stratified_row(i, spec.n_aside, rows.n_rows);

		memory.aside[u / 8] |= static_cast<uint8_t>(1U << (u % 8));
	}
	memory.clusters.n = n_clusters;

	Outcome outcome = make_clusters(rows, spec.seed, &memory.clusters, memory.stage, memory.stage_bytes, call);

	if (!outcome.is_ok())
		return outcome;
	outcome = compare_near(rows, spec, memory.clusters, memory.aside, *lists, memory.stage, memory.stage_bytes, call);
	if (!outcome.is_ok())
		return outcome;
	for (uint32_t i = 0; i < spec.n_refinements; i++)
		if (!refine(rows, spec, *lists, memory, call))
			return ivf::cancelled();
	return join_aside(rows, spec, *lists, memory, call) ? Outcome{} : ivf::cancelled();
}

} // namespace vectorgpu::engine::graph

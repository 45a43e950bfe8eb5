// See knn_graph.hpp. Clusters are compared block by block: the rows of one with those of another, copied so that they
// follow each other, by the canonical scores; which keeps the rows of a block in the cache.
#include "engine/graph/knn_graph.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/graph/knn_clusters.hpp"
#include "engine/graph/visited.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kClusterRows = 256;  // on average
constexpr uint32_t kBlockRows = 512;    // a larger cluster is cut into blocks
constexpr uint32_t kProgressRows = 256; // between calls of progress
constexpr uint32_t kNearClusters = 48;  // of a cluster, that its rows choose from
constexpr uint32_t kMaxProbes = 16;     // blocks that a row is compared with
constexpr size_t kMaxClusters = 1 << 14;
constexpr size_t kMostTasks = 64;
constexpr uint32_t kJoinWidth =
	48; // first neighbours of so many first neighbours, that a row which was aside is compared with
constexpr uint32_t kPieceRows = 32; // compared with a block by one task at a time

uint32_t
cluster_count(const GraphRows &rows, const KnnSpec &spec)
{
	if (rows.n_rows <= spec.exact_rows)
		return 1;
	return static_cast<uint32_t>(std::min<size_t>((rows.n_rows + kClusterRows - 1) / kClusterRows, kMaxClusters));
}

/// The arrays that live through all of it, then those of each stage, which share their memory.
struct Memory
{
	Clusters clusters;
	uint8_t *aside;       // bitmap of rows that are no others' neighbours yet
	unsigned char *stage; // of the largest stage
	size_t stage_bytes;
};

/// A piece of a cluster: rows order[first .. end).
struct Block
{
	uint32_t first;
	uint32_t end;
};

/// Of one thread.
struct CompareTask
{
	double *cluster_scores;  // [n_clusters]
	uint32_t *cluster_order; // [n_clusters]
	float *row;              // [cluster_dim()]
	double *scores;          // [kBlockRows]
};

struct CompareStage
{
	CompareTask tasks[kMostTasks];
	size_t n_tasks;
	uint32_t *first_block;   // [n_clusters + 1]
	Block *blocks;           // [max_blocks()]
	uint32_t *first_probing; // [max_blocks() + 1] into probing
	uint32_t *probes;        // [n_rows, kMaxProbes] blocks that the row is compared with, kNoNode behind them
	uint32_t *probing;       // [n_rows * kMaxProbes] rows that are compared with a block, block by block
	unsigned char *block;    // [kBlockRows, row bytes]

	static size_t max_blocks(const GraphRows &rows, uint32_t n_clusters)
	{
		return n_clusters + size_t{rows.n_rows} / kBlockRows;
	}
	bool take(ivf::Arena *arena, const GraphRows &rows, uint32_t n_clusters, size_t n_threads)
	{
		n_tasks = std::clamp<size_t>(n_threads, 1, kMostTasks);
		for (size_t i = 0; i < n_tasks; i++)
		{
			tasks[i].cluster_scores = arena->take<double>(n_clusters);
			tasks[i].cluster_order = arena->take<uint32_t>(n_clusters);
			tasks[i].row = arena->take<float>(cluster_dim(rows.spec));
			tasks[i].scores = arena->take<double>(kBlockRows);
		}
		first_block = arena->take<uint32_t>(n_clusters + size_t{1});
		blocks = arena->take<Block>(max_blocks(rows, n_clusters));
		first_probing = arena->take<uint32_t>(max_blocks(rows, n_clusters) + 1);
		probes = arena->take<uint32_t>(size_t{rows.n_rows} * kMaxProbes);
		probing = arena->take<uint32_t>(size_t{rows.n_rows} * kMaxProbes);
		block = arena->take<unsigned char>(kBlockRows * vector_bytes(rows.spec.element, rows.spec.dim));
		return block != nullptr;
	}
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
is_aside(const Memory &memory, uint32_t u)
{
	return (memory.aside[u / 8] >> (u % 8) & 1) != 0;
}

bool
plan(ivf::Arena *arena, const GraphRows &rows, const KnnSpec &spec, size_t n_threads, Memory *memory)
{
	const uint32_t n_clusters = cluster_count(rows, spec);
	ivf::Arena stages[3];
	CompareStage compare;
	RefineStage refine;
	JoinStage join;

	(void) compare.take(&stages[0], rows, n_clusters, n_threads);
	(void) refine.take(&stages[1], spec);
	(void) join.take(&stages[2], spec);
	memory->stage_bytes = std::max({make_clusters_bytes(rows, n_clusters, n_threads), stages[0].bytes_needed(),
		stages[1].bytes_needed(), stages[2].bytes_needed()});
	memory->aside = arena->take<uint8_t>(size_t{rows.n_rows} / 8 + 1);
	memory->clusters.order = arena->take<uint32_t>(rows.n_rows);
	memory->clusters.first_of = arena->take<uint32_t>(n_clusters + size_t{1});
	memory->clusters.centroids = arena->take<float>(static_cast<size_t>(n_clusters) * cluster_dim(rows.spec));
	memory->stage = arena->take<unsigned char>(memory->stage_bytes);
	return memory->stage != nullptr;
}

/// The list of row u as something that better neighbours can be put into.
class List
{
public:
	List(const KnnLists &lists, uint32_t u)
		: ids_(lists.ids + static_cast<size_t>(u) * lists.k), scores_(lists.scores + static_cast<size_t>(u) * lists.k),
		  k_(lists.k)
	{
	}

	/// A node of a smaller score is wanted.
	double worst() const { return scores_[k_ - 1]; }
	bool has(uint32_t node) const
	{
		bool found = false;

		for (uint32_t i = 0; i < k_; i++)
			found |= ids_[i] == node;
		return found;
	}
	/// A node that is not in the list, of a score that it wants.
	void insert(uint32_t node, double score)
	{
		const float s = static_cast<float>(score);
		uint32_t i = k_ - 1;

		for (; i > 0 && s < scores_[i - 1]; i--)
		{
			scores_[i] = scores_[i - 1];
			ids_[i] = ids_[i - 1];
		}
		scores_[i] = s;
		ids_[i] = node;
	}
	const uint32_t *ids() const { return ids_; }

private:
	uint32_t *ids_;
	float *scores_;
	uint32_t k_;
};

/// Cuts clusters into blocks of at most kBlockRows.
uint32_t
make_blocks(const Memory &memory, uint32_t n_clusters, const CompareStage &stage)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < n_clusters; c++)
	{
		stage.first_block[c] = n;
		for (uint32_t first = memory.clusters.first_of[c]; first < memory.clusters.first_of[c + 1]; first += kBlockRows)
			stage.blocks[n++] = {first, std::min(first + kBlockRows, memory.clusters.first_of[c + 1])};
	}
	stage.first_block[n_clusters] = n;
	return n;
}

/// The n_near clusters nearest to cluster c, itself first.
void
rank_clusters(const GraphRows &rows, const float *centroids, uint32_t n_clusters, uint32_t c, uint32_t n_near,
	const CompareTask &task)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, cluster_dim(rows.spec)};
	const double *scores = task.cluster_scores;

	compute_scores(spec, centroids + static_cast<size_t>(c) * spec.dim, centroids, spec.dim * sizeof(float), n_clusters,
		task.cluster_scores);
	for (uint32_t i = 0; i < n_clusters; i++)
		task.cluster_order[i] = i;
	task.cluster_scores[c] = -1;
	std::partial_sort(task.cluster_order, task.cluster_order + n_near, task.cluster_order + n_clusters,
		[scores](uint32_t x, uint32_t y) { return scores[x] != scores[y] ? scores[x] < scores[y] : x < y; });
}

/// The blocks that row u is compared with: those of its own cluster, then those of the clusters nearest to it, of which
/// there are n_near in `near`. The turn says which block of a cluster with many is the first.
void
choose_probes(const GraphRows &rows, const KnnSpec &spec, const float *centroids, uint32_t u, uint32_t turn,
	uint32_t *near, uint32_t n_near, const CompareStage &stage, const CompareTask &task)
{
	const DistanceSpec by_centroid = {Metric::kL2, ElementType::kFloat32, cluster_dim(rows.spec)};
	const double *scores = task.cluster_scores;
	uint32_t *probes = stage.probes + static_cast<size_t>(u) * kMaxProbes;
	uint32_t n_compared = 0;
	uint32_t n = 0;

	rows_to_floats(rows, &u, 1, task.row);
	for (uint32_t i = 1; i < n_near; i++)
		compute_scores(by_centroid, task.row, centroids + static_cast<size_t>(near[i]) * by_centroid.dim, 0, 1,
			task.cluster_scores + near[i], 0);
	std::sort(near + 1, near + n_near,
		[scores](uint32_t x, uint32_t y) { return scores[x] != scores[y] ? scores[x] < scores[y] : x < y; });
	for (uint32_t i = 0; i < n_near; i++)
	{
		const uint32_t first = stage.first_block[near[i]];
		const uint32_t n_blocks = stage.first_block[near[i] + 1] - first;

		for (uint32_t j = 0; j < n_blocks && n < kMaxProbes && n_compared < spec.n_compared; j++)
		{
			const uint32_t block = first + (turn + j) % n_blocks;

			probes[n++] = block;
			n_compared += stage.blocks[block].end - stage.blocks[block].first;
		}
	}
	std::fill(probes + n, probes + kMaxProbes, kNoNode);
}

/// What the tasks of a stage share.
struct CompareJob
{
	const GraphRows *rows;
	const KnnSpec *spec;
	const KnnLists *lists;
	const Memory *memory;
	const CompareStage *stage;
	const Call *call;
	uint32_t n_clusters;
	Block block;             // that rows are compared with,
	const uint32_t *probing; // [n_probing] and these rows
	uint32_t n_probing;
	std::atomic<uint32_t> next{0}; // cluster, or piece of `probing`
	std::atomic<bool> stopped{false};
};

/// Takes clusters until there are none. Task 0 runs in the caller's thread and reports progress.
void
probe_task(void *argument, size_t index)
{
	CompareJob *job = static_cast<CompareJob *>(argument);
	const Clusters &clusters = job->memory->clusters;
	const CompareTask &task = job->stage->tasks[index];
	const uint32_t n_near = std::min(job->n_clusters, kNearClusters);

	for (uint32_t c = job->next.fetch_add(1); c < job->n_clusters; c = job->next.fetch_add(1))
	{
		uint32_t near[kNearClusters];

		if (job->stopped.load(std::memory_order_relaxed))
			return;
		if (index == 0 && !ivf::go_on(*job->call, {clusters.first_of[c], uint64_t{2} * job->rows->n_rows}))
		{
			job->stopped.store(true, std::memory_order_relaxed);
			return;
		}
		rank_clusters(*job->rows, clusters.centroids, job->n_clusters, c, n_near, task);
		std::copy_n(task.cluster_order, n_near, near);
		for (uint32_t i = clusters.first_of[c]; i < clusters.first_of[c + 1]; i++)
			choose_probes(*job->rows, *job->spec, clusters.centroids, clusters.order[i],
				(i - clusters.first_of[c]) / kBlockRows, near, n_near, *job->stage, task);
	}
}

/// Turns probes into rows by block: first_probing, probing. In the order of clusters, so that rows near each other
/// meet.
void
group_probes(const GraphRows &rows, const Memory &memory, uint32_t n_blocks, const CompareStage &stage)
{
	uint32_t *first = stage.first_probing;
	const size_t n_probes = size_t{rows.n_rows} * kMaxProbes;

	std::fill_n(first, n_blocks + 1, 0);
	for (size_t i = 0; i < n_probes; i++)
		if (stage.probes[i] != kNoNode)
			first[stage.probes[i] + 1]++;
	for (uint32_t i = 0; i < n_blocks; i++)
		first[i + 1] += first[i];
	for (uint32_t i = 0; i < rows.n_rows; i++)
	{
		const uint32_t u = memory.clusters.order[i];
		const uint32_t *probes = stage.probes + size_t{u} * kMaxProbes;

		for (uint32_t j = 0; j < kMaxProbes && probes[j] != kNoNode; j++)
			stage.probing[first[probes[j]]++] = u;
	}
	for (uint32_t i = n_blocks; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
}

/// Compares rows with the block's, piece by piece; a row's list is one task's.
void
compare_task(void *argument, size_t index)
{
	CompareJob *job = static_cast<CompareJob *>(argument);
	const GraphRows &rows = *job->rows;
	const CompareStage &stage = *job->stage;
	const size_t row_bytes = vector_bytes(rows.spec.element, rows.spec.dim);
	const uint32_t *order = job->memory->clusters.order + job->block.first;
	const uint32_t size = job->block.end - job->block.first;
	double *scores = stage.tasks[index].scores;

	for (uint32_t first = job->next.fetch_add(kPieceRows); first < job->n_probing;
		first = job->next.fetch_add(kPieceRows))
		for (uint32_t i = first; i < std::min(job->n_probing, first + kPieceRows); i++)
		{
			const uint32_t u = job->probing[i];
			List list(*job->lists, u);

			compute_scores(rows.spec, rows.row(u), stage.block, row_bytes, size, scores, 0);
			double worst = list.worst();

			for (uint32_t j = 0; j < size; j++)
				if (scores[j] < worst && order[j] != u && !is_aside(*job->memory, order[j]))
				{
					list.insert(order[j], scores[j]);
					worst = list.worst();
				}
		}
}

/// Compares the rows of a block, which are copied to follow each other, with `n` rows.
void
compare_block(CompareJob *job, const Block &block, const uint32_t *probing, uint32_t n)
{
	const size_t row_bytes = vector_bytes(job->rows->spec.element, job->rows->spec.dim);

	for (uint32_t i = block.first; i < block.end; i++)
		memcpy(job->stage->block + (i - block.first) * row_bytes, job->rows->row(job->memory->clusters.order[i]),
			row_bytes);
	job->block = block;
	job->probing = probing;
	job->n_probing = n;
	job->next.store(0);
	ivf::run_workers(
		*job->call, std::min<size_t>(job->stage->n_tasks, (n + kPieceRows - 1) / kPieceRows), compare_task, job);
}

/// Rows of one call of compare_block: so few that progress is called often enough.
uint32_t
rows_at_a_time(const CompareJob &job)
{
	return kProgressRows * static_cast<uint32_t>(job.stage->n_tasks);
}

bool
compare_probes(CompareJob *job, uint32_t n_blocks)
{
	const uint32_t step = rows_at_a_time(*job);
	const uint32_t *first = job->stage->first_probing;

	for (uint32_t b = 0; b < n_blocks; b++)
		for (uint32_t i = first[b]; i < first[b + 1]; i += step)
		{
			if (!ivf::go_on(*job->call,
					{uint64_t{job->rows->n_rows} + job->stage->blocks[b].first, uint64_t{2} * job->rows->n_rows}))
				return false;
			compare_block(job, job->stage->blocks[b], job->stage->probing + i, std::min(step, first[b + 1] - i));
		}
	return true;
}

/// All pairs.
bool
compare_all(CompareJob *job)
{
	const uint32_t step = rows_at_a_time(*job);
	const uint32_t n_rows = job->rows->n_rows;

	for (uint32_t first = 0; first < n_rows; first += kBlockRows)
		for (uint32_t i = 0; i < n_rows; i += step)
		{
			if (!ivf::go_on(*job->call, {first, n_rows}))
				return false;
			compare_block(job, {first, std::min(first + kBlockRows, n_rows)}, job->memory->clusters.order + i,
				std::min(step, n_rows - i));
		}
	return true;
}

/// The first neighbours of the first neighbours of u that are not its own, each once.
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

/// NN-descent of row u: what is found is used at once, for both rows.
void
refine_row(
	const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, uint32_t u, bool alone, const RefineStage &stage)
{
	const size_t n = locate(lists, spec, u, stage);
	List list(lists, u);

	score_rows(rows, rows.row(u), stage.located, n, stage.located_scores);
	for (size_t j = 0; j < n; j++)
	{
		List other(lists, stage.located[j]);

		if (stage.located_scores[j] < list.worst())
			list.insert(stage.located[j], stage.located_scores[j]);
		if (!alone && stage.located_scores[j] < other.worst() && !other.has(u))
			other.insert(u, stage.located_scores[j]);
	}
}

/// One pass in the order of clusters.
bool
refine(const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, const Memory &memory, const Call &call)
{
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	RefineStage stage;

	(void) stage.take(&arena, spec); // of the size that plan() has found
	for (uint32_t i = 0; i < rows.n_rows; i++)
	{
		const uint32_t u = memory.clusters.order[i];

		if (i % kProgressRows == 0 && !ivf::go_on(call, {i, rows.n_rows}))
			return false;
		refine_row(rows, spec, lists, u, is_aside(memory, u), stage);
	}
	return true;
}

void
offer(const KnnLists &lists, uint32_t to, uint32_t node, double score)
{
	List list(lists, to);

	if (score < list.worst() && !list.has(node))
		list.insert(node, score);
}

/// Rows that were aside go into the lists of those in theirs, and into each other's; then into those of their
/// neighbours' neighbours, of which some have them for a neighbour without being one of theirs.
bool
join_aside(const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, const Memory &memory, const Call &call)
{
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	JoinStage stage;

	(void) stage.take(&arena, spec); // of the size that plan() has found
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
	CompareStage stage;

	lists->k = spec.k;
	if (spec.k == 0 || rows.spec.element == ElementType::kSet)
		return {StatusCode::kInvalidArgument, "there is no graph of neighbors of such rows"};
	std::fill_n(lists->ids, static_cast<size_t>(rows.n_rows) * spec.k, kNoNode);
	std::fill_n(lists->scores, static_cast<size_t>(rows.n_rows) * spec.k, HUGE_VALF);
	if (rows.n_rows == 0)
		return {};
	if (spec.n_aside > rows.n_rows)
		return {StatusCode::kInvalidArgument, "there are fewer rows than are to be aside"};
	if (!plan(&arena, rows, spec, call.n_threads, &memory))
		return ivf::work_memory_short();
	std::fill_n(memory.aside, size_t{rows.n_rows} / 8 + 1, uint8_t{0});

	CompareJob job = {.rows = &rows,
		.spec = &spec,
		.lists = lists,
		.memory = &memory,
		.stage = &stage,
		.call = &call,
		.n_clusters = n_clusters,
		.block = {},
		.probing = nullptr,
		.n_probing = 0};

	if (n_clusters == 1)
	{
		ivf::Arena of_stage(memory.stage, memory.stage_bytes);

		for (uint32_t i = 0; i < rows.n_rows; i++)
			memory.clusters.order[i] = i;
		(void) stage.take(&of_stage, rows, n_clusters, call.n_threads);
		return compare_all(&job) ? Outcome{} : ivf::cancelled();
	}

	for (uint32_t i = 0; i < spec.n_aside; i++)
	{
		const uint64_t u = stratified_row(i, spec.n_aside, rows.n_rows);

		memory.aside[u / 8] |= static_cast<uint8_t>(1U << (u % 8));
	}
	memory.clusters.n = n_clusters;
	const Outcome outcome = make_clusters(rows, spec.seed, &memory.clusters, memory.stage, memory.stage_bytes, call);
	if (!outcome.is_ok())
		return outcome;
	const uint32_t n_used = memory.clusters.n;
	ivf::Arena of_stage(memory.stage, memory.stage_bytes);
	(void) stage.take(&of_stage, rows, n_clusters, call.n_threads);
	const uint32_t n_blocks = make_blocks(memory, n_used, stage);
	job.n_clusters = n_used;
	ivf::run_workers(call, stage.n_tasks, probe_task, &job);
	if (job.stopped.load())
		return ivf::cancelled();
	group_probes(rows, memory, n_blocks, stage);
	if (!compare_probes(&job, n_blocks))
		return ivf::cancelled();
	for (uint32_t i = 0; i < spec.n_refinements; i++)
		if (!refine(rows, spec, *lists, memory, call))
			return ivf::cancelled();
	return join_aside(rows, spec, *lists, memory, call) ? Outcome{} : ivf::cancelled();
}

} // namespace vectorgpu::engine::graph

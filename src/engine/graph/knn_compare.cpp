// See knn_compare.hpp. Rows are compared block by block: the rows of a block are copied so that they follow each other
// and stay in the cache while rows of any cluster are scored against them.
#include "engine/graph/knn_compare.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/graph/knn_list.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kBlockRows = 512;    // a larger cluster is cut into blocks
constexpr uint32_t kProgressRows = 256; // by each task between calls of progress
constexpr uint32_t kNearClusters = 48;  // of a cluster, that its rows choose from
constexpr uint32_t kMaxProbes = 16;     // blocks that a row is compared with
constexpr size_t kMostTasks = 64;
constexpr uint32_t kPieceRows = 32; // compared with a block by one task at a time

/// A piece of a cluster: rows order[first .. end).
struct Block
{
	uint32_t first;
	uint32_t end;
};

/// Work memory of one thread.
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

/// Cut clusters into blocks of at most kBlockRows; return their number.
uint32_t
make_blocks(const Clusters &clusters, const CompareStage &stage)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < clusters.n; c++)
	{
		stage.first_block[c] = n;
		for (uint32_t first = clusters.first_of[c]; first < clusters.first_of[c + 1]; first += kBlockRows)
			stage.blocks[n++] = {first, std::min(first + kBlockRows, clusters.first_of[c + 1])};
	}
	stage.first_block[clusters.n] = n;
	return n;
}

/// Set the first n_near of task.cluster_order to the clusters nearest to cluster c, itself first.
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

/// Set the probes of row u, the blocks that it is compared with: those of its own cluster, then those of the clusters
/// nearest to it. near [n_near]: its own cluster, then candidates; sorted here. turn: the block of a cluster to begin
/// with, so that rows of a large cluster are compared with different blocks.
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

/// Shared by the tasks of a stage.
struct CompareJob
{
	const GraphRows *rows;
	const KnnSpec *spec;
	const KnnLists *lists;
	const uint32_t *order;    // [n_rows] rows, which blocks are ranges of
	const Clusters *clusters; // null: one cluster of all rows
	const uint8_t *aside;     // bitmap of the rows that go into no list, or null
	const CompareStage *stage;
	const Call *call;
	Block block;             // that the rows of probing are compared with
	const uint32_t *probing; // [n_probing]
	uint32_t n_probing;
	std::atomic<uint32_t> next{0}; // cluster, or piece of `probing`
	std::atomic<bool> stopped{false};
};

/// Take clusters until none is left, and choose the probes of their rows. Task 0 runs in the caller's thread and
/// reports progress.
void
probe_task(void *argument, size_t index)
{
	CompareJob *job = static_cast<CompareJob *>(argument);
	const Clusters &clusters = *job->clusters;
	const CompareTask &task = job->stage->tasks[index];
	const uint32_t n_near = std::min(clusters.n, kNearClusters);

	for (uint32_t c = job->next.fetch_add(1); c < clusters.n; c = job->next.fetch_add(1))
	{
		uint32_t near[kNearClusters];

		if (job->stopped.load(std::memory_order_relaxed))
			return;
		if (index == 0 && !ivf::go_on(*job->call, {clusters.first_of[c], uint64_t{2} * job->rows->n_rows}))
		{
			job->stopped.store(true, std::memory_order_relaxed);
			return;
		}
		rank_clusters(*job->rows, clusters.centroids, clusters.n, c, n_near, task);
		std::copy_n(task.cluster_order, n_near, near);
		for (uint32_t i = clusters.first_of[c]; i < clusters.first_of[c + 1]; i++)
			choose_probes(*job->rows, *job->spec, clusters.centroids, clusters.order[i],
				(i - clusters.first_of[c]) / kBlockRows, near, n_near, *job->stage, task);
	}
}

/// Set first_probing and probing: the rows that probe each block, in the order of clusters, so that rows near each
/// other follow each other.
void
group_probes(const GraphRows &rows, const Clusters &clusters, uint32_t n_blocks, const CompareStage &stage)
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
		const uint32_t u = clusters.order[i];
		const uint32_t *probes = stage.probes + size_t{u} * kMaxProbes;

		for (uint32_t j = 0; j < kMaxProbes && probes[j] != kNoNode; j++)
			stage.probing[first[probes[j]]++] = u;
	}
	for (uint32_t i = n_blocks; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
}

/// Compare rows of probing with the block's, piece by piece. Only one task changes a row's list.
void
compare_task(void *argument, size_t index)
{
	CompareJob *job = static_cast<CompareJob *>(argument);
	const GraphRows &rows = *job->rows;
	const CompareStage &stage = *job->stage;
	const size_t row_bytes = vector_bytes(rows.spec.element, rows.spec.dim);
	const uint32_t *order = job->order + job->block.first;
	const uint32_t size = job->block.end - job->block.first;
	double *scores = stage.tasks[index].scores;

	for (uint32_t first = job->next.fetch_add(kPieceRows); first < job->n_probing;
		first = job->next.fetch_add(kPieceRows))
		for (uint32_t i = first; i < std::min(job->n_probing, first + kPieceRows); i++)
		{
			const uint32_t u = job->probing[i];
			KnnList list(*job->lists, u);

			compute_scores(rows.spec, rows.row(u), stage.block, row_bytes, size, scores, 0);
			double worst = list.worst();

			for (uint32_t j = 0; j < size; j++)
				if (scores[j] < worst && order[j] != u && (job->aside == nullptr || !is_aside(job->aside, order[j])))
				{
					list.insert(order[j], scores[j]);
					worst = list.worst();
				}
		}
}

/// Copy the rows of a block, so that they follow each other, and compare them with the rows probing [n].
void
compare_block(CompareJob *job, const Block &block, const uint32_t *probing, uint32_t n)
{
	const size_t row_bytes = vector_bytes(job->rows->spec.element, job->rows->spec.dim);

	for (uint32_t i = block.first; i < block.end; i++)
		memcpy(job->stage->block + (i - block.first) * row_bytes, job->rows->row(job->order[i]), row_bytes);
	job->block = block;
	job->probing = probing;
	job->n_probing = n;
	job->next.store(0);
	ivf::run_workers(
		*job->call, std::min<size_t>(job->stage->n_tasks, (n + kPieceRows - 1) / kPieceRows), compare_task, job);
}

/// Rows of one call of compare_block, which progress is called between.
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

bool
compare_pairs(CompareJob *job)
{
	const uint32_t step = rows_at_a_time(*job);
	const uint32_t n_rows = job->rows->n_rows;

	for (uint32_t first = 0; first < n_rows; first += kBlockRows)
		for (uint32_t i = 0; i < n_rows; i += step)
		{
			if (!ivf::go_on(*job->call, {first, n_rows}))
				return false;
			compare_block(
				job, {first, std::min(first + kBlockRows, n_rows)}, job->order + i, std::min(step, n_rows - i));
		}
	return true;
}

} // namespace

size_t
compare_bytes(const GraphRows &rows, uint32_t n_clusters, size_t n_threads)
{
	ivf::Arena arena;
	CompareStage stage;

	(void) stage.take(&arena, rows, n_clusters, n_threads);
	return arena.bytes_needed();
}

Outcome
compare_all(const GraphRows &rows, const uint32_t *order, const KnnLists &lists, void *work, size_t work_bytes,
	const Call &call)
{
	ivf::Arena arena(work, work_bytes);
	CompareStage stage;
	CompareJob job = {.rows = &rows,
		.spec = nullptr,
		.lists = &lists,
		.order = order,
		.clusters = nullptr,
		.aside = nullptr,
		.stage = &stage,
		.call = &call,
		.block = {},
		.probing = nullptr,
		.n_probing = 0};

	if (!stage.take(&arena, rows, 1, call.n_threads))
		return ivf::work_memory_short();
	return compare_pairs(&job) ? Outcome{} : ivf::cancelled();
}

Outcome
compare_near(const GraphRows &rows, const KnnSpec &spec, const Clusters &clusters, const uint8_t *aside,
	const KnnLists &lists, void *work, size_t work_bytes, const Call &call)
{
	ivf::Arena arena(work, work_bytes);
	CompareStage stage;
	CompareJob job = {.rows = &rows,
		.spec = &spec,
		.lists = &lists,
		.order = clusters.order,
		.clusters = &clusters,
		.aside = aside,
		.stage = &stage,
		.call = &call,
		.block = {},
		.probing = nullptr,
		.n_probing = 0};

	if (!stage.take(&arena, rows, clusters.n, call.n_threads))
		return ivf::work_memory_short();

	const uint32_t n_blocks = make_blocks(clusters, stage);

	ivf::run_workers(call, stage.n_tasks, probe_task, &job);
	if (job.stopped.load())
		return ivf::cancelled();
	group_probes(rows, clusters, n_blocks, stage);
	return compare_probes(&job, n_blocks) ? Outcome{} : ivf::cancelled();
}

} // namespace vectorgpu::engine::graph

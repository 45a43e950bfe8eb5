// See knn_graph.hpp. Clusters are compared block by block: the rows of one with those of another, copied so that they follow
// each other, by the canonical scores; which keeps the rows of a block in the cache.
#include "engine/graph/knn_graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/graph/visited.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kClusterRows = 256;  // on average
constexpr uint32_t kBlockRows = 512;    // a larger cluster is cut into blocks
constexpr uint32_t kSampleRows = 16;    // a cluster, to train on
constexpr uint32_t kTrainIterations = 2;
constexpr uint32_t kAssignRows = 512;   // a call
constexpr uint32_t kProgressRows = 256; // between calls of progress
constexpr uint32_t kNearClusters = 48;  // of a cluster, that its rows choose from
constexpr uint32_t kMaxProbes = 16;     // blocks that a row is compared with
constexpr size_t kMaxClusters = 1 << 14;

uint32_t
cluster_count(const GraphRows &rows, const KnnSpec &spec)
{
	if (rows.n_rows <= spec.exact_rows)
		return 1;
	return static_cast<uint32_t>(std::min<size_t>((rows.n_rows + kClusterRows - 1) / kClusterRows, kMaxClusters));
}

ivf::KMeansSpec
training_spec(const GraphRows &rows, const KnnSpec &spec, uint32_t n_clusters)
{
	ivf::KMeansSpec training;

	training.dim = rows.spec.dim;
	training.n_clusters = n_clusters;
	training.n_rows = std::min<uint64_t>(rows.n_rows, static_cast<uint64_t>(n_clusters) * kSampleRows);
	training.kind = ivf::cluster_kind(rows.spec.metric);
	training.seed = spec.seed;
	training.max_iterations = kTrainIterations;
	return training;
}

/// The arrays that live through all of it, then those of each stage, which share their memory.
struct Memory
{
	uint32_t *order;      // [n_rows] rows, cluster by cluster
	uint32_t *first_of;   // [n_clusters + 1] into order
	float *centroids;     // [n_clusters, dim]
	unsigned char *stage; // of the largest stage
	size_t stage_bytes;
};

struct ClusterStage
{
	float *sample; // [training rows, dim]
	uint32_t *sampled;
	void *training;
	size_t training_bytes;

	bool
	take(ivf::Arena *arena, const ivf::KMeansSpec &training_of)
	{
		sample = arena->take<float>(training_of.n_rows * training_of.dim);
		sampled = arena->take<uint32_t>(training_of.n_rows);
		training_bytes = ivf::kmeans_work_bytes(training_of);
		training = arena->take<uint8_t>(training_bytes);
		return training != nullptr;
	}
};

struct AssignStage
{
	uint32_t *labels; // [n_rows]
	uint32_t *nodes;  // [kAssignRows]
	float *floats;    // [kAssignRows, dim]
	void *coarse;
	size_t coarse_bytes;
	void *work;
	size_t work_bytes;

	bool
	take(ivf::Arena *arena, const GraphRows &rows, uint32_t n_clusters)
	{
		ivf::Coarse shape; // what the work memory depends on

		labels = arena->take<uint32_t>(rows.n_rows);
		nodes = arena->take<uint32_t>(kAssignRows);
		floats = arena->take<float>(static_cast<size_t>(kAssignRows) * rows.spec.dim);
		coarse_bytes = ivf::coarse_bytes(rows.spec.dim, n_clusters);
		coarse = arena->take<uint8_t>(coarse_bytes);
		shape.dim = rows.spec.dim;
		work_bytes = ivf::coarse_assign_work_bytes(shape, 1);
		work = arena->take<uint8_t>(work_bytes);
		return work != nullptr;
	}
};

/// A piece of a cluster: rows order[first .. end).
struct Block
{
	uint32_t first;
	uint32_t end;
};

struct CompareStage
{
	double *cluster_scores;  // [n_clusters]
	uint32_t *cluster_order; // [n_clusters]
	float *row;              // [dim]
	uint32_t *first_block;   // [n_clusters + 1]
	Block *blocks;           // [max_blocks()]
	uint32_t *first_probing; // [max_blocks() + 1] into probing
	uint32_t *probes;        // [n_rows, kMaxProbes] blocks that the row is compared with, kNoNode behind them
	uint32_t *probing;       // [n_rows * kMaxProbes] rows that are compared with a block, block by block
	unsigned char *block;    // [kBlockRows, row bytes]
	double *scores;          // [kBlockRows]

	static size_t
	max_blocks(const GraphRows &rows, uint32_t n_clusters)
	{
		return n_clusters + size_t{rows.n_rows} / kBlockRows;
	}
	bool
	take(ivf::Arena *arena, const GraphRows &rows, uint32_t n_clusters)
	{
		cluster_scores = arena->take<double>(n_clusters);
		cluster_order = arena->take<uint32_t>(n_clusters);
		row = arena->take<float>(rows.spec.dim);
		first_block = arena->take<uint32_t>(n_clusters + size_t{1});
		blocks = arena->take<Block>(max_blocks(rows, n_clusters));
		first_probing = arena->take<uint32_t>(max_blocks(rows, n_clusters) + 1);
		probes = arena->take<uint32_t>(size_t{rows.n_rows} * kMaxProbes);
		probing = arena->take<uint32_t>(size_t{rows.n_rows} * kMaxProbes);
		block = arena->take<unsigned char>(kBlockRows * vector_bytes(rows.spec.element, rows.spec.dim));
		scores = arena->take<double>(kBlockRows);
		return scores != nullptr;
	}
};

struct RefineStage
{
	uint32_t *located;      // [refine_width²]
	double *located_scores; // [refine_width²]
	uint8_t *seen;
	VisitedSize seen_size;

	bool
	take(ivf::Arena *arena, const KnnSpec &spec)
	{
		const size_t n_located = static_cast<size_t>(spec.refine_width) * spec.refine_width;

		seen_size = {spec.k + size_t{1}, n_located};
		located = arena->take<uint32_t>(n_located);
		located_scores = arena->take<double>(n_located);
		seen = arena->take<uint8_t>(HashVisited::bytes(seen_size));
		return seen != nullptr;
	}
};

bool
plan(ivf::Arena *arena, const GraphRows &rows, const KnnSpec &spec, Memory *memory)
{
	const uint32_t n_clusters = cluster_count(rows, spec);
	ivf::Arena stages[4];
	ClusterStage cluster;
	AssignStage assign;
	CompareStage compare;
	RefineStage refine;

	(void) cluster.take(&stages[0], training_spec(rows, spec, n_clusters));
	(void) assign.take(&stages[1], rows, n_clusters);
	(void) compare.take(&stages[2], rows, n_clusters);
	(void) refine.take(&stages[3], spec);
	memory->stage_bytes = std::max({stages[0].bytes_needed(), stages[1].bytes_needed(), stages[2].bytes_needed(),
		stages[3].bytes_needed()});
	memory->order = arena->take<uint32_t>(rows.n_rows);
	memory->first_of = arena->take<uint32_t>(n_clusters + size_t{1});
	memory->centroids = arena->take<float>(static_cast<size_t>(n_clusters) * rows.spec.dim);
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

	bool
	wants(double score) const
	{
		return static_cast<float>(score) < scores_[k_ - 1];
	}
	bool
	has(uint32_t node) const
	{
		bool found = false;

		for (uint32_t i = 0; i < k_; i++)
			found |= ids_[i] == node;
		return found;
	}
	/// A node that is not in the list, of a score that it wants.
	void
	insert(uint32_t node, double score)
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
	const uint32_t *
	ids() const
	{
		return ids_;
	}

private:
	uint32_t *ids_;
	float *scores_;
	uint32_t k_;
};

Outcome
train(const GraphRows &rows, const KnnSpec &spec, uint32_t n_clusters, const Memory &memory, uint32_t *n_used,
	const Call &call)
{
	const ivf::KMeansSpec training = training_spec(rows, spec, n_clusters);
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	ivf::KMeansReport report;
	ClusterStage stage;

	if (!stage.take(&arena, training))
		return ivf::work_memory_short();
	for (uint64_t i = 0; i < training.n_rows; i++)
		stage.sampled[i] = static_cast<uint32_t>(i * rows.n_rows / training.n_rows);
	rows_to_floats(rows, stage.sampled, training.n_rows, stage.sample);
	const Outcome outcome = ivf::kmeans_train(training, {stage.sample, rows.spec.dim}, memory.centroids, nullptr, &report,
		stage.training, stage.training_bytes, call);

	*n_used = std::max(report.n_used, 1u);
	return outcome;
}

/// Rows by their clusters: order, first_of.
Outcome
assign(const GraphRows &rows, uint32_t n_clusters, const Memory &memory, const Call &call)
{
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	ivf::Coarse coarse;
	AssignStage stage;

	if (!stage.take(&arena, rows, n_clusters))
		return ivf::work_memory_short();
	Outcome outcome =
		ivf::coarse_init(memory.centroids, n_clusters, rows.spec.dim, stage.coarse, stage.coarse_bytes, &coarse);
	if (!outcome.is_ok())
		return outcome;
	for (uint32_t first = 0; first < rows.n_rows; first += kAssignRows)
	{
		const uint32_t n = std::min(kAssignRows, rows.n_rows - first);

		for (uint32_t i = 0; i < n; i++)
			stage.nodes[i] = first + i;
		rows_to_floats(rows, stage.nodes, n, stage.floats);
		outcome = ivf::coarse_assign(coarse, stage.floats, rows.spec.dim, n, stage.labels + first, nullptr, stage.work,
			stage.work_bytes, call);
		if (!outcome.is_ok())
			return outcome;
	}
	std::fill_n(memory.first_of, n_clusters + 1, 0);
	for (uint32_t i = 0; i < rows.n_rows; i++)
		memory.first_of[stage.labels[i] + 1]++;
	for (uint32_t i = 0; i < n_clusters; i++)
		memory.first_of[i + 1] += memory.first_of[i];
	for (uint32_t i = 0; i < rows.n_rows; i++)
		memory.order[memory.first_of[stage.labels[i]]++] = i;
	for (uint32_t i = n_clusters; i > 0; i--)
		memory.first_of[i] = memory.first_of[i - 1];
	memory.first_of[0] = 0;
	return {};
}

/// Cuts clusters into blocks of at most kBlockRows.
uint32_t
make_blocks(const Memory &memory, uint32_t n_clusters, const CompareStage &stage)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < n_clusters; c++)
	{
		stage.first_block[c] = n;
		for (uint32_t first = memory.first_of[c]; first < memory.first_of[c + 1]; first += kBlockRows)
			stage.blocks[n++] = {first, std::min(first + kBlockRows, memory.first_of[c + 1])};
	}
	stage.first_block[n_clusters] = n;
	return n;
}

/// The n_near clusters nearest to cluster c, itself first.
void
rank_clusters(const GraphRows &rows, const float *centroids, uint32_t n_clusters, uint32_t c, uint32_t n_near,
	const CompareStage &stage)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, rows.spec.dim};
	const double *scores = stage.cluster_scores;

	compute_scores(spec, centroids + static_cast<size_t>(c) * rows.spec.dim, centroids, rows.spec.dim * sizeof(float),
		n_clusters, stage.cluster_scores);
	for (uint32_t i = 0; i < n_clusters; i++)
		stage.cluster_order[i] = i;
	stage.cluster_scores[c] = -1;
	std::partial_sort(stage.cluster_order, stage.cluster_order + n_near, stage.cluster_order + n_clusters,
		[scores](uint32_t x, uint32_t y) { return scores[x] != scores[y] ? scores[x] < scores[y] : x < y; });
}

/// The blocks that row u is compared with: those of its own cluster, then those of the clusters nearest to it, of which there
/// are n_near in `near`. The turn says which block of a cluster with many is the first.
void
choose_probes(const GraphRows &rows, const KnnSpec &spec, const float *centroids, uint32_t u, uint32_t turn,
	uint32_t *near, uint32_t n_near, const CompareStage &stage)
{
	const DistanceSpec by_centroid = {Metric::kL2, ElementType::kFloat32, rows.spec.dim};
	const double *scores = stage.cluster_scores;
	uint32_t *probes = stage.probes + static_cast<size_t>(u) * kMaxProbes;
	uint32_t n_compared = 0;
	uint32_t n = 0;

	rows_to_floats(rows, &u, 1, stage.row);
	for (uint32_t i = 1; i < n_near; i++)
		compute_scores(by_centroid, stage.row, centroids + static_cast<size_t>(near[i]) * rows.spec.dim, 0, 1,
			stage.cluster_scores + near[i], 0);
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

/// Fills probes.
bool
probe_clusters(const GraphRows &rows, const KnnSpec &spec, const Memory &memory, uint32_t n_clusters,
	const CompareStage &stage, const Call &call)
{
	const uint32_t n_near = std::min(n_clusters, kNearClusters);

	for (uint32_t c = 0; c < n_clusters; c++)
	{
		uint32_t near[kNearClusters];

		if (!ivf::go_on(call, {memory.first_of[c], uint64_t{2} * rows.n_rows}))
			return false;
		rank_clusters(rows, memory.centroids, n_clusters, c, n_near, stage);
		std::copy_n(stage.cluster_order, n_near, near);
		for (uint32_t i = memory.first_of[c]; i < memory.first_of[c + 1]; i++)
			choose_probes(rows, spec, memory.centroids, memory.order[i], (i - memory.first_of[c]) / kBlockRows, near,
				n_near, stage);
	}
	return true;
}

/// Turns probes into rows by block: first_probing, probing. In the order of clusters, so that rows near each other meet.
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
		const uint32_t u = memory.order[i];
		const uint32_t *probes = stage.probes + size_t{u} * kMaxProbes;

		for (uint32_t j = 0; j < kMaxProbes && probes[j] != kNoNode; j++)
			stage.probing[first[probes[j]]++] = u;
	}
	for (uint32_t i = n_blocks; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
}

/// Compares the rows of a block, which are copied to follow each other, with `n` rows.
void
compare_block(const GraphRows &rows, const KnnLists &lists, const uint32_t *order, const Block &block,
	const uint32_t *probing, uint32_t n, const CompareStage &stage)
{
	const size_t row_bytes = vector_bytes(rows.spec.element, rows.spec.dim);
	const uint32_t size = block.end - block.first;

	for (uint32_t i = 0; i < size; i++)
		memcpy(stage.block + i * row_bytes, rows.row(order[block.first + i]), row_bytes);
	for (uint32_t i = 0; i < n; i++)
	{
		List list(lists, probing[i]);

		compute_scores(rows.spec, rows.row(probing[i]), stage.block, row_bytes, size, stage.scores, 0);
		for (uint32_t j = 0; j < size; j++)
			if (list.wants(stage.scores[j]) && order[block.first + j] != probing[i])
				list.insert(order[block.first + j], stage.scores[j]);
	}
}

bool
compare_probes(const GraphRows &rows, const KnnLists &lists, const Memory &memory, uint32_t n_blocks,
	const CompareStage &stage, const Call &call)
{
	for (uint32_t b = 0; b < n_blocks; b++)
	{
		const uint32_t *first = stage.first_probing;

		for (uint32_t i = first[b]; i < first[b + 1]; i += kProgressRows)
		{
			if (!ivf::go_on(call, {uint64_t{rows.n_rows} + stage.blocks[b].first, uint64_t{2} * rows.n_rows}))
				return false;
			compare_block(rows, lists, memory.order, stage.blocks[b], stage.probing + i,
				std::min(kProgressRows, first[b + 1] - i), stage);
		}
	}
	return true;
}

/// All pairs.
bool
compare_all(const GraphRows &rows, const KnnLists &lists, const Memory &memory, const CompareStage &stage,
	const Call &call)
{
	for (uint32_t first = 0; first < rows.n_rows; first += kBlockRows)
		for (uint32_t i = 0; i < rows.n_rows; i += kProgressRows)
		{
			if (!ivf::go_on(call, {first, rows.n_rows}))
				return false;
			compare_block(rows, lists, memory.order, {first, std::min(first + kBlockRows, rows.n_rows)},
				memory.order + i, std::min(kProgressRows, rows.n_rows - i), stage);
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

/// One pass of NN-descent in the order of clusters: what is found is used at once, for both rows.
bool
refine(const GraphRows &rows, const KnnSpec &spec, const KnnLists &lists, const Memory &memory, const Call &call)
{
	ivf::Arena arena(memory.stage, memory.stage_bytes);
	RefineStage stage;

	(void) stage.take(&arena, spec); // of the size that plan() has found
	for (uint32_t i = 0; i < rows.n_rows; i++)
	{
		const uint32_t u = memory.order[i];
		const size_t n = locate(lists, spec, u, stage);
		List list(lists, u);

		if (i % kProgressRows == 0 && !ivf::go_on(call, {i, rows.n_rows}))
			return false;
		score_rows(rows, rows.row(u), stage.located, n, stage.located_scores);
		for (size_t j = 0; j < n; j++)
		{
			List other(lists, stage.located[j]);

			if (list.wants(stage.located_scores[j]))
				list.insert(stage.located[j], stage.located_scores[j]);
			if (other.wants(stage.located_scores[j]) && !other.has(u))
				other.insert(u, stage.located_scores[j]);
		}
	}
	return true;
}

} // namespace

void
rows_to_floats(const GraphRows &rows, const uint32_t *nodes, size_t n, float *floats)
{
	const size_t dim = rows.spec.dim;

	for (size_t i = 0; i < n; i++)
	{
		if (rows.spec.element == ElementType::kFloat16)
			widen_halves(rows.row(nodes[i]), dim, floats + i * dim);
		else
			memcpy(floats + i * dim, rows.row(nodes[i]), dim * sizeof(float));
	}
	if (rows.spec.metric == Metric::kCosine)
		ivf::normalise_rows(floats, n, dim);
}

size_t
knn_graph_bytes(const GraphRows &rows, const KnnSpec &spec)
{
	ivf::Arena arena;
	Memory memory;

	(void) plan(&arena, rows, spec, &memory);
	return arena.bytes_needed();
}

Outcome
knn_graph(
	const GraphRows &rows, const KnnSpec &spec, KnnLists *lists, void *work, size_t work_bytes, const Call &call)
{
	const uint32_t n_clusters = cluster_count(rows, spec);
	uint32_t n_used = 1;
	ivf::Arena arena(work, work_bytes);
	Memory memory;
	CompareStage stage;

	lists->k = spec.k;
	if (spec.k == 0 || rows.spec.element == ElementType::kBit || rows.spec.element == ElementType::kSet)
		return {StatusCode::kInvalidArgument, "there is no graph of neighbors of such rows"};
	std::fill_n(lists->ids, static_cast<size_t>(rows.n_rows) * spec.k, kNoNode);
	std::fill_n(lists->scores, static_cast<size_t>(rows.n_rows) * spec.k, HUGE_VALF);
	if (rows.n_rows == 0)
		return {};
	if (!plan(&arena, rows, spec, &memory))
		return ivf::work_memory_short();
	if (n_clusters == 1)
	{
		ivf::Arena of_stage(memory.stage, memory.stage_bytes);

		for (uint32_t i = 0; i < rows.n_rows; i++)
			memory.order[i] = i;
		(void) stage.take(&of_stage, rows, n_clusters);
		return compare_all(rows, *lists, memory, stage, call) ? Outcome{} : ivf::cancelled();
	}

	Outcome outcome = train(rows, spec, n_clusters, memory, &n_used, call);
	if (outcome.is_ok())
		outcome = assign(rows, n_used, memory, call);
	if (!outcome.is_ok())
		return outcome;
	ivf::Arena of_stage(memory.stage, memory.stage_bytes);
	(void) stage.take(&of_stage, rows, n_clusters);
	const uint32_t n_blocks = make_blocks(memory, n_used, stage);
	if (!probe_clusters(rows, spec, memory, n_used, stage, call))
		return ivf::cancelled();
	group_probes(rows, memory, n_blocks, stage);
	if (!compare_probes(rows, *lists, memory, n_blocks, stage, call))
		return ivf::cancelled();
	for (uint32_t i = 0; i < spec.n_refinements; i++)
		if (!refine(rows, spec, *lists, memory, call))
			return ivf::cancelled();
	return {};
}

} // namespace vectorgpu::engine::graph

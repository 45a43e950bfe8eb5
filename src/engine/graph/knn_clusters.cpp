// See knn_clusters.hpp.
#include "engine/graph/knn_clusters.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/graph/knn_graph.hpp"
#include "engine/graph/visited.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kSampleRows = 16; // per cluster, to train on
constexpr uint32_t kTrainIterations = 2;
constexpr uint32_t kAssignRows = 512; // per call and thread

ivf::KMeansSpec
training_spec(const GraphRows &rows, uint32_t n_clusters, uint64_t seed, size_t n_threads)
{
	ivf::KMeansSpec training;

	training.dim = cluster_dim(rows.spec);
	training.n_clusters = n_clusters;
	training.n_rows = std::min<uint64_t>(rows.n_rows, static_cast<uint64_t>(n_clusters) * kSampleRows);
	training.kind = ivf::cluster_kind(rows.spec.metric);
	training.seed = seed;
	training.max_iterations = kTrainIterations;
	training.n_threads = n_threads;
	return training;
}

struct ClusterStage
{
	float *sample; // [training rows, dim]
	uint32_t *sampled;
	void *training;
	size_t training_bytes;

	bool take(ivf::Arena *arena, const ivf::KMeansSpec &training_of)
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
	uint32_t at_a_time;
	uint32_t *nodes; // [at_a_time]
	float *floats;   // [at_a_time, dim]
	void *coarse;
	size_t coarse_bytes;
	void *work;
	size_t work_bytes;

	bool take(ivf::Arena *arena, const GraphRows &rows, uint32_t n_clusters, size_t n_threads)
	{
		ivf::Coarse shape; // determines the size of the work memory

		labels = arena->take<uint32_t>(rows.n_rows);
		at_a_time = kAssignRows * static_cast<uint32_t>(n_threads);
		nodes = arena->take<uint32_t>(at_a_time);
		floats = arena->take<float>(static_cast<size_t>(at_a_time) * cluster_dim(rows.spec));
		coarse_bytes = ivf::coarse_bytes(cluster_dim(rows.spec), n_clusters);
		coarse = arena->take<uint8_t>(coarse_bytes);
		shape.dim = cluster_dim(rows.spec);
		work_bytes = ivf::coarse_assign_work_bytes(shape, n_threads);
		work = arena->take<uint8_t>(work_bytes);
		return work != nullptr;
	}
};

/// floats [cluster_dim()] of one bit string.
void
bits_to_floats(const unsigned char *bits, uint32_t dim, float *floats)
{
	const bool hashed = dim > kMostClusterBits;

	std::fill_n(floats, std::min(dim, kMostClusterBits), 0.0f);
	for (uint32_t byte = 0; byte < (dim + 7) / 8; byte++)
		for (uint32_t left = bits[byte]; left != 0; left &= left - 1)
		{
			const uint32_t bit =
				byte * 8 + 7 - static_cast<uint32_t>(std::countr_zero(left)); // the most significant one is the first
			const uint64_t hash = hashed ? hash_node(bit + uint64_t{1}) : 0;

			if (hashed)
				floats[hash % kMostClusterBits] += (hash >> 32 & 1) != 0 ? 1.0f : -1.0f;
			else if (bit < dim)
				floats[bit] = 1;
		}
}

Outcome
train(const GraphRows &rows, uint64_t seed, Clusters *clusters, void *work, size_t work_bytes, const Call &call)
{
	const ivf::KMeansSpec training = training_spec(rows, clusters->n, seed, call.n_threads);
	ivf::Arena arena(work, work_bytes);
	ivf::KMeansReport report;
	ClusterStage stage;

	if (!stage.take(&arena, training))
		return ivf::work_memory_short();
	for (uint64_t i = 0; i < training.n_rows; i++)
		stage.sampled[i] = static_cast<uint32_t>(stratified_row(i, training.n_rows, rows.n_rows));
	rows_to_floats(rows, stage.sampled, training.n_rows, stage.sample);
	const Outcome outcome = ivf::kmeans_train(training, {stage.sample, cluster_dim(rows.spec)}, clusters->centroids,
		nullptr, &report, stage.training, stage.training_bytes, call);

	clusters->n = std::max(report.n_used, 1u);
	return outcome;
}

/// Assign rows to clusters; set order and first_of.
Outcome
assign(const GraphRows &rows, const Clusters *clusters, void *work, size_t work_bytes, const Call &call)
{
	const uint32_t n_clusters = clusters->n;
	uint32_t *first_of = clusters->first_of;
	ivf::Arena arena(work, work_bytes);
	ivf::Coarse coarse;
	AssignStage stage;

	if (!stage.take(&arena, rows, n_clusters, call.n_threads))
		return ivf::work_memory_short();
	Outcome outcome = ivf::coarse_init(
		clusters->centroids, n_clusters, cluster_dim(rows.spec), stage.coarse, stage.coarse_bytes, &coarse);
	if (!outcome.is_ok())
		return outcome;
	for (uint32_t first = 0; first < rows.n_rows; first += stage.at_a_time)
	{
		const uint32_t n = std::min(stage.at_a_time, rows.n_rows - first);

		for (uint32_t i = 0; i < n; i++)
			stage.nodes[i] = first + i;
		rows_to_floats(rows, stage.nodes, n, stage.floats);
		outcome = ivf::coarse_assign(coarse, stage.floats, cluster_dim(rows.spec), n, stage.labels + first, nullptr,
			stage.work, stage.work_bytes, call);
		if (!outcome.is_ok())
			return outcome;
	}
	std::fill_n(first_of, n_clusters + 1, 0);
	for (uint32_t i = 0; i < rows.n_rows; i++)
		first_of[stage.labels[i] + 1]++;
	for (uint32_t i = 0; i < n_clusters; i++)
		first_of[i + 1] += first_of[i];
	for (uint32_t i = 0; i < rows.n_rows; i++)
		clusters->order[first_of[stage.labels[i]]++] = i;
	for (uint32_t i = n_clusters; i > 0; i--)
		first_of[i] = first_of[i - 1];
	first_of[0] = 0;
	return {};
}

} // namespace

void
rows_to_floats(const GraphRows &rows, const uint32_t *nodes, size_t n, float *floats)
{
	const size_t dim = cluster_dim(rows.spec);

	for (size_t i = 0; i < n; i++)
	{
		if (rows.spec.element == ElementType::kFloat16)
			widen_halves(rows.row(nodes[i]), dim, floats + i * dim);
		else if (rows.spec.element == ElementType::kBit)
			bits_to_floats(rows.row(nodes[i]), rows.spec.dim, floats + i * dim);
		else
			memcpy(floats + i * dim, rows.row(nodes[i]), dim * sizeof(float));
	}
	if (ivf::cluster_kind(rows.spec.metric) == ivf::ClusterKind::kSpherical)
		ivf::normalise_rows(floats, n, dim);
}

size_t
make_clusters_bytes(const GraphRows &rows, uint32_t n_clusters, size_t n_threads)
{
	ivf::Arena arenas[2];
	ClusterStage cluster;
	AssignStage assignment;

	(void) cluster.take(&arenas[0], training_spec(rows, n_clusters, 0, n_threads));
	(void) assignment.take(&arenas[1], rows, n_clusters, n_threads);
	return std::max(arenas[0].bytes_needed(), arenas[1].bytes_needed());
}

Outcome
make_clusters(const GraphRows &rows, uint64_t seed, Clusters *clusters, void *work, size_t work_bytes, const Call &call)
{
	const Outcome outcome = train(rows, seed, clusters, work, work_bytes, call);

	return outcome.is_ok() ? assign(rows, clusters, work, work_bytes, call) : outcome;
}

} // namespace vectorgpu::engine::graph

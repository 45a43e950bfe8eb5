// See entries.hpp.
#include "engine/graph/entries.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kEntrySample = 32;   // sampled rows for each entry point
constexpr double kEntriesPerRoot = 0.5; // entry points per square root of the number of rows, chosen by clusters
constexpr double kMostPerRoot = 16;     // with those of groups that searches do not find (reach.hpp)

/// The number of clusters that entry points are chosen by.
uint32_t
cluster_count(uint32_t n_rows, const BuildSpec &spec)
{
	const uint32_t by_rows = static_cast<uint32_t>(std::ceil(kEntriesPerRoot * std::sqrt(n_rows)));

	return std::min({spec.n_entries > 0 ? spec.n_entries : by_rows, n_rows, kMaxEntries});
}

ivf::KMeansSpec
entry_spec(const GraphRows &rows, const BuildSpec &spec, size_t n_threads)
{
	ivf::KMeansSpec training;

	training.dim = cluster_dim(rows.spec);
	training.n_clusters = std::max(cluster_count(rows.n_rows, spec), 1u);
	training.n_rows = std::min<uint64_t>(rows.n_rows, static_cast<uint64_t>(training.n_clusters) * kEntrySample);
	training.kind = ivf::cluster_kind(rows.spec.metric);
	training.seed = spec.knn.seed;
	training.n_threads = n_threads;
	return training;
}

/// Work memory.
struct EntryStage
{
	uint32_t *nodes;  // [training rows]
	float *sample;    // [training rows, dim]
	float *centroids; // [n_clusters, dim]
	void *training;
	size_t training_bytes;

	bool take(ivf::Arena *arena, const ivf::KMeansSpec &of)
	{
		nodes = arena->take<uint32_t>(of.n_rows);
		sample = arena->take<float>(of.n_rows * of.dim);
		centroids = arena->take<float>(static_cast<size_t>(of.n_clusters) * of.dim);
		training_bytes = ivf::kmeans_work_bytes(of);
		training = arena->take<uint8_t>(training_bytes);
		return training != nullptr;
	}
};

/// Shared by the tasks that look for the sampled row nearest to each centroid.
struct NearestTask
{
	const EntryStage *stage;
	const ivf::KMeansSpec *training;
	uint32_t *nearest; // [n_centroids] nodes
	uint32_t n_centroids;
	std::atomic<uint32_t> next{0};
};

void
nearest_task(void *argument, size_t)
{
	constexpr size_t kRowsAtATime = 256;
	NearestTask *task = static_cast<NearestTask *>(argument);
	const uint32_t dim = task->training->dim;
	const uint64_t n_rows = task->training->n_rows;
	const DistanceSpec by_centroid = {Metric::kL2, ElementType::kFloat32, dim};
	double scores[kRowsAtATime];

	for (uint32_t c = task->next.fetch_add(1); c < task->n_centroids; c = task->next.fetch_add(1))
	{
		double best = 0;
		uint64_t nearest = 0;

		for (uint64_t first = 0; first < n_rows; first += kRowsAtATime)
		{
			const size_t n = std::min<uint64_t>(kRowsAtATime, n_rows - first);

			compute_scores(by_centroid, task->stage->centroids + size_t{c} * dim, task->stage->sample + first * dim,
				dim * sizeof(float), n, scores);
			for (size_t i = 0; i < n; i++)
				if ((first == 0 && i == 0) || scores[i] < best)
				{
					best = scores[i];
					nearest = first + i;
				}
		}
		task->nearest[c] = task->stage->nodes[nearest];
	}
}

} // namespace

uint32_t
entry_count(uint32_t n_rows, const BuildSpec &spec)
{
	const uint32_t most = static_cast<uint32_t>(std::ceil(kMostPerRoot * std::sqrt(n_rows)));

	return std::min({spec.n_entries > 0 ? spec.n_entries : most, n_rows, kMaxEntries});
}

size_t
choose_entries_bytes(const GraphRows &rows, const BuildSpec &spec, size_t n_threads)
{
	ivf::Arena arena;
	EntryStage stage;

	(void) stage.take(&arena, entry_spec(rows, spec, n_threads));
	return arena.bytes_needed();
}

Outcome
choose_entries(const GraphRows &rows, const BuildSpec &spec, uint32_t *entries, uint32_t *n_entries, void *work,
	size_t work_bytes, const Call &call)
{
	const ivf::KMeansSpec training = entry_spec(rows, spec, call.n_threads);
	ivf::Arena arena(work, work_bytes);
	ivf::KMeansReport report;
	EntryStage stage;

	if (!stage.take(&arena, training))
		return ivf::work_memory_short();
	for (uint64_t i = 0; i < training.n_rows; i++)
		stage.nodes[i] =
			not_a_query(static_cast<uint32_t>(stratified_row(i, training.n_rows, rows.n_rows)), rows.n_rows);
	rows_to_floats(rows, stage.nodes, training.n_rows, stage.sample);
	const Outcome outcome = ivf::kmeans_train(training, {stage.sample, training.dim}, stage.centroids, nullptr, &report,
		stage.training, stage.training_bytes, call);
	if (!outcome.is_ok())
		return outcome;

	NearestTask task = {&stage, &training, entries, std::max(report.n_used, 1u)};

	ivf::run_workers(call, std::max<size_t>(call.n_threads, 1), nearest_task, &task);
	std::sort(entries, entries + task.n_centroids);
	*n_entries = static_cast<uint32_t>(std::unique(entries, entries + task.n_centroids) - entries);
	return {};
}

} // namespace vectorgpu::engine::graph

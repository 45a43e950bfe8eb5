// See kmeans_lloyd.hpp.
#include "engine/ivf/kmeans_lloyd.hpp"

#include <algorithm>
#include <cmath>

#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/kmeans_policy.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

/// Sort the rows by label; count rows and sum errors by cluster. Return the number of empty clusters.
uint32_t
group_rows(Lloyd *run)
{
	uint64_t *first = run->memory.first;
	const uint32_t *labels = run->labels();
	uint32_t n_empty = 0;

	std::fill_n(first, run->n_clusters + size_t{1}, 0);
	std::fill_n(run->memory.sums, run->n_clusters, 0.0);
	run->report.inertia = 0;
	for (size_t i = 0; i < run->n_rows; i++)
	{
		first[labels[i] + 1u]++;
		run->memory.sums[labels[i]] += static_cast<double>(run->errors()[i]);
		run->report.inertia += static_cast<double>(run->errors()[i]);
	}
	run->report.largest = 0;
	for (size_t c = 0; c < run->n_clusters; c++)
	{
		n_empty += first[c + 1] == 0;
		run->report.largest = std::max(run->report.largest, first[c + 1]);
		first[c + 1] += first[c];
	}
	for (size_t i = 0; i < run->n_rows; i++)
		run->order()[first[labels[i]]++] = static_cast<uint32_t>(i);
	for (size_t c = run->n_clusters; c > 0; c--) // each now points to where the next one begins
		first[c] = first[c - 1];
	first[0] = 0;
	return n_empty;
}

struct UpdateJob
{
	const Lloyd &run;
	Share share;
};

/// Compute means of clusters, in double and in the order of the rows.
void
update_worker(void *argument, size_t worker)
{
	constexpr size_t kClustersPerPiece = 16;
	UpdateJob &job = *static_cast<UpdateJob *>(argument);
	const Lloyd &run = job.run;
	const size_t n_pieces = (run.n_clusters + kClustersPerPiece - 1) / kClustersPerPiece;
	size_t piece;

	while ((piece = job.share.take(n_pieces)) < n_pieces)
		for (size_t c = piece * kClustersPerPiece;
			c < std::min<size_t>((piece + 1) * kClustersPerPiece, run.n_clusters); c++)
			(void) mean_of_rows(run, run.order() + run.memory.first[c], run.size(c), run.memory.means[worker],
				run.centroids + c * run.spec.dim);
}

/// Move empty clusters to rows of others. Return how many moved.
uint32_t
split_clusters(Lloyd *run)
{
	const size_t dim = run->spec.dim;
	const SplitPlan plan = {run->memory.first, run->n_clusters, run->memory.sums};
	const uint32_t n_moved = plan_splits(plan,
		[&](size_t c, size_t donor)
		{
			const uint64_t begin = run->memory.first[donor];
			const uint64_t n = run->size(donor);
			const uint64_t start = run->random->below(n);

			for (uint64_t i = 0; i < n; i++)
			{
				const uint32_t row = run->order()[begin + (start + i) % n];

				if (run->errors()[row] > 0)
				{
					std::copy_n(run->source.row(row), dim, run->centroids + c * dim);
					break;
				}
			}
		});

	run->report.n_splits += n_moved;
	return n_moved;
}

} // namespace

void
take_lloyd_memory(Arena *arena, const KMeansSpec &spec, LloydMemory *memory)
{
	const bool two_level = spec.n_clusters >= kTwoLevelClusters;
	const size_t n_balanced = spec.balance >= 1 ? spec.n_clusters : 0;

	memory->labels = arena->take<uint32_t>(spec.n_rows);
	memory->order = arena->take<uint32_t>(spec.n_rows);
	memory->index = arena->take<uint32_t>(two_level ? spec.n_rows : 0);
	memory->errors = arena->take<float>(spec.n_rows);
	memory->first = arena->take<uint64_t>(spec.n_clusters + size_t{1});
	memory->sums = arena->take<double>(spec.n_clusters);
	memory->first_level = arena->take<uint64_t>(two_level ? 2 * (size_t{n_first_level(spec.n_clusters)} + 1) : 0);
	memory->first_level_centroids =
		arena->take<float>(two_level ? size_t{n_first_level(spec.n_clusters)} * spec.dim : 0);
	memory->marks = spec.balance >= 1 ? arena->take<uint8_t>(spec.n_rows) : nullptr;
	memory->begin = arena->take<uint64_t>(n_balanced);
	memory->end = arena->take<uint64_t>(n_balanced);
	memory->heap = arena->take<uint32_t>(n_balanced);
	memory->kept = arena->take<float>(n_balanced * spec.dim);
	memory->packed_bytes = coarse_bytes(spec.dim, spec.n_clusters);
	memory->packed = arena->take<uint8_t>(memory->packed_bytes);
	memory->n_threads = std::clamp<size_t>(spec.n_threads, 1, kMaxThreads);
	for (size_t i = 0; i < memory->n_threads; i++)
	{
		memory->scratch[i] = take_assign_scratch(arena, spec.dim);
		memory->means[i] = arena->take<double>(spec.dim);
	}
}

bool
mean_of_rows(const Lloyd &run, const uint32_t *rows, uint64_t n, double *sum, float *centroid)
{
	const IvfKernels &kernels = ivf_kernels();
	const size_t dim = run.spec.dim;
	const uint8_t *marks = run.memory.marks;
	uint64_t n_counted = 0;
	double squares = 0;

	std::fill_n(sum, dim, 0.0);
	for (uint64_t i = 0; i < n; i++)
		if (marks == nullptr || marks[rows[i]] < kMarksLeftOut)
		{
			kernels.add_row(run.source.row(rows[i]), dim, sum);
			n_counted++;
		}
	if (n_counted == 0)
		return false;
	for (size_t d = 0; d < dim; d++)
	{
		sum[d] /= static_cast<double>(n_counted);
		squares += sum[d] * sum[d];
	}

	// Opposite rows may cancel: then the mean has no direction and is not scaled.
	const double scale = run.spec.kind == ClusterKind::kSpherical && squares > 0 ? 1 / std::sqrt(squares) : 1;

	for (size_t d = 0; d < dim; d++)
		centroid[d] = static_cast<float>(sum[d] * scale);
	return true;
}

Outcome
assign_and_group(Lloyd *run, uint32_t *n_empty)
{
	Coarse coarse;
	const Outcome packed = coarse_init(
		run->centroids, run->n_clusters, run->spec.dim, run->memory.packed, run->memory.packed_bytes, &coarse);

	if (!packed.is_ok())
		return packed;
	if (!assign_rows(coarse, run->source, run->n_rows, run->labels(), run->errors(), run->memory.scratch, run->call,
			*run->progress))
		return cancelled();
	run->progress->done += run->n_rows;
	*n_empty = group_rows(run);
	run->report.n_used = run->n_clusters - *n_empty;
	return {};
}

void
update_centroids(Lloyd *run)
{
	UpdateJob job = {*run, {}};

	run_workers(run->call, run->call.n_threads, update_worker, &job);
}

Outcome
run_lloyd(Lloyd *run)
{
	double before = 0;
	bool moved = false;

	for (uint32_t iteration = 0;; iteration++)
	{
		uint32_t n_empty;
		const Outcome assigned = assign_and_group(run, &n_empty);

		if (!assigned.is_ok())
			return assigned;

		const bool last = iteration >= run->max_iterations;

		run->report.n_iterations = iteration;
		run->report.converged = iteration > 0 && !moved &&
			before - run->report.inertia <= static_cast<double>(run->spec.tolerance) * before;
		if (n_empty == 0 && (last || run->report.converged))
			return {};
		if (iteration >= run->max_iterations + kExtraIterations)
			return {};
		before = run->report.inertia;
		update_centroids(run);
		moved = split_clusters(run) > 0;
		if (n_empty > 0 && !moved && (last || run->report.converged))
			return {}; // no rows to fill them with: fewer different rows than clusters
	}
}

} // namespace vectorgpu::engine::ivf

// See kmeans.hpp and README.md, "k-means": seeds, then Lloyd's algorithm (kmeans_lloyd.hpp), then balancing
// (kmeans_balance.hpp).
#include "engine/ivf/kmeans.hpp"

#include <algorithm>
#include <cmath>

#include "common/limits.hpp"
#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/kmeans_balance.hpp"
#include "engine/ivf/kmeans_lloyd.hpp"
#include "engine/ivf/kmeans_policy.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

/// Seed one training. False: stopped.
bool
seed_level(const Lloyd &run)
{
	if (run.n_rows > run.n_clusters)
		return seed_plus_plus(run.source, run.n_rows, run.spec.dim, run.n_clusters, run.random,
			{run.order(), run.errors()}, run.centroids, run.call, *run.progress);
	seed_random(run.source, run.n_rows, run.spec.dim, run.n_clusters, run.random, run.order(), run.centroids);
	return true;
}

/// Seed in two levels: a coarse training of √k clusters, then one of the rows of each of these.
Outcome
seed_two_levels(const Lloyd &whole)
{
	const uint32_t n_coarse = n_first_level(whole.n_clusters);
	LloydMemory &memory = whole.memory;
	uint64_t *first = memory.first_level;
	uint64_t *shares = first + n_coarse + 1;
	Lloyd level = {whole.spec, whole.source, whole.n_rows, n_coarse, kSeedIterations, memory.first_level_centroids,
		memory, 0, whole.call, whole.progress, whole.random};
	float *centroids = whole.centroids;

	if (!seed_level(level))
		return cancelled();

	const Outcome coarse = run_lloyd(&level);

	if (!coarse.is_ok())
		return coarse;
	std::copy_n(memory.order, whole.n_rows, memory.index);
	std::copy_n(memory.first, n_coarse + size_t{1}, first);
	share_out_clusters(first, n_coarse, whole.n_clusters, shares);
	for (size_t i = 0; i < n_coarse; i++)
	{
		const size_t n_rows = first[i + 1] - first[i];
		Lloyd part = {whole.spec, {whole.source.rows, whole.source.row_stride, memory.index + first[i]}, n_rows,
			static_cast<uint32_t>(shares[i]), kSeedIterations, centroids, memory, first[i], whole.call, whole.progress,
			whole.random};

		if (n_rows == 0)
			continue;
		if (!seed_level(part))
			return cancelled();

		const Outcome fine = run_lloyd(&part);

		if (!fine.is_ok())
			return fine;
		centroids += shares[i] * whole.spec.dim;
	}
	return {};
}

Outcome
seed(const Lloyd &run, bool random_seeds)
{
	if (random_seeds)
		seed_random(run.source, run.n_rows, run.spec.dim, run.n_clusters, run.random, run.order(), run.centroids);
	else if (run.n_clusters >= kTwoLevelClusters && run.n_rows > run.n_clusters)
		return seed_two_levels(run);
	else if (!seed_level(run))
		return cancelled();
	return {};
}

/// Move clusters with rows to the front, in their order; fill up with copies of the first, which lose every tie.
void
put_used_first(Lloyd *run, uint64_t *sizes, uint32_t *labels)
{
	const size_t dim = run->spec.dim;
	size_t n_used = 0;

	for (size_t c = 0; c < run->n_clusters; c++)
	{
		if (run->size(c) == 0)
			continue;
		if (c != n_used)
			std::copy_n(run->centroids + c * dim, dim, run->centroids + n_used * dim);
		if (sizes != nullptr)
			sizes[n_used] = run->size(c);
		for (uint64_t i = run->memory.first[c]; labels != nullptr && i < run->memory.first[c + 1]; i++)
			labels[run->order()[i]] = static_cast<uint32_t>(n_used);
		n_used++;
	}
	for (size_t c = n_used; c < run->spec.n_clusters; c++)
	{
		std::copy_n(run->centroids, dim, run->centroids + c * dim);
		if (sizes != nullptr)
			sizes[c] = 0;
	}
}

Outcome
check_spec(const KMeansSpec &spec)
{
	if (spec.dim == 0 || spec.dim > static_cast<uint32_t>(kMaxBitDimensions))
		return {StatusCode::kInvalidArgument, "number of dimensions is out of range"};
	if (spec.n_clusters == 0 || spec.n_clusters > kMaxClusters)
		return {StatusCode::kInvalidArgument, "number of clusters is out of range"};
	if (spec.n_rows > UINT32_MAX)
		return {StatusCode::kInvalidArgument, "too many training rows"};
	if (!(spec.balance == 0 || spec.balance >= 1))
		return {StatusCode::kInvalidArgument, "balance must be 0 or at least 1"};
	return {};
}

Outcome
check_rows(const KMeansSpec &spec, const RowsView &rows, const Call &call, Progress progress)
{
	constexpr uint64_t kRowsPerCheck = 4096;
	const IvfKernels &kernels = ivf_kernels();

	for (uint64_t i = 0; i < spec.n_rows; i++)
	{
		if (i % kRowsPerCheck == 0 && !go_on(call, progress))
			return cancelled();
		// The squares of floats cannot overflow in double.
		if (!std::isfinite(kernels.square_norm(rows.rows + i * rows.row_stride, spec.dim)))
			return {StatusCode::kInvalidArgument, "a training row has an element that is not finite"};
	}
	return {};
}

} // namespace

ClusterKind
cluster_kind(Metric metric)
{
	return metric == Metric::kCosine || metric == Metric::kJaccard ? ClusterKind::kSpherical : ClusterKind::kL2;
}

size_t
kmeans_work_bytes(const KMeansSpec &spec)
{
	Arena arena;
	LloydMemory memory;

	take_lloyd_memory(&arena, spec, &memory);
	return arena.bytes_needed();
}

uint64_t
kmeans_training_rows(uint64_t n_table_rows, uint32_t n_clusters, uint32_t dim, size_t budget_bytes)
{
	const uint64_t wanted = std::max(kTrainingRowsPerCluster * n_clusters, kLeastTrainingRows);
	uint64_t n = std::min({n_table_rows, wanted, uint64_t{UINT32_MAX}});

	if (budget_bytes > 0 && n > 1)
	{
		KMeansSpec spec = {dim, n_clusters, 0};
		const size_t fixed = kmeans_work_bytes(spec);
		const size_t row_bytes = dim * sizeof(float) + 16; // and labels, order, index, errors

		n = std::min<uint64_t>(n, budget_bytes > fixed ? (budget_bytes - fixed) / row_bytes : 0);
		n = std::max<uint64_t>(n, 1);
	}
	return n;
}

Outcome
kmeans_train(const KMeansSpec &spec, const RowsView &rows, float *centroids, uint64_t *sizes, KMeansReport *report,
	void *work, size_t work_bytes, const Call &call)
{
	return kmeans_train_more(spec, rows, {}, centroids, sizes, report, work, work_bytes, call);
}

Outcome
kmeans_balance(const KMeansSpec &spec, const RowsView &rows, uint32_t n_given, float *centroids, uint64_t *sizes,
	KMeansReport *report, void *work, size_t work_bytes, const Call &call)
{
	const Outcome possible = check_spec(spec);
	KMeansMore more;

	if (!possible.is_ok())
		return possible;
	if (spec.balance == 0 || n_given < 1 || n_given > spec.n_clusters)
		return {StatusCode::kInvalidArgument, "there is nothing to balance"};
	for (size_t i = 0; i < size_t{n_given} * spec.dim; i++)
		if (!std::isfinite(centroids[i]))
			return {StatusCode::kInvalidArgument, "a centroid has an element that is not finite"};
	for (size_t c = n_given; c < spec.n_clusters; c++) // lose every tie: empty, and filled or dissolved
		std::copy_n(centroids, spec.dim, centroids + c * spec.dim);
	more.centroids_given = true;
	more.balance_only = true;
	return kmeans_train_more(spec, rows, more, centroids, sizes, report, work, work_bytes, call);
}

Outcome
kmeans_train_more(const KMeansSpec &spec, const RowsView &rows, const KMeansMore &more, float *centroids,
	uint64_t *sizes, KMeansReport *report, void *work, size_t work_bytes, const Call &call)
{
	const Outcome possible = check_spec(spec);

	if (!possible.is_ok())
		return possible;

	Arena arena(work, work_bytes);
	LloydMemory memory;

	take_lloyd_memory(&arena, spec, &memory);
	if (arena.is_short())
		return work_memory_short();
	if (memory.marks != nullptr)
		std::fill_n(memory.marks, spec.n_rows, 0);
	if (report != nullptr)
		*report = {};
	if (spec.n_rows == 0)
	{
		std::fill_n(centroids, size_t{spec.n_clusters} * spec.dim, 0.0f);
		if (sizes != nullptr)
			std::fill_n(sizes, spec.n_clusters, 0);
		return {};
	}

	Random random = {spec.seed};
	Progress progress = {0, spec.n_rows * (spec.max_iterations + uint64_t{1})};
	Call usable = call;

	usable.n_threads = usable_threads(call, memory.n_threads);
	if (spec.n_clusters >= kTwoLevelClusters)
		progress.total += 2 * spec.n_rows * (kSeedIterations + uint64_t{1});
	if (spec.balance >= 1)
		progress.total += spec.n_rows * (spec.max_iterations + uint64_t{1});

	const Outcome finite = check_rows(spec, rows, usable, progress);

	if (!finite.is_ok())
		return finite;

	Lloyd run = {spec, {rows.rows, rows.row_stride, nullptr}, spec.n_rows, spec.n_clusters,
		more.balance_only ? 0 : spec.max_iterations, centroids, memory, 0, usable, &progress, &random};
	const Outcome seeded = more.centroids_given ? Outcome{} : seed(run, more.random_seeds);

	if (!seeded.is_ok())
		return seeded;

	const Outcome trained = run_lloyd(&run);

	if (!trained.is_ok())
		return trained;
	if (spec.balance >= 1)
	{
		run.max_iterations = spec.max_iterations;

		const Outcome balanced = balance_clusters(&run);

		if (!balanced.is_ok())
			return balanced;
	}
	put_used_first(&run, sizes, more.labels);
	if (report != nullptr)
		*report = run.report;
	return {};
}

void
normalise_rows(float *rows, size_t n_rows, size_t dim)
{
	const IvfKernels &kernels = ivf_kernels();

	for (size_t i = 0; i < n_rows; i++)
	{
		float *row = rows + i * dim;
		const double squares = kernels.square_norm(row, dim);

		if (squares > 0)
		{
			const double scale = 1 / std::sqrt(squares);

			for (size_t d = 0; d < dim; d++)
				row[d] = static_cast<float>(static_cast<double>(row[d]) * scale);
		}
	}
}

} // namespace vectorgpu::engine::ivf

// See kmeans.hpp and README.md, "k-means". Everything that decides (labels, errors of rows, sums) is canonical or in a
// fixed order, so that neither the instruction set nor the number of threads shows in the result.
#include "engine/ivf/kmeans.hpp"

#include <algorithm>
#include <cmath>

#include "common/limits.hpp"
#include "engine/distance.hpp"
#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/kmeans_more.hpp"
#include "engine/ivf/kmeans_policy.hpp"
#include "engine/ivf/kmeans_seed.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

/// Work memory. Arrays over rows are shared by all levels, each level's slice is its own; the others are used by one
/// training at a time.
struct Memory
{
	uint32_t *labels;      // [n_rows]
	uint32_t *order;       // [n_rows] rows by cluster
	uint32_t *index;       // [n_rows] rows by cluster of the first level
	float *errors;         // [n_rows] squared distance to the centroid
	uint64_t *first;       // [n_clusters + 1] where a cluster begins in `order`
	double *sums;          // [n_clusters] errors by cluster
	uint64_t *first_level; // [n_clusters + 1] the same of the first level, and its sizes
	float *first_level_centroids;
	void *packed; // coarse_init's
	size_t packed_bytes;
	size_t n_threads;
	AssignScratch scratch[kMaxThreads];
	double *means[kMaxThreads]; // [dim]
};

void
take_memory(Arena *arena, const KMeansSpec &spec, Memory *memory)
{
	const bool two_level = spec.n_clusters >= kTwoLevelClusters;

	memory->labels = arena->take<uint32_t>(spec.n_rows);
	memory->order = arena->take<uint32_t>(spec.n_rows);
	memory->index = arena->take<uint32_t>(two_level ? spec.n_rows : 0);
	memory->errors = arena->take<float>(spec.n_rows);
	memory->first = arena->take<uint64_t>(spec.n_clusters + size_t{1});
	memory->sums = arena->take<double>(spec.n_clusters);
	memory->first_level = arena->take<uint64_t>(two_level ? 2 * (size_t{n_first_level(spec.n_clusters)} + 1) : 0);
	memory->first_level_centroids =
		arena->take<float>(two_level ? size_t{n_first_level(spec.n_clusters)} * spec.dim : 0);
	memory->packed_bytes = coarse_bytes(spec.dim, spec.n_clusters);
	memory->packed = arena->take<uint8_t>(memory->packed_bytes);
	memory->n_threads = std::clamp<size_t>(spec.n_threads, 1, kMaxThreads);
	for (size_t i = 0; i < memory->n_threads; i++)
	{
		memory->scratch[i] = take_assign_scratch(arena, spec.dim);
		memory->means[i] = arena->take<double>(spec.dim);
	}
}

/// One training of Lloyd's algorithm: of all rows, of the first level, or of the rows of one cluster of it.
struct Lloyd
{
	const KMeansSpec &spec;
	RowSource source;
	size_t n_rows;
	uint32_t n_clusters;
	uint32_t max_iterations;
	float balance;
	float *centroids;
	Memory &memory;
	size_t offset; // of this training's slice of the arrays over rows
	const Call &call;
	Progress *progress; // in rows times clusters
	Random *random;
	KMeansReport report{};

	uint32_t *
	labels() const
	{
		return memory.labels + offset;
	}
	uint32_t *
	order() const
	{
		return memory.order + offset;
	}
	float *
	errors() const
	{
		return memory.errors + offset;
	}
	uint64_t
	size(size_t cluster) const
	{
		return memory.first[cluster + 1] - memory.first[cluster];
	}
};

/// Sorts the rows by label, counts and sums up by cluster; returns how many clusters are empty.
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
	for (size_t c = run->n_clusters; c > 0; c--) // each has moved to where the next one began
		first[c] = first[c - 1];
	first[0] = 0;
	return n_empty;
}

struct UpdateJob
{
	const Lloyd &run;
	Share share;
};

/// Means of clusters, in double and in the order of the rows.
void
update_worker(void *argument, size_t worker)
{
	constexpr size_t kClustersPerPiece = 16;
	UpdateJob &job = *static_cast<UpdateJob *>(argument);
	const Lloyd &run = job.run;
	const IvfKernels &kernels = ivf_kernels();
	const size_t dim = run.spec.dim;
	const size_t n_pieces = (run.n_clusters + kClustersPerPiece - 1) / kClustersPerPiece;
	double *mean = run.memory.means[worker];
	size_t piece;

	while ((piece = job.share.take(n_pieces)) < n_pieces)
		for (size_t c = piece * kClustersPerPiece;
			 c < std::min<size_t>((piece + 1) * kClustersPerPiece, run.n_clusters); c++)
		{
			float *centroid = run.centroids + c * dim;
			double squares = 0;

			if (run.size(c) == 0)
				continue;
			std::fill_n(mean, dim, 0.0);
			for (uint64_t i = run.memory.first[c]; i < run.memory.first[c + 1]; i++)
				kernels.add_row(run.source.row(run.order()[i]), dim, mean);
			for (size_t d = 0; d < dim; d++)
			{
				mean[d] /= static_cast<double>(run.size(c));
				squares += mean[d] * mean[d];
			}

			// Opposite rows may cancel: their mean has no direction and stays as it is.
			const double scale = run.spec.kind == ClusterKind::kSpherical && squares > 0 ? 1 / std::sqrt(squares) : 1;

			for (size_t d = 0; d < dim; d++)
				centroid[d] = static_cast<float>(mean[d] * scale);
		}
}

/// Moves empty clusters, and small ones when balancing, to rows of others. Returns how many moved.
uint32_t
split_clusters(Lloyd *run)
{
	const size_t dim = run->spec.dim;
	const SplitPlan plan = {run->memory.first, run->n_clusters, run->n_rows, run->balance, run->memory.sums};
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

/// Iterates from the centroids given. In the end labels, errors and groups are those of the centroids.
Outcome
run_lloyd(Lloyd *run)
{
	double before = 0;
	bool moved = false;

	for (uint32_t iteration = 0;; iteration++)
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

		const uint32_t n_empty = group_rows(run);
		const bool last = iteration >= run->max_iterations;

		run->report.n_iterations = iteration;
		run->report.n_used = run->n_clusters - n_empty;
		run->report.converged = iteration > 0 && !moved &&
								before - run->report.inertia <= static_cast<double>(run->spec.tolerance) * before;
		if (n_empty == 0 && (last || run->report.converged))
			return {};
		if (iteration >= run->max_iterations + kExtraIterations)
			return {};
		before = run->report.inertia;

		UpdateJob job = {*run, {}};

		run_workers(run->call, run->call.n_threads, update_worker, &job);
		if (last)
			run->balance = 0; // only empty clusters are worth another iteration
		moved = split_clusters(run) > 0;
		if (n_empty > 0 && !moved && (last || run->report.converged))
			return {}; // nothing to fill them with: fewer different rows than clusters
	}
}

/// Seeds of one training. False: stopped.
bool
seed_level(const Lloyd &run)
{
	if (run.n_rows > run.n_clusters)
		return seed_plus_plus(run.source, run.n_rows, run.spec.dim, run.n_clusters, run.random,
			{run.order(), run.errors()}, run.centroids, run.call, *run.progress);
	seed_random(run.source, run.n_rows, run.spec.dim, run.n_clusters, run.random, run.order(), run.centroids);
	return true;
}

/// Seeds by two levels: a coarse training of √k clusters, then one of the rows of each of these.
Outcome
seed_two_levels(const Lloyd &whole)
{
	const uint32_t n_coarse = n_first_level(whole.n_clusters);
	Memory &memory = whole.memory;
	uint64_t *first = memory.first_level;
	uint64_t *shares = first + n_coarse + 1;
	Lloyd level = {whole.spec, whole.source, whole.n_rows, n_coarse, kSeedIterations, 0, memory.first_level_centroids,
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
			static_cast<uint32_t>(shares[i]), kSeedIterations, 0, centroids, memory, first[i], whole.call,
			whole.progress, whole.random};

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

/// Clusters with rows first, in their order; behind them copies of the first, which lose every tie.
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
	for (size_t c = n_used; c < run->n_clusters; c++)
	{
		std::copy_n(run->centroids, dim, run->centroids + c * dim);
		if (sizes != nullptr)
			sizes[c] = 0;
	}
}

Outcome
check_spec(const KMeansSpec &spec)
{
	if (spec.dim == 0 || spec.dim > static_cast<uint32_t>(kMaxDimensions))
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
	return metric == Metric::kCosine ? ClusterKind::kSpherical : ClusterKind::kL2;
}

size_t
kmeans_work_bytes(const KMeansSpec &spec)
{
	Arena arena;
	Memory memory;

	take_memory(&arena, spec, &memory);
	return arena.bytes_needed();
}

uint64_t
kmeans_training_rows(uint64_t n_table_rows, uint32_t n_clusters, uint32_t dim, size_t budget_bytes)
{
	uint64_t n = std::min({n_table_rows, kTrainingRowsPerCluster * n_clusters, uint64_t{UINT32_MAX}});

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
kmeans_train_more(const KMeansSpec &spec, const RowsView &rows, const KMeansMore &more, float *centroids,
	uint64_t *sizes, KMeansReport *report, void *work, size_t work_bytes, const Call &call)
{
	const Outcome possible = check_spec(spec);

	if (!possible.is_ok())
		return possible;

	Arena arena(work, work_bytes);
	Memory memory;

	take_memory(&arena, spec, &memory);
	if (arena.is_short())
		return work_memory_short();
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

	const Outcome finite = check_rows(spec, rows, usable, progress);

	if (!finite.is_ok())
		return finite;

	Lloyd run = {spec, {rows.rows, rows.row_stride, nullptr}, spec.n_rows, spec.n_clusters, spec.max_iterations,
		spec.balance, centroids, memory, 0, usable, &progress, &random};
	const Outcome seeded = more.centroids_given ? Outcome{} : seed(run, more.random_seeds);

	if (!seeded.is_ok())
		return seeded;

	const Outcome trained = run_lloyd(&run);

	if (!trained.is_ok())
		return trained;
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

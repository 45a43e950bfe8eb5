// See pq_train.hpp. The rotation is trained together with the codebooks (Ge, He, Ke, Sun, "Optimized product
// quantization", 2013, the non-parametric solution).
#include "engine/ivf/pq_train.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/polar.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kWidestPanel = 32;
constexpr size_t kProductRows = 240;     // rows of a block of the matrix products
constexpr uint32_t kFirstIterations = 4; // of the codebooks before the first rotation
constexpr size_t kMostTasks = 64;

/// Memory of the training of one sub-quantiser after another.
struct TaskMemory
{
	float *rows;      // [n_rows, sub_dim]
	uint32_t *labels; // [n_rows]
	uint8_t *kmeans;
};

struct Memory
{
	float *codewords; // [m, n_codewords, sub_dim]
	double *errors;   // [m]
	TaskMemory tasks[kMostTasks];
	size_t n_tasks;
	size_t kmeans_bytes;
	// with opq only:
	float *residuals;    // [n_rows, dim]
	float *rotated;      // [n_rows, padded_dim]
	uint8_t *codes;      // [n_rows, m]
	float *panels;       // [rotated_stride / width, max(dim, kProductRows), width]
	float *products;     // [max(dim, kProductRows), rotated_stride]
	double *correlation; // [dim, dim]
	double *scratch;     // [2, dim, dim]
};

KMeansSpec
kmeans_spec(const PqSpec &spec, const PqTraining &training, size_t sub_quantiser)
{
	KMeansSpec kmeans;

	kmeans.dim = pq_sub_dim(spec);
	kmeans.n_clusters = pq_n_codewords(spec);
	kmeans.n_rows = training.n_rows;
	kmeans.seed = training.seed + sub_quantiser;
	kmeans.max_iterations = training.max_iterations;
	return kmeans;
}

Memory
take_memory(Arena *arena, const PqSpec &spec, const PqTraining &training)
{
	const size_t n = training.n_rows;
	const size_t opq = spec.opq ? 1 : 0;
	const size_t dim = spec.dim;
	const size_t depth = std::max(dim, kProductRows);
	Memory memory;

	memory.codewords = arena->take<float>(pq_codebook_floats(spec));
	memory.errors = arena->take<double>(spec.m);
	memory.kmeans_bytes = kmeans_work_bytes(kmeans_spec(spec, training, 0));
	memory.n_tasks = std::clamp<size_t>(training.n_threads, 1, std::min<size_t>(spec.m, kMostTasks));
	for (size_t i = 0; i < memory.n_tasks; i++)
		memory.tasks[i] = {arena->take<float>(n * pq_sub_dim(spec)), arena->take<uint32_t>(n),
			arena->take<uint8_t>(memory.kmeans_bytes)};
	memory.residuals = arena->take<float>(opq * n * dim);
	memory.rotated = arena->take<float>(opq * n * pq_padded_dim(spec));
	memory.codes = arena->take<uint8_t>(opq * n * spec.m);
	memory.panels = arena->take<float>(opq * depth * pq_rotated_stride(spec));
	memory.products = arena->take<float>(opq * depth * pq_rotated_stride(spec));
	memory.correlation = arena->take<double>(opq * dim * dim);
	memory.scratch = arena->take<double>(opq * 2 * dim * dim);
	return memory;
}

struct Run
{
	const PqModel &model;
	const PqTraining &training;
	const Memory &memory;
	const Call &call;
	Progress progress; // in trainings of a sub-quantiser
};

/// Set to [n] to elements from `first` on of the difference of a row and its list's centroid, with zeros behind the
/// last one.
void
take_residual(const PqTraining &training, size_t dim, size_t row, size_t first, size_t n, float *to)
{
	const float *centroid = training.labels == nullptr ? nullptr : training.centroids + training.labels[row] * dim;
	const size_t end = std::clamp(dim, first, first + n);

	for (size_t d = first; d < end; d++)
		to[d - first] = training.rows[row * dim + d] - (centroid == nullptr ? 0 : centroid[d]);
	std::fill(to + (end - first), to + n, 0.0f);
}

/// rotated = pad(R residuals).
Outcome
rotate_sample(const Run &run)
{
	const PqSpec &spec = run.model.spec;
	const IvfKernels &kernels = ivf_kernels();
	const size_t dim = spec.dim;
	const size_t padded = pq_padded_dim(spec);
	const size_t stride = pq_rotated_stride(spec);

	pq_pack_rotation(run.model, kernels.panel_width, run.memory.panels);
	for (size_t first = 0; first < run.training.n_rows; first += kProductRows)
	{
		const size_t n = std::min(kProductRows, run.training.n_rows - first);

		if (!go_on(run.call, run.progress))
			return cancelled();
		kernels.multiply({run.memory.residuals + first * dim, dim, 1, n, dim},
			{run.memory.panels, stride / kernels.panel_width}, run.memory.products, stride);
		for (size_t i = 0; i < n; i++)
		{
			float *out = run.memory.rotated + (first + i) * padded;

			std::copy_n(run.memory.products + i * stride, dim, out);
			std::fill(out + dim, out + padded, 0.0f);
		}
	}
	return {};
}

/// The trainings of all sub-quantisers, which tasks share: each takes one thread, since a small training has many steps
/// that threads would wait for each other in.
struct CodebookJob
{
	const Run &run;
	uint32_t n_iterations;
	bool given;
	bool want_codes;
	std::atomic<size_t> next{0};
	std::atomic<uint64_t> n_done{0};
	std::atomic<bool> stop{false};
	std::atomic<bool> failed{false};
	Outcome failure = {}; // the first one
};

struct ProgressOfTask
{
	CodebookJob *job;
	size_t worker;
};

/// Forward the progress of a sub-quantiser's training, whose own counts are dropped, from the caller's thread.
bool
forward_progress(void *context, uint64_t, uint64_t)
{
	const ProgressOfTask &task = *static_cast<ProgressOfTask *>(context);
	CodebookJob *job = task.job;
	const Progress &progress = job->run.progress;

	if (task.worker == 0 &&
		!go_on(job->run.call,
			{std::min(progress.done + job->n_done.load(std::memory_order_relaxed), progress.total), progress.total}))
		job->stop.store(true, std::memory_order_relaxed);
	return !job->stop.load(std::memory_order_relaxed);
}

/// Train sub-quantiser j. Its elements are put together first: every iteration reads them all, and in the sample those
/// of a row are a page away from those of the next one.
Outcome
train_codebook(CodebookJob *job, size_t j, size_t worker)
{
	const PqSpec &spec = job->run.model.spec;
	const Memory &memory = job->run.memory;
	const TaskMemory &own = memory.tasks[worker];
	const size_t sub_dim = pq_sub_dim(spec);
	KMeansSpec kmeans = kmeans_spec(spec, job->run.training, j);
	KMeansReport report;
	ProgressOfTask context = {job, worker};
	Call call;

	for (size_t i = 0; i < job->run.training.n_rows; i++)
		if (spec.opq)
			std::copy_n(memory.rotated + i * pq_padded_dim(spec) + j * sub_dim, sub_dim, own.rows + i * sub_dim);
		else
			take_residual(job->run.training, spec.dim, i, j * sub_dim, sub_dim, own.rows + i * sub_dim);
	kmeans.max_iterations = job->n_iterations;
	call.progress = forward_progress;
	call.progress_context = &context;

	const Outcome trained = kmeans_train_more(kmeans, {own.rows, sub_dim},
		{true, job->given, job->want_codes ? own.labels : nullptr},
		memory.codewords + j * pq_n_codewords(spec) * sub_dim, nullptr, &report, own.kmeans, memory.kmeans_bytes, call);

	for (size_t i = 0; trained.is_ok() && job->want_codes && i < job->run.training.n_rows; i++)
		memory.codes[i * spec.m + j] = static_cast<uint8_t>(own.labels[i]);
	memory.errors[j] = report.inertia;
	return trained;
}

void
codebook_task(void *argument, size_t worker)
{
	CodebookJob *job = static_cast<CodebookJob *>(argument);
	const size_t m = job->run.model.spec.m;

	for (size_t j = job->next.fetch_add(1); j < m && !job->stop.load(std::memory_order_relaxed);
		j = job->next.fetch_add(1))
	{
		const Outcome trained = train_codebook(job, j, worker);

		job->n_done.fetch_add(1, std::memory_order_relaxed);
		if (trained.is_ok())
			continue;
		if (!job->failed.exchange(true))
			job->failure = trained;
		job->stop.store(true, std::memory_order_relaxed);
	}
}

/// Train all codebooks on the rotated sample, from the present ones if `given`. error: Σ squared.
Outcome
train_codebooks(Run *run, uint32_t n_iterations, bool given, bool want_codes, double *error)
{
	const size_t m = run->model.spec.m;
	CodebookJob job = {*run, n_iterations, given, want_codes};

	run_workers(run->call, run->memory.n_tasks, codebook_task, &job);
	*error = 0;
	if (job.failed.load())
		return job.failure;
	for (size_t j = 0; j < m; j++)
		*error += run->memory.errors[j];
	run->progress.done = std::min(run->progress.done + m, run->progress.total);
	return {};
}

/// correlation [d, e] = Σ over the sample of residual[d] * quantised[e]: the next rotation aligns these.
Outcome
correlate(const Run &run)
{
	const PqSpec &spec = run.model.spec;
	const IvfKernels &kernels = ivf_kernels();
	const size_t dim = spec.dim;
	const size_t width = kernels.panel_width;
	const size_t stride = pq_rotated_stride(spec);
	const size_t sub_dim = pq_sub_dim(spec);

	std::fill_n(run.memory.correlation, dim * dim, 0.0);
	for (size_t first = 0; first < run.training.n_rows; first += kProductRows)
	{
		const size_t n = std::min(kProductRows, run.training.n_rows - first);

		if (!go_on(run.call, run.progress))
			return cancelled();
		std::fill_n(run.memory.panels, n * stride, 0.0f);
		for (size_t i = 0; i < n; i++)
			for (size_t e = 0; e < dim; e++)
			{
				const size_t j = e / sub_dim;
				const size_t code = run.memory.codes[(first + i) * spec.m + j];

				run.memory.panels[e / width * width * n + i * width + e % width] =
					run.memory.codewords[(j * pq_n_codewords(spec) + code) * sub_dim + e % sub_dim];
			}
		// The "rows" of this product are the columns of the sample.
		kernels.multiply({run.memory.residuals + first * dim, 1, dim, dim, n}, {run.memory.panels, stride / width},
			run.memory.products, stride);
		for (size_t d = 0; d < dim; d++)
			for (size_t e = 0; e < dim; e++)
				run.memory.correlation[d * dim + e] += static_cast<double>(run.memory.products[d * stride + e]);
	}
	return {};
}

/// Set the rotation that brings the sample nearest to its quantised form. A small share of the present rotation is
/// added, which keeps it in directions without variance, and keeps the matrix regular.
Outcome
rotate_to_codes(const Run &run)
{
	constexpr double kShare = 1e-5;
	const size_t dim = run.model.spec.dim;
	const size_t stride = pq_rotation_stride(run.model.spec);
	double *matrix = run.memory.correlation;
	double squares = 0;

	for (size_t i = 0; i < dim * dim; i++)
		squares += matrix[i] * matrix[i];

	const double scale = squares > 0 ? std::sqrt(static_cast<double>(dim) / squares) : 0;

	for (size_t d = 0; d < dim; d++)
		for (size_t e = 0; e < dim; e++)
			matrix[d * dim + e] =
				matrix[d * dim + e] * scale + kShare * static_cast<double>(run.model.rotation[d * stride + e]);

	const Outcome turned = polar_factor(matrix, dim, run.memory.scratch, run.call, run.progress);

	for (size_t d = 0; turned.is_ok() && d < dim; d++)
		for (size_t e = 0; e < dim; e++)
			run.model.rotation[d * stride + e] = static_cast<float>(matrix[d * dim + e]);
	return turned;
}

Outcome
train_rotation(Run *run)
{
	const PqSpec &spec = run->model.spec;
	const size_t stride = pq_rotation_stride(spec);
	double error = 0;

	std::fill_n(run->model.rotation, pq_rotation_floats(spec), 0.0f);
	for (size_t d = 0; d < spec.dim; d++)
		run->model.rotation[d * stride + d] = 1;
	for (uint32_t iteration = 0; iteration < run->training.opq_iterations; iteration++)
	{
		Outcome outcome = rotate_sample(*run);

		if (outcome.is_ok())
			outcome = train_codebooks(run, iteration == 0 ? kFirstIterations : 1, iteration > 0, true, &error);
		if (outcome.is_ok())
			outcome = correlate(*run);
		if (outcome.is_ok())
			outcome = rotate_to_codes(*run);
		if (outcome.code == StatusCode::kInternal)
			return {}; // no better rotation can be found
		if (!outcome.is_ok())
			return outcome;
	}
	return {};
}

} // namespace

size_t
pq_train_work_bytes(const PqSpec &spec, const PqTraining &training)
{
	Arena arena;

	take_memory(&arena, spec, training);
	return arena.bytes_needed();
}

Outcome
pq_train(const PqModel &model, const PqTraining &training, double *mean_error, void *work, size_t work_bytes,
	const Call &call)
{
	const PqSpec &spec = model.spec;
	const Outcome possible = pq_check(spec);

	if (!possible.is_ok())
		return possible;

	Arena arena(work, work_bytes);
	const Memory memory = take_memory(&arena, spec, training);
	const size_t n_codewords = pq_n_codewords(spec);
	const size_t sub_dim = pq_sub_dim(spec);
	Run run = {model, training, memory, call, {0, uint64_t{spec.m} * (1 + (spec.opq ? training.opq_iterations : 0))}};
	double error = 0;

	if (arena.is_short())
		return work_memory_short();
	for (size_t i = 0; spec.opq && i < training.n_rows; i++)
		take_residual(training, spec.dim, i, 0, spec.dim, memory.residuals + i * spec.dim);

	Outcome outcome = spec.opq ? train_rotation(&run) : Outcome{};

	if (outcome.is_ok() && spec.opq)
		outcome = rotate_sample(run);
	if (outcome.is_ok())
		outcome =
			train_codebooks(&run, training.max_iterations, spec.opq && training.opq_iterations > 0, false, &error);
	if (!outcome.is_ok())
		return outcome;
	for (size_t j = 0; j < spec.m; j++)
		for (size_t i = 0; i < n_codewords; i++)
			for (size_t d = 0; d < sub_dim; d++)
				model.codebook[(j * sub_dim + d) * n_codewords + i] =
					memory.codewords[(j * n_codewords + i) * sub_dim + d];
	if (mean_error != nullptr)
		*mean_error = training.n_rows == 0 ? 0 : error / static_cast<double>(training.n_rows);
	return {};
}

} // namespace vectorgpu::engine::ivf

// See build_jobs.hpp.
#include "worker/build_jobs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/fault.hpp"
#include "worker/residency.hpp"

namespace vectorgpu::worker
{

using wire::BuildStep;
using wire::ReplyStatus;

namespace
{

constexpr size_t kMostJobs = 8;
constexpr uint64_t kMostJobBytes = uint64_t{4} << 30; // of sample, centroids and queries of one

/// The part of a result that was asked for.
ReplyStatus
copy_part(const void *data, size_t n_bytes, const wire::BuildReadRequest &request, std::vector<uint8_t> *bytes)
{
	if (request.first > n_bytes || request.n_bytes > n_bytes - request.first)
		return ReplyStatus::kInvalid;
	bytes->resize(request.n_bytes);
	memcpy(bytes->data(), static_cast<const uint8_t *>(data) + request.first, request.n_bytes);
	return ReplyStatus::kOk;
}

} // namespace

void
BuildJobs::start()
{
	ending_.reserve(kMostJobs); // tasks must not throw
	thread_.start();
}

void
BuildJobs::stop()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
		control_.stop.store(true, std::memory_order_relaxed);
	}
	thread_.stop();
	for (const auto &[session, job] : jobs_)
		if (job.graph != nullptr)
			job.graph->abandon(); // all of them, before one is waited for
	jobs_.clear();
	ending_.clear();
}

/// Without waiting for a graph that is being made: others' builds would stand still meanwhile.
void
BuildJobs::forget(uint64_t session)
{
	const auto found = jobs_.find(session);

	std::erase_if(ending_, [](const auto &job) { return job->ended(); });
	if (found == jobs_.end())
		return;
	if (found->second.graph != nullptr && !found->second.graph->ended())
	{
		found->second.graph->abandon();
		ending_.push_back(std::move(found->second.graph)); // of all graphs there are at most kMostJobs
	}
	jobs_.erase(found);
}

void
BuildJobs::push(uint64_t session, std::function<void()> work)
{
	const auto task = std::make_shared<Task>();

	{
		const std::lock_guard lock(mutex_);

		tasks_[session] = task;
	}
	thread_.push(
		[this, session, task, work = std::move(work)]
		{
			begin_task(task.get());
			work();
			end_task(session, task.get());
		});
}

void
BuildJobs::begin_task(const Task *task)
{
	const std::lock_guard lock(mutex_);

	running_ = task;
	control_.stop.store(stopping_ || task->cancelled, std::memory_order_relaxed);
}

void
BuildJobs::end_task(uint64_t session, const Task *task)
{
	const std::lock_guard lock(mutex_);
	const auto found = tasks_.find(session);

	running_ = nullptr;
	if (found != tasks_.end() && found->second.get() == task) // else the session, which has its answer, has asked again
		tasks_.erase(found);
}

void
BuildJobs::cancel(uint64_t session)
{
	const std::lock_guard lock(mutex_);
	const auto found = tasks_.find(session);

	if (found == tasks_.end())
		return;
	found->second->cancelled = true;
	if (running_ == found->second.get())
		control_.stop.store(true, std::memory_order_relaxed);
}

void
BuildJobs::closed(uint64_t session)
{
	cancel(session);
	thread_.push([this, session] { forget(session); });
}

bool
BuildJobs::progressing(Seen *seen) const
{
	const uint64_t progress = control_.progress.load(std::memory_order_relaxed);
	const bool moved = thread_.progressing(&seen->thread);

	return std::exchange(seen->progress, progress) != progress || moved;
}

ReplyStatus
BuildJobs::begin(uint64_t session, const wire::BuildSpec &spec)
{
	const uint64_t vectors = uint64_t{spec.n_training} + 2 * uint64_t{spec.n_clusters} + spec.n_queries;
	engine::ListBuildSpec build;
	Job job;

	forget(session);
	if (jobs_.size() >= kMostJobs || vectors * spec.dim * sizeof(float) > kMostJobBytes)
		return ReplyStatus::kRefused;
	build.rows = {spec.metric, spec.element, spec.dim};
	build.n_clusters = spec.n_clusters;
	build.n_training = spec.n_training;
	build.n_queries = spec.n_queries;
	build.k = spec.k;
	build.seed = spec.seed;
	build.max_iterations = spec.max_iterations;
	build.tolerance = spec.tolerance;

	const Status made = engine_.make_list_builder(build, &control_, &job.builder);

	if (!made.is_ok())
		return reply_status(made);
	jobs_.emplace(session, std::move(job));
	return ReplyStatus::kOk;
}

ReplyStatus
BuildJobs::begin_graph(uint64_t session, const wire::GraphBuildSpec &spec)
{
	uint64_t bytes = GraphJob::bytes_of(engine_, spec);
	Job job;

	forget(session);
	for (const auto &[other, held] : jobs_)
		bytes += held.graph != nullptr ? held.graph->bytes() : 0;
	for (const auto &held : ending_)
		bytes += held->bytes();
	if (jobs_.size() + ending_.size() >= kMostJobs || bytes > graph_budget_bytes_)
		return ReplyStatus::kRefused;

	const ReplyStatus status = GraphJob::make(engine_, spec, &job.graph);

	if (status == ReplyStatus::kOk)
		jobs_.emplace(session, std::move(job));
	return status;
}

ReplyStatus
BuildJobs::graph_step(Job *job, const wire::RequestView &view)
{
	switch (view.build.step)
	{
		case BuildStep::kRows:
			return job->graph->add_rows(view);
		case BuildStep::kStart:
			return job->graph->start();
		default:
			return ReplyStatus::kInvalid;
	}
}

ReplyStatus
BuildJobs::assign(Job *job, const wire::RequestView &view, size_t room, std::vector<wire::RowLabel> *labels)
{
	const size_t n = view.build.n_rows;

	if (n > room)
		return ReplyStatus::kInvalid;
	job->labels.resize(n);
	job->scores.resize(n);

	const Status status = job->builder->assign(view.build.position, view.vectors, n, job->labels.data(), job->scores.data());

	if (!status.is_ok())
		return reply_status(status);
	job->has_neighbors = false;
	labels->resize(n);
	for (size_t i = 0; i < n; i++)
		(*labels)[i] = {job->labels[i], job->scores[i]};
	return ReplyStatus::kOk;
}

ReplyStatus
BuildJobs::build(uint64_t session, const wire::RequestView &view, size_t room, std::vector<wire::RowLabel> *labels)
{
	const wire::BuildRequest &request = view.build;
	const auto found = jobs_.find(session);

	if (WORKER_FAULT("build") == Fault::kError)
		return ReplyStatus::kInternal;
	if (cancelled() && request.step != BuildStep::kEnd)
		return ReplyStatus::kCancelled;
	if (request.step == BuildStep::kBegin)
		return begin(session, view.build_spec);
	if (request.step == BuildStep::kBeginGraph)
		return begin_graph(session, view.graph_build_spec);
	if (found == jobs_.end())
		return ReplyStatus::kAbsent;

	Job &job = found->second;

	if (request.step == BuildStep::kEnd)
	{
		forget(session);
		return ReplyStatus::kOk;
	}
	if (job.graph != nullptr)
		return graph_step(&job, view);

	const engine::DistanceSpec &rows = job.builder->spec().rows;
	const size_t row_bytes = request.step == BuildStep::kCentroids ? rows.dim * sizeof(float) : vector_bytes(rows.element, rows.dim);

	if (request.n_rows > 0 && view.row_bytes != row_bytes)
		return ReplyStatus::kInvalid;
	switch (request.step)
	{
		case BuildStep::kTraining:
			return reply_status(job.builder->add_training(view.vectors, request.n_rows));
		case BuildStep::kTrain:
			return reply_status(job.builder->train());
		case BuildStep::kCentroids:
			return reply_status(job.builder->add_centroids(reinterpret_cast<const float *>(view.vectors), request.n_rows));
		case BuildStep::kQueries:
			return reply_status(job.builder->add_queries(view.vectors, request.n_rows));
		case BuildStep::kAssign:
			return assign(&job, view, room, labels);
		default:
			return ReplyStatus::kInvalid;
	}
}

ReplyStatus
BuildJobs::read(uint64_t session, const wire::BuildReadRequest &request, size_t room, std::vector<uint8_t> *bytes)
{
	const auto found = jobs_.find(session);

	if (cancelled())
		return ReplyStatus::kCancelled;
	if (found == jobs_.end())
		return ReplyStatus::kAbsent;
	if (request.n_bytes > room)
		return ReplyStatus::kInvalid;

	Job &job = found->second;

	if (job.graph != nullptr)
		return job.graph->read(request, bytes);

	const engine::ListBuilder &builder = *job.builder;
	const std::vector<float> &centroids = builder.centroids();

	switch (request.result)
	{
		case wire::BuildResult::kReport:
		{
			const wire::BuildReport report = {
				builder.report().inertia, static_cast<uint32_t>(centroids.size() / builder.spec().rows.dim), builder.report().n_iterations};

			return copy_part(&report, sizeof(report), request, bytes);
		}
		case wire::BuildResult::kCentroids:
			return copy_part(centroids.data(), centroids.size() * sizeof(float), request, bytes);
		case wire::BuildResult::kNeighbors:
			break;
		default:
			return ReplyStatus::kInvalid;
	}
	static_assert(sizeof(engine::Neighbor) == sizeof(wire::WireNeighbor) && engine::ListBuilder::kNoNeighbor == wire::kNoRow);
	if (!job.has_neighbors)
	{
		const Status status = job.builder->neighbors(&job.neighbors);

		if (!status.is_ok())
			return reply_status(status);
		job.has_neighbors = true;
	}
	return copy_part(job.neighbors.data(), job.neighbors.size() * sizeof(engine::Neighbor), request, bytes);
}

} // namespace vectorgpu::worker

// See build_jobs.hpp.
#include "worker/build_jobs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/cores.hpp"
#include "worker/fault.hpp"
#include "worker/residency.hpp"
#include "worker/result_part.hpp"

namespace vectorgpu::worker
{

using wire::BuildStep;
using wire::ReplyStatus;

namespace
{

constexpr size_t kMostJobs = 8;
constexpr uint64_t kMostJobBytes = uint64_t{4} << 30; // of sample, centroids, queries and what codes take of one

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
	job.bytes = vectors * spec.dim * sizeof(float);
	if (jobs_.size() >= kMostJobs || job.bytes > kMostJobBytes)
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
BuildJobs::begin_graph(uint64_t session, const engine::GraphBuildSpec &spec)
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
		case BuildStep::kBaseEdges:
		case BuildStep::kBaseNumbers:
		case BuildStep::kBaseEntries:
			return job->graph->add_base(view);
		case BuildStep::kStart:
			return job->graph->start();
		default:
			return ReplyStatus::kInvalid;
	}
}

/// What the rows will be coded with.
ReplyStatus
BuildJobs::begin_codes(Job *job, const wire::CodesSpec &spec)
{
	const engine::DistanceSpec &rows = job->builder->spec().rows;
	engine::ListCodeSpec codes;

	codes.codes.kind = static_cast<engine::ivf::CodeKind>(spec.kind);
	codes.codes.metric = rows.metric;
	codes.codes.dim = rows.dim;
	if (codes.codes.kind == engine::ivf::CodeKind::kPq)
		codes.codes.pq = {rows.metric, rows.dim, spec.pq_m, spec.pq_bits, spec.opq != 0};
	codes.n_training = spec.n_training;
	codes.seed = spec.seed;

	const Status good = engine::check_list_codes(codes); // before its sizes are asked for

	if (!good.is_ok())
		return reply_status(good);

	const size_t n_lists = job->builder->centroids().size() / rows.dim;
	const uint64_t bytes = engine::list_code_bytes(codes, static_cast<uint32_t>(n_lists), count_cores());

	return bytes > kMostJobBytes - job->bytes ? ReplyStatus::kRefused : reply_status(job->builder->begin_codes(codes));
}

ReplyStatus
BuildJobs::assign(Job *job, const wire::RequestView &view, size_t room, Answer *answer)
{
	static_assert(static_cast<uint32_t>(wire::CodesKind::kSq8) == static_cast<uint32_t>(engine::ivf::CodeKind::kSq8) &&
		static_cast<uint32_t>(wire::CodesKind::kPq) == static_cast<uint32_t>(engine::ivf::CodeKind::kPq));
	const engine::ListCoder *coder = job->builder->coder();
	const size_t n = view.build.n_rows;
	const size_t code_bytes = coder != nullptr ? engine::ivf::code_bytes(coder->spec().codes) : 0;
	const bool has_terms = coder != nullptr && engine::ivf::code_has_terms(coder->spec().codes);
	const size_t term_bytes = has_terms ? n * sizeof(float) : 0;
	const size_t label_bytes = n * sizeof(wire::RowLabel);

	if (n > room / (sizeof(wire::RowLabel) + code_bytes + (has_terms ? sizeof(float) : 0)))
		return ReplyStatus::kInvalid;
	job->labels.resize(n);
	job->scores.resize(n);
	job->terms.resize(has_terms ? n : 0);
	job->is_out.resize(coder != nullptr ? n : 0);
	answer->bytes.resize(label_bytes + term_bytes + n * code_bytes);

	const engine::CodedRows coded = {
		answer->bytes.data() + label_bytes + term_bytes, job->terms.data(), job->is_out.data()};
	const Status status = job->builder->assign(view.build.position, view.vectors, n, job->labels.data(),
		job->scores.data(), coder != nullptr ? coded : engine::CodedRows{});

	if (!status.is_ok())
		return reply_status(status);
	job->has_neighbors = false;
	for (size_t i = 0; i < n; i++)
	{
		const wire::RowLabel label = {
			job->labels[i] | (coder != nullptr && job->is_out[i] != 0 ? wire::kRowOutOfRange : 0), job->scores[i]};

		memcpy(answer->bytes.data() + i * sizeof(label), &label, sizeof(label));
	}
	if (has_terms)
		memcpy(answer->bytes.data() + label_bytes, job->terms.data(), term_bytes);
	answer->n_rows = static_cast<uint32_t>(n);
	return ReplyStatus::kOk;
}

ReplyStatus
BuildJobs::list_step(Job *job, const wire::RequestView &view, size_t room, Answer *answer)
{
	const wire::BuildRequest &request = view.build;
	const engine::DistanceSpec &rows = job->builder->spec().rows;
	const size_t row_bytes = request.step == BuildStep::kCentroids ? rows.dim * sizeof(float)
		: request.step == BuildStep::kCodesModel                   ? sizeof(float)
																   : vector_bytes(rows.element, rows.dim);

	if (request.n_rows > 0 && view.row_bytes != row_bytes)
		return ReplyStatus::kInvalid;
	switch (request.step)
	{
		case BuildStep::kTraining:
			return reply_status(job->builder->add_training(view.vectors, request.n_rows));
		case BuildStep::kTrain:
			return reply_status(job->builder->train());
		case BuildStep::kCentroids:
			return reply_status(
				job->builder->add_centroids(reinterpret_cast<const float *>(view.vectors), request.n_rows));
		case BuildStep::kCodes:
			return begin_codes(job, view.codes_spec);
		case BuildStep::kCodesTraining:
			return reply_status(job->builder->add_code_training(view.vectors, request.n_rows));
		case BuildStep::kTrainCodes:
			return reply_status(job->builder->train_codes());
		case BuildStep::kCodesModel:
			return reply_status(
				job->builder->add_code_model(reinterpret_cast<const float *>(view.vectors), request.n_rows));
		case BuildStep::kQueries:
			return reply_status(job->builder->add_queries(view.vectors, request.n_rows));
		case BuildStep::kAssign:
			return assign(job, view, room, answer);
		default:
			return ReplyStatus::kInvalid;
	}
}

ReplyStatus
BuildJobs::build(uint64_t session, const wire::RequestView &view, size_t room, Answer *answer)
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
		return begin_graph(session, GraphJob::engine_spec(view.graph_build_spec));
	if (request.step == BuildStep::kBeginInsert)
		return begin_graph(session, GraphJob::engine_spec(view.insert_build_spec));
	if (found == jobs_.end())
		return ReplyStatus::kAbsent;

	Job &job = found->second;

	if (request.step == BuildStep::kEnd)
	{
		forget(session);
		return ReplyStatus::kOk;
	}
	return job.graph != nullptr ? graph_step(&job, view) : list_step(&job, view, room, answer);
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
			const wire::BuildReport report = {builder.report().inertia,
				static_cast<uint32_t>(centroids.size() / builder.spec().rows.dim), builder.report().n_iterations};

			return copy_part(&report, sizeof(report), request, bytes);
		}
		case wire::BuildResult::kCentroids:
			return copy_part(centroids.data(), centroids.size() * sizeof(float), request, bytes);
		case wire::BuildResult::kCodesModel:
			if (builder.coder() == nullptr || !builder.coder()->ready())
				return ReplyStatus::kInvalid;
			return copy_part(
				builder.coder()->model().data(), builder.coder()->model().size() * sizeof(float), request, bytes);
		case wire::BuildResult::kNeighbors:
			break;
		default:
			return ReplyStatus::kInvalid;
	}
	static_assert(
		sizeof(engine::Neighbor) == sizeof(wire::WireNeighbor) && engine::ListBuilder::kNoNeighbor == wire::kNoRow);
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

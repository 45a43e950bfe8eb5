// See build_jobs.hpp.
#include "worker/build_jobs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/cores.hpp"
#include "worker/worker_fault.hpp"
#include "worker/residency/residency.hpp"
#include "worker/result_part.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;
using wire::RequestType;

namespace
{

constexpr size_t kMostJobs = 8;
constexpr uint64_t kMostJobBytes = uint64_t{4} << 30; // of one build of lists: sample, centroids, queries, codes
constexpr uint64_t kMostBatchBytes = 4 * uint64_t{wire::kMostRowsBytes}; // of rows to assign, as float32

} // namespace

void
BuildJobs::start()
{
	ending_.reserve(kMostJobs); // since tasks must not throw
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
			job.graph->abandon(); // stop all before waiting for one
	jobs_.clear();
	ending_.clear();
}

/// Do not wait for a graph that is being built: this would delay others' builds.
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
		ending_.push_back(std::move(found->second.graph)); // at most kMostJobs graphs in all: does not allocate
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
	if (found != tasks_.end() &&
		found->second.get() == task) // else the session has its answer and has sent another request
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
BuildJobs::begin_lists(uint64_t session, const wire::BeginListsRequest &spec)
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
BuildJobs::graph_request(Job *job, const wire::RequestView &view)
{
	switch (view.header.type)
	{
		case RequestType::kAddGraphRows:
			return job->graph->add_rows(view);
		case RequestType::kAddGraphPages:
			return job->graph->add_pages(view, &control_);
		case RequestType::kAddBaseEdges:
			return job->graph->add_base(view, engine::GraphBasePiece::kEdges);
		case RequestType::kAddBaseNumbers:
			return job->graph->add_base(view, engine::GraphBasePiece::kNumbers);
		case RequestType::kAddBaseEntries:
			return job->graph->add_base(view, engine::GraphBasePiece::kEntries);
		case RequestType::kStartGraph:
			return job->graph->start();
		default:
			return ReplyStatus::kInvalid;
	}
}

ReplyStatus
BuildJobs::begin_codes(Job *job, const wire::BeginCodesRequest &spec)
{
	const engine::DistanceSpec &rows = job->builder->spec().rows;
	engine::ListCodeSpec codes;

	codes.codes.kind = static_cast<engine::ivf::CodeKind>(spec.kind);
	codes.codes.metric = rows.metric;
	codes.codes.dim = rows.dim;
	if (codes.codes.kind == engine::ivf::CodeKind::kPq)
		codes.codes.pq = {rows.metric, rows.dim, spec.pq_m, spec.bits, spec.opq != 0};
	if (codes.codes.kind == engine::ivf::CodeKind::kRabitq)
		codes.codes.bits = spec.bits;
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
BuildJobs::begin_counts(Job *job, const wire::BeginCountsRequest &spec)
{
	static_assert(sizeof(wire::CountedQuery) == sizeof(engine::ivf::CountedNeighbors) &&
		wire::kCountedNeighbors == engine::ivf::kCountedNeighbors && wire::kMostCopies == engine::ivf::kMostCopies &&
		wire::kCountPoints == engine::ivf::kMaxCalibrationPoints);
	const engine::CodeCountSpec counts = {spec.n_queries, {spec.batch_rows, spec.stride}};
	const engine::ListCoder *coder = job->builder->coder();
	const Status good = engine::check_code_counts(counts);

	if (coder == nullptr || !good.is_ok())
		return ReplyStatus::kInvalid;

	const auto n_lists = static_cast<uint32_t>(job->builder->centroids().size() / coder->spec().codes.dim);
	engine::ListCodeSpec codes = coder->spec();

	codes.n_training = 0; // the sample is gone

	const uint64_t bytes = engine::list_code_bytes(codes, n_lists, count_cores()) +
		engine::code_count_bytes(codes.codes, counts, n_lists, count_cores());

	return bytes > kMostJobBytes - job->bytes ? ReplyStatus::kRefused
											  : reply_status(job->builder->begin_counts(counts));
}

/// ADD_COUNTED and COUNT_CODES.
ReplyStatus
BuildJobs::count_request(Job *job, const wire::RequestView &view)
{
	engine::ListBuilder *builder = job->builder.get();
	const uint32_t n = view.build_rows.n_rows;

	if (builder->counter() == nullptr)
		return ReplyStatus::kInvalid;

	const engine::ivf::CodeSpec &codes = builder->coder()->spec().codes;
	const size_t n_lists = builder->centroids().size() / codes.dim;

	if (view.header.type == RequestType::kAddCounted)
		return view.row_bytes == engine::CodeCounter::query_bytes(codes, static_cast<uint32_t>(n_lists))
			? reply_status(builder->add_counted(view.vectors, n))
			: ReplyStatus::kInvalid;
	return view.row_bytes == engine::CodeCounter::row_bytes(codes)
		? reply_status(builder->count_codes(view.build_rows.position, view.vectors, n))
		: ReplyStatus::kInvalid;
}

ReplyStatus
BuildJobs::assign(Job *job, const wire::RequestView &view, size_t room, Answer *answer)
{
	static_assert(static_cast<uint32_t>(wire::CodesKind::kSq8) == static_cast<uint32_t>(engine::ivf::CodeKind::kSq8) &&
		static_cast<uint32_t>(wire::CodesKind::kPq) == static_cast<uint32_t>(engine::ivf::CodeKind::kPq) &&
		static_cast<uint32_t>(wire::CodesKind::kRabitq) == static_cast<uint32_t>(engine::ivf::CodeKind::kRabitq));
	const engine::ListCoder *coder = job->builder->coder();
	const size_t n = view.build_rows.n_rows;
	const size_t code_bytes = coder != nullptr ? engine::ivf::code_bytes(coder->spec().codes) : 0;
	const bool has_terms = coder != nullptr && engine::ivf::code_has_terms(coder->spec().codes);
	const size_t term_bytes = has_terms ? n * sizeof(float) : 0;
	const size_t label_bytes = n * sizeof(wire::RowLabel);

	if (n > room / (sizeof(wire::RowLabel) + code_bytes + (has_terms ? sizeof(float) : 0)) ||
		n > kMostBatchBytes / (job->builder->spec().rows.dim * sizeof(float)))
		return ReplyStatus::kInvalid;
	job->labels.resize(n);
	job->scores.resize(n);
	job->terms.resize(has_terms ? n : 0);
	job->is_out.resize(coder != nullptr ? n : 0);
	answer->bytes.resize(label_bytes + term_bytes + n * code_bytes);

	const engine::CodedRows coded = {
		answer->bytes.data() + label_bytes + term_bytes, job->terms.data(), job->is_out.data()};
	const Status status = job->builder->assign(view.build_rows.position, view.vectors, n, job->labels.data(),
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
BuildJobs::list_request(Job *job, const wire::RequestView &view, size_t room, Answer *answer)
{
	engine::ListBuilder *builder = job->builder.get();
	const engine::DistanceSpec &rows = builder->spec().rows;
	const size_t vector_size = vector_bytes(rows.element, rows.dim);
	const uint32_t n = view.build_rows.n_rows; // of requests with rows
	const auto with_rows = [&](size_t row_bytes, auto add)
	{ return view.row_bytes == row_bytes ? reply_status(add()) : ReplyStatus::kInvalid; };

	switch (view.header.type)
	{
		case RequestType::kAddTraining:
			return with_rows(vector_size, [&] { return builder->add_training(view.vectors, n); });
		case RequestType::kTrain:
			return reply_status(builder->train());
		case RequestType::kAddCentroids:
			return with_rows(rows.dim * sizeof(float),
				[&] { return builder->add_centroids(reinterpret_cast<const float *>(view.vectors), n); });
		case RequestType::kBeginCodes:
			return begin_codes(job, view.begin_codes);
		case RequestType::kAddCodesTraining:
			return with_rows(vector_size, [&] { return builder->add_code_training(view.vectors, n); });
		case RequestType::kTrainCodes:
			return reply_status(builder->train_codes());
		case RequestType::kAddCodesModel:
			return with_rows(sizeof(float),
				[&] { return builder->add_code_model(reinterpret_cast<const float *>(view.vectors), n); });
		case RequestType::kAddQueries:
			return with_rows(vector_size, [&] { return builder->add_queries(view.vectors, n); });
		case RequestType::kBeginCounts:
			return begin_counts(job, view.begin_counts);
		case RequestType::kAddCounted:
		case RequestType::kCountCodes:
			return count_request(job, view);
		case RequestType::kAssign:
			return view.row_bytes == vector_size ? assign(job, view, room, answer) : ReplyStatus::kInvalid;
		default:
			return ReplyStatus::kInvalid;
	}
}

ReplyStatus
BuildJobs::build(uint64_t session, const wire::RequestView &view, size_t room, Answer *answer)
{
	const RequestType type = view.header.type;
	const auto found = jobs_.find(session);

	if (WORKER_FAULT("build") == Fault::kError)
		return ReplyStatus::kInternal;
	if (cancelled() && type != RequestType::kEndBuild)
		return ReplyStatus::kCancelled;
	if (type == RequestType::kBeginLists)
		return begin_lists(session, view.begin_lists);
	if (type == RequestType::kBeginGraph)
		return begin_graph(session, GraphJob::engine_spec(view.begin_graph));
	if (type == RequestType::kBeginInsert)
		return begin_graph(session, GraphJob::engine_spec(view.begin_insert));
	if (found == jobs_.end())
		return ReplyStatus::kAbsent;

	Job &job = found->second;

	if (type == RequestType::kEndBuild)
	{
		forget(session);
		return ReplyStatus::kOk;
	}
	return job.graph != nullptr ? graph_request(&job, view) : list_request(&job, view, room, answer);
}

ReplyStatus
BuildJobs::read(uint64_t session, const wire::ReadBuildRequest &request, size_t room, std::vector<uint8_t> *bytes)
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
		case wire::BuildResult::kCounts:
		{
			if (builder.counter() == nullptr)
				return ReplyStatus::kInvalid;

			const std::vector<uint32_t> counts = builder.counter()->counts();

			return copy_part(counts.data(), counts.size() * sizeof(uint32_t), request, bytes);
		}
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

// See kmeans_worker.hpp.
#include "am/functions/kmeans_worker.hpp"

#include "bridge/client_session.hpp"
#include "bridge/require.hpp"
#include "bridge/settings.hpp"
#include "pg/fault.hpp"
#include "wire/build_messages.hpp"

#include <cmath>
#include <cstring>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kReadBytes = wire::kReplyAreaBytes - sizeof(wire::ReplyHeader); // size of one request for results
constexpr uint64 kMaxRequestRows = 2048;
constexpr uint64 kElementsPerMs = 8000; // row elements per ms of a training in the session
// Limit on the number of elements compared: as many as for the lists of 100 million rows of 128 dimensions. The worker
// runs one training after the other, so builds of other sessions would wait for a longer one.
constexpr double kMostWork = 1.6e13;

bool
fail(KMeansWorker *worker, bridge::Fallback reason)
{
	bridge::note_fallback(reason, "The session continues k-means without the worker.");
	worker->assigns = false;
	return false;
}

/// n_bytes: the exact size of the reply.
bool
request(KMeansWorker *worker, wire::RequestType type, const wire::Part *parts, Size n_parts, void *body, Size n_bytes)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	(void) VG_FAULT("kmeans_worker_request");
	if (!bridge::session_request(type, nullptr, parts, n_parts, &header, body, n_bytes, &reason))
		return fail(worker, reason);
	if (header.status != wire::ReplyStatus::kOk)
		return fail(worker, bridge::fallback_of(header.status));
	return header.body_bytes == n_bytes || fail(worker, bridge::Fallback::kWrongAnswer);
}

bool
send_rows(KMeansWorker *worker, wire::RequestType type, uint64 n_rows, const float *rows, void *body, Size n_bytes)
{
	const wire::BuildRowsRequest head = {0, static_cast<uint32_t>(n_rows), 0};
	const wire::Part parts[] = {{&head, sizeof(head)}, {rows, n_rows * worker->dim * sizeof(float)}};

	return request(worker, type, parts, lengthof(parts), body, n_bytes);
}

bool
read_result(KMeansWorker *worker, wire::BuildResult result, void *to, Size n_bytes)
{
	for (Size first = 0; first < n_bytes; first += kReadBytes)
	{
		const Size n = Min(kReadBytes, n_bytes - first);
		const wire::ReadBuildRequest read = {result, static_cast<uint32_t>(n), first};
		const wire::Part part = {&read, sizeof(read)};

		if (!request(worker, wire::RequestType::kReadBuild, &part, 1, static_cast<char *>(to) + first, n))
			return false;
	}
	return true;
}

/// Return the number of rows per request; 0 if not even one fits.
uint64
request_rows(uint32 dim)
{
	const Size capacity = bridge::session_body_capacity();

	return Min((capacity - Min(capacity, sizeof(wire::BuildRowsRequest))) / (dim * sizeof(float)), kMaxRequestRows);
}

void
forget(void *context)
{
	KMeansWorker *worker = static_cast<KMeansWorker *>(context);

	if (worker->open)
		bridge::session_close();
	worker->open = worker->assigns = false;
}

/// True if the worker is available, can train with this spec, and the work is large enough.
bool
can_ask(const engine::ivf::KMeansSpec *spec)
{
	const uint64 rows_per_ms = Max(kElementsPerMs / spec->dim, UINT64CONST(1));
	const double work = static_cast<double>(spec->n_rows) * spec->dim * spec->n_clusters * spec->max_iterations;
	bool has_waited = false;

	if (!bridge::settings.worker || spec->n_clusters > wire::kMaxBuildLists || spec->n_rows == 0 ||
		spec->n_rows > PG_INT32_MAX || work > kMostWork ||
		spec->n_rows * spec->dim * sizeof(float) < static_cast<uint64>(bridge::settings.worker_min_size_kb) * 1024)
		return false;
	return bridge::session_for_build(spec->n_rows, 0, rows_per_ms, &has_waited) && request_rows(spec->dim) > 0;
}

bool
send_sample(KMeansWorker *worker, const engine::ivf::KMeansSpec *spec, const float *rows)
{
	const uint64 at_a_time = request_rows(spec->dim);

	for (uint64 first = 0; first < spec->n_rows; first += at_a_time)
	{
		const uint64 n = Min(at_a_time, spec->n_rows - first);

		CHECK_FOR_INTERRUPTS();
		if (!send_rows(worker, wire::RequestType::kAddTraining, n, rows + first * spec->dim, nullptr, 0))
			return false;
	}
	return true;
}

bool
train(KMeansWorker *worker, const engine::ivf::KMeansSpec *spec, const float *rows, float *centroids)
{
	wire::BeginListsRequest build = {};
	const wire::Part part = {&build, sizeof(build)};
	wire::BuildReport report;

	build.dim = spec->dim;
	build.element = ElementType::kFloat32;
	build.metric = spec->kind == engine::ivf::ClusterKind::kSpherical ? Metric::kCosine : Metric::kL2;
	build.n_clusters = spec->n_clusters;
	build.n_training = static_cast<uint32>(spec->n_rows);
	build.seed = spec->seed;
	build.max_iterations = spec->max_iterations;
	build.tolerance = spec->tolerance;
	worker->open = true;
	worker->number = bridge::session_new_build();
	if (!request(worker, wire::RequestType::kBeginLists, &part, 1, nullptr, 0) || !send_sample(worker, spec, rows) ||
		!request(worker, wire::RequestType::kTrain, nullptr, 0, nullptr, 0) ||
		!read_result(worker, wire::BuildResult::kReport, &report, sizeof(report)))
		return false;
	if (report.n_used < 1 || report.n_used > spec->n_clusters)
		return fail(worker, bridge::Fallback::kWrongAnswer);
	if (!read_result(worker, wire::BuildResult::kCentroids, centroids,
			static_cast<Size>(report.n_used) * spec->dim * sizeof(float)))
		return false;
	for (Size i = 0; i < static_cast<Size>(report.n_used) * spec->dim; i++)
		if (!std::isfinite(centroids[i]))
			return fail(worker, bridge::Fallback::kWrongAnswer);
	worker->n_used = report.n_used;
	return true;
}

} // namespace

bool
kmeans_worker_train(KMeansWorker *worker, MemoryContext context, const engine::ivf::KMeansSpec *spec, const float *rows,
	float *centroids, uint32 *n_used)
{
	if (!can_ask(spec))
		return false;
	worker->dim = spec->dim;
	worker->on_reset.func = forget;
	worker->on_reset.arg = worker;
	MemoryContextRegisterResetCallback(context, &worker->on_reset);
	if (!train(worker, spec, rows, centroids))
	{
		kmeans_worker_end(worker);
		return false;
	}
	worker->assigns = true;
	*n_used = worker->n_used;
	ereport(DEBUG1, (errmsg_internal("the worker has trained %u clusters", worker->n_used)));
	return true;
}

bool
kmeans_worker_give(KMeansWorker *worker, const float *centroids, uint32 n)
{
	wire::BeginListsRequest build = {};
	const wire::Part part = {&build, sizeof(build)};
	const uint64 at_a_time = request_rows(worker->dim);

	if (!worker->assigns)
		return false;
	worker->assigns = false;
	if (bridge::session_build() != worker->number || !bridge::session_ready(false) || at_a_time == 0)
		return false; // the worker's state belongs to another build, or is gone
	build.dim = worker->dim;
	build.element = ElementType::kFloat32;
	build.metric = Metric::kL2; // use L2 for all: in spherical clustering centroids and rows have length 1
	build.n_clusters = n;
	worker->number = bridge::session_new_build();
	if (!request(worker, wire::RequestType::kBeginLists, &part, 1, nullptr, 0))
		return false;
	for (uint64 first = 0; first < n; first += at_a_time)
	{
		const uint64 here = Min(at_a_time, n - first);

		CHECK_FOR_INTERRUPTS();
		if (!send_rows(worker, wire::RequestType::kAddCentroids, here, centroids + first * worker->dim, nullptr, 0))
			return false;
	}
	worker->n_used = n;
	worker->assigns = true;
	return true;
}

bool
kmeans_worker_assign(KMeansWorker *worker, const float *rows, uint64 n, uint32 *labels, float *scores)
{
	wire::RowLabel found[kMaxRequestRows];
	uint64 at_a_time;

	if (!worker->assigns)
		return false;
	if (bridge::session_build() != worker->number || !bridge::session_ready(false) ||
		(at_a_time = request_rows(worker->dim)) == 0)
	{
		worker->assigns = false; // the worker's state belongs to another build, or is gone
		return false;
	}
	for (uint64 first = 0; first < n; first += at_a_time)
	{
		const uint64 here = Min(at_a_time, n - first);

		if (!send_rows(worker, wire::RequestType::kAssign, here, rows + first * worker->dim, found,
				here * sizeof(wire::RowLabel)))
			return false;
		for (uint64 i = 0; i < here; i++)
		{
			if (found[i].list >= worker->n_used)
				return fail(worker, bridge::Fallback::kWrongAnswer);
			labels[first + i] = found[i].list;
			scores[first + i] = found[i].score;
		}
	}
	return true;
}

void
kmeans_worker_end(KMeansWorker *worker)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	// If the request fails, end the session to end the build, which holds memory and one of few slots.
	if (worker->open && bridge::session_build() == worker->number &&
		!(bridge::session_ready(false) &&
			bridge::session_request(wire::RequestType::kEndBuild, nullptr, nullptr, 0, &header, nullptr, 0, &reason)))
		bridge::session_close();
	worker->open = worker->assigns = false;
}

} // namespace vectorgpu::am

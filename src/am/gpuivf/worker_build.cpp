// See worker_build.hpp.
#include "am/gpuivf/worker_build.hpp"

#include "am/gpuivf/worker_request.hpp"
#include "am/gpuivf/writer.hpp"
#include "bridge/client_session.hpp"
#include "bridge/require.hpp"
#include "bridge/settings.hpp"
#include "engine/ivf/pq_train.hpp"
#include "engine/recall/stratified.hpp"
#include "pg/fault.hpp"
#include "wire/build_messages.hpp"
#include "wire/copy_messages.hpp"

#include <cmath>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kMaxRequestRows = 16384;
constexpr uint64 kLeastBatchBytes = 4 * 1024 * 1024; // of rows in a request, whatever the memory
constexpr Size kMemoryShare = 16;                    // of maintenance_work_mem, for those of a request
constexpr float kTolerance = 1e-3f;                  // iterations cost the worker little
constexpr uint32 kIterations = 20;
constexpr uint64 kElementsPerMs = 8000; // elements that the backend's own build handles

/// A request without a body.
bool
send_empty(WorkerBuild *build, wire::RequestType type)
{
	wire::ReplyHeader header;

	return submit(build, type, nullptr, 0) && receive(build, &header, nullptr, 0);
}

/// After an error: the worker's state of the build ends with the session.
void
forget_build(void *context)
{
	WorkerBuild *build = static_cast<WorkerBuild *>(context);

	if (build->open)
		bridge::session_close();
	bridge::session_end_build();
	build->open = false;
}

/// True if the worker is worth asking, and can be asked.
bool
can_ask(IvfWriter *writer)
{
	if (!bridge::settings.worker ||
		writer->n_rows * writer->vector_bytes < static_cast<uint64>(bridge::settings.worker_min_size_kb) * 1024)
		return false;
	// False for a merge that must let go at once when somebody waits for its lock.
	if (writer->watch.give_way != nullptr)
		writer->worker.has_waited = true;
	return bridge::session_for_build(writer->n_rows, writer->n_rows * writer->vector_bytes,
		Max(kElementsPerMs / writer->meta->dim, UINT64CONST(1)), &writer->worker.has_waited);
}

/// Begins a build. A training also gets the number of a calibration's queries.
bool
begin(IvfWriter *writer, wire::BeginListsRequest *spec)
{
	WorkerBuild *build = &writer->worker;
	const wire::Part part = {spec, sizeof(*spec)};
	const Size batch_bytes = Min(Max(kLeastBatchBytes, writer->memory / kMemoryShare), Size{wire::kMostRowsBytes});
	const Size float_bytes = writer->meta->dim * sizeof(float);
	Size capacity;
	wire::ReplyHeader header;
	bridge::Fallback reason;

	worker_build_end(writer);
	if (!can_ask(writer))
		return false;
	if (spec->n_training > 0)
	{
		// For bit strings its processors may have to find the neighbours.
		build->by_gpu =
			bridge::session_engine() == wire::EngineKind::kCuda && writer->rows.element != ElementType::kBit;
		spec->n_queries = static_cast<uint32>(ivf_calibration_queries(writer));
		spec->k = spec->n_queries > 0 ? static_cast<uint32>(kCalibrationFound) : 0;
	}
	capacity = Min(bridge::session_body_capacity(), batch_bytes);
	build->request_rows =
		Min(kMaxRequestRows, (capacity - Min(capacity, sizeof(wire::BuildRowsRequest))) / writer->vector_bytes);
	// Both sides make them float32, which for bits are 32 times as large.
	build->request_rows = Min(build->request_rows, Max(2 * batch_bytes / float_bytes, UINT64CONST(1)));
	if (build->request_rows == 0 || capacity < sizeof(wire::BuildRowsRequest) + float_bytes)
		return false;
	spec->dim = writer->meta->dim;
	spec->element = writer->rows.element;
	spec->metric = writer->meta->metric;
	if (build->on_reset.func == nullptr)
	{
		build->on_reset.func = forget_build;
		build->on_reset.arg = build;
		MemoryContextRegisterResetCallback(GetMemoryChunkContext(writer), &build->on_reset);
	}
	(void) bridge::session_new_build();
	if (!bridge::session_submit(wire::RequestType::kBeginLists, nullptr, &part, 1, &reason))
		return fail(build, reason);
	build->open = true;
	build->n_seen = 0;
	build->n_queries = spec->n_queries;
	build->k = spec->k;
	return receive(build, &header, nullptr, 0);
}

/// Sends an even sample of n of the waiting rows, n > 0: the next ones are read while the worker takes those before.
/// False: the worker has failed.
bool
send_sample(IvfWriter *writer, wire::RequestType type, uint64 n)
{
	WorkerBuild *build = &writer->worker;
	char *rows = static_cast<char *>(palloc(build->request_rows * writer->vector_bytes));
	bridge::RowsRequest last = {};
	wire::ReplyHeader header;
	bool sent = true;

	Assert(n > 0);
	for (uint64 first = 0; sent && first < n; first += build->request_rows)
	{
		const uint64 here = Min(build->request_rows, n - first);

		CHECK_FOR_INTERRUPTS();
		for (uint64 i = 0; i < here; i++)
			ivf_read_spooled(
				writer, engine::stratified_row(first + i, n, writer->n_rows), 1, rows + i * writer->vector_bytes);
		sent = (first == 0 || receive(build, &header, nullptr, 0)) &&
			submit_rows(build, &last, type, 0, rows, here, writer->vector_bytes);
	}
	pfree(rows);
	return sent && receive(build, &header, nullptr, 0);
}

bool
all_finite(const float *values, uint64 n)
{
	for (uint64 i = 0; i < n; i++)
		if (!std::isfinite(values[i]))
			return false;
	return true;
}

} // namespace

bool
worker_build_train(IvfWriter *writer, const engine::ivf::KMeansSpec *spec, float *centroids, uint32 *n_used)
{
	WorkerBuild *build = &writer->worker;
	wire::BeginListsRequest wanted = {};
	wire::BuildReport report;
	wire::ReplyHeader header;

	wanted.n_clusters = spec->n_clusters;
	wanted.n_training = static_cast<uint32>(spec->n_rows);
	wanted.seed = spec->seed;
	wanted.max_iterations = Max(spec->max_iterations, kIterations);
	wanted.tolerance = Min(spec->tolerance, kTolerance);
	if (writer->watch.give_way != nullptr)
	{
		// A merge that must let go at once when somebody waits for its lock: not while it waits for a reply itself. The
		// worker's state of the lists ends with the old model.
		worker_build_end(writer);
		return false;
	}
	if (spec->n_rows == 0 || !begin(writer, &wanted) ||
		!send_sample(writer, wire::RequestType::kAddTraining, spec->n_rows) ||
		!submit(build, wire::RequestType::kTrain, nullptr, 0))
		return false;
	ivf_train_codec_alone(writer); // meanwhile
	if (!receive(build, &header, nullptr, 0) ||
		!read_result(build, wire::BuildResult::kReport, &report, sizeof(report)))
		return false;
	if (report.n_used < 1 || report.n_used > spec->n_clusters)
		return fail(build, bridge::Fallback::kWrongAnswer);
	if (!read_result(build, wire::BuildResult::kCentroids, centroids,
			static_cast<Size>(report.n_used) * spec->dim * sizeof(float)))
		return false;
	if (!all_finite(centroids, static_cast<uint64>(report.n_used) * spec->dim))
		return fail(build, bridge::Fallback::kWrongAnswer);
	*n_used = report.n_used;
	build->lists = true;
	ereport(DEBUG1,
		(errmsg_internal("the worker has trained %u lists for index \"%s\"", report.n_used,
			RelationGetRelationName(writer->plan.index))));
	return true;
}

bool
worker_build_take_model(IvfWriter *writer)
{
	WorkerBuild *build = &writer->worker;
	const uint32 dim = writer->meta->dim;
	const uint32 n_lists = writer->model.n_lists;
	wire::BeginListsRequest wanted = {};
	uint64 step;

	wanted.n_clusters = n_lists;
	if (!begin(writer, &wanted))
		return false;
	step = (bridge::session_body_capacity() - sizeof(wire::BuildRowsRequest)) /
		(dim * sizeof(float)); // at least one: see begin
	for (uint64 first = 0; first < n_lists; first += step)
	{
		const uint64 n = Min(step, n_lists - first);

		if (!send_rows(
				build, wire::RequestType::kAddCentroids, writer->centroids + first * dim, n, dim * sizeof(float)))
			return false;
	}
	build->lists = true;
	return true;
}

namespace
{

/// Bytes of a reply for each row of a batch.
Size
reply_row_bytes(const IvfWriter *writer)
{
	return sizeof(wire::RowLabel) + (writer->worker.codes ? writer->coded_bytes : 0);
}

/// False: the worker makes no such codes.
bool
kind_of_codes(IvfStorage storage, wire::CodesKind *kind)
{
	switch (storage)
	{
		case IvfStorage::kSq8:
			*kind = wire::CodesKind::kSq8;
			return true;
		case IvfStorage::kPq:
			*kind = wire::CodesKind::kPq;
			return true;
		case IvfStorage::kRabitq:
			*kind = wire::CodesKind::kRabitq;
			return true;
		default:
			return false;
	}
}

/// Sends the codec. False: the worker makes no codes, but can still assign rows.
bool
begin_codes(IvfWriter *writer, uint64 n_training)
{
	WorkerBuild *build = &writer->worker;
	const engine::ivf::PqSpec *pq = &writer->layout.codes.pq;
	wire::BeginCodesRequest spec = {};
	const wire::Part part = {&spec, sizeof(spec)};
	wire::ReplyHeader header;
	bridge::Fallback reason;

	if (!build->lists || !kind_of_codes(writer->layout.storage, &spec.kind) ||
		sizeof(wire::RowLabel) + writer->coded_bytes > bridge::session_reply_capacity())
		return false;
	if (spec.kind == wire::CodesKind::kRabitq)
		spec.bits = static_cast<uint8>(writer->layout.codes.bits);
	if (spec.kind == wire::CodesKind::kPq)
	{
		spec.bits = static_cast<uint8>(pq->bits);
		spec.opq = pq->opq;
		spec.pq_m = pq->m;
	}
	spec.n_training = static_cast<uint32>(n_training);
	spec.seed = engine::ivf::PqTraining().seed;
	if (!bridge::session_submit(wire::RequestType::kBeginCodes, nullptr, &part, 1, &reason) ||
		!bridge::session_receive(&header, nullptr, 0, &reason))
		return fail(build, reason);
	if (header.status == wire::ReplyStatus::kRefused || header.status == wire::ReplyStatus::kUnsupported)
	{
		bridge::note_fallback(
			bridge::fallback_of(header.status), "The session makes the codes of the index build by itself.");
		return false;
	}
	return header.status == wire::ReplyStatus::kOk || fail(build, bridge::fallback_of(header.status));
}

} // namespace

bool
worker_build_train_codec(IvfWriter *writer, uint64 n)
{
	WorkerBuild *build = &writer->worker;
	const uint64 n_floats = writer->layout.codec_floats;

	if (n == 0 || !begin_codes(writer, n) || !send_sample(writer, wire::RequestType::kAddCodesTraining, n) ||
		!send_empty(build, wire::RequestType::kTrainCodes) ||
		!read_result(build, wire::BuildResult::kCodesModel, writer->codec.floats, n_floats * sizeof(float)))
		return false;
	if (!all_finite(writer->codec.floats, n_floats))
		return fail(build, bridge::Fallback::kWrongAnswer);
	build->codes = true;
	ereport(DEBUG1,
		(errmsg_internal(
			"the worker has trained the codes of index \"%s\"", RelationGetRelationName(writer->plan.index))));
	return true;
}

void
worker_build_take_codec(IvfWriter *writer)
{
	const uint64 n_floats = writer->layout.codec_floats;
	uint64 step;

	if (!begin_codes(writer, 0))
		return;
	step = Min((bridge::session_body_capacity() - sizeof(wire::BuildRowsRequest)) / sizeof(float),
		static_cast<uint64>(PG_INT32_MAX));
	for (uint64 first = 0; first < n_floats; first += step)
		if (!send_rows(&writer->worker, wire::RequestType::kAddCodesModel, writer->codec.floats + first,
				Min(step, n_floats - first), sizeof(float)))
			return;
	writer->worker.codes = true;
}

void
worker_build_queries(IvfWriter *writer, const CalibrationQueries *queries, uint64 k)
{
	WorkerBuild *build = &writer->worker;

	if (!build->lists || build->n_queries == 0 || build->n_queries != queries->n || build->k != k)
		return;
	for (uint64 first = 0; first < queries->n; first += build->request_rows)
	{
		const uint64 n = Min(build->request_rows, queries->n - first);

		if (!send_rows(build, wire::RequestType::kAddQueries, queries->vectors + first * writer->vector_bytes, n,
				writer->vector_bytes))
			return;
	}
	build->queries = true;
}

namespace
{

/// The number of rows of the batch from `first` on.
uint64
rows_of_batch(const WorkerAssign *state, uint64 first)
{
	const IvfWriter *writer = state->writer;
	const uint64 n =
		Min(Min(writer->worker.request_rows, static_cast<uint64>(state->assigner->batch_rows)), writer->n_rows - first);

	return Min(n, state->reply_bytes / reply_row_bytes(writer));
}

/// Puts the batch from `first` on beside the one that the worker has, if its rows are in memory.
void
put_ahead(WorkerAssign *state, uint64 first)
{
	const IvfWriter *writer = state->writer;
	const uint64 n = rows_of_batch(state, first);
	const char *rows = n > 0 ? row_store_span(&writer->vectors, first, n) : nullptr;

	if (rows != nullptr)
		bridge::rows_put_ahead(&state->request, first, rows, n, writer->vector_bytes);
}

/// Gets the batch from `first` on as state->next and sends it to the worker.
bool
submit_batch(WorkerAssign *state, uint64 first)
{
	IvfWriter *writer = state->writer;
	WorkerBuild *build = &writer->worker;

	state->first = first;
	state->n = rows_of_batch(state, first);
	if (state->n == 0)
		return true;
	state->next = const_cast<char *>(row_store_span(&writer->vectors, first, state->n));
	if (state->next == nullptr)
	{
		state->next = state->read[state->assigner->vectors == state->read[0] ? 1 : 0];
		ivf_read_spooled(writer, first, state->n, state->next);
	}
	if (!submit_rows(
			build, &state->request, wire::RequestType::kAssign, first, state->next, state->n, writer->vector_bytes))
		return false;
	put_ahead(state, first + state->n);
	return true;
}

/// Finds the codes of a reply: terms, then codes.
void
find_codes(WorkerAssign *state, const char *coded)
{
	if (state->writer->layout.row_terms)
	{
		memcpy(state->coded->terms, coded, state->n * sizeof(float));
		coded += state->n * sizeof(float);
	}
	state->codes = reinterpret_cast<const uint8 *>(coded);
}

} // namespace

void
worker_assign_begin(WorkerAssign *state, IvfWriter *writer, Assigner *assigner, const CodeArrays *coded)
{
	Assert(coded != nullptr || !writer->worker.codes);
	state->writer = writer;
	state->assigner = assigner;
	state->coded = coded;
	state->reply_bytes = Min(bridge::session_reply_capacity(), assigner->batch_rows * reply_row_bytes(writer));
	state->reply = static_cast<char *>(palloc(Max(state->reply_bytes, 1)));
	state->read[0] = assigner->vectors;
	state->read[1] = static_cast<char *>(palloc(assigner->batch_rows * writer->vector_bytes));
	state->request = {};
	state->codes = nullptr;
	state->first = 0;
	state->n = 0;
	if (writer->worker.lists)
		(void) submit_batch(state, 0);
}

namespace
{

/// worker_assign_next, but for the assigner's vectors after a failure.
bool
next_of_worker(WorkerAssign *state, uint64 *n, bool *has_codes)
{
	IvfWriter *writer = state->writer;
	WorkerBuild *build = &writer->worker;
	Assigner *assigner = state->assigner;
	wire::ReplyHeader header;

	*n = state->n;
	*has_codes = build->codes;
	if (!build->lists)
		return false;
	Assert(state->n > 0);
	if (!receive(build, &header, state->reply, state->reply_bytes))
		return false;
	if (header.n_items != state->n || header.body_bytes != state->n * reply_row_bytes(writer))
		return fail(build, bridge::Fallback::kWrongAnswer);
	for (uint64 i = 0; i < state->n; i++)
	{
		wire::RowLabel label;

		memcpy(&label, state->reply + i * sizeof(label), sizeof(label));
		if (build->codes)
		{
			state->coded->is_out[i] = (label.list & wire::kRowOutOfRange) != 0;
			label.list &= ~wire::kRowOutOfRange;
		}
		if (label.list >= writer->model.n_lists)
			return fail(build, bridge::Fallback::kWrongAnswer);
		assigner->labels[i] = label.list;
		assigner->scores[i] = label.score;
	}
	if (build->codes)
		find_codes(state, state->reply + state->n * sizeof(wire::RowLabel));
	build->n_seen = state->first + state->n;
	assigner->vectors = state->next;
	(void) submit_batch(state, build->n_seen); // the next request reports a failure
	return true;
}

} // namespace

bool
worker_assign_next(WorkerAssign *state, uint64 *n, bool *has_codes)
{
	if (next_of_worker(state, n, has_codes))
		return true;
	state->assigner->vectors = state->read[0]; // for the backend to read into
	return false;
}

void
worker_assign_end(WorkerAssign *state)
{
	const IvfWriter *writer = state->writer;

	if (writer->worker.lists && writer->worker.n_seen == writer->n_rows)
		ereport(DEBUG1,
			(errmsg_internal("the worker has assigned%s the rows of index \"%s\"",
				writer->worker.codes ? " and coded" : "", RelationGetRelationName(writer->plan.index))));
	state->assigner->vectors = state->read[0];
	pfree(state->reply);
	pfree(state->read[1]);
}

bool
worker_build_neighbors(IvfWriter *writer, CalibrationQueries *queries, uint64 k)
{
	WorkerBuild *build = &writer->worker;
	const uint64 n_items = queries->n * k;
	wire::WireNeighbor *found;

	static_assert(sizeof(wire::WireNeighbor) == sizeof(engine::Neighbor));
	if (!build->queries || build->n_seen != writer->n_rows)
		return false;
	found = static_cast<wire::WireNeighbor *>(palloc(n_items * sizeof(wire::WireNeighbor)));
	if (!read_result(build, wire::BuildResult::kNeighbors, found, n_items * sizeof(wire::WireNeighbor)))
		return false;
	for (uint64 i = 0; i < n_items; i++)
		if (found[i].row != wire::kNoRow && found[i].row >= writer->n_rows)
			return fail(build, bridge::Fallback::kWrongAnswer);
	for (uint64 q = 0; q < queries->n; q++)
	{
		engine::TopK *topk = &queries->topks[q];
		uint64 n = 0;

		while (n < k && found[q * k + n].row != wire::kNoRow)
		{
			topk->buffer[n] = {found[q * k + n].score, found[q * k + n].row};
			n++;
		}
		topk->size = n;
	}
	pfree(found);
	return true;
}

void
worker_build_end(IvfWriter *writer)
{
	WorkerBuild *build = &writer->worker;
	wire::ReplyHeader header;
	bridge::Fallback reason;

	// If the request fails the session ends: a build holds memory and one of few places.
	if (build->open &&
		!(bridge::session_ready(false) &&
			bridge::session_request(wire::RequestType::kEndBuild, nullptr, nullptr, 0, &header, nullptr, 0, &reason)))
		bridge::session_close();
	bridge::session_end_build();
	build->open = build->lists = build->codes = build->queries = false;
}

} // namespace vectorgpu::am

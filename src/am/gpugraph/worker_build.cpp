// See worker_build.hpp.
#include "am/gpugraph/worker_build.hpp"

#include "bridge/client_session.hpp"
#include "bridge/require.hpp"
#include "bridge/rows_request.hpp"
#include "bridge/settings.hpp"
#include "pg/block_file.hpp"
#include "pg/fault.hpp"
#include "wire/build_messages.hpp"

#include <cmath>
#include <cstring>

extern "C"
{
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::graph::Found;
using engine::graph::GraphRows;

constexpr long kFirstPauseMs = 2; // between two looks at a running build
constexpr long kMostPauseMs = 10;
constexpr uint64 kNsPerMs = 1000000;
constexpr Size kMostItemBytes = 4 * 1024 * 1024; // of a request: a cache holds them until the worker has copied them
constexpr Size kPagesBytes = 256 * 1024 * 1024;  // of rows that the worker reads at a time
constexpr uint64 kRowsPerMs = 10;                // that the session's own build connects
constexpr const char *kGoesOn = "The session goes on with the index build by itself.";

/// One part's build by the worker.
struct Stay
{
	GraphWriter *writer;
	PartRows *part;
	const GraphRows *rows;
	const engine::graph::BaseGraph *base; // null: the graph is built anew
	bool measure;
	uint32 *edges;
	uint32 *entries;
	uint8 *codes;                // null: none
	wire::GraphBuildState state; // as last seen
	bool open;                   // the worker may have state of it
	bool has_edges;              // they were read and are valid
};

bool
give_up(bridge::Fallback reason)
{
	bridge::note_fallback(reason, kGoesOn);
	return false;
}

void
before_request()
{
	(void) VG_FAULT("graph_worker_request");
}

bool
submit(wire::RequestType type, const wire::Part *parts, size_t n_parts)
{
	bridge::Fallback reason;

	before_request();
	return bridge::session_submit(type, nullptr, parts, n_parts, &reason) || give_up(reason);
}

bool
receive(void *body, Size n_bytes)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	if (!bridge::session_receive(&header, body, n_bytes, &reason))
		return give_up(reason);
	if (header.status != wire::ReplyStatus::kOk)
		return give_up(bridge::fallback_of(header.status));
	return header.n_items == n_bytes || give_up(bridge::Fallback::kWrongAnswer);
}

bool
request(wire::RequestType type, const wire::Part *parts, size_t n_parts, void *body, Size n_bytes)
{
	return submit(type, parts, n_parts) && receive(body, n_bytes);
}

/// A request whose body is one structure.
template <typename T>
bool
send(wire::RequestType type, const T &body)
{
	const wire::Part part = {&body, sizeof(body)};

	return request(type, &part, 1, nullptr, 0);
}

bool
read_result(wire::BuildResult result, void *to, Size n_bytes)
{
	const Size capacity = bridge::session_reply_capacity();

	for (Size first = 0; first < n_bytes; first += capacity)
	{
		const Size n = Min(capacity, n_bytes - first);
		const wire::ReadBuildRequest read = {result, static_cast<uint32_t>(n), first};
		const wire::Part part = {&read, sizeof(read)};

		CHECK_FOR_INTERRUPTS();
		if (!request(wire::RequestType::kReadBuild, &part, 1, static_cast<char *>(to) + first, n))
			return false;
	}
	return true;
}

bool
begin(Stay *stay)
{
	const GraphWriter *writer = stay->writer;
	const GraphOptions *options = graph_options(writer->meta);
	wire::BeginGraphRequest spec = {};

	spec.dim = writer->meta->dim;
	spec.element = writer->meta->element;
	spec.metric = writer->meta->metric;
	spec.prune = static_cast<uint8>(options->prune);
	spec.measure = stay->measure;
	spec.n_rows = stay->rows->n_rows;
	spec.degree = writer->model.degree;
	spec.seed = engine::graph::KnnSpec().seed;
	spec.code_bits = stay->codes != nullptr ? options->code_bits : 0;
	stay->open = true;
	(void) bridge::session_new_build();
	if (stay->base != nullptr)
	{
		const wire::BeginInsertRequest insert = {spec, stay->base->n_rows, static_cast<uint32>(writer->base->n_kept)};

		return send(wire::RequestType::kBeginInsert, insert);
	}
	return send(wire::RequestType::kBeginGraph, spec);
}

/// Has the worker read the rows from the index's pages: all of them, or the first *n_read where it then cannot.
Found
read_pages(const Stay *stay, uint64 *n_read)
{
	static_assert(sizeof(wire::WirePageTag) == sizeof(PageTag) &&
		offsetof(wire::WirePageTag, owner) == offsetof(PageTag, owner) &&
		offsetof(wire::WirePageTag, position) == offsetof(PageTag, position) &&
		offsetof(wire::WirePageTag, magic) == offsetof(PageTag, magic) &&
		offsetof(wire::WirePageTag, uuid) == offsetof(PageTag, uuid) &&
		kPayloadOffset == kTagOffset + sizeof(wire::WirePageTag) && BLCKSZ <= wire::kMostPageBytes);
	const GraphWriter *writer = stay->writer;
	const engine::graph::Call call = graph_call(stay->writer);
	const uint32 n_rows = stay->rows->n_rows;
	const uint32 at_a_time = static_cast<uint32>(Max(kPagesBytes / writer->vector_bytes, 1));
	char *path = pg::block_file_path(writer->plan.index);
	wire::AddGraphPagesRequest pages = {};

	pages.start_page = writer->placed.streams[static_cast<int>(StreamKind::kVectors)].start_block;
	pages.page_bytes = BLCKSZ;
	pages.file_pages = RELSEG_SIZE;
	pages.tag_offset = kTagOffset;
	pages.path_bytes = static_cast<uint32>(strlen(path));
	pages.tag.role = static_cast<uint16>(PageRole::kStream);
	pages.tag.stream = static_cast<uint16>(StreamKind::kVectors);
	pages.tag.owner = writer->placed.id;
	pages.tag.magic = kPageMagic;
	memcpy(pages.tag.uuid, &writer->meta->uuid, sizeof(pages.tag.uuid));
	while (*n_read < n_rows)
	{
		const wire::Part parts[] = {{&pages, sizeof(pages)}, {path, pages.path_bytes}};
		wire::ReplyHeader header;
		bridge::Fallback reason;

		if (!call.progress(call.progress_context, *n_read, n_rows))
			return Found::kCancelled;
		pages.position = *n_read;
		pages.first = (stay->part->first_row + *n_read) * writer->vector_bytes;
		if (VG_FAULT("graph_worker_pages")) // then the next pages are another segment's
			pages.tag.owner++;
		pages.n_rows = static_cast<uint32>(Min(n_rows - *n_read, at_a_time));
		if (!submit(wire::RequestType::kAddGraphPages, parts, lengthof(parts)))
			return Found::kNo;
		if (!bridge::session_receive(&header, nullptr, 0, &reason))
		{
			(void) give_up(reason);
			return Found::kNo;
		}
		if (header.status == wire::ReplyStatus::kUnsupported)
			break;
		if (header.status != wire::ReplyStatus::kOk)
		{
			(void) give_up(bridge::fallback_of(header.status));
			return Found::kNo;
		}
		*n_read += pages.n_rows;
	}
	pfree(path);
	ereport(
		DEBUG1, (errmsg_internal("the worker has read " UINT64_FORMAT " of %u rows from the index", *n_read, n_rows)));
	return Found::kYes;
}

/// Sends items [first_item, n_items), in several requests if needed. part: its rows are the items, and are read as they
/// are sent, to be forgotten: memory for all of them would be touched in vain. Some are read while the worker takes
/// those before; null: all are there.
Found
send_items(const Stay *stay, wire::RequestType type, const void *items, uint64 first_item, uint64 n_items,
	Size item_bytes, PartRows *part)
{
	const engine::graph::Call call = graph_call(stay->writer);
	const Size capacity = Min(bridge::session_body_capacity(), kMostItemBytes);
	const uint64 at_a_time = (capacity - Min(capacity, sizeof(wire::BuildRowsRequest))) / item_bytes;
	bridge::RowsRequest last = {};
	bridge::Fallback reason;
	char *read = part != nullptr ? static_cast<char *>(palloc(kMostItemBytes)) : nullptr;

	if (at_a_time == 0)
		return Found::kNo;
	for (uint64 first = first_item; first < n_items; first += at_a_time)
	{
		const uint64 n = Min(at_a_time, n_items - first);

		if (!call.progress(call.progress_context, first, n_items))
			return Found::kCancelled;
		const char *here = part != nullptr ? read : static_cast<const char *>(items) + first * item_bytes;
		const uint64 n_next = Min(at_a_time, n_items - first - n);

		if (part != nullptr && first == first_item)
			graph_read_some(part, first, n, read);
		before_request();
		if (!bridge::rows_submit(&last, type, first, here, n, item_bytes, &reason))
		{
			(void) give_up(reason);
			return Found::kNo;
		}
		if (part != nullptr)
			graph_read_some(part, first + n, n_next, read);
		bridge::rows_put_ahead(&last, first + n, part != nullptr ? read : here + n * item_bytes, n_next, item_bytes);
		if (!receive(nullptr, 0))
			return Found::kNo;
	}
	if (read != nullptr)
		pfree(read);
	return Found::kYes;
}

Found
send_base(const Stay *stay)
{
	const engine::graph::BaseGraph *base = stay->base;
	Found sent = send_items(stay, wire::RequestType::kAddBaseEdges, base->edges, 0, base->n_rows,
		stay->writer->model.degree * sizeof(uint32), nullptr);

	if (sent == Found::kYes)
		sent = send_items(
			stay, wire::RequestType::kAddBaseNumbers, base->numbers, 0, base->n_rows, sizeof(uint32), nullptr);
	if (sent == Found::kYes) // they are few: one request, which has no position
		sent = send_items(
			stay, wire::RequestType::kAddBaseEntries, base->entries, 0, base->n_entries, sizeof(uint32), nullptr);
	return sent;
}

Found
send_rows(const Stay *stay)
{
	uint64 n_read = 0;
	Found sent = Found::kYes;

	graph_start_phase(stay->writer, kPhaseSendRows);
	if (stay->writer->vectors == nullptr)
		sent = read_pages(stay, &n_read);
	if (sent == Found::kYes)
		sent = send_items(stay, wire::RequestType::kAddGraphRows, stay->rows->rows, n_read, stay->rows->n_rows,
			stay->rows->row_stride, stay->part);
	if (sent == Found::kYes && stay->base != nullptr)
		sent = send_base(stay);
	if (sent == Found::kYes && !request(wire::RequestType::kStartGraph, nullptr, 0, nullptr, 0))
		sent = Found::kNo;
	return sent;
}

GraphBuildPhase
phase_of(wire::GraphBuildStage stage)
{
	switch (stage)
	{
		case wire::GraphBuildStage::kEdges:
			return kPhaseEdges;
		case wire::GraphBuildStage::kRecall:
			return kPhaseMeasure;
		default:
			return kPhaseNeighbors;
	}
}

/// True if no row has itself or a row that is not there as a neighbor. No early end: edges are many, and good.
bool
edges_valid(const Stay *stay)
{
	const uint32 n_rows = stay->rows->n_rows;
	const uint64 degree = stay->writer->model.degree;
	bool valid = true;

	for (uint32 node = 0; node < n_rows; node++)
		for (uint64 i = node * degree; i < (node + 1) * degree; i++)
			valid &= (stay->edges[i] < n_rows || stay->edges[i] == engine::graph::kNoNode) && stay->edges[i] != node;
	return valid;
}

/// Gets the edges, once.
bool
read_edges(Stay *stay)
{
	const Size n_bytes = Size{stay->rows->n_rows} * stay->writer->model.degree * sizeof(uint32);

	if (stay->has_edges)
		return true;
	if (!read_result(wire::BuildResult::kEdges, stay->edges, n_bytes))
		return false;
	stay->has_edges = edges_valid(stay);
	return stay->has_edges || give_up(bridge::Fallback::kWrongAnswer);
}

/// Waits for the end of the build. kNo: it has failed, or does not get on.
Found
wait_for_end(Stay *stay)
{
	const engine::graph::Call call = graph_call(stay->writer);
	const uint64 limit_ns = static_cast<uint64>(bridge::settings.worker_timeout_ms) * kNsPerMs;
	wire::GraphBuildStage shown = wire::GraphBuildStage::kRows;
	uint64 moved_ns = wire::monotonic_ns();
	uint64 progress = 0;
	long pause_ms = kFirstPauseMs;

	for (;;)
	{
		wire::GraphBuildState *state = &stay->state;

		if (!read_result(wire::BuildResult::kGraphState, state, sizeof(*state)))
			return Found::kNo;
		if (state->stage == wire::GraphBuildStage::kDone)
			return Found::kYes;
		if (state->stage == wire::GraphBuildStage::kFailed)
		{
			(void) give_up(bridge::fallback_of(state->failure));
			return Found::kNo;
		}
		if (state->stage != shown)
			graph_start_phase(stay->writer, phase_of(state->stage));
		if (state->progress != progress || state->stage != shown)
			moved_ns = wire::monotonic_ns();
		else if (wire::monotonic_ns() - moved_ns > limit_ns)
		{
			(void) give_up(bridge::Fallback::kSilent);
			return Found::kNo;
		}
		progress = state->progress;
		shown = state->stage;
		if (state->stage == wire::GraphBuildStage::kRecall && !stay->has_edges)
		{
			if (!read_edges(stay)) // while the worker measures
				return Found::kNo;
			moved_ns = wire::monotonic_ns();
		}
		if (!call.progress(call.progress_context, state->done, state->total))
			return Found::kCancelled;
		(void) VG_FAULT("graph_worker_wait");
		if ((WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, pause_ms, PG_WAIT_EXTENSION) &
				WL_LATCH_SET) != 0)
			ResetLatch(MyLatch);
		pause_ms = Min(pause_ms * 2, kMostPauseMs);
	}
}

/// True if entry points and calibration are plausible.
bool
result_valid(const Stay *stay, const engine::ivf::Calibration *calibration)
{
	const uint32 n_rows = stay->rows->n_rows;

	for (uint32 i = 0; i < stay->state.n_entries; i++)
		if (stay->entries[i] >= n_rows || (i > 0 && stay->entries[i] <= stay->entries[i - 1]))
			return false;
	for (uint32 i = 0; i < calibration->n_points; i++)
		if (!(calibration->recall[i] >= 0 && calibration->recall[i] <= 1) ||
			calibration->probes[i] <= (i > 0 ? calibration->probes[i - 1] : 0) ||
			(i > 0 && calibration->recall[i] < calibration->recall[i - 1]))
			return false;
	return true;
}

bool
read_recall(const Stay *stay, engine::ivf::Calibration *calibration)
{
	wire::WidthRecall points[engine::ivf::kMaxCalibrationPoints];
	const uint32 n = stay->state.n_points;

	if (n > 0 && !read_result(wire::BuildResult::kRecall, points, n * sizeof(points[0])))
		return false;
	calibration->n_points = n;
	calibration->n_queries = stay->state.n_queries;
	for (uint32 i = 0; i < n; i++)
	{
		calibration->probes[i] = points[i].width;
		calibration->recall[i] = points[i].recall;
	}
	return true;
}

bool
read_depths(const Stay *stay, engine::ivf::DepthCalibration *depths)
{
	wire::DepthRecall recalls[engine::ivf::kMaxDepths];
	const uint32_t n = stay->state.n_depths;

	if (n > 0 && !read_result(wire::BuildResult::kDepths, recalls, n * sizeof(recalls[0])))
		return false;
	depths->n_depths = n;
	for (uint32_t d = 0; d < n; d++)
	{
		depths->n_queries = recalls[d].n_queries;
		depths->depths[d] = recalls[d].n_nearest;
		for (uint32_t i = 0; i < stay->state.n_points; i++)
			depths->recall[d][i] = recalls[d].recall[i];
	}
	return true;
}

/// Gets codes and code functions.
bool
read_codes(const Stay *stay)
{
	GraphWriter *writer = stay->writer;
	const uint32 bits = writer->model.code_bits;
	const uint32 dim = writer->meta->dim;
	const Size n_bytes = graph_code_model_bytes(bits, dim);
	char *hash = static_cast<char *>(palloc(n_bytes));
	engine::GraphHashHead head;

	if (!read_result(wire::BuildResult::kHash, hash, n_bytes) ||
		!read_result(wire::BuildResult::kCodes, stay->codes, stay->rows->n_rows * engine::graph::code_bytes(bits, dim)))
		return false;
	memcpy(&head, hash, sizeof(head));
	memcpy(writer->code_floats, hash + sizeof(head), n_bytes - sizeof(head));
	writer->hash.spec = {{writer->meta->metric, writer->meta->element, dim}, bits, head.seed};
	writer->hash.bound = head.bound;
	writer->hash.floats = writer->code_floats;
	pfree(hash);
	return true;
}

Found
take_result(Stay *stay)
{
	const wire::GraphBuildState *state = &stay->state;
	engine::ivf::Calibration *calibration =
		static_cast<engine::ivf::Calibration *>(palloc0(sizeof(engine::ivf::Calibration)));
	engine::ivf::DepthCalibration *depths =
		static_cast<engine::ivf::DepthCalibration *>(palloc0(sizeof(engine::ivf::DepthCalibration)));
	Found found = Found::kNo;

	if (state->n_entries < 1 || state->n_entries > graph_entry_count(stay->writer, stay->rows->n_rows) ||
		state->n_points >= engine::ivf::kMaxCalibrationPoints || state->n_depths > engine::ivf::kMaxDepths ||
		(state->n_depths > 0 && state->n_points == 0) || (state->n_points > 0) != (state->n_queries > 0) ||
		(state->n_points > 0 && !stay->measure))
		(void) give_up(bridge::Fallback::kWrongAnswer);
	else if (read_result(wire::BuildResult::kEntries, stay->entries, state->n_entries * sizeof(uint32)) &&
		read_recall(stay, calibration) && read_depths(stay, depths) && read_edges(stay) &&
		(stay->codes == nullptr || read_codes(stay)))
	{
		if (result_valid(stay, calibration) &&
			engine::ivf::calibration_problem(*calibration, *depths, UINT32_MAX) == nullptr)
			found = Found::kYes;
		else
			(void) give_up(bridge::Fallback::kWrongAnswer);
	}
	if (found == Found::kYes && stay->measure)
	{
		stay->writer->model.calibration = *calibration;
		stay->writer->model.depths = *depths;
	}
	pfree(calibration);
	pfree(depths);
	return found;
}

Found
stay_with_worker(Stay *stay)
{
	Found found;

	if (!begin(stay))
		return Found::kNo;
	found = send_rows(stay);
	if (found == Found::kYes)
		found = wait_for_end(stay);
	return found == Found::kYes ? take_result(stay) : found;
}

/// Lets the worker forget the build before other requests of this process: a build holds memory and one of few places.
/// The answer is ignored (the worker may have refused the build).
void
leave(Stay *stay)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	if (stay->open &&
		!(bridge::session_ready(false) &&
			bridge::session_request(wire::RequestType::kEndBuild, nullptr, nullptr, 0, &header, nullptr, 0, &reason)))
		bridge::session_close();
	bridge::session_end_build();
	stay->open = false;
}

/// True if the worker is worth asking, and can be asked, here for a build that sends it n_bytes.
bool
can_ask(GraphWriter *writer, const GraphRows *rows, uint64 n_bytes)
{
	if (writer->worker_silent || !bridge::settings.worker || !IsUnderPostmaster ||
		rows->row_stride != writer->vector_bytes ||
		uint64{rows->n_rows} * writer->vector_bytes < static_cast<uint64>(bridge::settings.worker_min_size_kb) * 1024)
		return false;
	// False for a merge that must let go at once when somebody waits for its lock.
	if (writer->plan.give_way != nullptr)
		writer->has_waited = true;
	return bridge::session_for_build(rows->n_rows, n_bytes, kRowsPerMs, &writer->has_waited);
}

} // namespace

bool
graph_worker_is_exact(GraphWriter *writer, const GraphRows *rows)
{
	return can_ask(writer, rows, 0) &&
		(VG_FAULT("graph_worker_exact") || bridge::session_engine() == wire::EngineKind::kCuda);
}

Found
graph_worker_build(GraphWriter *writer, PartRows *part, const GraphRows *rows, const engine::graph::BaseGraph *base,
	bool measure, const PartGraph &graph, engine::graph::BuildReport *report)
{
	Stay stay = {};
	volatile Found found = Found::kNo;
	uint64 noted;

	if (!can_ask(writer, rows, uint64{rows->n_rows} * writer->vector_bytes))
		return Found::kNo;
	noted = bridge::own_fallbacks();
	stay.writer = writer;
	stay.part = part;
	stay.rows = rows;
	stay.base = base;
	stay.measure = measure;
	stay.edges = graph.edges;
	stay.entries = graph.entries;
	stay.codes = measure ? graph.codes : nullptr; // all parts have the code functions of the first
	PG_TRY();
	{
		found = stay_with_worker(&stay);
	}
	PG_CATCH();
	{
		bridge::session_close(); // the worker's state of the build ends with the session
		bridge::session_end_build();
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave(&stay);
	if (found == Found::kNo && bridge::own_fallbacks() != noted && bridge::last_fallback() == bridge::Fallback::kSilent)
		writer->worker_silent = true;
	if (found != Found::kYes)
		return found;
	report->n_entries = stay.state.n_entries;
	report->n_connected = stay.state.n_connected;
	ereport(DEBUG1,
		(errmsg_internal("the worker has built the graph of %u rows%s%s", rows->n_rows,
			base != nullptr ? " by insertion" : "", stay.state.exact != 0 ? ", neighbors by exact searches" : "")));
	return Found::kYes;
}

} // namespace vectorgpu::am

// See worker_build.hpp.
#include "am/gpugraph/worker_build.hpp"

#include "bridge/client_session.hpp"
#include "bridge/search_lanes.hpp"
#include "bridge/settings.hpp"
#include "bridge/sweep.hpp"
#include "pg/fault.hpp"
#include "wire/codec.hpp"

#include <algorithm>
#include <cmath>

extern "C"
{
#include "access/table.h"
#include "miscadmin.h"
#include "utils/rel.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::graph::Found;
using engine::graph::GraphRows;
using engine::graph::KnnLists;

constexpr uint32 kSegment = 1;
constexpr uint64 kGeneration = 1;
constexpr uint32 kProgressRows = 256;
constexpr uint32 kMostK = 4000; // of a search: fit one reply
constexpr int kLeaveMs = 1000; // for the worker to forget the rows; a DROP may wait for the locks
constexpr const char *kGoesOn = "The session goes on with the index build by itself.";

/// One part's rows in the worker.
struct Stay
{
	GraphWriter *writer;
	const GraphRows *rows;
	const KnnLists *lists;
	wire::CopyKey key;
	bridge::SearchLanes *lanes;
	wire::WireNeighbor *found; // [k + 1]
	uint32 *others;            // [k + 1], for take_list
	bool made; // the worker may have the copy
};

/// Rows are numbers; the worker insists on an offset.
uint64
row_id_of_node(uint32 node)
{
	return uint64{node} << 16 | 1;
}

/// A key that no index has: its file is the table's, so that what a killed server process leaves behind goes with the table.
bool
make_key(const GraphWriter *writer, wire::CopyKey *key)
{
	Relation heap = table_open(writer->plan.index->rd_index->indrelid, NoLock);
	const RelFileNode node = heap->rd_node;
	uint64 uuid_low;

	table_close(heap, NoLock);
	if (!pg_strong_random(&uuid_low, sizeof(uuid_low)))
		return false;
	*key = {node.dbNode, node.spcNode, node.relNode, 0, bridge::kBuildUuidHigh, uuid_low};
	return true;
}

bool
request(Stay *stay, wire::RequestType type, const wire::Part *parts, size_t n_parts)
{
	static char body[wire::kReplyAreaBytes]; // what CREATE describes; not looked at
	wire::ReplyHeader header;
	bridge::Fallback reason;

	(void) VG_FAULT("graph_worker_request");
	if (!bridge::session_request(type, &stay->key, parts, n_parts, &header, body, sizeof(body), &reason))
	{
		bridge::note_fallback(reason, kGoesOn);
		return false;
	}
	if (header.status == wire::ReplyStatus::kOk)
		return true;
	bridge::note_fallback(bridge::fallback_of(header.status), kGoesOn);
	return false;
}

bool
send_rows(Stay *stay)
{
	const GraphRows *rows = stay->rows;
	const Size row_bytes = stay->writer->vector_bytes;
	const Size capacity = bridge::session_body_capacity();
	const uint64 step = (capacity - Min(capacity, sizeof(wire::RowsRequest))) / (row_bytes + sizeof(uint64));
	uint64 *ids = static_cast<uint64 *>(palloc(Max(step, 1) * sizeof(uint64)));
	bool sent = step > 0;

	for (uint64 first = 0; sent && first < rows->n_rows; first += step)
	{
		const uint64 n = Min(step, rows->n_rows - first);
		const wire::RowsRequest load = {first, kSegment, static_cast<uint32>(n)};
		const wire::Part parts[] = {{&load, sizeof(load)}, {ids, n * sizeof(uint64)}, {rows->row(static_cast<uint32>(first)), n * row_bytes}};

		CHECK_FOR_INTERRUPTS();
		for (uint64 i = 0; i < n; i++)
			ids[i] = row_id_of_node(static_cast<uint32>(first + i));
		sent = request(stay, wire::RequestType::kLoadRows, parts, lengthof(parts));
	}
	pfree(ids);
	return sent;
}

/// Makes the copy and makes it searchable.
bool
load(Stay *stay)
{
	const GraphRows *rows = stay->rows;
	wire::CreateRequest create = {};
	const wire::SegmentRequest seal = {kSegment, 0, rows->n_rows};
	const wire::ManifestRequest manifest = {kGeneration, 0, 0, 1, 0};
	const uint32 segment = kSegment;
	const wire::Part create_part = {&create, sizeof(create)};
	const wire::Part seal_part = {&seal, sizeof(seal)};
	const wire::Part manifest_parts[] = {{&manifest, sizeof(manifest)}, {&segment, sizeof(segment)}};

	create.expected_bytes = uint64{rows->n_rows} * (stay->writer->vector_bytes + sizeof(uint64));
	create.dim = rows->spec.dim;
	create.element = rows->spec.element;
	create.metric = rows->spec.metric;
	create.kind = wire::CopyKind::kRows;
	stay->made = true;
	return request(stay, wire::RequestType::kCreate, &create_part, 1) && send_rows(stay) &&
		request(stay, wire::RequestType::kSeal, &seal_part, 1) &&
		request(stay, wire::RequestType::kManifest, manifest_parts, lengthof(manifest_parts));
}

bool
submit(Stay *stay, uint32 lane, uint32 node, bridge::Fallback *reason)
{
	wire::SearchRequest search = {};
	const wire::Part parts[] = {{&search, sizeof(search)}, {stay->rows->row(node), stay->writer->vector_bytes}};

	search.version = {kGeneration, 0, 0};
	search.k = uint64{stay->lists->k} + 1; // one is the row itself, as a rule
	search.dim = stay->rows->spec.dim;
	search.element = stay->rows->spec.element;
	search.metric = stay->rows->spec.metric;
	search.recall_target = 1;
	return bridge::lane_submit(stay->lanes, lane, wire::RequestType::kSearch, &stay->key, parts, lengthof(parts), reason);
}

/// True if an answer can be one: rows of the build, each once, and as many as there are. Fewer where scores are missing are left to the backend.
bool
found_valid(const Stay *stay, uint32 n_found)
{
	const uint32 wanted = Min(stay->lists->k + 1, stay->rows->n_rows);

	if (n_found != wanted || !wire::neighbors_valid(stay->found, n_found, nullptr))
		return false;
	for (uint32 i = 0; i < n_found; i++)
	{
		const uint64 other = stay->found[i].row >> 16;

		if (other >= stay->rows->n_rows || stay->found[i].row != row_id_of_node(static_cast<uint32>(other)))
			return false;
		stay->others[i] = static_cast<uint32>(other);
	}
	std::sort(stay->others, stay->others + n_found);
	return std::adjacent_find(stay->others, stay->others + n_found) == stay->others + n_found;
}

/// An answer becomes a list, as knn_graph makes it: other rows with a finite score, by the score as float.
void
take_list(const Stay *stay, uint32 node, uint32 n_found)
{
	uint32 *ids = stay->lists->ids + Size{node} * stay->lists->k;
	float *scores = stay->lists->scores + Size{node} * stay->lists->k;
	uint32 n = 0;

	for (uint32 i = 0; i < n_found && n < stay->lists->k && std::isfinite(static_cast<float>(stay->found[i].score)); i++)
	{
		const uint32 other = static_cast<uint32>(stay->found[i].row >> 16);
		const float score = static_cast<float>(stay->found[i].score);
		uint32 at = n;

		if (other == node)
			continue;
		// Scores that differ by less than a float are in the order of rows.
		for (; at > 0 && scores[at - 1] == score && ids[at - 1] > other; at--)
			ids[at] = ids[at - 1];
		ids[at] = other;
		scores[n++] = score;
	}
	for (; n < stay->lists->k; n++)
	{
		ids[n] = engine::graph::kNoNode;
		scores[n] = HUGE_VALF;
	}
}

/// The reply to the search for a row's neighbours becomes its list. False: *reason.
bool
receive_list(Stay *stay, uint32 lane, uint32 node, bridge::Fallback *reason)
{
	wire::ReplyHeader header;

	(void) VG_FAULT("graph_worker_search");
	if (!bridge::lane_receive(
			stay->lanes, lane, &header, stay->found, (stay->lists->k + Size{1}) * sizeof(wire::WireNeighbor), reason))
		return false;
	if (header.status != wire::ReplyStatus::kOk)
	{
		*reason = bridge::fallback_of(header.status);
		return false;
	}
	if (header.more != 0 || !found_valid(stay, header.n_items))
	{
		*reason = header.coverage == wire::Coverage::kAll ? bridge::Fallback::kWrongAnswer : bridge::Fallback::kRefused;
		return false;
	}
	take_list(stay, node, header.n_items);
	return true;
}

/// All rows are asked for, a lane's next one as soon as it has answered.
Found
search_all(Stay *stay)
{
	const engine::graph::Call call = graph_call(stay->writer);
	const uint32 n_lanes = bridge::lanes_count(stay->lanes);
	const uint32 n_rows = stay->rows->n_rows;
	uint32 n_submitted = 0;
	bridge::Fallback reason;

	for (uint32 i = 0; i < n_rows; i++)
	{
		bool going = true;

		if (i % kProgressRows == 0 && !call.progress(call.progress_context, i, n_rows))
			return Found::kCancelled;
		for (; going && n_submitted < n_rows && n_submitted < i + n_lanes; n_submitted++)
			going = submit(stay, n_submitted % n_lanes, n_submitted, &reason);
		if (!going || !receive_list(stay, i % n_lanes, i, &reason))
		{
			bridge::note_fallback(reason, kGoesOn);
			return Found::kNo;
		}
	}
	return Found::kYes;
}

/// The worker forgets the rows. Raises nothing, allocates nothing.
void
leave(Stay *stay)
{
	bridge::lanes_close(stay->lanes);
	if (!stay->made)
		return;
	stay->made = false;
	bridge::session_close(); // with a request under way, and the lease
	// Not by this session: after a failure it makes a pause. If it fails, the copy is the longest unused one, and goes with the table.
	(void) bridge::lanes_ask_last(stay->lanes, wire::RequestType::kDrop, &stay->key, kLeaveMs);
}

Found
stay_with_worker(Stay *stay)
{
	if (!load(stay))
		return Found::kNo;
	if (bridge::lanes_open(stay->lanes, bridge::kMostLanes, 1))
		return search_all(stay);
	bridge::note_fallback(bridge::Fallback::kUnreachable, kGoesOn);
	return Found::kNo;
}

/// Worth asking, and there to be asked.
bool
can_ask(const GraphWriter *writer, const GraphRows *rows, const KnnLists *lists)
{
	// A temporary table's file number may be another's tomorrow.
	if (RelationUsesLocalBuffers(writer->plan.index) || !bridge::settings.worker || !IsUnderPostmaster || lists->k + 1 > kMostK || rows->row_stride != writer->vector_bytes ||
		uint64{rows->n_rows} * writer->vector_bytes < static_cast<uint64>(bridge::settings.worker_min_size_kb) * 1024 ||
		!bridge::session_ready(true))
		return false;
	return bridge::session_engine() == wire::EngineKind::kCuda || rows->n_rows <= engine::graph::KnnSpec().exact_rows;
}

} // namespace

Found
graph_worker_neighbors(GraphWriter *writer, const GraphRows *rows, const KnnLists *lists)
{
	Stay stay = {};
	volatile Found found = Found::kNo;

	if (!can_ask(writer, rows, lists) || !make_key(writer, &stay.key))
		return Found::kNo;
	stay.writer = writer;
	stay.rows = rows;
	stay.lists = lists;
	stay.found = static_cast<wire::WireNeighbor *>(palloc((lists->k + Size{1}) * sizeof(wire::WireNeighbor)));
	stay.others = static_cast<uint32 *>(palloc((lists->k + Size{1}) * sizeof(uint32)));
	stay.lanes = bridge::lanes_make(CurrentMemoryContext);
	PG_TRY();
	{
		found = stay_with_worker(&stay);
	}
	PG_CATCH();
	{
		leave(&stay);
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave(&stay);
	pfree(stay.found);
	pfree(stay.others);
	if (found == Found::kYes)
		ereport(DEBUG1, (errmsg_internal("the worker has found the neighbors of %u rows", rows->n_rows)));
	return found;
}

} // namespace vectorgpu::am

// See reply.hpp. The protocol defines the order of the stores: src/wire/README.md, "Life of a request".
#include "worker/reply.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "worker/worker_fault.hpp"

namespace vectorgpu::worker
{

using engine::Neighbor;

static_assert(
	sizeof(Neighbor) == sizeof(wire::WireNeighbor) && offsetof(Neighbor, row) == offsetof(wire::WireNeighbor, row));

wire::Coverage
wire_coverage(engine::Coverage coverage)
{
	switch (coverage)
	{
		case engine::Coverage::kPart:
			return wire::Coverage::kPart;
		case engine::Coverage::kScored:
			return wire::Coverage::kScored;
		case engine::Coverage::kAll:
			break;
	}
	return wire::Coverage::kAll;
}

void
note_filter(const Search &search, ReplyBody *body)
{
	body->n_passing = search.n_passing;
	body->filter_way = static_cast<wire::FilterWay>(search.filter_way);
	body->filter_found = search.filter_found && search.filter_way != engine::FilterWay::kNone;
}

wire::ReplyHeader
reply_header(uint64_t sequence, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch)
{
	wire::ReplyHeader header{};

	header.status = status;
	header.sequence = sequence;
	header.more = body.more ? 1 : 0;
	header.engine_ns = batch.engine_ns;
	header.batch_size = batch.size;
	header.coverage = body.coverage;
	header.n_rescored = batch.n_rescored;
	header.n_passing = body.n_passing;
	header.filter_way = body.filter_way;
	header.filter_found = body.filter_found ? 1 : 0;
	return header;
}

void
store_reply(
	Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch, Counters *counters)
{
	wire::SlotHeader *slot = session->slot.header;
	uint8_t *area = wire::slot_reply(session->slot);
	wire::ReplyHeader header = reply_header(session->sequence, status, body, batch);

	header.body_bytes = static_cast<uint32_t>(body.fixed_bytes + body.items_bytes);
	header.n_items = body.n_items;
	switch (WORKER_FAULT_NO_THROW("reply"))
	{
		case Fault::kNone:
			break;
		case Fault::kError:
			header.status = wire::ReplyStatus::kInternal;
			header.body_bytes = header.n_items = header.more = 0;
			break;
		case Fault::kCorrupt:
			header.body_bytes ^= 0x40;
			header.n_items ^= 0x80000001;
			break;
	}
	counters->count_reply(header.status);
	memcpy(area, &header, sizeof(header));
	if (header.status == status)
	{
		if (body.fixed_bytes > 0)
			memcpy(area + sizeof(header), body.fixed, body.fixed_bytes);
		if (body.items_bytes > 0)
			memcpy(area + sizeof(header) + body.fixed_bytes, body.items, body.items_bytes);
		slot->reply_length.store(
			static_cast<uint32_t>(sizeof(header) + body.fixed_bytes + body.items_bytes), std::memory_order_relaxed);
	}
	else
		slot->reply_length.store(sizeof(header), std::memory_order_relaxed);
	slot->reply_sequence.store(session->sequence, std::memory_order_relaxed);

	// Clear `busy` before storing the state: the client may submit again at once, and the dispatcher must not skip it.
	session->stage.store(Stage::kNone, std::memory_order_relaxed);
	session->busy.store(false, std::memory_order_release);
	slot->state.store(static_cast<uint32_t>(wire::SlotState::kReplied), std::memory_order_release);
}

/// The fence before this pairs with the client's between storing client_waits and its last load of the state: either
/// the client sees the new state before it sleeps, or the load here sees that it waits. The slot may be idle again by
/// now, or hold the next request; an unneeded wake-up does no harm.
void
wake_client(const wire::SlotMemory &slot)
{
	const uint64_t one = 1;

	switch (static_cast<wire::ClientWaits>(slot.header->client_waits.load(std::memory_order_relaxed)))
	{
		case wire::ClientWaits::kDescriptor:
			while (write(slot.wakeup, &one, sizeof(one)) < 0 && errno == EINTR)
				;
			break;
		case wire::ClientWaits::kState:
			wire::wake_state(slot.header);
			break;
		case wire::ClientWaits::kNot:
			break;
	}
}

void
send_reply(
	Session *session, wire::ReplyStatus status, const ReplyBody &body, const BatchInfo &batch, Counters *counters)
{
	store_reply(session, status, body, batch, counters);
	wire::full_fence();
	wake_client(session->slot);
}

void
send_status(Session *session, wire::ReplyStatus status, Counters *counters)
{
	send_reply(session, status, {}, {}, counters);
}

// Each part has at least one result: parse_reply rejects `more` without one.
static_assert(wire::kReplyAreaBytes >= sizeof(wire::ReplyHeader) + sizeof(Neighbor));

size_t
neighbors_per_reply(const Session *session)
{
	return (session->slot.reply_area_bytes - sizeof(wire::ReplyHeader)) / sizeof(Neighbor);
}

void
store_kept(Session *session, const BatchInfo &batch, Counters *counters)
{
	const size_t room = neighbors_per_reply(session);
	const size_t left = session->kept.size() - session->kept_at;
	const size_t n = std::min(room, left);
	const std::vector<Neighbor> last = n == left ? std::move(session->kept) : std::vector<Neighbor>();
	const Neighbor *items = (n == left ? last.data() : session->kept.data()) + session->kept_at;
	ReplyBody body;

	body.items = items;
	body.items_bytes = n * sizeof(Neighbor);
	body.n_items = static_cast<uint32_t>(n);
	body.more = n < left;
	body.coverage = wire_coverage(session->search.coverage); // of the SEARCH, which was the session's last one
	note_filter(session->search, &body);
	session->kept_at += n;
	if (!body.more)
	{
		counters->kept_bytes.fetch_sub(
			session->kept_sequence != 0 ? last.size() * sizeof(Neighbor) : 0, std::memory_order_relaxed);
		session->kept.clear();
		session->kept_at = 0;
		session->kept_sequence = 0;
	}
	store_reply(session, wire::ReplyStatus::kOk, body, batch, counters);
}

void
forget_kept(Session *session, Counters *counters)
{
	if (session->kept_sequence == 0)
		return;
	counters->kept_bytes.fetch_sub(session->kept.size() * sizeof(Neighbor), std::memory_order_relaxed);
	session->kept = std::vector<Neighbor>();
	session->kept_at = 0;
	session->kept_sequence = 0;
}

} // namespace vectorgpu::worker

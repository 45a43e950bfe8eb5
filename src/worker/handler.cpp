// See handler.hpp. SEARCH goes to the batcher, MANIFEST to the engine's thread between two batches, requests that move
// rows to the loading thread, builds to their thread; the others are answered at once.
#include "worker/handler.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "worker/handler_guard.hpp"
#include "worker/reply.hpp"
#include "worker/worker_fault.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;
using wire::RequestType;

namespace
{

using SessionPtr = std::shared_ptr<Session>;

} // namespace

Handler::Handler(const Options &options, engine::Engine &engine, Clock clock)
	: options_(options), engine_(engine), clock_(clock), started_ns_(clock()),
	  residency_(engine, options.memory_budget_bytes, clock), builds_(engine, options.build_budget_bytes),
	  batcher_(engine, options.max_batch, options.spin_us, clock,
		  [this](std::span<Search *const> searches, const Status &status,
			  std::vector<std::vector<engine::Neighbor>> *results, const BatchInfo &info)
		  { searched(searches, status, results, info); })
{
}

void
Handler::start()
{
	batcher_.start();
	loader_.start(options_.spin_us);
	builds_.start();
}

void
Handler::stop()
{
	batcher_.stop();
	builds_.stop();
	loader_.stop();
}

wire::EngineKind
Handler::engine_kind() const
{
	return strcmp(engine_.name(), "cuda") == 0 ? wire::EngineKind::kCuda : wire::EngineKind::kCpu;
}

void
Handler::handle(const SessionPtr &session, size_t length, Round *round)
{
	const uint8_t *request = wire::slot_request(session->slot);

	session->taken_ns = clock_();
	session->search.cancelled.store(false, std::memory_order_relaxed);
	session->slot.header->heartbeat_ns.store(session->taken_ns, std::memory_order_relaxed);
	if (WORKER_FAULT_NO_THROW("receive") != Fault::kNone || length > session->slot.request_area_bytes ||
		wire::parse_request(request, length, session->sequence, &session->view) != wire::ParseResult::kOk)
	{
		send_status(session.get(), ReplyStatus::kInvalid, &counters_);
		return;
	}

	// dispatch() throws only while no other thread has the session.
	const ReplyStatus status = guarded(
		[&]
		{
			dispatch(session, round);
			return ReplyStatus::kOk;
		});

	if (status != ReplyStatus::kOk)
		send_status(session.get(), status, &counters_);
}

void
Handler::dispatch(const SessionPtr &session, Round *round)
{
	const RequestType type = session->view.header.type;

	if (wire::is_build(type))
	{
		session->stage.store(Stage::kBuild, std::memory_order_relaxed);
		return builds_.push(session->id,
			[this, session, type] { type == RequestType::kReadBuild ? read_build(session) : build(session); });
	}
	switch (type)
	{
		case RequestType::kSearch:
			return search(session, round);
		case RequestType::kSearchMany:
			return search_many(session, round);
		case RequestType::kNext:
			return next(session);
		case RequestType::kDescribe:
			return describe(session);
		case RequestType::kStats:
			return stats(session);
		case RequestType::kInventory:
			return inventory(session);
		case RequestType::kManifest:
			return manifest(session);
		case RequestType::kChecksum:
			return on_loader(session, [this, session] { checksum(session); });
		case RequestType::kCreate:
			return on_loader(session, [this, session] { create(session); });
		case RequestType::kLoadRows:
		case RequestType::kAppend:
		case RequestType::kLoadStructure:
		case RequestType::kLoadKeys:
		case RequestType::kSeal:
		case RequestType::kTombstones:
		case RequestType::kDrop:
			return on_loader(session,
				[this, session]
				{
					const ReplyStatus status = guarded([&] { return load(session); });

					if (status == ReplyStatus::kAbsent)
						residency_.forget_lost(session->view.header.key);
					send_status(session.get(), status, &counters_);
				});
		default: // PING
			return send_status(session.get(), ReplyStatus::kOk, &counters_);
	}
}

void
Handler::describe(const SessionPtr &session)
{
	wire::CopyState state{};
	std::vector<wire::SegmentState> segments;
	const ReplyStatus status =
		guarded([&] { return residency_.describe(session->view.header.key, &state, &segments); });
	ReplyBody body;

	if (status != ReplyStatus::kOk)
		return send_status(session.get(), status, &counters_);
	body.fixed = &state;
	body.fixed_bytes = sizeof(state);
	body.items = segments.data();
	body.items_bytes = segments.size() * sizeof(wire::SegmentState);
	body.n_items = static_cast<uint32_t>(segments.size());
	send_reply(session.get(), status, body, {}, &counters_);
}

void
Handler::stats(const SessionPtr &session)
{
	const ResidencyCounters resident = residency_.counters();
	const engine::EngineStats engine = engine_.stats();
	wire::WorkerStats stats{};
	ReplyBody body;

	stats.started_ns = started_ns_;
	stats.now_ns = clock_();
	stats.n_sessions = n_sessions();
	stats.n_copies = resident.n_copies;
	stats.resident_bytes = resident.resident_bytes;
	stats.budget_bytes = residency_.budget_bytes();
	stats.n_queued = batcher_.n_queued();
	stats.n_searches = counters_.n_searches;
	stats.n_batches = batcher_.n_batches();
	stats.n_cancelled = counters_.n_cancelled;
	stats.n_evictions = resident.n_evictions;
	stats.n_loads = resident.n_loads;
	stats.n_rescored = engine.n_rescored;
	stats.n_invalid = counters_.n_invalid;
	stats.n_refused = counters_.n_refused;
	stats.n_out_of_memory = counters_.n_out_of_memory;
	stats.n_internal = counters_.n_internal;
	stats.loaded_bytes = resident.loaded_bytes;
	stats.kept_bytes = counters_.kept_bytes;
	stats.n_filters_made = residency_.filter_counters().n_made;
	stats.n_filters_found = residency_.filter_counters().n_found;
	stats.host_bytes = engine.host_bytes;
	for (size_t i = 0; i < wire::kHistogramBuckets; i++)
		stats.latency_histogram[i] = counters_.latency_histogram[i];
	strncpy(stats.device, engine_.description(), sizeof(stats.device) - 1);
	for (const engine::DeviceStats &device : engine_.devices())
	{
		if (stats.n_devices == kMostDevices)
			break;

		wire::WorkerDevice &own = stats.devices[stats.n_devices++];

		strncpy(own.name, device.name.c_str(), sizeof(own.name) - 1);
		own.resident_bytes = device.resident_bytes;
		own.budget_bytes = device.budget_bytes;
		own.usable = device.usable ? 1 : 0;
	}
	body.fixed = &stats;
	body.fixed_bytes = sizeof(stats);
	send_reply(session.get(), ReplyStatus::kOk, body, {}, &counters_);
}

void
Handler::inventory(const SessionPtr &session)
{
	const size_t room = (session->slot.reply_area_bytes - sizeof(wire::ReplyHeader)) / sizeof(wire::CopyInfo);
	std::vector<wire::CopyInfo> infos;
	ReplyBody body;

	residency_.inventory(session->view.inventory.first, room, &infos);
	body.items = infos.data();
	body.items_bytes = infos.size() * sizeof(wire::CopyInfo);
	body.n_items = static_cast<uint32_t>(infos.size());
	send_reply(session.get(), ReplyStatus::kOk, body, {}, &counters_);
}

/// Throws bad_alloc; the session is then still the caller's.
void
Handler::on_loader(const SessionPtr &session, std::function<void()> work)
{
	session->stage.store(Stage::kLoad, std::memory_order_relaxed);
	loader_.push(std::move(work));
}

/// Return the rows of the session's request. Row ids are copied, since they are checked. Vectors go from the slot to
/// the engine, which copies them once; a client that changes them meanwhile harms only itself.
engine::RowBlock
Handler::own_rows(Session *session, uint32_t n_rows)
{
	engine::RowBlock block;

	session->row_ids.resize(n_rows);
	memcpy(session->row_ids.data(), session->view.row_ids, n_rows * sizeof(uint64_t));
	block.row_ids = session->row_ids;
	block.vectors = session->view.vectors;
	block.n_rows = n_rows;
	return block;
}

/// On the loading thread: the requests that are answered with a status alone.
ReplyStatus
Handler::load(const SessionPtr &session)
{
	const wire::RequestView &view = session->view;
	const wire::CopyKey &key = view.header.key;

	switch (view.header.type)
	{
		case RequestType::kLoadRows:
			return residency_.load_rows(
				key, view.rows, own_rows(session.get(), view.rows.n_rows), view.row_bytes, session->id);
		case RequestType::kAppend:
			return residency_.append(
				key, view.rows, own_rows(session.get(), view.rows.n_rows), view.row_bytes, session->id);
		case RequestType::kLoadStructure:
			return residency_.load_structure(
				key, view.structure, {view.structure_bytes, view.n_structure_bytes}, session->id);
		case RequestType::kLoadKeys:
			return residency_.load_keys(key, view.keys, {view.structure_bytes, view.n_structure_bytes}, session->id);
		case RequestType::kSeal:
			return residency_.seal(key, view.segment, session->id);
		case RequestType::kTombstones:
		{
			// A private copy: the client may be changing the bits.
			const Bits bits(view.bits, view.bits + (static_cast<size_t>(view.tombstones.n_bits) + 7) / 8);

			return residency_.tombstones(key, view.tombstones, bits, session->id);
		}
		case RequestType::kDrop:
			return residency_.drop(key);
		default:
			return ReplyStatus::kInvalid;
	}
}

/// On the loading thread.
void
Handler::create(const SessionPtr &session)
{
	const wire::RequestView &view = session->view;
	const ReplyStatus status =
		guarded([&] { return residency_.create(view.header.key, view.create, view.key_columns, session->id); });

	if (status == ReplyStatus::kOk)
		describe(session);
	else
		send_status(session.get(), status, &counters_);
}

void
Handler::manifest(const SessionPtr &session)
{
	session->stage.store(Stage::kEngine, std::memory_order_relaxed);
	batcher_.run_between(
		[this, session]
		{
			const wire::RequestView &view = session->view;
			const auto work = [&]
			{ return residency_.manifest(view.header.key, view.manifest, view.segment_ids, session->id); };

			send_status(session.get(), guarded(work), &counters_);
		});
}

void
Handler::checksum(const SessionPtr &session)
{
	wire::ChecksumReply reply{};
	const auto work = [&]
	{
		return residency_.checksum(
			session->view.header.key, session->view.checksum, &reply, [this] { loader_.moved(); });
	};
	const ReplyStatus status = guarded(work);
	ReplyBody body;

	if (status == ReplyStatus::kOk)
	{
		body.fixed = &reply;
		body.fixed_bytes = sizeof(reply);
	}
	send_reply(session.get(), status, body, {}, &counters_);
}

/// On the thread of builds, as read_build.
void
Handler::build(const SessionPtr &session)
{
	const size_t room = session->slot.reply_area_bytes - sizeof(wire::ReplyHeader);
	BuildJobs::Answer answer;
	const ReplyStatus status = guarded([&] { return builds_.build(session->id, session->view, room, &answer); });
	ReplyBody body;

	if (status == ReplyStatus::kOk)
	{
		body.items = answer.bytes.data();
		body.items_bytes = answer.bytes.size();
		body.n_items = answer.n_rows;
	}
	send_reply(session.get(), status, body, {}, &counters_);
}

void
Handler::read_build(const SessionPtr &session)
{
	const size_t room = session->slot.reply_area_bytes - sizeof(wire::ReplyHeader);
	std::vector<uint8_t> bytes;
	const ReplyStatus status =
		guarded([&] { return builds_.read(session->id, session->view.read_build, room, &bytes); });
	ReplyBody body;

	if (status == ReplyStatus::kOk)
	{
		body.items = bytes.data();
		body.items_bytes = bytes.size();
		body.n_items = static_cast<uint32_t>(bytes.size());
	}
	send_reply(session.get(), status, body, {}, &counters_);
}

void
Handler::cancel(const SessionPtr &session)
{
	const Stage stage = session->stage.load(std::memory_order_relaxed);

	if (stage == Stage::kBuild)
		return builds_.cancel(session->id);
	// Of the others only searches can be cancelled; requests that move rows are short and finish.
	if (stage == Stage::kEngine && session->view.header.type == RequestType::kSearchMany)
		return cancel_many(session);
	if (stage == Stage::kNone || session->view.header.type != RequestType::kSearch)
		return;
	if (stage == Stage::kLoad) // a SEARCH whose rows are appended first: it is not in the queue yet
	{
		session->search.cancelled.store(true, std::memory_order_relaxed);
		return;
	}
	if (!batcher_.cancel(&session->search))
		return;
	release(&session->search);
	send_status(session.get(), ReplyStatus::kCancelled, &counters_);
}

void
Handler::closed(const SessionPtr &session)
{
	if (session->busy.load(std::memory_order_acquire))
		cancel(session);
	else
	{
		forget_groups(session.get());
		forget_kept(session.get(), &counters_);
	}
	try
	{
		builds_.closed(session->id);
		loader_.push([this, session] { residency_.end_leases(session->id); });
	}
	catch (const std::bad_alloc &)
	{
		residency_.end_leases(session->id); // delays other sessions, but a lease must end
	}
}

} // namespace vectorgpu::worker

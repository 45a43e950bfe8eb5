// See handler.hpp. SEARCH goes to the batcher, MANIFEST to the engine's thread between two batches, requests that move
// rows to the loading thread, builds to their thread; the others are answered at once.
#include "worker/handler.hpp"

#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "worker/worker_fault.hpp"
#include "worker/reply.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;
using wire::RequestType;

namespace
{

using SessionPtr = std::shared_ptr<Session>;

constexpr size_t kWakeTogether = 16; // replies that are stored before the first of their clients is woken

/// Run `work` and turn an exception into a status.
template <class Work>
ReplyStatus
guarded(Work work)
{
	try
	{
		return work();
	}
	catch (const std::bad_alloc &)
	{
		return ReplyStatus::kOutOfMemory;
	}
	catch (const std::exception &)
	{
		return ReplyStatus::kInternal;
	}
}

/// Wake clients whose replies were stored, after one fence for all.
void
wake_clients(std::span<SessionPtr> sessions)
{
	wire::full_fence();
	for (SessionPtr &session : sessions)
	{
		wake_client(session->slot);
		session.reset();
	}
}

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
		case RequestType::kSeal:
		case RequestType::kTombstones:
		case RequestType::kDrop:
			return on_loader(session,
				[this, session] { send_status(session.get(), guarded([&] { return load(session); }), &counters_); });
		default: // PING
			return send_status(session.get(), ReplyStatus::kOk, &counters_);
	}
}

void
Handler::search(const SessionPtr &session, Round *round)
{
	const wire::RequestView &view = session->view;

	if (view.search.n_rows == 0)
		return find_and_submit(session, round);

	const wire::RowsRequest rows = {view.search.rows_position, 0, view.search.n_rows};
	const engine::RowBlock block = own_rows(session.get(), rows.n_rows);

	if (residency_.try_append(view.header.key, rows, block, view.row_bytes))
		return find_and_submit(session, round);
	on_loader(session,
		[this, session, rows, block]
		{
			const auto work = [&]
			{
				// If this fails, the search reports what is missing.
				(void) residency_.append(session->view.header.key, rows, block, session->view.row_bytes, session->id);
				if (session->search.cancelled.load(std::memory_order_relaxed))
					send_status(session.get(), ReplyStatus::kCancelled, &counters_);
				else
					find_and_submit(session, nullptr);
				return ReplyStatus::kOk;
			};
			const ReplyStatus status = guarded(work);

			if (status != ReplyStatus::kOk)
				send_status(session.get(), status, &counters_);
		});
}

/// Pass the search to the engine, through the dispatcher's round, or (round null) from another thread. Throws
/// bad_alloc; the session is then still the caller's.
void
Handler::find_and_submit(const SessionPtr &session, Round *round)
{
	const wire::SearchRequest &request = session->view.search;
	Search &search = session->search;
	const size_t bytes = session->view.vector_bytes;
	std::shared_ptr<Copy> copy;

	forget_kept(session.get(), &counters_);

	const ReplyStatus status = residency_.find(
		session->view.header.key, request, {session->view.probes, request.n_probes}, session->taken_ns, &copy);

	if (status != ReplyStatus::kOk)
	{
		send_status(session.get(), status, &counters_);
		return;
	}
	search.vector.resize((bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
	memcpy(search.vector.data(), session->view.vector, bytes);
	search.query.query = search.vector.data();
	search.query.query_bytes = bytes;
	search.query.k = request.k;
	search.query.has_after = request.has_after != 0;
	search.query.after = {request.after_score, request.after_row};
	search.query.recall_target = request.recall_target > 0 ? request.recall_target : 1;
	search.probes.clear();
	for (uint32_t i = 0; i < request.n_probes; i++)
	{
		const wire::SegmentProbes &probes = session->view.probes[i];

		search.probes.push_back({probes.segment, probes.probes, probes.candidates});
	}
	search.coverage = engine::Coverage::kAll;
	search.query.probes = search.probes;
	search.query.coverage = &search.coverage;
	search.queue = &copy->queue;
	search.copy_id = copy->id;
	search.copy = std::move(copy);
	search.owner = session;
	session->stage.store(Stage::kEngine, std::memory_order_relaxed);
	if (round == nullptr)
	{
		batcher_.submit(&search);
		batcher_.wake();
		return;
	}
	round->searches.push_back(&search); // reserved: does not allocate
	if (round->searches.size() >= options_.max_batch)
		batcher_.submit(round);
}

/// On the thread that ran the batch. The replies of several searches are stored before their clients are woken, since a
/// client that runs at once would take the processor from the others' replies.
void
Handler::searched(std::span<Search *const> searches, const Status &status,
	std::vector<std::vector<engine::Neighbor>> *results, const BatchInfo &info)
{
	const uint64_t now = info.ended_ns != 0 ? info.ended_ns : clock_();
	std::array<SessionPtr, kWakeTogether> answered;
	size_t n_answered = 0;

	counters_.n_searches.fetch_add(searches.size(), std::memory_order_relaxed);
	for (size_t i = 0; i < searches.size(); i++)
	{
		// Moved out first: once the reply is stored, the dispatcher may use the search again.
		SessionPtr session = std::static_pointer_cast<Session>(std::move(searches[i]->owner));
		const std::shared_ptr<void> copy = std::move(searches[i]->copy);

		counters_.latency_histogram[Counters::bucket(now - session->taken_ns)].fetch_add(1, std::memory_order_relaxed);
		answer(session.get(), *searches[i], status, status.is_ok() ? &(*results)[i] : nullptr, info);
		answered[n_answered++] = std::move(session);
		if (n_answered == answered.size())
		{
			wake_clients(answered);
			n_answered = 0;
		}
	}
	wake_clients(std::span(answered).first(n_answered));
}

/// Store the reply to one search. result: null unless the status is ok.
void
Handler::answer(Session *session, const Search &search, const Status &status, std::vector<engine::Neighbor> *result,
	const BatchInfo &info)
{
	ReplyBody body;

	if (search.cancelled.load(std::memory_order_relaxed))
		return store_reply(session, ReplyStatus::kCancelled, {}, {}, &counters_);
	if (result == nullptr)
		return store_reply(session, reply_status(status), {}, {}, &counters_);

	const size_t bytes = result->size() * sizeof(wire::WireNeighbor);

	if (result->size() <= neighbors_per_reply(session))
	{
		body.items = result->data();
		body.items_bytes = bytes;
		body.n_items = static_cast<uint32_t>(result->size());
		body.coverage = wire_coverage(search.coverage);
		return store_reply(session, ReplyStatus::kOk, body, info, &counters_);
	}
	if (counters_.kept_bytes.load(std::memory_order_relaxed) + bytes > options_.kept_budget_bytes)
		return store_reply(session, ReplyStatus::kRefused, {}, {}, &counters_);
	counters_.kept_bytes.fetch_add(bytes, std::memory_order_relaxed);
	session->kept_sequence = session->sequence;
	session->kept_total = &counters_.kept_bytes;
	session->kept = std::move(*result);
	session->kept_at = 0;
	store_kept(session, info, &counters_);
}

void
Handler::next(const SessionPtr &session)
{
	if (session->kept_sequence == 0 || session->kept_sequence != session->view.next.search_sequence)
		send_status(session.get(), ReplyStatus::kAbsent, &counters_);
	else
	{
		store_kept(session.get(), {}, &counters_);
		wire::full_fence();
		wake_client(session->slot);
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
	stats.n_rescored = engine_.stats().n_rescored;
	stats.n_invalid = counters_.n_invalid;
	stats.n_refused = counters_.n_refused;
	stats.n_out_of_memory = counters_.n_out_of_memory;
	stats.n_internal = counters_.n_internal;
	stats.loaded_bytes = resident.loaded_bytes;
	stats.kept_bytes = counters_.kept_bytes;
	for (size_t i = 0; i < wire::kHistogramBuckets; i++)
		stats.latency_histogram[i] = counters_.latency_histogram[i];
	strncpy(stats.device, engine_.description(), sizeof(stats.device) - 1);
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
	const ReplyStatus status = guarded([&] { return residency_.create(view.header.key, view.create, session->id); });

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
	if (stage == Stage::kNone || session->view.header.type != RequestType::kSearch)
		return;
	if (stage == Stage::kLoad) // a SEARCH whose rows are appended first: it is not in the queue yet
	{
		session->search.cancelled.store(true, std::memory_order_relaxed);
		return;
	}
	if (!batcher_.cancel(&session->search))
		return;

	const std::shared_ptr<void> owner = std::move(session->search.owner);
	const std::shared_ptr<void> copy = std::move(session->search.copy);

	send_status(session.get(), ReplyStatus::kCancelled, &counters_);
}

void
Handler::closed(const SessionPtr &session)
{
	if (session->busy.load(std::memory_order_acquire))
		cancel(session);
	else
		forget_kept(session.get(), &counters_);
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

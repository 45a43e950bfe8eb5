// The handler's part of SEARCH and NEXT: rows that come with a SEARCH, the way to the batcher, the answers. See
// handler.hpp.
#include <array>
#include <cstring>
#include <utility>

#include "worker/handler.hpp"
#include "worker/handler_guard.hpp"
#include "worker/keys/given_rows.hpp"
#include "worker/reply.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

namespace
{

using SessionPtr = std::shared_ptr<Session>;

constexpr uint64_t kSmallCopyBytes = 16 * 1024 * 1024; // about a millisecond of one core
constexpr size_t kWakeTogether = 16; // replies that are stored before the first of their clients is woken

/// Set the conditions of a search. Throws bad_alloc.
ReplyStatus
take_conditions(const wire::RequestView &view, const Copy &copy, Search *search)
{
	const bool given = view.search.given != 0;

	search->program.assign(view.program, view.program + view.search.program_bytes);
	search->keys = given || search->program.empty() ? nullptr : copy.keys;
	search->passing.reset();
	search->filter_found = search->outdated = false;
	search->manifest = given ? &copy.searched_manifest : nullptr;
	search->wanted_manifest = view.search.version.manifest_generation;
	if (search->keys != nullptr && !search->keys->takes(search->program))
	{
		search->keys.reset();
		return ReplyStatus::kInvalid;
	}
	if (!given)
		return ReplyStatus::kOk;
	if (copy.searched_manifest.load(std::memory_order_acquire) != search->wanted_manifest)
		return ReplyStatus::kBehind;
	search->passing = given_rows(
		search->program, copy.searched_delta_first.load(std::memory_order_acquire), view.search.version.delta_end);
	if (search->passing != nullptr)
		return ReplyStatus::kOk;
	return copy.searched_manifest.load(std::memory_order_acquire) == search->wanted_manifest ? ReplyStatus::kInvalid
																							 : ReplyStatus::kBehind;
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
	Search *search = &session->search;

	session->group.reset();
	forget_groups(session.get());
	forget_kept(session.get(), &counters_);

	const ReplyStatus status = set_search(session, session->view, search);

	if (status != ReplyStatus::kOk)
	{
		send_status(session.get(), status, &counters_);
		return;
	}
	session->stage.store(Stage::kEngine, std::memory_order_relaxed);
	submit(search, round);
}

/// Fill in a search from its request, with its copy. The search is unchanged unless the status is OK. Throws bad_alloc.
ReplyStatus
Handler::set_search(const SessionPtr &session, const wire::RequestView &view, Search *search)
{
	const wire::SearchRequest &request = view.search;
	const size_t bytes = view.vector_bytes;
	std::shared_ptr<Copy> copy;

	if (const ReplyStatus status =
			residency_.find(view.header.key, request, {view.probes, request.n_probes}, session->taken_ns, &copy);
		status != ReplyStatus::kOk)
		return status;
	search->vector.resize((bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
	memcpy(search->vector.data(), view.vector, bytes);
	search->query.query = search->vector.data();
	search->query.query_bytes = bytes;
	search->query.k = request.k;
	search->query.has_after = request.has_after != 0;
	search->query.after = {request.after_score, request.after_row};
	search->query.recall_target = request.recall_target > 0 ? request.recall_target : 1;
	search->probes.clear();
	for (const wire::SegmentProbes &probes : std::span(view.probes, request.n_probes))
		search->probes.push_back({probes.segment, probes.probes, probes.candidates});
	search->filter_way = engine::FilterWay::kNone;
	search->query.filter_way = &search->filter_way;
	if (const ReplyStatus taken = take_conditions(view, *copy, search); taken != ReplyStatus::kOk)
		return taken;
	search->coverage = engine::Coverage::kAll;
	search->query.probes = search->probes;
	search->query.coverage = &search->coverage;
	search->queue = &copy->queue;
	search->copy_id = copy->id;
	search->is_small = copy->searched_bytes.load(std::memory_order_relaxed) <= kSmallCopyBytes;
	search->copy = std::move(copy);
	search->owner = session;
	search->taken_ns = session->taken_ns;
	return ReplyStatus::kOk;
}

/// Pass a search to the engine; round: as of find_and_submit.
void
Handler::submit(Search *search, Round *round)
{
	if (round == nullptr)
	{
		batcher_.submit(search);
		batcher_.wake();
		return;
	}
	round->searches.push_back(search); // reserved: does not allocate
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
	if (status.code == StatusCode::kNotFound)
		residency_.forget_lost(std::static_pointer_cast<Copy>(searches.front()->copy)->key);
	for (size_t i = 0; i < searches.size(); i++)
	{
		// Moved out first: once the reply is stored, the dispatcher may use the search again, or its group is gone.
		SessionPtr session = std::static_pointer_cast<Session>(std::move(searches[i]->owner));
		const std::shared_ptr<SearchGroup> group = std::move(searches[i]->group);
		const std::shared_ptr<void> copy = std::move(searches[i]->copy);
		const std::shared_ptr<KeyStore> keys = std::move(searches[i]->keys);
		const std::shared_ptr<const engine::Passing> passing = std::move(searches[i]->passing);

		counters_.latency_histogram[Counters::bucket(now - searches[i]->taken_ns)].fetch_add(
			1, std::memory_order_relaxed);
		searches[i]->n_passing = passing != nullptr ? passing->n_pass : 0;
		if (!answer(session.get(), group.get(), *searches[i], status, status.is_ok() ? &(*results)[i] : nullptr, info))
			continue;
		answered[n_answered++] = std::move(session);
		if (n_answered == answered.size())
		{
			wake_clients(answered);
			n_answered = 0;
		}
	}
	wake_clients(std::span(answered).first(n_answered));
}

/// Store the reply to one search. group: null if it is one of its own. result: null unless the status is ok. False: it
/// is one of several whose common reply is not complete, or not wanted yet.
bool
Handler::answer(Session *session, SearchGroup *group, const Search &search, const Status &status,
	std::vector<engine::Neighbor> *result, const BatchInfo &info)
{
	ReplyStatus replied = result != nullptr ? ReplyStatus::kOk : reply_status(status);
	const BatchInfo no_info;
	ReplyBody body;

	if (search.outdated)
		replied = ReplyStatus::kBehind;
	if (search.cancelled.load(std::memory_order_relaxed))
		replied = ReplyStatus::kCancelled;
	if (replied == ReplyStatus::kOk)
	{
		body.coverage = wire_coverage(search.coverage);
		note_filter(search, &body);
	}
	else
		result = nullptr;
	if (group != nullptr)
		return finish_part(session, group, search,
			reply_header(group->sequence(), replied, body, result != nullptr ? info : no_info), result);
	if (result == nullptr)
		store_reply(session, replied, {}, {}, &counters_);
	else
		store_rows(session, &body, result, info);
	return true;
}

/// Store the reply with the rows of a search, or as many as fit: the others wait for NEXT.
void
Handler::store_rows(Session *session, ReplyBody *body, std::vector<engine::Neighbor> *result, const BatchInfo &info)
{
	const size_t bytes = result->size() * sizeof(wire::WireNeighbor);

	if (result->size() <= neighbors_per_reply(session))
	{
		body->items = result->data();
		body->items_bytes = bytes;
		body->n_items = static_cast<uint32_t>(result->size());
		return store_reply(session, ReplyStatus::kOk, *body, info, &counters_);
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

} // namespace vectorgpu::worker

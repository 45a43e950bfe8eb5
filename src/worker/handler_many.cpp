// The handler's part of SEARCH_MANY: several searches with one reply. See handler.hpp. Each goes its own way through
// the queues and batches of its copy.
#include <algorithm>
#include <memory>
#include <utility>

#include "worker/handler.hpp"
#include "worker/handler_guard.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

namespace
{

constexpr size_t kBatchesAhead = 2; // of one session, for each batch that the engine runs at a time

} // namespace

/// Throws bad_alloc; the session is then still the caller's, and none of the request's searches was submitted.
void
Handler::search_many(const SessionPtr &session, Round *round)
{
	const wire::SearchManyRequest request = session->view.search_many;

	forget_kept(session.get(), &counters_);
	session->group.reset();
	if ((request.flags & wire::kManyContinues) == 0)
		forget_groups(session.get());
	if (request.n_searches > 0)
		if (const ReplyStatus status = add_group(session, round); status != ReplyStatus::kOk)
			return send_status(session.get(), status, &counters_);
	if (session->groups.empty())
		return send_status(session.get(), ReplyStatus::kInvalid, &counters_);
	if ((request.flags & (wire::kManyContinues | wire::kManyFollows)) == wire::kManyContinues)
		mark_last(*session);
	if ((request.flags & wire::kManyFollows) != 0 && !session->groups.front()->answered() && takes_more(*session))
		return send_status(session.get(), ReplyStatus::kOk, &counters_);
	session->group = std::move(session->groups.front());
	session->groups.pop_front();
	session->stage.store(Stage::kEngine, std::memory_order_relaxed);
	if (session->group->finish())
		send_group(session.get(), session->group.get());
}

/// Submit the searches of the session's request as the last of its groups. Throws as search_many.
ReplyStatus
Handler::add_group(const SessionPtr &session, Round *round)
{
	const size_t n = session->view.search_many.n_searches;
	const size_t room = session->slot.reply_area_bytes - sizeof(wire::ReplyHeader);
	const uint8_t *data = session->view.searches;
	size_t length = session->view.searches_bytes;

	if (n * sizeof(wire::ReplyHeader) > room)
		return ReplyStatus::kInvalid;

	const auto view = std::make_unique<wire::RequestView>();
	const auto group = std::make_shared<SearchGroup>(n, room, session->sequence);

	session->groups.push_back(group);
	for (Search &search : group->searches())
	{
		const size_t length_before = length;
		ReplyStatus status = ReplyStatus::kInvalid;

		// Behind a part without a known end, all are malformed.
		if (wire::parse_next_search(&data, &length, session->sequence, view.get()) == wire::ParseResult::kOk)
			status = guarded([&] { return set_search(session, *view, &search); });
		else if (length == length_before)
			length = 0;
		if (status == ReplyStatus::kOk)
		{
			search.group = group;
			submit(&search, round);
		}
		else
			(void) finish_part(session.get(), group.get(), search, reply_header(0, status, {}, {}), nullptr);
	}
	return ReplyStatus::kOk;
}

/// True if more searches of the session may wait, so that the engine has the next ones while it makes some, on each of
/// its devices.
bool
Handler::takes_more(const Session &session) const
{
	const size_t wanted = kBatchesAhead * options_.max_batch * std::max<size_t>(engine_.n_batches_at_once(), 1);
	size_t n = 0;

	for (const std::shared_ptr<SearchGroup> &group : session.groups)
		n += group->searches().size();
	return n < wanted && session.groups.size() < wire::kMostUnanswered;
}

/// Note that the session, which had sent several requests, waits for what is left of them.
void
Handler::mark_last(const Session &session)
{
	for (const std::shared_ptr<SearchGroup> &group : session.groups)
		for (Search &search : group->searches())
			search.is_last.store(true, std::memory_order_relaxed);
}

/// Give up the searches whose answers the session has not asked for. Those that run end unseen.
void
Handler::forget_groups(Session *session)
{
	while (!session->groups.empty())
	{
		const std::shared_ptr<SearchGroup> group = std::move(session->groups.front());

		session->groups.pop_front();
		for (Search &search : group->searches())
			if (batcher_.cancel(&search))
				release(&search);
	}
}

/// Set the answer to one search. True: it was the last one, and the reply is stored; the client is to be woken.
bool
Handler::finish_part(Session *session, SearchGroup *group, const Search &search, const wire::ReplyHeader &header,
	std::vector<engine::Neighbor> *rows)
{
	group->set_answer(search, header, rows);
	if (!group->finish())
		return false;
	store_group(session, group);
	return true;
}

/// Store the reply of a group that is finished.
void
Handler::store_group(Session *session, SearchGroup *group)
{
	const ReplyStatus status = group->status();
	ReplyBody body;

	if (status == ReplyStatus::kOk)
	{
		const std::vector<uint8_t> &bytes = group->body();

		body.items = bytes.data();
		body.items_bytes = bytes.size();
		body.n_items = static_cast<uint32_t>(group->searches().size());
	}
	store_reply(session, status, body, {}, &counters_);
}

/// Store it, and wake the client.
void
Handler::send_group(Session *session, SearchGroup *group)
{
	store_group(session, group);
	wire::full_fence();
	wake_client(session->slot);
}

/// The searches that wait still are answered with CANCELLED, those of other requests given up.
void
Handler::cancel_many(const SessionPtr &session)
{
	const std::shared_ptr<SearchGroup> group = session->group;

	forget_groups(session.get());
	for (Search &search : group->searches())
	{
		if (!batcher_.cancel(&search))
			continue;
		release(&search);
		if (!finish_part(session.get(), group.get(), search, reply_header(0, ReplyStatus::kCancelled, {}, {}), nullptr))
			continue;
		wire::full_fence();
		wake_client(session->slot);
		return; // the session is no longer ours
	}
}

} // namespace vectorgpu::worker

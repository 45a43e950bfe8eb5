// The handler's part of SEARCH_MANY: several searches with one reply. See handler.hpp. Each goes its own way through
// the queues and batches of its copy.
#include <memory>

#include "worker/handler.hpp"
#include "worker/handler_guard.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

/// Throws bad_alloc; the session is then still the caller's, and none of the searches was submitted.
void
Handler::search_many(const SessionPtr &session, Round *round)
{
	const size_t n = session->view.search_many.n_searches;
	const size_t room = session->slot.reply_area_bytes - sizeof(wire::ReplyHeader);
	const uint8_t *data = session->view.searches;
	size_t length = session->view.searches_bytes;

	forget_kept(session.get(), &counters_);
	if (n * sizeof(wire::ReplyHeader) > room)
		return send_status(session.get(), ReplyStatus::kInvalid, &counters_);

	const auto view = std::make_unique<wire::RequestView>();

	session->group = std::make_unique<SearchGroup>(n, room);
	session->stage.store(Stage::kEngine, std::memory_order_relaxed);
	for (Search &search : session->group->searches())
	{
		const size_t length_before = length;
		ReplyStatus status = ReplyStatus::kInvalid;

		// Behind a part without a known end, all are malformed.
		if (wire::parse_next_search(&data, &length, session->sequence, view.get()) == wire::ParseResult::kOk)
			status = guarded([&] { return set_search(session, *view, &search); });
		else if (length == length_before)
			length = 0;
		if (status == ReplyStatus::kOk)
			submit(&search, round);
		else
			(void) finish_part(session.get(), search, reply_header(0, status, {}, {}), nullptr);
	}
	if (session->group->finish())
		send_group(session.get());
}

/// Set the answer to one search. True: it was the last one, and the reply is stored; the client is to be woken.
bool
Handler::finish_part(
	Session *session, const Search &search, const wire::ReplyHeader &header, std::vector<engine::Neighbor> *rows)
{
	SearchGroup *group = search.group;

	group->set_answer(search, header, rows);
	if (!group->finish())
		return false;
	store_group(session);
	return true;
}

/// Store the reply of a group that is finished.
void
Handler::store_group(Session *session)
{
	SearchGroup &group = *session->group;
	const ReplyStatus status = group.status();
	ReplyBody body;

	if (status == ReplyStatus::kOk)
	{
		const std::vector<uint8_t> &bytes = group.body(session->sequence);

		body.items = bytes.data();
		body.items_bytes = bytes.size();
		body.n_items = static_cast<uint32_t>(group.searches().size());
	}
	store_reply(session, status, body, {}, &counters_);
}

/// Store it, and wake the client.
void
Handler::send_group(Session *session)
{
	store_group(session);
	wire::full_fence();
	wake_client(session->slot);
}

/// The searches that wait still are answered with CANCELLED.
void
Handler::cancel_many(const SessionPtr &session)
{
	for (Search &search : session->group->searches())
	{
		if (!batcher_.cancel(&search))
			continue;
		release(&search);
		if (!finish_part(session.get(), search, reply_header(0, ReplyStatus::kCancelled, {}, {}), nullptr))
			continue;
		wire::full_fence();
		wake_client(session->slot);
		return; // the session is no longer ours
	}
}

} // namespace vectorgpu::worker

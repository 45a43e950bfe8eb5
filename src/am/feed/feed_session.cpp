// Requests of one call of the feed. See feed_session.hpp. PG dialect.
#include "am/feed/feed_session.hpp"

#include "bridge/client_session.hpp"

#include <cstring>

namespace vectorgpu::am
{

bool
feed_stop(Feed *feed, FeedResult result, bridge::Fallback reason)
{
	feed->outcome->result = result;
	feed->outcome->reason = reason;
	return false;
}

bool
feed_receive(Feed *feed)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	if (!bridge::session_receive(&header, nullptr, 0, &reason))
		return feed_stop(feed, FeedResult::kFailed, reason);
	if (header.status == wire::ReplyStatus::kOk)
		return true;
	if (header.status == wire::ReplyStatus::kBusy)
		return feed_stop(feed, FeedResult::kBusy, bridge::Fallback::kLoading);
	return feed_stop(feed, FeedResult::kFailed, bridge::fallback_of(header.status));
}

bool
feed_submit(Feed *feed, wire::RequestType type, const wire::Part *parts, size_t n_parts)
{
	bridge::Fallback reason;

	return bridge::session_submit(type, &feed->key, parts, n_parts, &reason) ||
		feed_stop(feed, FeedResult::kFailed, reason);
}

bool
feed_request(Feed *feed, wire::RequestType type, const wire::Part *parts, size_t n_parts)
{
	return feed_submit(feed, type, parts, n_parts) && feed_receive(feed);
}

bool
feed_ask_state(Feed *feed, wire::RequestType type, const wire::Part *parts, size_t n_parts, bool *absent)
{
	char body[sizeof(wire::CopyState) + kMaxStates * sizeof(wire::SegmentState)];
	wire::ReplyHeader header;
	bridge::Fallback reason;

	*absent = false;
	if (!bridge::session_request(type, &feed->key, parts, n_parts, &header, body, sizeof(body), &reason))
		return feed_stop(feed, FeedResult::kFailed, reason);
	if (header.status == wire::ReplyStatus::kAbsent)
	{
		*absent = true;
		return true;
	}
	if (header.status == wire::ReplyStatus::kBusy)
		return feed_stop(feed, FeedResult::kBusy, bridge::Fallback::kLoading);
	if (header.status != wire::ReplyStatus::kOk)
		return feed_stop(feed, FeedResult::kFailed, bridge::fallback_of(header.status));
	memcpy(&feed->copy, body, sizeof(feed->copy));
	feed->n_segments = Min(header.n_items, kMaxStates);
	memcpy(feed->segments, body + sizeof(feed->copy), feed->n_segments * sizeof(wire::SegmentState));
	return true;
}

wire::SegmentState *
feed_segment_state(Feed *feed, uint32 segment)
{
	for (uint32 i = 0; i < feed->n_segments; i++)
		if (feed->segments[i].segment == segment)
			return &feed->segments[i];
	return nullptr;
}

bool
feed_past_deadline(const Feed *feed)
{
	return feed->limits->deadline_ns != 0 && wire::monotonic_ns() >= feed->limits->deadline_ns;
}

} // namespace vectorgpu::am

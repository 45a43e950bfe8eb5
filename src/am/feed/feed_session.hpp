// One call of the feed: its state and its requests to the worker. Used by the files of this folder. PG dialect.
// Functions that return bool return false to stop the feed; the outcome then holds the reason.
#pragma once

#include "am/feed/copy_feed.hpp"
#include "wire/client.hpp"

namespace vectorgpu::am
{

constexpr uint64 kRowsPerRequest = 64 * 1024;
constexpr uint32 kMaxStates = 2 * wire::kMaxSegmentsPerCopy; // segments of the current and of the loading version

/// State of one call.
struct Feed
{
	Relation index;
	const FeedLimits *limits;
	FeedOutcome *outcome;
	BufferAccessStrategy strategy;
	MetaData *meta;
	const WorkerStructure *structure; // null: the copy has rows only
	uint64 delta_end;
	wire::CopyKey key;
	wire::CopyState copy;
	uint32 n_segments;
	wire::SegmentState segments[kMaxStates];
	char *buffer; // rows of one request
	Size capacity;
	Size vector_bytes;         // of a row or slot of the delta
	Size segment_vector_bytes; // of a row of a segment
	Size key_bytes;            // of the codes of a row of the delta; 0: the copy holds none
};

/// Set the outcome; returns false.
bool feed_stop(Feed *feed, FeedResult result, bridge::Fallback reason);

/// Receive the reply to a request, of which only the status matters.
bool feed_receive(Feed *feed);

/// Send a request; `feed_receive` must follow.
bool feed_submit(Feed *feed, wire::RequestType type, const wire::Part *parts, size_t n_parts);

/// Send a request and receive its reply.
bool feed_request(Feed *feed, wire::RequestType type, const wire::Part *parts, size_t n_parts);

/// Send DESCRIBE or CREATE and fill in the state of the worker's copy. *absent: there is no copy.
bool feed_ask_state(Feed *feed, wire::RequestType type, const wire::Part *parts, size_t n_parts, bool *absent);

/// Return the state of a segment in the worker's copy, or null.
wire::SegmentState *feed_segment_state(Feed *feed, uint32 segment);

/// True if FeedLimits::deadline_ns has passed.
bool feed_past_deadline(const Feed *feed);

} // namespace vectorgpu::am

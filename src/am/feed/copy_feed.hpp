// Updates the worker's copy of an index from the index's pages: segments, delta rows, tombstones, and finally the
// version of these contents. No state is kept between calls, since the worker reports the state of its copy: a load can
// continue after a pause, in another transaction and with a newer manifest. Used by scans (small indexes, small
// changes) and by the loader. Holds one content lock at a time, and none while it waits for the worker. PG dialect.
#pragma once

#include "am/method/am_interface.hpp"
#include "storage/metapage.hpp"
#include "bridge/shared_state.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::am
{

/// Limits of one call.
struct FeedLimits
{
	uint64 load_bytes;  // greatest size of rows and structure if there is no copy yet; more is kTooMuch
	uint64 ship_bytes;  // greatest size of the data that an existing copy lacks; more is kTooMuch
	uint64 deadline_ns; // CLOCK_MONOTONIC; the call returns kMore soon after it. 0: none
};

enum class FeedResult : uint8
{
	kDone,    // the copy has the version that the call read, or a newer one
	kMore,    // the deadline has passed: call again
	kTooMuch, // over the limits: nothing was sent
	kBusy,    // another session is loading
	kStale,   // pages were recycled during the read: call again
	kFailed,  // see FeedOutcome::reason
};

struct FeedOutcome
{
	FeedResult result;
	bridge::Fallback reason;
	uint64 delta_rows; // sent
	bool made;         // the copy is new
};

/// Fill in the key that identifies the copy of an index.
void copy_key(Relation index, const MetaData *meta, wire::CopyKey *key);

/// Return the bytes per segment row that the worker holds as a vector; 0 if values are only in the structure.
inline Size
segment_vector_bytes(const WorkerStructure *structure, const MetaData *meta)
{
	const wire::CopyKind kind = structure != nullptr ? structure->kind(meta) : wire::CopyKind::kRows;

	return kind == wire::CopyKind::kMatch || kind == wire::CopyKind::kCodes || kind == wire::CopyKind::kSparse
		? 0
		: meta_vector_bytes(meta);
}

/// Return the bytes of all vectors in segments and in the delta.
uint64 copy_bytes(const MetaData *meta, uint64 delta_end);

/// Update the copy. Needs a session (bridge::session_ready) and a lock on the index.
void feed_copy(Relation index, const FeedLimits *limits, FeedOutcome *outcome);

/// Send only delta rows [first, end), for a copy that is known to lack nothing else. Returns false if the worker did
/// not take them.
bool feed_delta(Relation index, const MetaData *meta, uint64 first, uint64 end, FeedOutcome *outcome);

} // namespace vectorgpu::am

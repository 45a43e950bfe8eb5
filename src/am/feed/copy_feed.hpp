// Brings the worker's copy of an index up to the index's pages: segments, delta rows, tombstones, and at last the
// version that they amount to. Stateless between calls, since the worker tells what it has: a load can go on after a
// pause, in another transaction, with the manifest of then. Used by scans (small indexes, small changes) and by the
// loader. Holds content locks page by page only, none while it waits for the worker. PG dialect.
#pragma once

#include "am/method/am_interface.hpp"
#include "storage/metapage.hpp"
#include "bridge/shared_state.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::am
{

/// How much one call may do.
struct FeedLimits
{
	uint64 load_bytes;  // of rows and structure when there is no copy yet: more is kTooMuch
	uint64 ship_bytes;  // of all that an existing copy lacks: more is kTooMuch
	uint64 deadline_ns; // CLOCK_MONOTONIC; after it the call returns kMore at the next chance. 0: none
};

enum class FeedResult : uint8
{
	kDone,    // the copy has the version that the call has read, or a newer one
	kMore,    // the deadline has passed: call again
	kTooMuch, // over the limits: nothing was sent
	kBusy,    // another session is loading
	kStale,   // pages were recycled while they were read: call again
	kFailed,  // see FeedOutcome::reason
};

struct FeedOutcome
{
	FeedResult result;
	bridge::Fallback reason;
	uint64 delta_rows; // sent
	bool made;         // the copy is new
};

/// Names the copy of an index.
void copy_key(Relation index, const MetaData *meta, wire::CopyKey *key);

/// Bytes of a vector of a segment as the worker has it: values that are no vectors are in the structure alone.
inline Size
segment_vector_bytes(const WorkerStructure *structure, const MetaData *meta)
{
	const wire::CopyKind kind = structure != nullptr ? structure->kind(meta) : wire::CopyKind::kRows;

	return kind == wire::CopyKind::kMatch || kind == wire::CopyKind::kCodes ? 0 : meta_vector_bytes(meta);
}

/// Bytes of all vectors in segments and in the delta.
uint64 copy_bytes(const MetaData *meta, uint64 delta_end);

/// Needs a session (bridge::session_ready) and a lock on the index.
void feed_copy(Relation index, const FeedLimits *limits, FeedOutcome *outcome);

/// Sends delta rows [first, end) only; for a copy that is known to lack no more. False: the worker did not take them.
bool feed_delta(Relation index, const MetaData *meta, uint64 first, uint64 end, FeedOutcome *outcome);

} // namespace vectorgpu::am

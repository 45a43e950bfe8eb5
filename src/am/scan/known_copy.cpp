// See known_copy.hpp.
#include "am/scan/known_copy.hpp"

#include "am/feed/copy_feed.hpp"
#include "am/feed/delta_rows.hpp"
#include "am/feed/loader.hpp"
#include "bridge/breaker.hpp"
#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "bridge/shared_state.hpp"
#include "pg/fault.hpp"
#include "storage/delta.hpp"
#include "wire/codec.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kKnownSets = 64; // so that the partitions of a table find room
constexpr int kKnownOfSet = 4;
constexpr uint64 kNsPerMs = 1000 * 1000;
constexpr uint64 kRefusedPauseMs = 10 * 1000; // before an index that did not fit is offered again
constexpr uint64 kBusyPauseMs = 100;
constexpr uint64 kBytesPerKb = 1024;
constexpr Size kRowsAheadBytes = 64 * 1024; // of new rows that go along with a search; more rows are sent before it

KnownCopy known_copies[kKnownSets][kKnownOfSet]; // by uuid, which is random
uint64 known_clock = 0;

/// True if since the copy last served this process only few rows were added to the delta, and nothing else changed.
bool
only_rows_missing(const KnownCopy *known, const ScanState *state)
{
	const MetaData *meta = &state->meta;

	return known->version.delta_end >= meta->delta_first_row && known->version.delta_end > 0 &&
		known->version.delta_end < state->delta_end &&
		known->version.manifest_generation == meta->manifest_generation &&
		known->version.tombstone_generation == meta->tombstone_generation &&
		(state->delta_end - known->version.delta_end) * delta_row_bytes(meta) <=
		static_cast<uint64>(bridge::settings.ship_limit_kb) * kBytesPerKb;
}

/// True if the same attempt would fail again for some time.
bool
is_lasting(bridge::Fallback reason)
{
	return reason == bridge::Fallback::kTooLarge || reason == bridge::Fallback::kRequestTooLarge ||
		reason == bridge::Fallback::kOutOfMemory || reason == bridge::Fallback::kRefused;
}

void
count_feed(const FeedOutcome *outcome, ScanCounters *counters)
{
	bridge::SharedState *shared = bridge::shared_state();

	count_shipped(outcome->delta_rows, counters);
	if (outcome->made)
		pg_atomic_fetch_add_u64(&shared->n_inline_loads, 1);
}

} // namespace

KnownCopy *
known_copy(const wire::CopyKey *key)
{
	KnownCopy(&copies)[kKnownOfSet] = known_copies[key->uuid_low % kKnownSets];
	KnownCopy *oldest = &copies[0];

	for (KnownCopy &copy : copies)
	{
		if (memcmp(&copy.key, key, sizeof(*key)) == 0)
		{
			copy.used = ++known_clock;
			return &copy;
		}
		if (copy.used < oldest->used)
			oldest = &copy;
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->key = *key;
	oldest->used = ++known_clock;
	return oldest;
}

uint64
rows_ahead(Relation index, const KnownCopy *known, const ScanState *state, char **rows)
{
	const Size key_bytes = copy_key_bytes(state->am->worker_structure, &state->meta);
	const Size row_bytes = sizeof(uint64) + meta_vector_bytes(&state->meta) + key_bytes;
	const uint64 first = known->version.delta_end;
	uint64 n;
	char *buffer;

	if (!only_rows_missing(known, state))
		return 0;
	n = state->delta_end - first;
	if (n * row_bytes > kRowsAheadBytes)
		return 0;
	(void) VG_FAULT("rows_ahead");
	buffer = static_cast<char *>(palloc(n * row_bytes));
	if (!delta_rows_read(index, &state->meta, key_bytes, first, n, buffer))
		return 0; // pages were recycled: the search goes without rows
	*rows = buffer;
	return n;
}

void
count_shipped(uint64 n, ScanCounters *counters)
{
	counters->n_shipped += n;
	pg_atomic_fetch_add_u64(&bridge::shared_state()->n_shipped_rows, n);
}

bool
bring_copy(Relation index, const ScanState *state, wire::ReplyStatus status, KnownCopy *known)
{
	const uint64 now = wire::monotonic_ns();
	const FeedLimits limits = {static_cast<uint64>(bridge::settings.inline_load_size_kb) * kBytesPerKb,
		static_cast<uint64>(bridge::settings.ship_limit_kb) * kBytesPerKb, 0};
	FeedOutcome outcome;

	if (now < known->no_feed_until_ns)
	{
		bridge::note_fallback(known->no_feed_reason, nullptr);
		return false;
	}
	if (!bridge::breaker_admits(wire::RequestType::kCreate))
	{
		bridge::note_fallback(bridge::Fallback::kSilent, nullptr);
		return false;
	}
	if (status == wire::ReplyStatus::kBehind && only_rows_missing(known, state))
	{
		if (feed_delta(index, &state->meta, known->version.delta_end, state->delta_end, &outcome))
		{
			count_feed(&outcome, state->counters);
			return true;
		}
		known->version.delta_end = 0; // the copy has changed: ask for its state
		return bridge::session_ready(true);
	}
	PG_TRY();
	{
		feed_copy(index, &limits, &outcome);
	}
	PG_CATCH();
	{
		// A lease ends with the session only.
		bridge::session_close();
		PG_RE_THROW();
	}
	PG_END_TRY();
	switch (outcome.result)
	{
		case FeedResult::kDone:
			count_feed(&outcome, state->counters);
			return true;
		case FeedResult::kTooMuch:
			loader_request(index);
			break;
		case FeedResult::kBusy:
			known->no_feed_until_ns = now + kBusyPauseMs * kNsPerMs;
			known->no_feed_reason = bridge::Fallback::kLoading;
			break;
		case FeedResult::kMore:
		case FeedResult::kStale:
			bridge::session_close();
			break;
		case FeedResult::kFailed:
			known->no_feed_until_ns = now + (is_lasting(outcome.reason) ? kRefusedPauseMs : kBusyPauseMs) * kNsPerMs;
			known->no_feed_reason = is_lasting(outcome.reason) ? outcome.reason : bridge::Fallback::kLoading;
			bridge::session_close();
			break;
	}
	bridge::note_fallback(outcome.reason, nullptr);
	return false;
}

void
distrust_copy(const wire::CopyKey *key, KnownCopy *known)
{
	wire::ReplyHeader header;
	bridge::Fallback reason;

	bridge::note_fallback(bridge::Fallback::kWrongAnswer, "A reply had rows that cannot be. The copy is dropped.");
	known->no_feed_until_ns = wire::monotonic_ns() + kRefusedPauseMs * kNsPerMs;
	known->no_feed_reason = bridge::Fallback::kWrongAnswer;
	// The worker forgets results that wait for NEXT with the session.
	bridge::session_close();
	if (bridge::session_ready(false))
		(void) bridge::session_request(wire::RequestType::kDrop, key, nullptr, 0, &header, nullptr, 0, &reason);
}

} // namespace vectorgpu::am

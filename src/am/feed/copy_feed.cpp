// See copy_feed.hpp. The order of reading makes the version right: first the metapage, then the contents it lists,
// which can only be newer by then, and the version is published last.
#include "am/feed/copy_feed.hpp"

#include "am/feed/delta_rows.hpp"
#include "am/feed/feed_session.hpp"
#include "am/feed/feed_tombstones.hpp"
#include "am/method/am_interface.hpp"
#include "storage/delta.hpp"
#include "storage/key_stream.hpp"
#include "storage/stream.hpp"
#include "bridge/client_session.hpp"
#include "bridge/settings.hpp"
#include "pg/fault.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// Return the bytes that describe a segment's structure; 0 if it has no rows.
uint64
structure_bytes(const Feed *feed, const SegmentEntry *segment)
{
	if (feed->structure == nullptr || segment->n_rows == 0)
		return 0;
	return feed->structure->n_bytes(feed->meta, segment);
}

/// Return the bytes of a segment's codes.
uint64
area_bytes(const Feed *feed, const SegmentEntry *segment)
{
	return feed->key_bytes == 0 ? 0 : key_area_bytes(&feed->meta->keys, segment->n_rows);
}

uint64
all_structure_bytes(const Feed *feed)
{
	uint64 n_bytes = 0;

	for (uint32 i = 0; i < feed->meta->n_segments; i++)
		n_bytes += structure_bytes(feed, &feed->meta->segments[i]) + area_bytes(feed, &feed->meta->segments[i]);
	return n_bytes;
}

/// Return the bytes of vectors, structure and codes that loading the copy takes.
uint64
load_bytes(const Feed *feed)
{
	uint64 n_bytes = copy_bytes(feed->meta, feed->delta_end) + all_structure_bytes(feed);

	if (feed->segment_vector_bytes != feed->vector_bytes)
		for (uint32 i = 0; i < feed->meta->n_segments; i++)
			n_bytes -= feed->meta->segments[i].n_rows * (feed->vector_bytes - feed->segment_vector_bytes);
	return n_bytes;
}

/// Take the lease; create the copy if there is none.
bool
create(Feed *feed)
{
	wire::CreateRequest create = {};
	wire::KeyColumns keys;
	const wire::Part parts[] = {{&create, sizeof(create)}, {&keys, sizeof(keys)}};
	bool absent;

	copy_key_columns(feed->meta, &keys);

	create.expected_bytes = load_bytes(feed);
	create.delta_first = feed->meta->delta_first_row;
	create.dim = feed->meta->dim;
	create.element = feed->meta->element;
	create.metric = copy_metric(feed->structure, feed->meta);
	create.kind = feed->structure != nullptr ? feed->structure->kind(feed->meta) : wire::CopyKind::kRows;
	return feed_ask_state(feed, wire::RequestType::kCreate, parts, feed->key_bytes > 0 ? 2 : 1, &absent) &&
		(!absent || feed_stop(feed, FeedResult::kFailed, bridge::Fallback::kRefused));
}

/// Return the bytes that an existing copy lacks.
uint64
missing_bytes(Feed *feed)
{
	const MetaData *meta = feed->meta;
	uint64 rows = 0;
	uint64 delta_rows;
	uint64 other_bytes = 0; // structure, tombstones

	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		const SegmentEntry *segment = &meta->segments[i];
		const wire::SegmentState *state = feed_segment_state(feed, segment->id);

		if (state == nullptr || state->sealed == 0)
		{
			rows += segment->n_rows - (state != nullptr ? Min(state->n_rows, segment->n_rows) : 0);
			other_bytes += structure_bytes(feed, segment) + area_bytes(feed, segment);
		}
		if (segment->n_dead > 0 && (state == nullptr || state->tombstone_generation < segment->tombstone_generation))
			other_bytes += segment->n_rows / 8;
	}
	delta_rows = feed->delta_end - Min(feed->delta_end, Max(feed->copy.version.delta_end, meta->delta_first_row));
	return rows * (feed->segment_vector_bytes + sizeof(uint64)) +
		delta_rows * (feed->vector_bytes + feed->key_bytes + sizeof(uint64)) + other_bytes;
}

/// Return the number of rows that fit one request.
uint64
rows_per_request(const Feed *feed, Size vector_bytes)
{
	const Size per_row = sizeof(uint64) + vector_bytes;

	return Max(UINT64CONST(1), Min(kRowsPerRequest, (feed->capacity - sizeof(wire::RowsRequest)) / per_row));
}

bool
submit_rows(Feed *feed, wire::RequestType type, uint32 segment, uint64 position, uint64 n)
{
	const wire::RowsRequest rows = {position, segment, static_cast<uint32_t>(n)};
	const Size vector_bytes = segment == 0 ? feed->vector_bytes + feed->key_bytes : feed->segment_vector_bytes;
	const wire::Part parts[] = {{&rows, sizeof(rows)}, {feed->buffer, n * (sizeof(uint64) + vector_bytes)}};

	return feed_submit(feed, type, parts, lengthof(parts));
}

/// Read rows of a segment into the buffer in the layout of LOAD_ROWS. Returns false, and stops the feed, if pages were
/// recycled.
bool
read_segment_rows(Feed *feed, const SegmentEntry *segment, uint64 position, uint64 n)
{
	const Size vector_bytes = feed->segment_vector_bytes;

	(void) VG_FAULT("feed_segment");
	return (stream_read(feed->index, feed->meta, segment, StreamKind::kRowIds, position * sizeof(RowId),
				n * sizeof(RowId), feed->buffer, feed->strategy) &&
			   (vector_bytes == 0 ||
				   stream_read(feed->index, feed->meta, segment, StreamKind::kVectors, position * vector_bytes,
					   n * vector_bytes, feed->buffer + n * sizeof(RowId), feed->strategy))) ||
		feed_stop(feed, FeedResult::kStale, bridge::Fallback::kLoading);
}

/// Send rows of a segment from `position` on. While the worker takes one part, the next one is read.
bool
load_rows(Feed *feed, const SegmentEntry *segment, uint64 position)
{
	const uint64 step = rows_per_request(feed, feed->segment_vector_bytes);
	uint64 n = Min(step, segment->n_rows - position);

	if (n > 0 && !read_segment_rows(feed, segment, position, n))
		return false;
	while (n > 0)
	{
		const uint64 next = position + n;
		const uint64 n_next = Min(step, segment->n_rows - next);
		bool good;

		CHECK_FOR_INTERRUPTS();
		if (feed_past_deadline(feed))
			return feed_stop(feed, FeedResult::kMore, bridge::Fallback::kLoading);
		if (!submit_rows(feed, wire::RequestType::kLoadRows, segment->id, position, n))
			return false;
		good = n_next == 0 || read_segment_rows(feed, segment, next, n_next);
		if (!feed_receive(feed) || !good)
			return false;
		position = next;
		n = n_next;
	}
	return true;
}

bool
load_structure(Feed *feed, const SegmentEntry *segment, uint64 position)
{
	const uint64 end = structure_bytes(feed, segment);

	while (position < end)
	{
		const Size n = Min(feed->capacity - sizeof(wire::StructureRequest), end - position);
		const wire::StructureRequest structure = {
			position, segment->id, feed->structure->parameter(feed->meta, segment)};
		const wire::Part parts[] = {{&structure, sizeof(structure)}, {feed->buffer, n}};

		CHECK_FOR_INTERRUPTS();
		if (feed_past_deadline(feed))
			return feed_stop(feed, FeedResult::kMore, bridge::Fallback::kLoading);
		(void) VG_FAULT("feed_structure");
		if (!feed->structure->read(feed->index, feed->meta, segment, position, n, feed->buffer, feed->strategy))
			return feed_stop(feed, FeedResult::kStale, bridge::Fallback::kLoading);
		if (!feed_request(feed, wire::RequestType::kLoadStructure, parts, lengthof(parts)))
			return false;
		position += n;
	}
	return true;
}

bool
load_keys(Feed *feed, const SegmentEntry *segment, uint64 position)
{
	const uint64 end = segment->n_rows > 0 ? area_bytes(feed, segment) : 0;

	while (position < end)
	{
		const Size n = Min(feed->capacity - sizeof(wire::KeysRequest), end - position);
		const wire::KeysRequest keys = {position, segment->id, 0};
		const wire::Part parts[] = {{&keys, sizeof(keys)}, {feed->buffer, n}};

		CHECK_FOR_INTERRUPTS();
		if (feed_past_deadline(feed))
			return feed_stop(feed, FeedResult::kMore, bridge::Fallback::kLoading);
		(void) VG_FAULT("feed_keys");
		if (!key_read_area(feed->index, feed->meta, segment, position, n, feed->buffer, feed->strategy))
			return feed_stop(feed, FeedResult::kStale, bridge::Fallback::kLoading);
		if (!feed_request(feed, wire::RequestType::kLoadKeys, parts, lengthof(parts)))
			return false;
		position += n;
	}
	return true;
}

/// Send a segment. state: the part of it that the copy already has; null: nothing.
bool
load_segment(Feed *feed, const SegmentEntry *segment, const wire::SegmentState *state)
{
	const wire::SegmentRequest seal = {segment->id, 0, segment->n_rows};
	const wire::Part part = {&seal, sizeof(seal)};

	return load_rows(feed, segment, state != nullptr ? state->n_rows : 0) &&
		load_structure(feed, segment, state != nullptr ? state->structure_bytes : 0) &&
		load_keys(feed, segment, state != nullptr ? state->key_bytes : 0) &&
		feed_request(feed, wire::RequestType::kSeal, &part, 1);
}

bool
load_segments(Feed *feed)
{
	for (uint32 i = 0; i < feed->meta->n_segments; i++)
	{
		const SegmentEntry *segment = &feed->meta->segments[i];
		const wire::SegmentState *state = feed_segment_state(feed, segment->id);

		if (state == nullptr || state->sealed == 0)
			if (!load_segment(feed, segment, state))
				return false;
	}
	return true;
}

bool
send_delta_rows(Feed *feed, uint64 first, uint64 end)
{
	const uint64 step = rows_per_request(feed, feed->vector_bytes + feed->key_bytes);

	while (first < end)
	{
		const uint64 n = Min(step, end - first);

		CHECK_FOR_INTERRUPTS();
		if (feed_past_deadline(feed))
			return feed_stop(feed, FeedResult::kMore, bridge::Fallback::kLoading);
		(void) VG_FAULT("feed_delta");
		if (!delta_rows_read(feed->index, feed->meta, feed->key_bytes, first, n, feed->buffer))
			return feed_stop(feed, FeedResult::kStale, bridge::Fallback::kLoading);
		if (!submit_rows(feed, wire::RequestType::kAppend, 0, first, n) || !feed_receive(feed))
			return false;
		feed->outcome->delta_rows += n;
		first += n;
	}
	return true;
}

bool
publish(Feed *feed)
{
	const MetaData *meta = feed->meta;
	uint32_t ids[kMaxSegments];
	const wire::ManifestRequest manifest = {
		meta->manifest_generation, meta->tombstone_generation, meta->delta_first_row, meta->n_segments, 0};
	const wire::Part parts[] = {{&manifest, sizeof(manifest)}, {ids, meta->n_segments * sizeof(uint32_t)}};

	static_assert(kMaxSegments <= wire::kMaxSegmentsPerCopy);
	for (uint32 i = 0; i < meta->n_segments; i++)
		ids[i] = meta->segments[i].id;
	(void) VG_FAULT("feed_publish");
	return feed_request(feed, wire::RequestType::kManifest, parts, lengthof(parts));
}

bool
segments_missing(Feed *feed)
{
	for (uint32 i = 0; i < feed->meta->n_segments; i++)
	{
		const wire::SegmentState *state = feed_segment_state(feed, feed->meta->segments[i].id);

		if (state == nullptr || state->sealed == 0)
			return true;
	}
	return false;
}

/// True if the worker refuses a copy of this size even if it evicts all others.
bool
never_fits(uint64 n_bytes)
{
	uint64 most = static_cast<uint64>(bridge::settings.worker_memory_mb) << 20;

	if (bridge::worker_on_gpu())
	{
		if (bridge::settings.gpu_memory_mb == 0)
			return false; // only the worker knows how much memory the GPU has left
		most += static_cast<uint64>(bridge::settings.gpu_memory_mb) << 20;
	}
	return n_bytes > most;
}

bool
run(Feed *feed)
{
	const MetaData *meta = feed->meta;
	bool absent;
	bool fresh;
	bool lease;
	uint64 held_end;

	if (!feed_ask_state(feed, wire::RequestType::kDescribe, nullptr, 0, &absent))
		return false;
	fresh = absent || feed->copy.current == 0;
	if (fresh && load_bytes(feed) > feed->limits->load_bytes)
		return never_fits(load_bytes(feed)) ? feed_stop(feed, FeedResult::kFailed, bridge::Fallback::kTooLarge)
											: feed_stop(feed, FeedResult::kTooMuch, bridge::Fallback::kLoading);
	if (!fresh && missing_bytes(feed) > feed->limits->ship_bytes)
		return feed_stop(feed, FeedResult::kTooMuch, bridge::Fallback::kLoading);
	lease = fresh || segments_missing(feed) || feed->copy.version.manifest_generation < meta->manifest_generation ||
		feed->copy.version.tombstone_generation < meta->tombstone_generation;
	if (lease && !create(feed))
		return false;
	feed->outcome->made = fresh;
	held_end = feed->copy.version.delta_end;
	if (lease && !load_segments(feed))
		return false;
	// If a merge has taken rows out of the delta that the copy lacks, later rows can be sent only after the new
	// manifest.
	if (held_end >= meta->delta_first_row && !send_delta_rows(feed, held_end, feed->delta_end))
		return false;
	if (lease && !(send_tombstones(feed, held_end) && publish(feed)))
		return false;
	return held_end >= meta->delta_first_row || send_delta_rows(feed, meta->delta_first_row, feed->delta_end);
}

bool
feed_begin(Feed *feed, Relation index, const FeedLimits *limits, FeedOutcome *outcome)
{
	memset(feed, 0, sizeof(*feed));
	memset(outcome, 0, sizeof(*outcome));
	feed->index = index;
	feed->limits = limits;
	feed->outcome = outcome;
	feed->capacity = bridge::session_body_capacity();
	if (feed->capacity < wire::kMinAreaBytes / 2)
		return feed_stop(feed, FeedResult::kFailed, bridge::Fallback::kGone);
	(void) VG_FAULT("feed_buffer");
	feed->buffer = static_cast<char *>(palloc(feed->capacity));
	outcome->result = FeedResult::kDone;
	outcome->reason = bridge::Fallback::kLoading;
	return true;
}

void
set_shape(Feed *feed, const MetaData *meta)
{
	feed->vector_bytes = meta_vector_bytes(meta);
	feed->segment_vector_bytes = segment_vector_bytes(feed->structure, meta);
	feed->key_bytes = copy_key_bytes(feed->structure, meta);
	copy_key(feed->index, meta, &feed->key);
}

} // namespace

void
copy_key(Relation index, const MetaData *meta, wire::CopyKey *key)
{
	key->database = pg::file_database(pg::file_of(index));
	key->tablespace = pg::file_tablespace(pg::file_of(index));
	key->relfilenode = pg::file_number(pg::file_of(index));
	key->zero = 0;
	key->uuid_high = meta->uuid.high;
	key->uuid_low = meta->uuid.low;
}

uint64
copy_bytes(const MetaData *meta, uint64 delta_end)
{
	uint64 rows = delta_end - Min(delta_end, meta->delta_first_row);

	for (uint32 i = 0; i < meta->n_segments; i++)
		rows += meta->segments[i].n_rows;
	return rows * meta_vector_bytes(meta);
}

void
feed_copy(Relation index, const FeedLimits *limits, FeedOutcome *outcome)
{
	const MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "vectorgpu feed", ALLOCSET_SMALL_SIZES);
	const MemoryContext old = MemoryContextSwitchTo(context);
	Feed feed;
	bool foreign = false;

	if (feed_begin(&feed, index, limits, outcome))
	{
		feed.meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
		meta_read(index, nullptr, feed.meta);
		feed.delta_end = delta_end(index, feed.meta, &foreign);
		feed.structure = access_method(index, feed.meta)->worker_structure;
		set_shape(&feed, feed.meta);
		if (feed.meta->high_water > static_cast<BlockNumber>(NBuffers / 2))
			feed.strategy = GetAccessStrategy(BAS_BULKREAD);
		if (!worker_holds(access_method(index, feed.meta), feed.meta))
			feed_stop(&feed, FeedResult::kFailed, bridge::Fallback::kRefused);
		else if (foreign)
			feed_stop(&feed, FeedResult::kStale, bridge::Fallback::kLoading);
		else
			(void) run(&feed);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

bool
feed_delta(Relation index, const MetaData *meta, uint64 first, uint64 end, FeedOutcome *outcome)
{
	const FeedLimits limits = {0, 0, 0};
	Feed feed;
	bool sent = false;

	if (feed_begin(&feed, index, &limits, outcome))
	{
		feed.meta = const_cast<MetaData *>(meta);
		feed.structure = access_method(index, meta)->worker_structure;
		set_shape(&feed, meta);
		sent = send_delta_rows(&feed, first, end);
		pfree(feed.buffer);
	}
	return sent;
}

} // namespace vectorgpu::am

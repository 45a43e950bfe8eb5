// Sending tombstones to a copy. See feed_tombstones.hpp. PG dialect.
#include "am/feed/feed_tombstones.hpp"

#include "storage/delta.hpp"
#include "storage/stream.hpp"
#include "pg/fault.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

bool
send_bits(Feed *feed, uint32 segment, uint64 generation, uint64 first_bit, uint64 n_bits, bool last)
{
	const wire::TombstonesRequest tombstones = {
		generation, first_bit, static_cast<uint32_t>(n_bits), segment, last ? 1U : 0U, 0};
	const wire::Part parts[] = {{&tombstones, sizeof(tombstones)}, {feed->buffer, (n_bits + 7) / 8}};

	return feed_request(feed, wire::RequestType::kTombstones, parts, lengthof(parts));
}

/// Return the number of bits that fit one request, a multiple of 8.
uint64
bits_per_request(const Feed *feed)
{
	return (feed->capacity - sizeof(wire::TombstonesRequest)) / 8 * 64;
}

bool
send_segment_tombstones(Feed *feed, const SegmentEntry *segment)
{
	const uint64 step = bits_per_request(feed);

	for (uint64 bit = 0; bit < segment->n_rows; bit += step)
	{
		const uint64 n = Min(step, segment->n_rows - bit);

		CHECK_FOR_INTERRUPTS();
		(void) VG_FAULT("feed_tombstones");
		if (!stream_read(feed->index, feed->meta, segment, StreamKind::kTombstones, bit / 8, (n + 7) / 8, feed->buffer,
				feed->strategy))
			return feed_stop(feed, FeedResult::kStale, bridge::Fallback::kLoading);
		if (n % 8 != 0) // the last byte may also hold bits of NULL rows
			feed->buffer[n / 8] &= static_cast<char>((1 << (n % 8)) - 1);
		if (!send_bits(feed, segment->id, segment->tombstone_generation, bit, n, bit + n == segment->n_rows))
			return false;
	}
	return true;
}

/// Send the dead flags of delta rows that the copy already has.
bool
send_delta_tombstones(Feed *feed, uint64 first, uint64 end)
{
	const uint64 step = Min(kRowsPerRequest, feed->capacity / sizeof(uint64) / 2);
	uint64 *headers = static_cast<uint64 *>(palloc(step * sizeof(uint64)));

	while (first < end)
	{
		const uint64 n = Min(step, end - first);

		CHECK_FOR_INTERRUPTS();
		if (!delta_read(feed->index, feed->meta, first, n, headers, nullptr, 0))
			return feed_stop(feed, FeedResult::kStale, bridge::Fallback::kLoading);
		memset(feed->buffer, 0, (n + 7) / 8);
		for (uint64 i = 0; i < n; i++)
			if ((headers[i] & (kDeltaDead | kDeltaNull)) != 0)
				feed->buffer[i / 8] |= static_cast<char>(1 << (i % 8));
		if (!send_bits(feed, 0, feed->meta->tombstone_generation, first, n, first + n == end))
			return false;
		first += n;
	}
	pfree(headers);
	return true;
}

} // namespace

bool
send_tombstones(Feed *feed, uint64 held_end)
{
	const MetaData *meta = feed->meta;
	const uint64 delta_first = Max(meta->delta_first_row, feed->copy.delta_first);
	const uint64 had_to = Min(held_end, feed->delta_end);

	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		const SegmentEntry *segment = &meta->segments[i];
		const wire::SegmentState *state = feed_segment_state(feed, segment->id);

		if (segment->n_dead > 0 && segment->n_rows > 0 &&
			(state == nullptr || state->tombstone_generation < segment->tombstone_generation) &&
			!send_segment_tombstones(feed, segment))
			return false;
	}
	if (feed->copy.delta_tombstone_generation < meta->tombstone_generation && delta_first < had_to)
		return send_delta_tombstones(feed, delta_first, had_to);
	return true;
}

} // namespace vectorgpu::am

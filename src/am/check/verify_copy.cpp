// vectorgpu_check, the worker's copy: compares the checksums of its rows, tombstones and structures with the pages; the
// worker itself verifies the values it has derived from them. See verify_copy.hpp.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "am/check/verify_copy.hpp"

#include "am/method/am_interface.hpp"
#include "am/feed/copy_feed.hpp"
#include "am/feed/delta_rows.hpp"
#include "storage/delta.hpp"
#include "storage/key_stream.hpp"
#include "storage/stream.hpp"
#include "bridge/client_session.hpp"
#include "bridge/require.hpp"

#include <cstring>

extern "C"
{
#include "port/pg_bitutils.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kMaxStates = 2 * wire::kMaxSegmentsPerCopy;
constexpr uint64 kBlockBytes = 1024 * 1024; // bytes read at a time

struct CopyCheck
{
	Relation index;
	const MetaData *meta;
	wire::CopyKey key;
	Size vector_bytes;
	Size segment_vector_bytes;
	Size key_bytes;    // of the codes of a row of the delta; 0: the copy holds none
	uint64 block_rows; // a multiple of 8
	char *row_ids;     // [block_rows]
	char *vectors;     // [block_rows]
	uint8 *dead;       // [block_rows / 8]
	CheckResult *result;
};

/// Read rows [row, row + step) of the delta from the pages; dead [ceil(step / 8)]: the bits of dead rows.
bool
read_delta(const CopyCheck *check, uint64 row, uint64 step, uint8 *dead)
{
	uint64 *headers = reinterpret_cast<uint64 *>(check->row_ids);

	memset(check->vectors, 0, step * check->vector_bytes); // as the feed does
	memset(dead, 0, (step + 7) / 8);
	if (!delta_read(check->index, check->meta, row, step, headers, check->vectors, check->vector_bytes))
		return false;
	for (uint64 i = 0; i < step; i++)
	{
		if ((headers[i] & wire::kRowOut) != 0)
			dead[i / 8] |= static_cast<uint8>(1 << (i % 8));
		headers[i] &= kDeltaRowIdMask;
	}
	return true;
}

/// The same for a segment. row: a multiple of 8.
bool
read_segment(const CopyCheck *check, const SegmentEntry *segment, uint64 row, uint64 step, uint8 *dead)
{
	const Size vector_bytes = check->segment_vector_bytes;

	if (!stream_read(check->index, check->meta, segment, StreamKind::kRowIds, row * sizeof(RowId), step * sizeof(RowId),
			check->row_ids, nullptr) ||
		(vector_bytes > 0 &&
			!stream_read(check->index, check->meta, segment, StreamKind::kVectors, row * vector_bytes,
				step * vector_bytes, check->vectors, nullptr)))
		return false;
	// Read them even if the metapage copy counts none: the worker's copy may have newer ones.
	if (!stream_read(
			check->index, check->meta, segment, StreamKind::kTombstones, row / 8, (step + 7) / 8, dead, nullptr))
		return false;
	if (step % 8 != 0)
		dead[step / 8] &= static_cast<uint8>((1 << (step % 8)) - 1);
	return true;
}

/// Compute the checksums of rows [first, first + n) of a segment (null: of the delta) from the pages. Returns false if
/// pages were recycled.
bool
page_checksum(const CopyCheck *check, const SegmentEntry *segment, uint64 first, uint64 n, wire::ChecksumReply *sum)
{
	const Size vector_bytes = segment != nullptr ? check->segment_vector_bytes : check->vector_bytes;
	XXH3_state_t id_state;
	XXH3_state_t vector_state;
	XXH3_state_t dead_state;

	memset(sum, 0, sizeof(*sum));
	XXH3_64bits_reset(&id_state);
	XXH3_64bits_reset(&vector_state);
	XXH3_64bits_reset(&dead_state);
	for (uint64 done = 0; done < n;)
	{
		const uint64 step = Min(check->block_rows, n - done);
		const uint64 row = first + done;

		CHECK_FOR_INTERRUPTS();
		if (!(segment != nullptr ? read_segment(check, segment, row, step, check->dead)
								 : read_delta(check, row, step, check->dead)))
			return false;
		XXH3_64bits_update(&id_state, check->row_ids, step * sizeof(RowId));
		XXH3_64bits_update(&vector_state, check->vectors, step * vector_bytes);
		XXH3_64bits_update(&dead_state, check->dead, (step + 7) / 8);
		sum->n_dead += pg_popcount(reinterpret_cast<const char *>(check->dead), static_cast<int>((step + 7) / 8));
		done += step;
	}
	sum->row_ids_xxh3 = XXH3_64bits_digest(&id_state);
	sum->vectors_xxh3 = XXH3_64bits_digest(&vector_state);
	sum->dead_xxh3 = XXH3_64bits_digest(&dead_state);
	return true;
}

[[noreturn]] void
copy_differs(const CopyCheck *check, const SegmentEntry *segment, uint64 first, uint64 n, const char *what)
{
	ereport(ERROR,
		(errcode(ERRCODE_DATA_CORRUPTED),
			errmsg("the worker's copy of index \"%s\" differs from its pages", RelationGetRelationName(check->index)),
			segment != nullptr ? errdetail("In rows " UINT64_FORMAT " to " UINT64_FORMAT " of segment %u, %s differ.",
									 first, first + n - 1, segment->id, what)
							   : errdetail("In rows " UINT64_FORMAT " to " UINT64_FORMAT " of the delta, %s differ.",
									 first, first + n - 1, what),
			errhint("Drop the copy with vectorgpu_evict(); the index itself is intact.")));
	pg_unreachable();
}

/// Ask for the checksums of a part of the copy: of `what` as in wire::ChecksumRequest, of a segment or (null) of the
/// delta. Returns false if the copy has changed or gone meanwhile.
bool
copy_checksum(
	const CopyCheck *check, const SegmentEntry *segment, uint32 what, uint64 first, uint64 n, wire::ChecksumReply *copy)
{
	const wire::ChecksumRequest request = {segment != nullptr ? segment->id : 0, what, first, n};
	const wire::Part part = {&request, sizeof(request)};
	wire::ReplyHeader header;
	bridge::Fallback reason;

	if (!bridge::session_request(
			wire::RequestType::kChecksum, &check->key, &part, 1, &header, copy, sizeof(*copy), &reason))
		bridge::raise_fallback(reason);
	if (header.status == wire::ReplyStatus::kAbsent || header.status == wire::ReplyStatus::kInvalid)
		return false;
	if (header.status != wire::ReplyStatus::kOk)
		bridge::raise_fallback(bridge::fallback_of(header.status));
	return true;
}

/// Compare rows [first, first + n). Returns false if the copy has changed or gone meanwhile, so that there is nothing
/// left to compare. exact_dead: no vacuum is unfinished for the copy's tombstones, so they must be equal. first: a
/// multiple of 8 for a segment.
bool
check_range(CopyCheck *check, const SegmentEntry *segment, uint64 first, uint64 n, bool exact_dead)
{
	wire::ChecksumReply copy;
	wire::ChecksumReply pages;

	if (!copy_checksum(check, segment, 0, first, n, &copy))
		return false;
	if (!page_checksum(check, segment, first, n, &pages))
		return false;
	if (copy.row_ids_xxh3 != pages.row_ids_xxh3)
		copy_differs(check, segment, first, n, "row ids");
	if (copy.vectors_xxh3 != pages.vectors_xxh3)
		copy_differs(check, segment, first, n, "vectors");
	if (exact_dead ? copy.dead_xxh3 != pages.dead_xxh3 : copy.n_dead > pages.n_dead)
		copy_differs(check, segment, first, n, "tombstones");
	if (copy.n_different != 0)
		copy_differs(check, segment, first, n, "derived values");
	check->result->cache_rows_checked += n;
	return true;
}

bool
check_rows(CopyCheck *check, const SegmentEntry *segment, uint64 first, uint64 end, bool exact_dead)
{
	const uint64 step = Max(UINT64CONST(8), wire::kMaxChecksumBytes / check->vector_bytes / 16 * 8);

	for (uint64 row = first; row < end; row += step)
	{
		CHECK_FOR_INTERRUPTS();
		if (!check_range(check, segment, row, Min(step, end - row), exact_dead))
			return false;
	}
	return true;
}

/// Compare the description of a segment's structure. Returns false as check_range does.
bool
check_structure(CopyCheck *check, const SegmentEntry *segment)
{
	const WorkerStructure *structure = access_method(check->index, check->meta)->worker_structure;
	const Size step = check->block_rows * check->vector_bytes;
	uint64 end;

	if (structure == nullptr || segment->n_rows == 0)
		return true;
	end = structure->n_bytes(check->meta, segment);
	for (uint64 first = 0; first < end; first += step)
	{
		const Size n = Min(step, end - first);
		wire::ChecksumReply copy;

		CHECK_FOR_INTERRUPTS();
		if (!copy_checksum(check, segment, 1, first, n, &copy))
			return false;
		if (!structure->read(check->index, check->meta, segment, first, n, check->vectors, nullptr))
			return false;
		if (copy.vectors_xxh3 != XXH3_64bits(check->vectors, n))
			copy_differs(check, segment, 0, segment->n_rows, "structure");
	}
	return true;
}

/// Compare codes: bytes [first, first + n) of a segment's area, or (segment null) those of rows of the delta. pages:
/// what they should be, n_bytes. Returns false as check_range does.
bool
check_codes(
	const CopyCheck *check, const SegmentEntry *segment, uint64 first, uint64 n, const char *pages, Size n_bytes)
{
	wire::ChecksumReply copy;

	if (!copy_checksum(check, segment, 2, first, n, &copy))
		return false;
	if (copy.vectors_xxh3 != XXH3_64bits(pages, n_bytes) || copy.n_different != 0)
	{
		if (segment != nullptr)
			copy_differs(check, segment, 0, segment->n_rows, "codes of key columns");
		copy_differs(check, nullptr, first, n, "codes of key columns");
	}
	return true;
}

/// Compare the codes of a segment's rows.
bool
check_area(const CopyCheck *check, const SegmentEntry *segment)
{
	const uint64 end = check->key_bytes == 0 ? 0 : key_area_bytes(&check->meta->keys, segment->n_rows);
	char *area = static_cast<char *>(palloc(kBlockBytes));
	bool same = true;

	for (uint64 first = 0; first < end && same; first += kBlockBytes)
	{
		const uint64 n = Min(kBlockBytes, end - first);

		CHECK_FOR_INTERRUPTS();
		same = key_read_area(check->index, check->meta, segment, first, n, area, nullptr) &&
			check_codes(check, segment, first, n, area, n);
	}
	pfree(area);
	return same;
}

/// Compare the codes of rows [first, end) of the delta.
bool
check_delta_codes(const CopyCheck *check, uint64 first, uint64 end)
{
	const Size before = sizeof(uint64) + check->vector_bytes;
	const uint64 step = Max(UINT64CONST(1), kBlockBytes / (before + check->key_bytes));
	char *rows;
	bool same = true;

	if (check->key_bytes == 0)
		return true;
	rows = static_cast<char *>(palloc(step * (before + check->key_bytes)));
	for (uint64 row = first; row < end && same; row += step)
	{
		const uint64 n = Min(step, end - row);

		CHECK_FOR_INTERRUPTS();
		same = delta_rows_read(check->index, check->meta, check->key_bytes, row, n, rows) &&
			check_codes(check, nullptr, row, n, rows + n * before, n * check->key_bytes);
	}
	pfree(rows);
	return same;
}

bool
describe(const CopyCheck *check, wire::CopyState *state, wire::SegmentState *segments, uint32 *n_segments)
{
	char body[sizeof(wire::CopyState) + kMaxStates * sizeof(wire::SegmentState)];
	wire::ReplyHeader header;

	bridge::require_reply(wire::RequestType::kDescribe, &check->key, nullptr, 0, &header, body, sizeof(body));
	if (header.status == wire::ReplyStatus::kAbsent)
		return false;
	if (header.status != wire::ReplyStatus::kOk)
		bridge::raise_fallback(bridge::fallback_of(header.status));
	memcpy(state, body, sizeof(*state));
	*n_segments = Min(header.n_items, kMaxStates);
	memcpy(segments, body + sizeof(*state), *n_segments * sizeof(wire::SegmentState));
	return state->current != 0;
}

} // namespace

void
check_copy(Relation index, bool vacuum_excluded, CheckResult *result)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	CopyCheck check = {};
	wire::CopyState state;
	wire::SegmentState segments[kMaxStates];
	uint32 n_segments;
	bool foreign = false;
	bool exact;
	uint64 end;

	meta_read(index, nullptr, meta);
	if (!worker_holds(access_method(index, meta), meta))
		return; // there is no copy to compare
	end = delta_end(index, meta, &foreign);
	check.index = index;
	check.meta = meta;
	check.vector_bytes = meta_vector_bytes(meta);
	check.segment_vector_bytes = segment_vector_bytes(access_method(index, meta)->worker_structure, meta);
	check.key_bytes = copy_key_bytes(access_method(index, meta)->worker_structure, meta);
	check.block_rows = Max(UINT64CONST(8), kBlockBytes / (check.vector_bytes + sizeof(RowId)) / 8 * 8);
	check.row_ids = static_cast<char *>(palloc(check.block_rows * sizeof(RowId)));
	check.vectors = static_cast<char *>(palloc(check.block_rows * check.vector_bytes));
	check.dead = static_cast<uint8 *>(palloc(check.block_rows / 8));
	check.result = result;
	copy_key(index, meta, &check.key);
	if (foreign || !describe(&check, &state, segments, &n_segments))
		return;
	exact = vacuum_excluded && state.version.tombstone_generation == meta->tombstone_generation &&
		state.version.manifest_generation == meta->manifest_generation;
	for (uint32 i = 0; i < meta->n_segments; i++)
		for (uint32 j = 0; j < n_segments; j++)
			if (segments[j].segment == meta->segments[i].id && segments[j].sealed != 0 &&
				!(check_structure(&check, &meta->segments[i]) && // before the values derived from it
					check_area(&check, &meta->segments[i]) &&
					check_rows(&check, &meta->segments[i], 0, meta->segments[i].n_rows, exact)))
				return;
	if (check_rows(
			&check, nullptr, Max(meta->delta_first_row, state.delta_first), Min(end, state.version.delta_end), exact))
		(void) check_delta_codes(
			&check, Max(meta->delta_first_row, state.delta_first), Min(end, state.version.delta_end));
}

} // namespace vectorgpu::am

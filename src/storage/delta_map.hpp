// The place of a row in a list of chunks: arithmetic, no page access. There are two lists of rows of one size: the
// delta (delta.hpp for the layout) and the aliases (alias.hpp).
#pragma once

#include "storage/delta.hpp"

namespace vectorgpu::am
{

/// A list of rows of one size, in chunks of blocks. A row is a uint64 header and its body, padded to 8 bytes.
struct ChunkList
{
	IndexUuid uuid;
	PageRole role; // kDelta or kAlias
	uint64 first_row;
	Size row_bytes;
	Size body_bytes;
	const DeltaChunk *chunks; // [n_chunks] of the metapage
	uint32 n_chunks;
};

inline ChunkList
delta_list(const MetaData *meta)
{
	return {meta->uuid, PageRole::kDelta, meta->delta_first_row, delta_row_bytes(meta), delta_body_bytes(meta),
		meta->chunks, meta->n_chunks};
}

/// The place of a row's first byte (its header, 8-byte aligned, never across a page border).
struct DeltaPlace
{
	uint32 position; // page of the chunk
	Size offset;     // in that page's payload
};

inline uint64
chunk_capacity(const ChunkList &list, const DeltaChunk *chunk)
{
	return static_cast<uint64>(chunk->n_blocks) * kPayloadBytes / list.row_bytes;
}

inline DeltaPlace
delta_place(const ChunkList &list, const DeltaChunk *chunk, uint64 row)
{
	const uint64 byte = (row - chunk->first_row) * list.row_bytes;

	return {static_cast<uint32>(byte / kPayloadBytes), static_cast<Size>(byte % kPayloadBytes)};
}

/// Copy the bytes of a part of the row, `part` [part_bytes] from byte `at` on, that lie in bytes [from, from + n).
inline void
delta_copy_part(const char *part, Size at, Size part_bytes, Size from, Size n, char *out)
{
	const Size start = Max(from, at);
	const Size end = Min(from + n, at + part_bytes);

	if (part != nullptr && start < end)
		memcpy(out + (start - from), part + (start - at), end - start);
}

/// Error details.
constexpr const char *kTooManyRows = "The page counts more rows than it has room for.";
constexpr const char *kChunkGaps = "The chunks of the delta have gaps.";

/// Return the number of the first row that starts on page `position` of the chunk or on a later page.
inline uint64
delta_first_start(const ChunkList &list, const DeltaChunk *chunk, uint32 position)
{
	const uint64 row = (static_cast<uint64>(position) * kPayloadBytes + list.row_bytes - 1) / list.row_bytes;

	return chunk->first_row + Min(row, chunk_capacity(list, chunk));
}

/// Return the chunk that holds the row, or null.
inline const DeltaChunk *
delta_find_chunk(const ChunkList &list, uint64 row)
{
	for (uint32 i = list.n_chunks; i > 0; i--)
	{
		const DeltaChunk *chunk = &list.chunks[i - 1];

		if (row >= chunk->first_row)
			return row < chunk->first_row + chunk_capacity(list, chunk) ? chunk : nullptr;
	}
	return nullptr;
}

/// Return the number after the last row for which the chunks have room.
inline uint64
delta_room_end(const ChunkList &list)
{
	if (list.n_chunks == 0)
		return list.first_row;
	return list.chunks[list.n_chunks - 1].first_row + chunk_capacity(list, &list.chunks[list.n_chunks - 1]);
}

inline PageExpectation
delta_expect(const ChunkList &list, const DeltaChunk *chunk, uint32 position)
{
	return {list.uuid, list.role, StreamKind::kVectors, chunk->id, position};
}

// The same for the delta.

inline DeltaPlace
delta_place(const MetaData *meta, const DeltaChunk *chunk, uint64 row)
{
	return delta_place(delta_list(meta), chunk, row);
}

inline uint64
delta_first_start(const MetaData *meta, const DeltaChunk *chunk, uint32 position)
{
	return delta_first_start(delta_list(meta), chunk, position);
}

inline const DeltaChunk *
delta_find_chunk(const MetaData *meta, uint64 row)
{
	return delta_find_chunk(delta_list(meta), row);
}

inline uint64
delta_room_end(const MetaData *meta)
{
	return delta_room_end(delta_list(meta));
}

inline PageExpectation
delta_expect(const MetaData *meta, const DeltaChunk *chunk, uint32 position)
{
	return delta_expect(delta_list(meta), chunk, position);
}

/// Return the number of the first row of the list that is not visible. Reads a few pages. If one of them is foreign
/// (see page_read), sets *foreign, or raises 40001 if foreign is null.
uint64 list_end(Relation index, const ChunkList &list, bool *foreign);

/// Copy rows [first, first + n), all of which must exist: headers [n], and the first list.body_bytes of bodies [n] at
/// intervals of `stride` bytes unless bodies is null. Returns false if a page was foreign.
bool list_read(
	Relation index, const ChunkList &list, uint64 first, uint64 n, uint64 *headers, void *bodies, Size stride);

} // namespace vectorgpu::am

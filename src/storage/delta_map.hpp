// The place of a delta row: arithmetic over a chunk, no page access. See delta.hpp for the layout.
#pragma once

#include "storage/delta.hpp"

namespace vectorgpu::am
{

/// The place of a row's first byte (its header, 8-byte aligned, never across a page border).
struct DeltaPlace
{
	uint32 position; // page of the chunk
	Size offset;     // in that page's payload
};

inline DeltaPlace
delta_place(const MetaData *meta, const DeltaChunk *chunk, uint64 row)
{
	const uint64 byte = (row - chunk->first_row) * delta_row_bytes(meta);

	return {static_cast<uint32>(byte / kPayloadBytes), static_cast<Size>(byte % kPayloadBytes)};
}

/// Error detail for a page whose count of rows is too large.
constexpr const char *kTooManyRows = "The page counts more rows than it has room for.";

/// Return the number of the first row that starts on page `position` of the chunk or on a later page.
inline uint64
delta_first_start(const MetaData *meta, const DeltaChunk *chunk, uint32 position)
{
	const uint64 row_bytes = delta_row_bytes(meta);
	const uint64 row = (static_cast<uint64>(position) * kPayloadBytes + row_bytes - 1) / row_bytes;

	return chunk->first_row + Min(row, chunk_capacity(meta, chunk));
}

/// Return the chunk that holds the row, or null.
inline const DeltaChunk *
delta_find_chunk(const MetaData *meta, uint64 row)
{
	for (uint32 i = meta->n_chunks; i > 0; i--)
	{
		const DeltaChunk *chunk = &meta->chunks[i - 1];

		if (row >= chunk->first_row)
			return row < chunk->first_row + chunk_capacity(meta, chunk) ? chunk : nullptr;
	}
	return nullptr;
}

/// Return the number after the last row for which the chunks have room.
inline uint64
delta_room_end(const MetaData *meta)
{
	if (meta->n_chunks == 0)
		return meta->delta_first_row;
	return meta->chunks[meta->n_chunks - 1].first_row + chunk_capacity(meta, &meta->chunks[meta->n_chunks - 1]);
}

inline PageExpectation
delta_expect(const MetaData *meta, const DeltaChunk *chunk, uint32 position)
{
	return {meta->uuid, PageRole::kDelta, StreamKind::kVectors, chunk->id, position};
}

} // namespace vectorgpu::am

// How the codes of the key columns behind the first column lie: in a row of the delta, and behind the row ids of a
// segment. Arithmetic, no page access.
//
// Each key column has one or two streams of codes: unsigned integers of 1, 2, 4 or 8 bytes, little-endian
// (am/keys/README.md says how values become codes). NULL has no code: bit c of the row's flags says that column c is
// NULL.
//
// Image of a row: its codes, stream after stream, without padding, then the flags, a byte for each 8 columns.
// Area of n rows: for each stream [n] codes, then for each column [n] bits (1: NULL; row i is bit i % 8 of byte i / 8),
// each padded to 8 bytes.
#pragma once

extern "C"
{
#include "postgres.h"
}

#include <cstring>

namespace vectorgpu::am
{

constexpr uint32 kMaxKeyColumns = INDEX_MAX_KEYS - 1;
constexpr uint32 kMaxKeyStreams = 2 * kMaxKeyColumns;

struct KeyLayout
{
	uint8 n_columns; // 0: the index has its first column only
	uint8 n_streams;
	uint8 reserved[2];
	uint8 widths[kMaxKeyStreams];   // bytes of a stream's codes
	uint8 columns[kMaxKeyStreams];  // the key column of a stream, from 0 on
	uint32 formats[kMaxKeyColumns]; // what a column's codes are made of (key_format of am/keys)
};

/// Bytes of the image of a row.
inline Size
key_image_bytes(const KeyLayout *layout)
{
	Size bytes = (layout->n_columns + 7u) / 8;

	for (uint32 i = 0; i < layout->n_streams; i++)
		bytes += layout->widths[i];
	return bytes;
}

/// Where the flags begin in an image.
inline Size
key_flags_offset(const KeyLayout *layout)
{
	return key_image_bytes(layout) - (layout->n_columns + 7u) / 8;
}

/// Bytes of a column's NULL bits in an area of n rows.
inline Size
key_bits_bytes(uint64 n_rows)
{
	return (n_rows + 63) / 64 * 8;
}

/// Where the codes of a stream begin in an area of n rows; for n_streams: where the NULL bits begin.
inline Size
key_codes_offset(const KeyLayout *layout, uint64 n_rows, uint32 stream)
{
	Size offset = 0;

	for (uint32 i = 0; i < stream; i++)
		offset += MAXALIGN(n_rows * layout->widths[i]);
	return offset;
}

/// Where the NULL bits of a column begin in an area of n rows; for n_columns: the bytes of the area.
inline Size
key_nulls_offset(const KeyLayout *layout, uint64 n_rows, uint32 column)
{
	return key_codes_offset(layout, n_rows, layout->n_streams) + column * key_bits_bytes(n_rows);
}

inline Size
key_area_bytes(const KeyLayout *layout, uint64 n_rows)
{
	return key_nulls_offset(layout, n_rows, layout->n_columns);
}

/// True if the numbers can be those of an index.
inline bool
key_layout_valid(const KeyLayout *layout)
{
	if (layout->n_columns > kMaxKeyColumns || layout->n_streams < layout->n_columns ||
		layout->n_streams > 2u * layout->n_columns)
		return false;
	for (uint32 i = 0; i < layout->n_streams; i++)
		if (layout->columns[i] >= layout->n_columns ||
			(layout->widths[i] != 1 && layout->widths[i] != 2 && layout->widths[i] != 4 && layout->widths[i] != 8))
			return false;
	return true;
}

} // namespace vectorgpu::am

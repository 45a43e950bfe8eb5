// Edit distances of many texts to one pattern. A text is the codes of its characters, all as wide as the widest one
// needs. Plain structs over the caller's memory (run_builder.hpp), so that an ERROR may leave a backend's frame between
// two calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/limits.hpp"
#include "engine/match/edit_distance.hpp"
#include "engine/match/element_set.hpp"
#include "engine/match/gram_bound.hpp"
#include "engine/match/run_builder.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine::match
{

/// data [n * width bytes]: codes of n characters, of width 1, 2 or 4 bytes each.
struct TextView
{
	const uint8_t *data;
	uint64_t n;
	uint32_t width;
};

/// The bytes that a character of codes [n] needs: 1, 2 or 4.
uint32_t text_width(const uint32_t *codes, uint64_t n);

/// The code of character i.
inline uint32_t
text_code(const TextView &text, uint64_t i)
{
	const uint8_t *at = text.data + i * text.width;
	uint16_t half;
	uint32_t word;

	if (text.width == 1)
		return *at;
	if (text.width == 2)
	{
		memcpy(&half, at, sizeof(half));
		return half;
	}
	memcpy(&word, at, sizeof(word));
	return word;
}

/// The payload of a stored value that is a text: one byte, the width, and the codes.
inline size_t
text_payload_bytes(uint64_t n, uint32_t width)
{
	return 1 + static_cast<size_t>(n) * width;
}

void put_text_payload(uint8_t *out, const uint32_t *codes, uint64_t n, uint32_t width);

/// False if the value's payload is not a text of `size` characters.
bool open_text_payload(const Parts &value, TextView *text);

/// By row: the end of the row's text among all texts, and its width, in one number. The text begins where the one
/// before ends.
constexpr int kTextWidthShift = 48;

inline uint64_t
text_item(uint64_t end, uint32_t width)
{
	return end | static_cast<uint64_t>(width) << kTextWidthShift;
}

inline uint64_t
text_end(uint64_t item)
{
	return item & ((uint64_t{1} << kTextWidthShift) - 1);
}

inline uint32_t
text_item_width(uint64_t item)
{
	return static_cast<uint32_t>(item >> kTextWidthShift);
}

/// False if no text that begins at `start` can end as the item says.
inline bool
text_item_valid(uint64_t start, uint64_t item)
{
	const uint64_t end = text_end(item);
	const uint32_t width = text_item_width(item);

	return (width == 1 || width == 2 || width == 4) && end >= start && ((end - start) & (width - 1)) == 0;
}

/// Characters of a text whose item is valid. Without a division: searches compute it for every row.
inline uint64_t
text_item_size(uint64_t start, uint64_t item)
{
	return (text_end(item) - start) >> (text_item_width(item) >> 1);
}

/// The payload of a query by edit distance: a uint32, n of the n-grams, and the codes of its characters, a uint32 each.
inline size_t
gram_payload_bytes(uint64_t n_characters)
{
	return sizeof(uint32_t) * (1 + static_cast<size_t>(n_characters));
}

/// False if the query has no such payload. *codes: `query->size` characters, perhaps not aligned.
bool open_gram_query(const Parts &parts, GramQuery *query, const uint8_t **codes);

/// A prepared query.
struct TextPattern
{
	Memory memory;
	int64_t n;          // characters
	uint32_t n_symbols; // different characters, numbered from 0 in order of appearance
	uint32_t *symbols;  // [n] numbers
	uint32_t mask;      // of the table of characters, by open addressing
	uint32_t *codes;    // [mask + 1]
	uint32_t *numbers;  // [mask + 1] number + 1, 0 where free
	// [n_symbols + 1], for patterns of at most kTextWord characters. Bit i: character i is this one; the last item is
	// 0.
	uint64_t *places;
	uint32_t byte_numbers[256]; // of characters below 256; n_symbols: not in the pattern
	uint64_t byte_places[256];
	uint32_t *row_symbols; // [row_capacity] for patterns of more than kTextWord characters
	uint64_t row_capacity;
	void *scratch; // of edit_distance, for texts of row_capacity
};

/// codes [n], perhaps not aligned.
void text_pattern_init(TextPattern *pattern, Memory memory, const void *codes, int64_t n);
void text_pattern_free(TextPattern *pattern);

/// The edit distance of the pattern and a text if it is at most `most`, else some number above `most`. A pattern of up
/// to kTextWord characters takes Myers' bit vectors in one word, and stops as soon as no result up to `most` is
/// possible; a longer one takes edit_distance.
int64_t text_distance(TextPattern *pattern, const TextView &text, int64_t most, Poll poll);

/// Offer a row with its edit distance, computed only as far as the selection needs it.
void offer_text(TopK *topk, TextPattern *pattern, const TextView &text, RowId row, Poll poll);

} // namespace vectorgpu::engine::match

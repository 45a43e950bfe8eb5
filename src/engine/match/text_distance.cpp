// See text_distance.hpp.
#include "engine/match/text_distance.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::engine::match
{

namespace
{

constexpr double kUnbounded = 0x1p60; // no text is as long
constexpr uint32_t kBytes = 256;
constexpr int64_t kColumnsPerLook = 16;      // between two comparisons with the bound
constexpr int64_t kColumnsPerPoll = 1 << 16; // some hundred microseconds

uint32_t
slot_of(const TextPattern *pattern, uint32_t code)
{
	uint32_t slot = (code * 0x9E3779B1u) >> 7 & pattern->mask;

	while (pattern->numbers[slot] != 0 && pattern->codes[slot] != code)
		slot = (slot + 1) & pattern->mask;
	return slot;
}

/// n_symbols for a character that the pattern does not have.
uint32_t
number_of(const TextPattern *pattern, uint32_t code)
{
	if (code < kBytes)
		return pattern->byte_numbers[code];

	const uint32_t number = pattern->numbers[slot_of(pattern, code)];

	return number == 0 ? pattern->n_symbols : number - 1;
}

template <typename Code>
uint32_t
code_at(const uint8_t *data, int64_t i)
{
	Code code;

	memcpy(&code, data + static_cast<size_t>(i) * sizeof(Code), sizeof(Code));
	return code;
}

/// The pattern has 1 to 64 characters.
template <typename Code>
int64_t
short_distance(const TextPattern *pattern, const uint8_t *text, int64_t n, int64_t most, Poll poll)
{
	const int last = static_cast<int>(pattern->n - 1);
	uint64_t plus = ~uint64_t{0};
	uint64_t minus = 0;
	int64_t distance = pattern->n;

	for (int64_t i = 0; i < n;)
	{
		const int64_t end = std::min(i + kColumnsPerLook, n);

		for (; i < end; i++)
		{
			const uint32_t code = code_at<Code>(text, i);
			const uint64_t equal =
				sizeof(Code) == 1 ? pattern->byte_places[code] : pattern->places[number_of(pattern, code)];
			const uint64_t vertical = equal | minus;
			const uint64_t horizontal = (((equal & plus) + plus) ^ plus) | equal;
			uint64_t up = minus | ~(horizontal | plus);
			uint64_t down = plus & horizontal;

			distance += static_cast<int64_t>(up >> last & 1) - static_cast<int64_t>(down >> last & 1);
			up = up << 1 | 1;
			down <<= 1;
			plus = down | ~(vertical | up);
			minus = up & vertical;
		}
		// Each further character lowers it by at most one.
		if (distance - (n - i) > most)
			return distance - (n - i);
		if (i % kColumnsPerPoll == 0 && !keep_going(poll))
			return INT64_MAX;
	}
	return distance;
}

template <typename Code>
void
number_text(const TextPattern *pattern, const TextView &text, uint32_t *symbols)
{
	for (uint64_t i = 0; i < text.n; i++)
		symbols[i] = number_of(pattern, code_at<Code>(text.data, static_cast<int64_t>(i)));
}

int64_t
long_distance(TextPattern *pattern, const TextView &text, int64_t most, Poll poll)
{
	const Memory &memory = pattern->memory;
	const uint32_t n_symbols = pattern->n_symbols + 1;

	if (text.n > pattern->row_capacity || pattern->scratch == nullptr)
	{
		const uint64_t capacity = std::max<uint64_t>(2 * text.n, 256);
		const int64_t longer = std::max(static_cast<int64_t>(capacity), pattern->n);

		pattern->row_symbols =
			static_cast<uint32_t *>(memory.resize(memory.context, pattern->row_symbols, capacity * sizeof(uint32_t)));
		pattern->scratch = memory.resize(memory.context, pattern->scratch, edit_distance_memory(longer, n_symbols));
		pattern->row_capacity = capacity;
	}
	if (text.width == 1)
		number_text<uint8_t>(pattern, text, pattern->row_symbols);
	else if (text.width == 2)
		number_text<uint16_t>(pattern, text, pattern->row_symbols);
	else
		number_text<uint32_t>(pattern, text, pattern->row_symbols);
	return edit_distance({pattern->symbols, pattern->n}, {pattern->row_symbols, static_cast<int64_t>(text.n)},
		n_symbols, pattern->scratch, most, poll);
}

} // namespace

uint32_t
text_width(const uint32_t *codes, uint64_t n)
{
	uint32_t all = 0;

	for (uint64_t i = 0; i < n; i++)
		all |= codes[i];
	return all <= UINT8_MAX ? 1 : all <= UINT16_MAX ? 2 : 4;
}

void
put_text_payload(uint8_t *out, const uint32_t *codes, uint64_t n, uint32_t width)
{
	*out++ = static_cast<uint8_t>(width);
	for (uint64_t i = 0; i < n; i++, out += width)
	{
		const uint8_t byte = static_cast<uint8_t>(codes[i]);
		const uint16_t half = static_cast<uint16_t>(codes[i]);

		memcpy(out,
			width == 1       ? static_cast<const void *>(&byte)
				: width == 2 ? static_cast<const void *>(&half)
							 : &codes[i],
			width);
	}
}

bool
open_text_payload(const Parts &value, TextView *text)
{
	if (value.payload_bytes < 1)
		return false;

	const uint32_t width = value.payload[0];

	if ((width != 1 && width != 2 && width != 4) || (value.payload_bytes - 1) % width != 0 ||
		(value.payload_bytes - 1) / width != value.size)
		return false;
	*text = {value.payload + 1, value.size, width};
	return true;
}

bool
open_gram_query(const Parts &parts, GramQuery *query, const uint8_t **codes)
{
	uint32_t n;

	if (parts.payload_bytes < sizeof(n) || (parts.payload_bytes - sizeof(n)) % sizeof(uint32_t) != 0 ||
		(parts.payload_bytes - sizeof(n)) / sizeof(uint32_t) != parts.size)
		return false;
	memcpy(&n, parts.payload, sizeof(n));
	if (n < 1 || n > kMostGramLength)
		return false;
	*query = {static_cast<int64_t>(parts.size), n};
	*codes = parts.payload + sizeof(n);
	return true;
}

void
text_pattern_init(TextPattern *pattern, Memory memory, const void *codes, int64_t n)
{
	const auto allocate = [&](uint64_t n_items, size_t item_bytes)
	{ return memory.resize(memory.context, nullptr, static_cast<size_t>(n_items) * item_bytes); };
	uint64_t size = 16;

	*pattern = TextPattern{};
	pattern->memory = memory;
	while (size < 2 * static_cast<uint64_t>(n) && size < uint64_t{1} << 31)
		size *= 2;
	pattern->mask = static_cast<uint32_t>(size - 1);
	pattern->n = n;
	pattern->symbols =
		static_cast<uint32_t *>(allocate(static_cast<uint64_t>(std::max<int64_t>(n, 1)), sizeof(uint32_t)));
	pattern->codes = static_cast<uint32_t *>(allocate(size, sizeof(uint32_t)));
	pattern->numbers = static_cast<uint32_t *>(allocate(size, sizeof(uint32_t)));
	memset(pattern->numbers, 0, size * sizeof(uint32_t));
	for (int64_t i = 0; i < n; i++)
	{
		const uint32_t code = code_at<uint32_t>(static_cast<const uint8_t *>(codes), i);
		const uint32_t slot = slot_of(pattern, code);

		if (pattern->numbers[slot] == 0)
		{
			pattern->codes[slot] = code;
			pattern->numbers[slot] = ++pattern->n_symbols;
		}
		pattern->symbols[i] = pattern->numbers[slot] - 1;
	}
	pattern->places = static_cast<uint64_t *>(allocate(uint64_t{pattern->n_symbols} + 1, sizeof(uint64_t)));
	memset(pattern->places, 0, (size_t{pattern->n_symbols} + 1) * sizeof(uint64_t));
	for (int64_t i = 0; i < std::min(n, kTextWord); i++)
		pattern->places[pattern->symbols[i]] |= uint64_t{1} << i;
	for (uint32_t code = 0; code < kBytes; code++)
	{
		const uint32_t number = pattern->numbers[slot_of(pattern, code)];

		pattern->byte_numbers[code] = number == 0 ? pattern->n_symbols : number - 1;
		pattern->byte_places[code] = pattern->places[pattern->byte_numbers[code]];
	}
}

void
text_pattern_free(TextPattern *pattern)
{
	const Memory memory = pattern->memory;

	for (void *piece : {static_cast<void *>(pattern->symbols), static_cast<void *>(pattern->codes),
			 static_cast<void *>(pattern->numbers), static_cast<void *>(pattern->places),
			 static_cast<void *>(pattern->row_symbols), pattern->scratch})
		if (piece != nullptr)
			(void) memory.resize(memory.context, piece, 0);
	*pattern = TextPattern{};
}

int64_t
text_distance(TextPattern *pattern, const TextView &text, int64_t most, Poll poll)
{
	const int64_t n = static_cast<int64_t>(text.n);
	const int64_t by_length = n > pattern->n ? n - pattern->n : pattern->n - n;

	if (by_length > most || pattern->n == 0 || n == 0)
		return by_length;
	if (pattern->n > kTextWord)
		return long_distance(pattern, text, most, poll);
	if (text.width == 1)
		return short_distance<uint8_t>(pattern, text.data, n, most, poll);
	return text.width == 2 ? short_distance<uint16_t>(pattern, text.data, n, most, poll)
						   : short_distance<uint32_t>(pattern, text.data, n, most, poll);
}

void
offer_text(TopK *topk, TextPattern *pattern, const TextView &text, RowId row, Poll poll)
{
	const bool bounded = topk->full && topk->threshold.score < kUnbounded;
	const int64_t most = bounded ? static_cast<int64_t>(topk->threshold.score) : static_cast<int64_t>(kUnbounded);
	const int64_t distance = text_distance(pattern, text, most, poll);
	const double score = static_cast<double>(distance);

	if (distance > most)
		return;
	topk_push(topk, &score, &row, 1, nullptr, 0);
	if (topk->full ? topk->size > topk->k + topk->k / 4 : topk->size >= topk->k)
		topk_tighten(topk);
}

} // namespace vectorgpu::engine::match

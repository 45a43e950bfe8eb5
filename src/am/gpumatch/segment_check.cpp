// vectorgpu_check of a segment of gpumatch: sizes, dictionary, lists; deep: that the lists hold exactly the elements of
// the values. See segment_format.hpp. PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "engine/match/tile_lists.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace vectorgpu::am
{

namespace
{

using engine::match::Key;

struct SegmentCheck
{
	Relation index;
	const MetaData *meta;
	const SegmentEntry *segment;
	BufferAccessStrategy strategy;
	uint64 pairs; // sum over all (key, row) of their hashes: does not depend on their order
	uint64 n_pairs;
};

uint64
bytes_of(const SegmentEntry *segment, StreamKind kind)
{
	return segment->streams[static_cast<int>(kind)].n_bytes;
}

void
require(const SegmentCheck *check, bool holds, StreamKind kind, const char *what)
{
	if (!holds)
		page_corrupted(check->index, check->segment->streams[static_cast<int>(kind)].start_block,
			psprintf("Segment %u: %s", check->segment->id, what));
}

void
read(const SegmentCheck *check, StreamKind kind, uint64 offset, Size n_bytes, void *dest)
{
	if (!stream_read(check->index, check->meta, check->segment, kind, offset, n_bytes, dest, check->strategy))
		page_recycled(check->index, check->segment->streams[static_cast<int>(kind)].start_block);
}

/// Combines the hash of a key with a row.
uint64
pair_hash(uint64 key_hash, uint32 row)
{
	uint64 hash = (key_hash ^ row) * UINT64CONST(0xFF51AFD7ED558CCD);

	hash ^= hash >> 32;
	return hash * UINT64CONST(0xC4CEB9FE1A85EC53);
}

void
check_ends(SegmentCheck *check)
{
	uint64 items[kPayloadBytes / sizeof(uint64)];
	uint64 last = 0;

	for (uint64 row = 0; row < check->segment->n_rows; row += lengthof(items))
	{
		const uint64 n = Min(static_cast<uint64>(lengthof(items)), check->segment->n_rows - row);

		CHECK_FOR_INTERRUPTS();
		read(check, kValueEnds, row * sizeof(uint64), n * sizeof(uint64), items);
		for (uint64 i = 0; i < n; i++)
		{
			require(check, value_end(items[i]) > last, kValueEnds, "The ends of the values are out of order.");
			last = value_end(items[i]);
		}
	}
	require(check, last == bytes_of(check->segment, StreamKind::kVectors), kValueEnds,
		"The values do not end where their stream does.");
}

void
check_text_items(SegmentCheck *check)
{
	const uint64 n_items = bytes_of(check->segment, kTextItems) / sizeof(uint64);
	uint64 items[kPayloadBytes / sizeof(uint64)];
	uint64 last = 0;

	for (uint64 row = 0; row < n_items; row += lengthof(items))
	{
		const uint64 n = Min(static_cast<uint64>(lengthof(items)), n_items - row);

		CHECK_FOR_INTERRUPTS();
		read(check, kTextItems, row * sizeof(uint64), n * sizeof(uint64), items);
		for (uint64 i = 0; i < n; i++)
		{
			require(check, engine::match::text_item_valid(last, items[i]), kTextItems,
				"The ends of the texts are out of order.");
			last = engine::match::text_end(items[i]);
		}
	}
	require(
		check, last == bytes_of(check->segment, kTexts), kTextItems, "The texts do not end where their stream does.");
}

/// Checks that the text of a row is that of its value. A value made of the text is another one if the text's characters
/// are none of the server's encoding, or are wider than they need.
void
check_text(SegmentCheck *check, uint64 row, const engine::match::Parts &parts, ValueBuffer *buffer)
{
	engine::match::TextView of_value;
	engine::match::TextView text;

	require(check, engine::match::open_text_payload(parts, &of_value),
		match_has_values(check->segment) ? StreamKind::kVectors : kTexts,
		psprintf("Value " UINT64_FORMAT ": It has no text.", row));
	if (!match_read_text(check->index, check->meta, check->segment, row, buffer, &text, check->strategy))
		page_recycled(check->index, check->segment->streams[static_cast<int>(kTexts)].start_block);
	require(check,
		text.width == of_value.width && text.n == of_value.n &&
			memcmp(text.data, of_value.data, text.n * text.width) == 0,
		kTexts, "A row has another text than its value.");
}

/// Checks items [first, last) of a key's list, each a row less first_row: rows ascend and exist. *before: the last row
/// before them, or -1.
template <typename Item>
void
check_rows(SegmentCheck *check, uint64 key_hash, uint64 first, uint64 last, uint64 first_row, int64 *before)
{
	const StreamKind lists = match_lists(check->segment);
	Item items[kPayloadBytes / sizeof(Item)];

	for (uint64 at = first; at < last; at += lengthof(items))
	{
		const uint64 n = Min(static_cast<uint64>(lengthof(items)), last - at);

		CHECK_FOR_INTERRUPTS();
		read(check, lists, at * sizeof(Item), n * sizeof(Item), items);
		for (uint64 i = 0; i < n; i++)
		{
			const uint64 row = first_row + items[i];

			require(check, static_cast<int64>(row) > *before && row < check->segment->n_rows, lists,
				"The rows of a key are out of order.");
			*before = static_cast<int64>(row);
			check->pairs += pair_hash(key_hash, static_cast<uint32>(row));
			check->n_pairs++;
		}
	}
}

/// Checks the list of one key: rows ascend and exist, tiles ascend and are whole.
void
check_list(SegmentCheck *check, uint64 key_hash, uint64 first, uint64 last)
{
	constexpr uint64 kHead = engine::match::kTileHeadItems;
	uint64 least_tile = 0;
	int64 before = -1;

	require(check, first < last, kDictionary, "A key has no rows.");
	if (match_lists(check->segment) == kPostings)
		return check_rows<uint32>(check, key_hash, first, last, 0, &before);
	while (first < last)
	{
		uint16 head[kHead];

		require(check, last - first > kHead, kTileLists, "A list ends within a tile.");
		read(check, kTileLists, first * sizeof(uint16), sizeof(head), head);
		require(check, head[0] >= least_tile, kTileLists, "The tiles of a list are out of order.");
		require(check, last - first - kHead > head[1], kTileLists, "A list ends within a tile.");
		first += kHead;
		check_rows<uint16>(check, key_hash, first, first + head[1] + 1, head[0] * engine::match::kTileRows, &before);
		first += head[1] + UINT64CONST(1);
		least_tile = head[0] + UINT64CONST(1);
	}
}

void
check_dictionary(SegmentCheck *check)
{
	const uint64 n_keys = bytes_of(check->segment, kDictionary) / sizeof(DictionaryEntry);
	const StreamKind lists = match_lists(check->segment);
	DictionaryEntry before = {0, 0, 0};
	ValueBuffer keys[2] = {};
	Size last_size = 0;

	for (uint64 code = 0; code < n_keys; code++)
	{
		ValueBuffer *own = &keys[code % 2];
		DictionaryEntry entry;
		Size size;
		Key key;

		read(check, kDictionary, code * sizeof(entry), sizeof(entry), &entry);
		require(check,
			entry.key_end >= before.key_end && entry.key_end <= bytes_of(check->segment, kKeyBytes) &&
				entry.postings_end >= before.postings_end &&
				entry.postings_end <= bytes_of(check->segment, lists) / match_list_item_bytes(lists),
			kDictionary, "An entry of the dictionary is out of range.");
		size = entry.key_end - before.key_end;
		value_reserve(own, Max(size, Size(1)));
		read(check, kKeyBytes, before.key_end, size, own->data);
		key = {reinterpret_cast<const uint8 *>(own->data), size};
		require(check, entry.prefix == engine::match::key_prefix(key), kDictionary,
			"An entry of the dictionary has another prefix than its key.");
		require(check,
			code == 0 ||
				engine::match::key_compare(
					{reinterpret_cast<const uint8 *>(keys[(code + 1) % 2].data), last_size}, key) < 0,
			kKeyBytes, "The keys are out of order.");
		check_list(check, XXH3_64bits(key.data, key.size), before.postings_end, entry.postings_end);
		before = entry;
		last_size = size;
	}
	require(check, before.key_end == bytes_of(check->segment, kKeyBytes), kDictionary,
		"The keys do not end where their stream does.");
	require(check, before.postings_end * match_list_item_bytes(lists) == bytes_of(check->segment, lists), kDictionary,
		"The lists do not end where their stream does.");
	for (ValueBuffer &buffer : keys)
		if (buffer.data != nullptr)
			pfree(buffer.data);
}

/// Checks that every value is intact, and that the lists have exactly the elements of the values.
void
check_values(SegmentCheck *check)
{
	const bool has_texts = match_options(check->meta->am_options).has_texts != 0;
	const bool has_values = match_has_values(check->segment);
	const StreamKind kind = has_values ? StreamKind::kVectors : kTexts;
	ValueBuffer value = {nullptr, 0};
	ValueBuffer text = {nullptr, 0};
	uint64 pairs = 0;
	uint64 n_pairs = 0;

	for (uint64 row = 0; row < check->segment->n_rows; row++)
	{
		engine::match::Parts parts;
		engine::match::ElementReader reader;
		const char *problem;
		uint64 item;
		Key key;

		CHECK_FOR_INTERRUPTS();
		if (!kMatchValues.read_value(check->index, check->meta, check->segment, row, &value, check->strategy))
			page_recycled(check->index, check->segment->streams[static_cast<int>(kind)].start_block);
		problem = kMatchValues.check(value.data);
		if (problem != nullptr)
			require(check, false, kind, psprintf("Value " UINT64_FORMAT ": %s", row, problem));
		(void) engine::match::open_parts(
			value.data + sizeof(uint32), stored_bytes(value.data) - sizeof(uint32), &parts);
		if (has_values)
		{
			read(check, kValueEnds, row * sizeof(uint64), sizeof(item), &item);
			require(check, value_size(item) == Min(parts.size, kMaxValueSize), kValueEnds, "A value has another size.");
		}
		if (has_texts)
			check_text(check, row, parts, &text);
		reader = engine::match::read_elements(parts);
		while (engine::match::next_element(&reader, &key))
		{
			pairs += pair_hash(XXH3_64bits(key.data, key.size), static_cast<uint32>(row));
			n_pairs++;
		}
	}
	require(check, pairs == check->pairs && n_pairs == check->n_pairs, match_lists(check->segment),
		"The lists do not hold the elements of the values.");
	for (ValueBuffer *buffer : {&value, &text})
		if (buffer->data != nullptr)
			pfree(buffer->data);
}

} // namespace

const char *
match_check_entry(const MetaData *meta, const SegmentEntry *segment)
{
	const uint8 has_texts = match_options(meta->am_options).has_texts;

	if (has_texts > 1)
		return "The metapage does not say whether there are texts.";
	if (bytes_of(segment, kValueEnds) != segment->n_rows * sizeof(uint64) &&
		(has_texts == 0 || match_has_values(segment) || bytes_of(segment, StreamKind::kVectors) != 0))
		return "Values and their ends differ in number.";
	if (segment->n_rows > PG_UINT32_MAX)
		return "It has more rows than lists can name.";
	if (bytes_of(segment, kDictionary) % sizeof(DictionaryEntry) != 0)
		return "The dictionary ends within an entry.";
	if (bytes_of(segment, kPostings) % sizeof(uint32) != 0 || bytes_of(segment, kTileLists) % sizeof(uint16) != 0)
		return "The lists end within a row.";
	if (bytes_of(segment, kPostings) != 0 && bytes_of(segment, kTileLists) != 0)
		return "It has lists of two formats.";
	if (bytes_of(segment, kTextItems) != (has_texts != 0 ? segment->n_rows * sizeof(uint64) : 0))
		return "Texts and their ends differ in number.";
	if (bytes_of(segment, kTextItems) == 0 && bytes_of(segment, kTexts) != 0)
		return "It has texts, but no rows for them.";
	for (uint32 kind = static_cast<uint32>(kTileLists) + 1; kind < kMaxStreams; kind++)
		if (segment->streams[kind].n_bytes != 0)
			return "It has an unexpected stream.";
	return nullptr;
}

void
match_check(Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy)
{
	SegmentCheck check = {index, meta, segment, strategy, 0, 0};

	if (match_has_values(segment))
		check_ends(&check);
	check_text_items(&check);
	check_dictionary(&check);
	if (deep)
		check_values(&check);
}

} // namespace vectorgpu::am

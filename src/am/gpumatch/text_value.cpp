// Texts in stored values and queries: the characters themselves, so that edit distances come from the index alone
// (engine/match/text_distance.hpp). PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "am/gpumatch/match_memory.hpp"
#include "types/match/characters.hpp"

namespace vectorgpu::am
{

namespace
{

/// codes [*n], palloc'd.
uint32 *
codes_of(Datum datum, int32 *n)
{
	const text *value = DatumGetTextPP(datum);
	const types::Characters characters = types::characters_of(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

	*n = characters.n;
	return types::character_codes(characters);
}

/// The text of these characters, palloc'd; null if no text is as long.
text *
text_of(const engine::match::TextView &view)
{
	Size n_bytes = VARHDRSZ;
	text *value;
	char *out;

	for (uint64 i = 0; i < view.n; i++)
		n_bytes += types::character_bytes(engine::match::text_code(view, i));
	if (n_bytes > MaxAllocSize)
		return nullptr;
	value = static_cast<text *>(palloc(n_bytes));
	SET_VARSIZE(value, n_bytes);
	out = VARDATA(value);
	for (uint64 i = 0; i < view.n; i++)
		out = types::put_character(out, engine::match::text_code(view, i));
	return value;
}

} // namespace

bool
match_read_text(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *buffer,
	engine::match::TextView *text, BufferAccessStrategy strategy)
{
	const StreamEntry *streams = segment->streams;
	const uint64 before = n > 0 ? 1 : 0;
	uint64 items[2] = {0, 0};
	uint64 start;
	Size n_bytes;

	if (!stream_read(index, meta, segment, kTextItems, (n - before) * sizeof(uint64), (1 + before) * sizeof(uint64),
			&items[1 - before], strategy))
		return false;
	start = engine::match::text_end(items[0]);
	if (!engine::match::text_item_valid(start, items[1]) ||
		engine::match::text_end(items[1]) > streams[static_cast<int>(kTexts)].n_bytes)
		page_corrupted(
			index, streams[static_cast<int>(kTextItems)].start_block, "The ends of the texts are out of order.");
	n_bytes = engine::match::text_end(items[1]) - start;
	value_reserve(buffer, Max(n_bytes, Size(1)));
	*text = {reinterpret_cast<const uint8 *>(buffer->data), engine::match::text_item_size(start, items[1]),
		engine::match::text_item_width(items[1])};
	return n_bytes == 0 || stream_read(index, meta, segment, kTexts, start, n_bytes, buffer->data, strategy);
}

bool
match_remake_value(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *dest,
	BufferAccessStrategy strategy)
{
	const MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu text of a segment", ALLOCSET_DEFAULT_SIZES);
	const MemoryContext old = MemoryContextSwitchTo(context);
	ValueBuffer buffer = {nullptr, 0};
	engine::match::TextView view;
	const bool intact = match_read_text(index, meta, segment, n, &buffer, &view, strategy);
	const text *whole = intact ? text_of(view) : nullptr;

	if (intact && whole == nullptr)
		page_corrupted(
			index, segment->streams[static_cast<int>(kTextItems)].start_block, "A text is longer than any can be.");
	if (intact)
	{
		const char *value = match_make_value(match_options(meta->am_options), PointerGetDatum(whole));

		MemoryContextSwitchTo(old);
		value_reserve(dest, stored_bytes(value));
		memcpy(dest->data, value, stored_bytes(value));
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return intact;
}

char *
match_text_payload(Datum datum, Size *n_bytes)
{
	int32 n;
	uint32 *codes = codes_of(datum, &n);
	const uint32 width = engine::match::text_width(codes, static_cast<uint64>(n));
	char *payload;

	*n_bytes = engine::match::text_payload_bytes(static_cast<uint64>(n), width);
	payload = static_cast<char *>(palloc_extended(*n_bytes, MCXT_ALLOC_HUGE));
	engine::match::put_text_payload(reinterpret_cast<uint8 *>(payload), codes, static_cast<uint64>(n), width);
	pfree(codes);
	return payload;
}

void
match_prepare_text(MatchSearch *search, Datum argument)
{
	const uint32 gram_length = static_cast<uint32>(search->options.elements.gram_length);
	int32 n;
	uint32 *codes = codes_of(argument, &n);
	const Size n_bytes = engine::match::gram_payload_bytes(static_cast<uint64>(n));
	uint8 *payload = static_cast<uint8 *>(palloc_extended(n_bytes, MCXT_ALLOC_HUGE));

	if (!search->options.has_texts)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("index by text_gram_ops was built by release 0.1 and holds no texts"),
				errhint("Rebuild it with REINDEX INDEX.")));
	memcpy(payload, &gram_length, sizeof(gram_length));
	memcpy(payload + sizeof(gram_length), codes, n_bytes - sizeof(gram_length));
	search->parts.payload = payload;
	search->parts.payload_bytes = n_bytes;
	search->grams = {n, search->options.elements.gram_length};
	search->pattern = static_cast<engine::match::TextPattern *>(palloc(sizeof(engine::match::TextPattern)));
	engine::match::text_pattern_init(search->pattern, match_memory(), codes, n);
	pfree(codes);
}

bool
match_check_interrupts(void *)
{
	CHECK_FOR_INTERRUPTS();
	return true;
}

double
match_text_distance(const MatchSearch *query, const engine::match::Parts &value)
{
	engine::match::TextView text = {nullptr, 0, 1};

	if (!engine::match::open_text_payload(value, &text))
		return 0; // found by vectorgpu_check; pages have checksums
	return static_cast<double>(
		engine::match::text_distance(query->pattern, text, PG_INT64_MAX, {match_check_interrupts, nullptr}));
}

} // namespace vectorgpu::am

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

} // namespace

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

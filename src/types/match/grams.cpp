// Ordered n-grams of a string (Zhou et al., section V-A1): every run of n characters, with the number of equal runs
// before it. So the set of a string keeps multiplicities, and the match count of two strings is the size of the common
// multiset (lemma V.1). PG dialect; characters are those of the server's encoding.
#include "types/match/grams.hpp"

#include "types/match/element_list.hpp"

#include <algorithm>

extern "C"
{
#include "mb/pg_wchar.h"
}

#include "engine/match/element_set.hpp"
#include "types/match/characters.hpp"
#include "types/sql_function.hpp"

namespace vectorgpu::types
{
namespace
{

struct Gram
{
	uint64 prefix; // of the text: most comparisons need no more
	const char *text;
	uint32 length; // bytes
};

bool
gram_before(const Gram &a, const Gram &b)
{
	if (a.prefix != b.prefix)
		return a.prefix < b.prefix;

	const int order = memcmp(a.text, b.text, Min(a.length, b.length));

	return order != 0 ? order < 0 : a.length < b.length;
}

bool
same_gram(const Gram &a, const Gram &b)
{
	return a.prefix == b.prefix && a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

} // namespace

ElementList
gram_elements(Datum datum, int gram_length)
{
	const text *value = DatumGetTextPP(datum);
	const Characters characters = characters_of(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
	const int32 n_grams = Max(characters.n - gram_length + 1, 0);
	Gram *grams = static_cast<Gram *>(allocate_array(n_grams, sizeof(Gram)));
	Element *elements = new_elements(n_grams);
	int64 n_bytes = 0;
	uint8 *keys;
	uint32 same = 0;

	for (int32 i = 0; i < n_grams; i++)
	{
		const char *start = characters.at(i);
		const uint32 length = static_cast<uint32>(characters.at(i + gram_length) - start);

		grams[i] = {engine::match::key_prefix({reinterpret_cast<const uint8 *>(start), length}), start, length};
		n_bytes += length + 5;
	}
	std::sort(grams, grams + n_grams, gram_before);
	keys = new_bytes(n_bytes);
	for (int32 i = 0; i < n_grams; i++)
	{
		same = i > 0 && same_gram(grams[i - 1], grams[i]) ? same + 1 : 0;
		memcpy(keys, grams[i].text, grams[i].length);
		keys[grams[i].length] = 0;
		put_uint32(keys + grams[i].length + 1, same);
		elements[i] = {0, {keys, grams[i].length + 5}};
		keys += grams[i].length + 5;
	}
	pfree(grams);

	ElementList list = sorted_set(elements, n_grams);

	list.characters = characters.n;
	return list;
}

} // namespace vectorgpu::types

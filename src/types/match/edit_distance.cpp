// Edit distance of strings in characters, its lower bound by common n-grams, and the n-grams themselves. PG dialect.
#include "engine/match/edit_distance.hpp"
#include "engine/match/gram_bound.hpp"
#include "types/match/characters.hpp"
#include "types/sql_function.hpp"

extern "C"
{
#include "common/hashfn.h"
#include "funcapi.h"
#include "utils/tuplestore.h"
}

namespace vectorgpu::types
{
namespace
{

constexpr uint32 kBytes = 256;

/// Consecutive numbers for the characters of two strings: a hash table with open addressing; the first string's
/// characters are numbered in order of appearance.
struct Alphabet
{
	uint32 *codes;   // [mask + 1] the bytes of a character as one number; a character has at most 4
	uint32 *numbers; // [mask + 1] number + 1; 0 if free
	uint32 mask;
	uint32 n;
};

Alphabet
new_alphabet(int64 n_characters)
{
	uint32 size = 16;

	while (size < 2 * static_cast<uint64>(n_characters) && size < (UINT32_C(1) << 30))
		size *= 2;

	Alphabet alphabet = {nullptr, nullptr, size - 1, 0};

	alphabet.codes = static_cast<uint32 *>(allocate_array(size, sizeof(uint32)));
	alphabet.numbers = static_cast<uint32 *>(palloc_extended(size * sizeof(uint32), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	return alphabet;
}

uint32
number_of(Alphabet *alphabet, uint32 code)
{
	for (uint32 slot = murmurhash32(code) & alphabet->mask;; slot = (slot + 1) & alphabet->mask)
	{
		if (alphabet->numbers[slot] == 0)
		{
			alphabet->codes[slot] = code;
			alphabet->numbers[slot] = ++alphabet->n;
		}
		if (alphabet->codes[slot] == code)
			return alphabet->numbers[slot] - 1;
	}
}

uint32 *
number_characters(const Characters &characters, Alphabet *alphabet)
{
	uint32 *symbols = character_codes(characters);

	for (int32 i = 0; alphabet != nullptr && i < characters.n; i++)
		symbols[i] = number_of(alphabet, symbols[i]);
	return symbols;
}

bool
check_interrupts(void *)
{
	CHECK_FOR_INTERRUPTS();
	return true;
}

int64
distance(const text *a, const text *b)
{
	const Characters x = characters_of(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a));
	const Characters y = characters_of(VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
	uint32 n_symbols = kBytes;
	engine::Sequence sequences[2] = {{nullptr, x.n}, {nullptr, y.n}};
	void *memory;
	int64 result;

	if (x.offsets == nullptr && y.offsets == nullptr)
	{
		sequences[0].symbols = number_characters(x, nullptr);
		sequences[1].symbols = number_characters(y, nullptr);
	}
	else
	{
		Alphabet alphabet = new_alphabet(static_cast<int64>(x.n) + y.n);

		sequences[0].symbols = number_characters(x, &alphabet);
		sequences[1].symbols = number_characters(y, &alphabet);
		n_symbols = alphabet.n;
		pfree(alphabet.codes);
		pfree(alphabet.numbers);
	}
	memory = allocate_array(static_cast<int64>(engine::edit_distance_memory(Max(x.n, y.n), n_symbols)), 1);
	result =
		engine::edit_distance(sequences[0], sequences[1], n_symbols, memory, PG_INT64_MAX, {check_interrupts, nullptr});
	pfree(memory);
	pfree(const_cast<uint32 *>(sequences[0].symbols));
	pfree(const_cast<uint32 *>(sequences[1].symbols));
	return result;
}

int64
argument_distance(FunctionCallInfo fcinfo)
{
	return distance(PG_GETARG_TEXT_PP(0), PG_GETARG_TEXT_PP(1));
}

// --- n-grams -----------------------------------------------------------------

int
gram_length(FunctionCallInfo fcinfo, int argument)
{
	const int32 n = PG_GETARG_INT32(argument);

	if (n < kMinGramLength || n > kMaxGramLength)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("length of n-grams is out of range: %d", n),
				errhint("Give a number of characters from %d to %d.", kMinGramLength, kMaxGramLength)));
	return n;
}

/// Count the common ordered n-grams of the first two arguments; optionally return their lengths in characters.
int32
common_grams(FunctionCallInfo fcinfo, int n, int32 *a, int32 *b)
{
	ElementOptions options;

	options.gram_length = n;

	const ElementList row = elements_of_value(ElementSource::kTextGrams, options, PG_GETARG_DATUM(0));
	const SliceList query = slices_of_query(ElementSource::kTextGrams, options, PG_GETARG_DATUM(1));

	*a = row.characters;
	*b = query.characters;
	return count_matches(row, query);
}

Datum
gram_match_count(FunctionCallInfo fcinfo)
{
	int32 a;
	int32 b;

	PG_RETURN_INT32(common_grams(fcinfo, gram_length(fcinfo, 2), &a, &b));
}

Datum
distance_bound(FunctionCallInfo fcinfo)
{
	const int n = gram_length(fcinfo, 2);
	int32 a;
	int32 b;
	const int32 count = common_grams(fcinfo, n, &a, &b);

	PG_RETURN_INT32(static_cast<int32>(engine::match::edit_distance_bound(a, b, count, n)));
}

/// ordered_grams(text, n): one row per element, in the order of keys.
Datum
ordered_grams(FunctionCallInfo fcinfo)
{
	ElementOptions options;
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

	options.gram_length = gram_length(fcinfo, 1);

	const ElementList list = elements_of_value(ElementSource::kTextGrams, options, PG_GETARG_DATUM(0));

	InitMaterializedSRF(fcinfo, 0);
	for (int32 i = 0; i < list.n; i++)
	{
		const ElementKey key = list.elements[i].key;
		const uint8 *number = key.bytes + key.length - 4;
		Datum values[2];
		bool nulls[2] = {false, false};

		CHECK_FOR_INTERRUPTS();
		values[0] = PointerGetDatum(
			cstring_to_text_with_len(reinterpret_cast<const char *>(key.bytes), static_cast<int>(key.length) - 5));
		values[1] = Int32GetDatum(static_cast<int32>(
			static_cast<uint32>(number[0]) << 24 | static_cast<uint32>(number[1]) << 16 | number[2] << 8 | number[3]));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(DatumGetPointer(values[0]));
	}
	return static_cast<Datum>(0);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(edit_distance, Int32GetDatum(static_cast<int32>(vectorgpu::types::argument_distance(fcinfo))))
VG_SQL_FUNCTION(edit_distance_float, Float8GetDatum(static_cast<float8>(vectorgpu::types::argument_distance(fcinfo))))
VG_SQL_FUNCTION(gram_match_count, vectorgpu::types::gram_match_count(fcinfo))
VG_SQL_FUNCTION(edit_distance_bound, vectorgpu::types::distance_bound(fcinfo))
VG_SQL_FUNCTION(ordered_grams, vectorgpu::types::ordered_grams(fcinfo))

// See array_code.hpp.
#include "am/keys/array_code.hpp"

extern "C"
{
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
}

namespace vectorgpu::am
{

namespace
{

static_assert(kMostKeyStreams == 2); // one bit of the hash chooses the stream

/// The places come from parts of the hash of their own. Two may coincide: the element has fewer bits then.
ArrayBits
bits_of_hash(uint64 hash)
{
	ArrayBits element = {};
	uint64 *stream = &element.bits[hash >> 63];

	for (int i = 0; i < kElementBits; i++)
		*stream |= UINT64CONST(1) << (hash >> (6 * i) & 63);
	return element;
}

} // namespace

void
array_column_open(KeyColumn *column)
{
	const Oid type = get_element_type(column->type);
	const TypeCacheEntry *entry =
		OidIsValid(type) ? lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_HASH_EXTENDED_PROC) : nullptr;

	// The operators of arrays compare elements by the type cache's equality, with which its hash function agrees.
	if (entry == nullptr || !OidIsValid(entry->hash_extended_proc))
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
				errmsg("could not identify an extended hash function for type %s",
					format_type_be(OidIsValid(type) ? type : column->type)),
				errdetail("Conditions on arrays are decided by hashes of their elements.")));
	fmgr_info(entry->hash_extended_proc, &column->hash);
}

void
array_elements(const KeyColumn *column, Datum value, ArrayElements *elements)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	int16 length;
	bool by_value;
	char align;
	Datum *values;
	bool *nulls;
	int n;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls, &n);
	elements->elements = static_cast<ArrayBits *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (static_cast<Size>(n) + 1) * sizeof(ArrayBits)));
	elements->n = 0;
	elements->has_null = false;
	for (int i = 0; i < n; i++)
		if (nulls[i])
			elements->has_null = true;
		else
			elements->elements[elements->n++] = bits_of_hash(key_hash(column, values[i]));
	pfree(values);
	pfree(nulls);
	if (reinterpret_cast<Pointer>(array) != DatumGetPointer(value))
		pfree(array);
}

ArrayBits
array_signature(const ArrayElements &elements)
{
	ArrayBits signature = {};

	for (int i = 0; i < elements.n; i++)
		for (int stream = 0; stream < kMostKeyStreams; stream++)
			signature.bits[stream] |= elements.elements[i].bits[stream];
	return signature;
}

} // namespace vectorgpu::am

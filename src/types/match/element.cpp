// Turn values into elements and queries into slices: arrays and tsvector here, other sources in files of their own.
// PG dialect.
#include "types/match/element.hpp"

#include "types/match/element_list.hpp"
#include "types/match/grams.hpp"
#include "types/match/row_value.hpp"
#include "types/match/signature.hpp"

#include <algorithm>

extern "C"
{
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "tsearch/ts_type.h"
#include "utils/array.h"
#include "utils/uuid.h"
}

namespace vectorgpu::types
{
namespace
{

/// Copy the elements of an array of fixed-length type T that are not NULL to values [number of elements]; return how
/// many.
template <class T>
int64
not_null_values(ArrayType *array, T *values)
{
	const int64 n_items = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const char *data = ARR_DATA_PTR(array);
	const bits8 *bitmap = ARR_NULLBITMAP(array);
	int64 n = 0;

	for (int64 i = 0; i < n_items; i++)
	{
		if (bitmap != nullptr && !(bitmap[i / 8] & (1 << (i % 8))))
			continue;
		memcpy(&values[n++], data, sizeof(T));
		data += sizeof(T);
	}
	return n;
}

template <class T>
T *
new_values(const ArrayType *array)
{
	return static_cast<T *>(allocate_array(ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)), sizeof(T)));
}

void
put_key(uint8 *bytes, int32 value)
{
	put_int32(bytes, value);
}

void
put_key(uint8 *bytes, int64 value)
{
	put_int64(bytes, value);
}

/// Integers are sorted as integers, which is several times as fast as sorting keys.
template <class T>
ElementList
integer_elements(Datum datum)
{
	ArrayType *array = DatumGetArrayTypeP(datum);
	T *values = new_values<T>(array);
	int64 n = not_null_values(array, values);

	std::sort(values, values + n);
	n = std::unique(values, values + n) - values;

	Element *elements = new_elements(n);
	uint8 *keys = new_bytes(n * static_cast<int64>(sizeof(T)));

	for (int64 i = 0; i < n; i++)
	{
		uint8 *key = keys + i * static_cast<int64>(sizeof(T));

		put_key(key, values[i]);
		elements[i] = {0, {key, sizeof(T)}};
	}
	pfree(values);
	return {elements, static_cast<int32>(n), 0};
}

ElementList
uuid_elements(Datum datum)
{
	ArrayType *array = DatumGetArrayTypeP(datum);
	pg_uuid_t *values = new_values<pg_uuid_t>(array);
	const int64 n = not_null_values(array, values);
	Element *elements = new_elements(n);

	for (int64 i = 0; i < n; i++)
		elements[i] = {0, {values[i].data, UUID_LEN}};
	return sorted_set(elements, n);
}

ElementList
text_elements(Datum datum)
{
	ArrayType *array = DatumGetArrayTypeP(datum);
	const int64 n_items = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const char *data = ARR_DATA_PTR(array);
	const bits8 *bitmap = ARR_NULLBITMAP(array);
	Element *elements = new_elements(n_items);
	int64 n = 0;

	for (int64 i = 0; i < n_items; i++)
	{
		if (bitmap != nullptr && !(bitmap[i / 8] & (1 << (i % 8))))
			continue;
		data = reinterpret_cast<const char *>(att_align_pointer(data, TYPALIGN_INT, -1, data));
		elements[n++] = {0, string_key(VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data), kMaxKeyBytes)};
		data = att_addlength_pointer(data, -1, data);
	}
	return sorted_set(elements, n);
}

/// The lexemes of a tsvector are stored in the order of keys, each once.
ElementList
lexeme_elements(Datum datum)
{
	TSVector vector = DatumGetTSVector(datum);
	const WordEntry *words = ARRPTR(vector);
	Element *elements = new_elements(vector->size);

	for (int32 i = 0; i < vector->size; i++)
		elements[i] = {0, string_key(STRPTR(vector) + words[i].pos, words[i].len, kMaxKeyBytes)};
	return sorted_set(elements, vector->size);
}

/// Return the elements of an array.
ElementList
set_elements(ElementSource source, Datum value)
{
	switch (source)
	{
		case ElementSource::kInt4Array:
		case ElementSource::kMinHashInt4Array:
			return integer_elements<int32>(value);
		case ElementSource::kInt8Array:
		case ElementSource::kMinHashInt8Array:
			return integer_elements<int64>(value);
		case ElementSource::kTextArray:
		case ElementSource::kMinHashTextArray:
			return text_elements(value);
		default:
			return uuid_elements(value);
	}
}

} // namespace

ElementList
elements_of_value(ElementSource source, const ElementOptions &options, Datum value)
{
	switch (source)
	{
		case ElementSource::kInt4Array:
		case ElementSource::kInt8Array:
		case ElementSource::kTextArray:
		case ElementSource::kUuidArray:
			return set_elements(source, value);
		case ElementSource::kTsvector:
			return lexeme_elements(value);
		case ElementSource::kTextGrams:
			return gram_elements(value, options.gram_length);
		case ElementSource::kMatchrow:
			return row_elements(value);
		case ElementSource::kMinHashInt4Array:
		case ElementSource::kMinHashInt8Array:
		case ElementSource::kMinHashTextArray:
		case ElementSource::kMinHashUuidArray:
			return minhash_elements(set_elements(source, value), options);
		case ElementSource::kLshL2:
		case ElementSource::kLshL1:
		case ElementSource::kLshCosine:
			return lsh_elements(source, options, value);
	}
	elog(ERROR, "unknown source of elements %d", static_cast<int>(source));
}

SliceList
slices_of_query(ElementSource source, const ElementOptions &options, Datum query)
{
	if (source == ElementSource::kMatchrow)
		return query_slices(query);
	return slices_of_elements(elements_of_value(source, options, query));
}

int32
count_matches(const ElementList &row, const SliceList &query)
{
	const Slice *slice = query.slices;
	const Slice *end = query.slices + query.n;
	int32 count = 0;

	for (int32 i = 0; i < row.n && slice < end; i++)
	{
		const Element &element = row.elements[i];

		// find the first slice that does not end at or before the element; it is usually close, so the step is doubled
		auto ends_before = [&](const Slice &candidate)
		{
			return candidate.attribute != element.attribute ? candidate.attribute < element.attribute
															: compare_keys(candidate.high, element.key) <= 0;
		};
		int64 step = 1;

		while (step < end - slice && ends_before(slice[step - 1]))
		{
			slice += step;
			step *= 2;
		}
		slice = std::partition_point(slice, slice + Min(step, end - slice), ends_before);
		if (slice < end && slice->attribute == element.attribute && compare_keys(slice->low, element.key) <= 0)
			count++;
	}
	return count;
}

} // namespace vectorgpu::types

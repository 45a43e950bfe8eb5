// Lists of elements and slices, and the keys of strings. PG dialect.
#include "types/match/element_list.hpp"

#include <algorithm>

extern "C"
{
#include "common/cryptohash.h"
#include "common/sha2.h"
}

namespace vectorgpu::types
{
namespace
{

bool
element_before(const Element &a, const Element &b)
{
	return a.attribute != b.attribute ? a.attribute < b.attribute : compare_keys(a.key, b.key) < 0;
}

bool
same_element(const Element &a, const Element &b)
{
	return a.attribute == b.attribute && compare_keys(a.key, b.key) == 0;
}

} // namespace

ElementKey
string_key(const char *string, Size length, uint32 limit)
{
	if (length < limit)
		return {reinterpret_cast<const uint8 *>(string), static_cast<uint32>(length)};

	uint8 *key = new_bytes(limit);
	const Size kept = limit - PG_SHA256_DIGEST_LENGTH;
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	memcpy(key, string, kept);
	if (context == nullptr || pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, reinterpret_cast<const uint8 *>(string), length) < 0 ||
		pg_cryptohash_final(context, key + kept, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not compute SHA-256");
	pg_cryptohash_free(context);
	return {key, limit};
}

ElementList
sorted_set(Element *elements, int64 n)
{
	if (!std::is_sorted(elements, elements + n, element_before))
		std::sort(elements, elements + n, element_before);
	n = std::unique(elements, elements + n, same_element) - elements;
	if (n > PG_INT32_MAX)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("value has too many elements to count matches"),
				errdetail("It has %lld, the limit is %d.", static_cast<long long>(n), PG_INT32_MAX)));
	return {elements, static_cast<int32>(n), 0};
}

SliceList
slices_of_elements(const ElementList &list)
{
	Slice *slices = static_cast<Slice *>(allocate_array(list.n, sizeof(Slice)));
	int64 n_bytes = 0;
	uint8 *bytes;

	for (int32 i = 0; i < list.n; i++)
		n_bytes += list.elements[i].key.length + 1;
	bytes = new_bytes(n_bytes);
	for (int32 i = 0; i < list.n; i++)
	{
		const ElementKey key = list.elements[i].key;

		memcpy(bytes, key.bytes, key.length);
		bytes[key.length] = 0;
		slices[i] = {list.elements[i].attribute, {bytes, key.length}, {bytes, key.length + 1}};
		bytes += key.length + 1;
	}
	return {slices, list.n, list.characters, list.n};
}

} // namespace vectorgpu::types

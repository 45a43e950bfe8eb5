// Reading and writing stored matchrow and matchquery values. See row_value.hpp. PG dialect.
#include "types/match/row_value.hpp"

#include <algorithm>

#include "types/match/number_key.hpp"

namespace vectorgpu::types
{

ValueReader
open_value(Datum datum, const char *type_name)
{
	const struct varlena *value = PG_DETOAST_DATUM_PACKED(datum);
	const uint8 *bytes = reinterpret_cast<const uint8 *>(VARDATA_ANY(value));
	const Size length = VARSIZE_ANY_EXHDR(value);

	if (length < kRowHead || bytes[0] != kRowFormat)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("unknown format of a value of type %s", type_name)));
	return {bytes + kRowHead, bytes + length, bytes[1] << 8 | bytes[2]};
}

uint32
read_varint(ValueReader *reader)
{
	uint32 number = 0;

	for (int shift = 0; reader->next < reader->end && shift < 35; shift += 7)
	{
		const uint8 byte = *reader->next++;

		number |= static_cast<uint32>(byte & 0x7F) << shift;
		if (byte < 0x80)
			return number;
	}
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("unexpected end of a matchrow or matchquery value")));
}

ElementKey
read_key(ValueReader *reader)
{
	const uint32 length = read_varint(reader);
	const uint8 *key = reader->next;

	if (length > static_cast<Size>(reader->end - reader->next))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("unexpected end of a matchrow or matchquery value")));
	reader->next += length;
	return {key, length};
}

void
begin_value(StringInfo value, int32 n)
{
	initStringInfo(value);
	appendStringInfoSpaces(value, VARHDRSZ);
	appendStringInfoCharMacro(value, static_cast<char>(kRowFormat));
	appendStringInfoSpaces(value, 2);
	set_attributes(value, n);
}

void
set_attributes(StringInfo value, int32 n)
{
	value->data[VARHDRSZ + 1] = static_cast<char>(n >> 8);
	value->data[VARHDRSZ + 2] = static_cast<char>(n);
}

void
append_varint(StringInfo value, uint32 number)
{
	for (; number >= 0x80; number >>= 7)
		appendStringInfoCharMacro(value, static_cast<char>(number | 0x80));
	appendStringInfoCharMacro(value, static_cast<char>(number));
}

void
append_key(StringInfo value, ElementKey key)
{
	append_varint(value, key.length);
	appendBinaryStringInfo(value, reinterpret_cast<const char *>(key.bytes), static_cast<int>(key.length));
}

Datum
finish_value(StringInfo value)
{
	SET_VARSIZE(value->data, value->len);
	return PointerGetDatum(value->data);
}

void
add_slice(SliceSet *set, ElementKey low, ElementKey high)
{
	if (compare_keys(low, high) >= 0)
		return;
	if (set->n == set->capacity)
	{
		const int32 capacity = Max(2 * set->capacity, 16);
		Slice *slices = static_cast<Slice *>(allocate_array(capacity, sizeof(Slice)));

		if (set->n > 0)
		{
			memcpy(slices, set->slices, set->n * sizeof(Slice));
			pfree(set->slices);
		}
		set->slices = slices;
		set->capacity = capacity;
	}
	set->slices[set->n++] = {0, low, high};
}

namespace
{

/// Return the key followed by 0.
ElementKey
beyond(ElementKey key)
{
	uint8 *bytes = new_bytes(key.length + 1);

	memcpy(bytes, key.bytes, key.length);
	bytes[key.length] = 0;
	return {bytes, key.length + 1};
}

ElementKey
kind_bound(int kind)
{
	uint8 *bytes = new_bytes(1);

	bytes[0] = static_cast<uint8>(kind);
	return {bytes, 1};
}

} // namespace

void
add_point(SliceSet *set, ElementKey key)
{
	const ElementKey high = beyond(key);

	add_slice(set, {high.bytes, key.length}, high);
}

void
add_range(SliceSet *set, ValueKind kind, ElementKey low, bool low_inclusive, ElementKey high, bool high_inclusive)
{
	const ElementKey from = low.length == 0 ? kind_bound(static_cast<int>(kind)) : (low_inclusive ? low : beyond(low));
	const ElementKey to =
		high.length == 0 ? kind_bound(static_cast<int>(kind) + 1) : (high_inclusive ? beyond(high) : high);

	add_slice(set, from, to);
}

namespace
{

/// True if the slice holds one key. The byte of a kind alone is an open bound, except for strings, where it is the
/// empty string.
bool
is_point(const Slice &slice)
{
	return slice.high.length == slice.low.length + 1 && slice.high.bytes[slice.low.length] == 0 &&
		memcmp(slice.low.bytes, slice.high.bytes, slice.low.length) == 0 &&
		(slice.low.length > 1 || slice.low.bytes[0] == static_cast<uint8>(ValueKind::kString));
}

} // namespace

void
append_item(StringInfo value, SliceSet *set)
{
	int32 n = 0;

	appendStringInfoCharMacro(value, set->is_null ? 0 : 1);
	if (set->is_null)
		return;
	std::sort(set->slices, set->slices + set->n,
		[](const Slice &a, const Slice &b) { return compare_keys(a.low, b.low) < 0; });
	for (int32 i = 0; i < set->n; i++)
	{
		// Slices of two kinds may touch, since an open upper bound is the beginning of the next kind.
		if (n > 0 && set->slices[i].low.bytes[0] == set->slices[n - 1].low.bytes[0] &&
			compare_keys(set->slices[i].low, set->slices[n - 1].high) <= 0)
		{
			if (compare_keys(set->slices[i].high, set->slices[n - 1].high) > 0)
				set->slices[n - 1].high = set->slices[i].high;
		}
		else
			set->slices[n++] = set->slices[i];
	}
	append_varint(value, static_cast<uint32>(n));
	for (int32 i = 0; i < n; i++)
	{
		const Slice &slice = set->slices[i];
		const bool point = is_point(slice);

		appendStringInfoCharMacro(value, point ? 0 : 1);
		append_key(value, slice.low);
		if (!point)
			append_key(value, slice.high);
	}
}

void
read_slice(ValueReader *reader, ElementKey *low, ElementKey *high)
{
	const bool point = reader->next < reader->end && *reader->next++ == 0;

	*low = read_key(reader);
	*high = point ? beyond(*low) : read_key(reader);
}

namespace
{

/// True if a bound is a key followed by 0. A number's key has 8 bytes or ends in a byte other than 0; other kinds have
/// keys of a fixed length; strings contain no 0.
bool
is_beyond(ElementKey bound)
{
	const uint32 length = bound.length - 1; // without the kind

	switch (static_cast<ValueKind>(bound.bytes[0]))
	{
		case ValueKind::kNumber:
			return length > kNumberKeyHead && bound.bytes[length] == 0;
		case ValueKind::kString:
			return bound.bytes[length] == 0;
		case ValueKind::kBoolean:
			return length == 2;
		case ValueKind::kDate:
			return length == 5;
		case ValueKind::kTimestamp:
		case ValueKind::kTimestamptz:
		case ValueKind::kTime:
			return length == 9;
		case ValueKind::kUuid:
			return length == 17;
	}
	return false;
}

} // namespace

StoredSlice
read_stored_slice(ValueReader *reader)
{
	const bool point = reader->next < reader->end && *reader->next++ == 0;
	StoredSlice slice = {ValueKind::kNumber, point, read_key(reader), true, {nullptr, 0}, false};

	slice.kind = static_cast<ValueKind>(slice.low.bytes[0]);
	if (point)
		return slice;
	slice.high = read_key(reader);
	if (slice.low.length == 1)
		slice.low.length = 0;
	else if (is_beyond(slice.low))
	{
		slice.low.length--;
		slice.low_inclusive = false;
	}
	if (slice.high.length == 1)
		slice.high.length = 0;
	else if (is_beyond(slice.high))
	{
		slice.high.length--;
		slice.high_inclusive = true;
	}
	return slice;
}

void
check_attributes(int64 n, const char *type_name)
{
	if (n > kMaxAttributes)
		ereport(ERROR,
			(errcode(ERRCODE_TOO_MANY_COLUMNS),
				errmsg("%s cannot have more than %d attributes", type_name, kMaxAttributes),
				errdetail("%lld are given.", static_cast<long long>(n))));
}

void
number_too_long(void)
{
	ereport(ERROR,
		(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("number has too many digits to be matched"),
			errdetail("At most %d significant digits are allowed.", kMaxNumberDigits),
			errhint("Round it to fewer digits.")));
}

// --- elements ----------------------------------------------------------------

namespace
{

ElementKey
shortened(ElementKey key)
{
	if (key.bytes[0] != static_cast<uint8>(ValueKind::kString))
		return key;
	return string_key(reinterpret_cast<const char *>(key.bytes), key.length, kMaxKeyBytes);
}

bool
slice_before(const Slice &a, const Slice &b)
{
	return a.attribute != b.attribute ? a.attribute < b.attribute : compare_keys(a.low, b.low) < 0;
}

} // namespace

ElementList
row_elements(Datum row)
{
	ValueReader reader = open_value(row, "matchrow");
	Element *elements = new_elements(reader.n);
	int32 n = 0;

	for (int32 i = 0; i < reader.n; i++)
	{
		const ElementKey key = read_key(&reader);

		if (key.length > 0)
			elements[n++] = {static_cast<uint32>(i), shortened(key)};
	}
	return {elements, n, 0};
}

SliceList
query_slices(Datum query)
{
	ValueReader reader = open_value(query, "matchquery");
	SliceSet set = {false, nullptr, 0, 0};
	int32 n_attributes = 0;
	bool sorted = true;

	for (int32 i = 0; i < reader.n; i++)
	{
		const bool asked = reader.next < reader.end && *reader.next++ != 0;
		const uint32 n_slices = asked ? read_varint(&reader) : 0;

		n_attributes += n_slices > 0;
		for (uint32 j = 0; j < n_slices; j++)
		{
			ElementKey low;
			ElementKey high;

			read_slice(&reader, &low, &high);
			if (low.length >= kMaxKeyBytes) // a string: bounds of numbers are shorter
			{
				low = shortened(low);
				high = beyond(low);
				sorted = false;
			}
			add_slice(&set, low, high);
			set.slices[set.n - 1].attribute = static_cast<uint32>(i);
		}
	}
	if (!sorted)
		std::sort(set.slices, set.slices + set.n, slice_before);
	return {set.slices, set.n, 0, n_attributes};
}

} // namespace vectorgpu::types

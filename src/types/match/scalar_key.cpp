// Keys of single SQL values. See scalar_key.hpp. PG dialect.
#include "types/match/scalar_key.hpp"

#include "types/match/number_key.hpp"

#include <limits>

extern "C"
{
#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
}

namespace vectorgpu::types
{
namespace
{

uint8 *
new_key(ValueKind kind, Size length)
{
	uint8 *key = new_bytes(static_cast<int64>(length + 1));

	key[0] = static_cast<uint8>(kind);
	return key;
}

constexpr Size kShortNumberKey = 32; // bytes for the key of any 64-bit integer

ElementKey
integer_key(int64 value)
{
	uint8 *key = new_key(ValueKind::kNumber, kShortNumberKey);

	return {key, 1 + static_cast<uint32>(number_key(value, key + 1))};
}

ElementKey
float_key(double value)
{
	uint8 *key = new_key(ValueKind::kNumber, kNumberKeyHead);

	return {key, 1 + static_cast<uint32>(number_key(value, key + 1))};
}

/// Reads the result of numeric_send, numeric's public format: digits in base 10000.
ElementKey
numeric_key(Datum datum)
{
	const bytea *sent = DatumGetByteaP(DirectFunctionCall1(numeric_send, datum));
	const uint8 *bytes = reinterpret_cast<const uint8 *>(VARDATA(sent));
	auto word = [&](Size i) { return static_cast<int16>(bytes[2 * i] << 8 | bytes[2 * i + 1]); };
	const int n_words = word(0);
	const uint16 sign = static_cast<uint16>(word(2));
	char *digits = static_cast<char *>(palloc(4 * n_words + 1));
	Decimal value = {sign == 0x4000, digits, 4 * n_words, 4 * (word(1) + 1)};
	uint8 *key = new_key(ValueKind::kNumber, Min(kMaxNumberKey, kShortNumberKey + 2 * static_cast<Size>(n_words)));
	int length;

	if (sign == 0xC000)
		return float_key(std::numeric_limits<double>::quiet_NaN());
	if (sign == 0xD000 || sign == 0xF000)
		return float_key(
			sign == 0xD000 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
	for (int i = 0; i < n_words; i++)
	{
		int digit = word(4 + i);

		for (int j = 3; j >= 0; j--, digit /= 10)
			digits[4 * i + j] = static_cast<char>('0' + digit % 10);
	}
	while (value.n_digits > 0 && value.digits[value.n_digits - 1] == '0')
		value.n_digits--;
	while (value.n_digits > 0 && value.digits[0] == '0')
	{
		value.digits++;
		value.n_digits--;
		value.exponent--;
	}
	length = number_key(value, key + 1);
	if (length == 0)
		number_too_long();
	return {key, 1 + static_cast<uint32>(length)};
}

ElementKey
bytes_key(ValueKind kind, const void *bytes, Size length)
{
	uint8 *key = new_key(kind, length);

	memcpy(key + 1, bytes, length);
	return {key, 1 + static_cast<uint32>(length)};
}

ElementKey
int64_key(ValueKind kind, int64 value)
{
	uint8 *key = new_key(kind, 8);

	put_int64(key + 1, value);
	return {key, 9};
}

ElementKey
enum_key(Datum datum)
{
	const Oid oid = DatumGetObjectId(datum);
	HeapTuple tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(oid));
	ElementKey key;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid internal value for enum: %u", oid)));

	const char *label = NameStr(reinterpret_cast<Form_pg_enum>(GETSTRUCT(tuple))->enumlabel);

	key = bytes_key(ValueKind::kString, label, strlen(label));
	ReleaseSysCache(tuple);
	return key;
}

} // namespace

bool
kind_of_type(Oid type, ValueKind *kind)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			*kind = ValueKind::kNumber;
			return true;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case CHAROID:
		case UNKNOWNOID:
		case ANYENUMOID:
			*kind = ValueKind::kString;
			return true;
		case BOOLOID:
			*kind = ValueKind::kBoolean;
			return true;
		case DATEOID:
			*kind = ValueKind::kDate;
			return true;
		case TIMESTAMPOID:
			*kind = ValueKind::kTimestamp;
			return true;
		case TIMESTAMPTZOID:
			*kind = ValueKind::kTimestamptz;
			return true;
		case TIMEOID:
			*kind = ValueKind::kTime;
			return true;
		case UUIDOID:
			*kind = ValueKind::kUuid;
			return true;
		default:
			return false;
	}
}

Oid
scalar_type(Oid type)
{
	const Oid base = getBaseType(type);

	return type_is_enum(base) ? ANYENUMOID : base;
}

ElementKey
scalar_key(Oid type, Datum datum)
{
	switch (type)
	{
		case INT2OID:
			return integer_key(DatumGetInt16(datum));
		case INT4OID:
			return integer_key(DatumGetInt32(datum));
		case INT8OID:
			return integer_key(DatumGetInt64(datum));
		case FLOAT4OID:
			return float_key(DatumGetFloat4(datum));
		case FLOAT8OID:
			return float_key(DatumGetFloat8(datum));
		case NUMERICOID:
			return numeric_key(datum);
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		{
			const text *value = DatumGetTextPP(datum);
			Size length = VARSIZE_ANY_EXHDR(value);

			if (type == BPCHAROID)
				length = bpchartruelen(VARDATA_ANY(value), static_cast<int>(length));
			return bytes_key(ValueKind::kString, VARDATA_ANY(value), length);
		}
		case NAMEOID:
			return bytes_key(ValueKind::kString, NameStr(*DatumGetName(datum)), strlen(NameStr(*DatumGetName(datum))));
		case CHAROID:
		{
			const char value = DatumGetChar(datum);

			if (IS_HIGHBIT_SET(value))
				ereport(ERROR,
					(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE), errmsg("value of type \"char\" is not a character"),
						errdetail("It is the byte 0x%02x.", static_cast<unsigned char>(value)),
						errhint("Cast it to integer.")));
			return bytes_key(ValueKind::kString, &value, value != '\0');
		}
		case UNKNOWNOID:
			return bytes_key(ValueKind::kString, DatumGetCString(datum), strlen(DatumGetCString(datum)));
		case ANYENUMOID:
			return enum_key(datum);
		case BOOLOID:
		{
			const uint8 value = DatumGetBool(datum);

			return bytes_key(ValueKind::kBoolean, &value, 1);
		}
		case DATEOID:
		{
			uint8 *key = new_key(ValueKind::kDate, 4);

			put_int32(key + 1, DatumGetDateADT(datum));
			return {key, 5};
		}
		case TIMESTAMPOID:
			return int64_key(ValueKind::kTimestamp, DatumGetTimestamp(datum));
		case TIMESTAMPTZOID:
			return int64_key(ValueKind::kTimestamptz, DatumGetTimestampTz(datum));
		case TIMEOID:
			return int64_key(ValueKind::kTime, DatumGetTimeADT(datum));
		case UUIDOID:
			return bytes_key(ValueKind::kUuid, DatumGetUUIDP(datum)->data, UUID_LEN);
		default:
			elog(ERROR, "unexpected type %u", type);
	}
}

} // namespace vectorgpu::types

// Values of matchrow and matchquery as text, and validation of keys from outside. PG dialect.
//
// The text is the same on every server and in every session: dates in ISO form, timestamps with time zone in UTC,
// whatever DateStyle and TimeZone are. Input accepts only the forms that output produces, so it is immutable too:
// "today" is not a date here.
#include "types/match/value_text.hpp"

#include "types/match/date_text.hpp"
#include "types/match/number_key.hpp"
#include "types/match/number_text.hpp"

extern "C"
{
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
}

namespace vectorgpu::types
{
namespace
{

constexpr const char *kKindNames[] = {"number", "text", "boolean", "date", "timestamp", "timestamptz", "time", "uuid"};

int32
get_int32(const uint8 *bytes)
{
	const uint32 value =
		static_cast<uint32>(bytes[0]) << 24 | static_cast<uint32>(bytes[1]) << 16 | bytes[2] << 8 | bytes[3];

	return static_cast<int32>(value ^ (UINT32_C(1) << 31));
}

int64
get_int64(const uint8 *bytes)
{
	uint64 value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | bytes[i];
	return static_cast<int64>(value ^ (UINT64_C(1) << 63));
}

bool
read_uuid_value(TextCursor *cursor, uint8 *bytes)
{
	for (int i = 0; i < UUID_LEN; i++)
	{
		int value = 0;

		if (i == 4 || i == 6 || i == 8 || i == 10)
			if (!read_char(cursor, '-'))
				return false;
		for (int j = 0; j < 2; j++)
		{
			if (cursor->next == cursor->end)
				return false;

			const char c = *cursor->next++;

			if (c >= '0' && c <= '9')
				value = value * 16 + (c - '0');
			else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
				value = value * 16 + ((c | 0x20) - 'a' + 10);
			else
				return false;
		}
		bytes[i] = static_cast<uint8>(value);
	}
	return true;
}

} // namespace

const char *
kind_name(ValueKind kind)
{
	return kKindNames[static_cast<int>(kind) - kFirstKind];
}

int
kind_of_name(const char *name, Size length)
{
	for (int kind = kFirstKind; kind <= kLastKind; kind++)
		if (strlen(kKindNames[kind - kFirstKind]) == length && memcmp(name, kKindNames[kind - kFirstKind], length) == 0)
			return kind;
	return 0;
}

void
append_value_text(StringInfo text, ElementKey key)
{
	const uint8 *value = key.bytes + 1;
	const int length = static_cast<int>(key.length) - 1;

	switch (static_cast<ValueKind>(key.bytes[0]))
	{
		case ValueKind::kNumber:
		{
			char digits[kMaxNumberDigits + 2];
			char number_form[kMaxNumberText];
			NumberFromKey number;

			if (!read_number_key(value, length, digits, &number))
				ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED), errmsg("invalid number in a matchrow or matchquery value")));
			appendBinaryStringInfo(text, number_form, number_text(number, number_form));
			break;
		}
		case ValueKind::kString:
			appendStringInfoChar(text, '"');
			for (int i = 0; i < length; i++)
			{
				if (value[i] == '"' || value[i] == '\\')
					appendStringInfoChar(text, '\\');
				appendStringInfoChar(text, static_cast<char>(value[i]));
			}
			appendStringInfoChar(text, '"');
			break;
		case ValueKind::kBoolean:
			appendStringInfoString(text, value[0] ? "true" : "false");
			break;
		case ValueKind::kDate:
			append_date_text(text, get_int32(value));
			break;
		case ValueKind::kTimestamp:
		case ValueKind::kTimestamptz:
			append_timestamp_text(
				text, get_int64(value), static_cast<ValueKind>(key.bytes[0]) == ValueKind::kTimestamptz);
			break;
		case ValueKind::kTime:
			append_time_text(text, get_int64(value));
			break;
		case ValueKind::kUuid:
			for (int i = 0; i < UUID_LEN; i++)
				appendStringInfo(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", value[i]);
			break;
	}
}

int
read_value_text(ValueKind kind, const char *text, Size length, uint8 *key)
{
	TextCursor cursor = {text, text + length};
	int key_length = 0;
	int64 value;

	key[0] = static_cast<uint8>(kind);
	switch (kind)
	{
		case ValueKind::kNumber:
			switch (read_number(text, static_cast<int>(length), key + 1, &key_length))
			{
				case ReadNumber::kOk:
					return 1 + key_length;
				case ReadNumber::kTooLong:
					number_too_long();
				case ReadNumber::kOutOfRange:
					ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
							errmsg("number \"%.*s\" is out of range", static_cast<int>(Min(length, 100)), text)));
				case ReadNumber::kSyntax:
					return 0;
			}
			return 0;
		case ValueKind::kString:
			return 0;
		case ValueKind::kBoolean:
			key[1] = length == 4;
			return (length == 4 && memcmp(text, "true", 4) == 0) || (length == 5 && memcmp(text, "false", 5) == 0) ? 2
																												   : 0;
		case ValueKind::kDate:
		{
			int32 date;

			if (!read_date_text(&cursor, &date))
				return 0;
			put_int32(key + 1, date);
			key_length = 5;
			break;
		}
		case ValueKind::kTimestamp:
		case ValueKind::kTimestamptz:
			if (!read_timestamp_text(&cursor, kind == ValueKind::kTimestamptz, &value))
				return 0;
			put_int64(key + 1, value);
			key_length = 9;
			break;
		case ValueKind::kTime:
			if (!read_time_text(&cursor, &value))
				return 0;
			put_int64(key + 1, value);
			key_length = 9;
			break;
		case ValueKind::kUuid:
			if (!read_uuid_value(&cursor, key + 1))
				return 0;
			key_length = 1 + UUID_LEN;
			break;
	}
	return cursor.next == cursor.end ? key_length : 0;
}

bool
key_is_valid(ElementKey key)
{
	const uint8 *value = key.bytes + 1;
	const uint32 length = key.length - 1;

	if (key.length == 0)
		return false;
	switch (static_cast<ValueKind>(key.bytes[0]))
	{
		case ValueKind::kNumber:
		{
			char digits[kMaxNumberDigits + 2];
			NumberFromKey number;

			return length <= kMaxNumberKey && read_number_key(value, static_cast<int>(length), digits, &number);
		}
		case ValueKind::kString:
			return memchr(value, 0, length) == nullptr;
		case ValueKind::kBoolean:
			return length == 1 && value[0] <= 1;
		case ValueKind::kDate:
			return length == 4 && (DATE_NOT_FINITE(get_int32(value)) || IS_VALID_DATE(get_int32(value)));
		case ValueKind::kTimestamp:
		case ValueKind::kTimestamptz:
			return length == 8 && (TIMESTAMP_NOT_FINITE(get_int64(value)) || IS_VALID_TIMESTAMP(get_int64(value)));
		case ValueKind::kTime:
			return length == 8 && get_int64(value) >= 0 && get_int64(value) <= USECS_PER_DAY;
		case ValueKind::kUuid:
			return length == UUID_LEN;
	}
	return false;
}

} // namespace vectorgpu::types

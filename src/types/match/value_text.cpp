// Values of matchrow and matchquery as text, and what of a value from outside is valid. PG dialect.
//
// The same on every server and in every session: dates in ISO form, timestamps with time zone in UTC, whatever
// DateStyle and TimeZone are. Only what is written is read, so that reading is immutable too: "today" and the like are
// no dates here.
#include "types/match/row_value.hpp"

extern "C"
{
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
}

#include "types/match/number_key.hpp"

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

// --- output ------------------------------------------------------------------

void
append_date(StringInfo text, int julian_day)
{
	int year;
	int month;
	int day;

	j2date(julian_day, &year, &month, &day);
	appendStringInfo(text, "%04d-%02d-%02d", year > 0 ? year : 1 - year, month, day);
}

/// The year 0 of the calendar that is counted with is 1 BC.
void
append_era(StringInfo text, int julian_day)
{
	int year;
	int month;
	int day;

	j2date(julian_day, &year, &month, &day);
	if (year <= 0)
		appendStringInfoString(text, " BC");
}

void
append_time(StringInfo text, int64 microseconds)
{
	const int64 seconds = microseconds / USECS_PER_SEC;
	int fraction = static_cast<int>(microseconds % USECS_PER_SEC);
	int digits = 6;

	appendStringInfo(text, "%02d:%02d:%02d", static_cast<int>(seconds / SECS_PER_HOUR),
		static_cast<int>(seconds / SECS_PER_MINUTE % MINS_PER_HOUR), static_cast<int>(seconds % SECS_PER_MINUTE));
	if (fraction == 0)
		return;
	for (; fraction % 10 == 0; fraction /= 10)
		digits--;
	appendStringInfo(text, ".%0*d", digits, fraction);
}

void
append_timestamp(StringInfo text, int64 value, bool utc)
{
	int64 day = value / USECS_PER_DAY;
	int64 time = value % USECS_PER_DAY;

	if (TIMESTAMP_IS_NOBEGIN(value) || TIMESTAMP_IS_NOEND(value))
	{
		appendStringInfoString(text, TIMESTAMP_IS_NOBEGIN(value) ? "-infinity" : "infinity");
		return;
	}
	if (time < 0)
	{
		time += USECS_PER_DAY;
		day--;
	}
	append_date(text, static_cast<int>(day) + POSTGRES_EPOCH_JDATE);
	appendStringInfoChar(text, ' ');
	append_time(text, time);
	if (utc)
		appendStringInfoChar(text, 'Z');
	append_era(text, static_cast<int>(day) + POSTGRES_EPOCH_JDATE);
}

// --- input -------------------------------------------------------------------

/// Where a value's text is read.
struct Cursor
{
	const char *next;
	const char *end;
};

/// A number of min_digits to max_digits digits.
bool
read_digits(Cursor *cursor, int min_digits, int max_digits, int *number)
{
	int digits = 0;

	*number = 0;
	for (; cursor->next < cursor->end && digits < max_digits && *cursor->next >= '0' && *cursor->next <= '9'; digits++)
		*number = *number * 10 + (*cursor->next++ - '0');
	return digits >= min_digits;
}

bool
read_char(Cursor *cursor, char wanted)
{
	if (cursor->next == cursor->end || *cursor->next != wanted)
		return false;
	cursor->next++;
	return true;
}

bool
read_word(Cursor *cursor, const char *word)
{
	const Size length = strlen(word);

	if (static_cast<Size>(cursor->end - cursor->next) < length || memcmp(cursor->next, word, length) != 0)
		return false;
	cursor->next += length;
	return true;
}

struct YearMonthDay
{
	int year;
	int month;
	int day;
};

bool
read_date(Cursor *cursor, YearMonthDay *date)
{
	return read_digits(cursor, 4, 7, &date->year) && read_char(cursor, '-') &&
		read_digits(cursor, 2, 2, &date->month) && read_char(cursor, '-') && read_digits(cursor, 2, 2, &date->day);
}

bool
read_time(Cursor *cursor, int64 *microseconds)
{
	int hour;
	int minute;
	int second;
	int fraction = 0;

	if (!read_digits(cursor, 2, 2, &hour) || !read_char(cursor, ':') || !read_digits(cursor, 2, 2, &minute) ||
		!read_char(cursor, ':') || !read_digits(cursor, 2, 2, &second) || minute > 59 || second > 59)
		return false;
	if (read_char(cursor, '.'))
	{
		const char *start = cursor->next;

		if (!read_digits(cursor, 1, 6, &fraction))
			return false;
		for (auto digits = cursor->next - start; digits < 6; digits++)
			fraction *= 10;
	}
	*microseconds = ((hour * INT64CONST(60) + minute) * 60 + second) * USECS_PER_SEC + fraction;
	return *microseconds <= USECS_PER_DAY;
}

/// The Julian day of a date with its era.
bool
julian_day(YearMonthDay date, bool before_christ, int *day)
{
	const int year = before_christ ? 1 - date.year : date.year;

	if (date.year == 0 || date.month < 1 || date.month > MONTHS_PER_YEAR || date.day < 1 ||
		date.day > day_tab[isleap(year)][date.month - 1] || !IS_VALID_JULIAN(year, date.month, date.day))
		return false;
	*day = date2j(year, date.month, date.day);
	return true;
}

bool
read_date_value(Cursor *cursor, int32 *value)
{
	YearMonthDay date;
	int day;

	if (read_word(cursor, "infinity"))
	{
		DATE_NOEND(*value);
		return true;
	}
	if (read_word(cursor, "-infinity"))
	{
		DATE_NOBEGIN(*value);
		return true;
	}
	if (!read_date(cursor, &date) || !julian_day(date, read_word(cursor, " BC"), &day))
		return false;
	*value = day - POSTGRES_EPOCH_JDATE;
	return IS_VALID_DATE(*value);
}

bool
read_timestamp_value(Cursor *cursor, bool utc, int64 *value)
{
	YearMonthDay date;
	int64 time;
	int day;

	if (read_word(cursor, "infinity"))
	{
		TIMESTAMP_NOEND(*value);
		return true;
	}
	if (read_word(cursor, "-infinity"))
	{
		TIMESTAMP_NOBEGIN(*value);
		return true;
	}
	if (!read_date(cursor, &date) || !(read_char(cursor, ' ') || read_char(cursor, 'T')) || !read_time(cursor, &time) ||
		time == USECS_PER_DAY || (utc && !read_char(cursor, 'Z')) || !julian_day(date, read_word(cursor, " BC"), &day))
		return false;
	// far from the limits of int64: the days are within those of dates
	if (__builtin_mul_overflow(static_cast<int64>(day) - POSTGRES_EPOCH_JDATE, USECS_PER_DAY, value) ||
		__builtin_add_overflow(*value, time, value))
		return false;
	return IS_VALID_TIMESTAMP(*value);
}

bool
read_uuid_value(Cursor *cursor, uint8 *bytes)
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
		{
			const int32 date = get_int32(value);

			if (DATE_NOT_FINITE(date))
				appendStringInfoString(text, DATE_IS_NOBEGIN(date) ? "-infinity" : "infinity");
			else
			{
				append_date(text, date + POSTGRES_EPOCH_JDATE);
				append_era(text, date + POSTGRES_EPOCH_JDATE);
			}
			break;
		}
		case ValueKind::kTimestamp:
		case ValueKind::kTimestamptz:
			append_timestamp(text, get_int64(value), static_cast<ValueKind>(key.bytes[0]) == ValueKind::kTimestamptz);
			break;
		case ValueKind::kTime:
			append_time(text, get_int64(value));
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
	Cursor cursor = {text, text + length};
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

			if (!read_date_value(&cursor, &date))
				return 0;
			put_int32(key + 1, date);
			key_length = 5;
			break;
		}
		case ValueKind::kTimestamp:
		case ValueKind::kTimestamptz:
			if (!read_timestamp_value(&cursor, kind == ValueKind::kTimestamptz, &value))
				return 0;
			put_int64(key + 1, value);
			key_length = 9;
			break;
		case ValueKind::kTime:
			if (!read_time(&cursor, &value))
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

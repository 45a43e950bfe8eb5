// Dates, times and timestamps as text. See date_text.hpp. PG dialect.
#include "types/match/date_text.hpp"

extern "C"
{
#include "datatype/timestamp.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"
}

namespace vectorgpu::types
{
namespace
{

void
append_date(StringInfo text, int julian_day)
{
	int year;
	int month;
	int day;

	j2date(julian_day, &year, &month, &day);
	appendStringInfo(text, "%04d-%02d-%02d", year > 0 ? year : 1 - year, month, day);
}

/// Append " BC" for years before 1. Year 0 of j2date is 1 BC.
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

/// Read a number of min_digits to max_digits digits.
bool
read_digits(TextCursor *cursor, int min_digits, int max_digits, int *number)
{
	int digits = 0;

	*number = 0;
	for (; cursor->next < cursor->end && digits < max_digits && *cursor->next >= '0' && *cursor->next <= '9'; digits++)
		*number = *number * 10 + (*cursor->next++ - '0');
	return digits >= min_digits;
}

bool
read_word(TextCursor *cursor, const char *word)
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
read_date(TextCursor *cursor, YearMonthDay *date)
{
	return read_digits(cursor, 4, 7, &date->year) && read_char(cursor, '-') &&
		read_digits(cursor, 2, 2, &date->month) && read_char(cursor, '-') && read_digits(cursor, 2, 2, &date->day);
}

/// Compute the Julian day of a date with its era. Returns false if the date does not exist.
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

} // namespace

void
append_date_text(StringInfo text, int32 date)
{
	if (DATE_NOT_FINITE(date))
	{
		appendStringInfoString(text, DATE_IS_NOBEGIN(date) ? "-infinity" : "infinity");
		return;
	}
	append_date(text, date + POSTGRES_EPOCH_JDATE);
	append_era(text, date + POSTGRES_EPOCH_JDATE);
}

void
append_time_text(StringInfo text, int64 microseconds)
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
append_timestamp_text(StringInfo text, int64 value, bool utc)
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
	append_time_text(text, time);
	if (utc)
		appendStringInfoChar(text, 'Z');
	append_era(text, static_cast<int>(day) + POSTGRES_EPOCH_JDATE);
}

bool
read_date_text(TextCursor *cursor, int32 *value)
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
read_time_text(TextCursor *cursor, int64 *microseconds)
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

bool
read_timestamp_text(TextCursor *cursor, bool utc, int64 *value)
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
	if (!read_date(cursor, &date) || !(read_char(cursor, ' ') || read_char(cursor, 'T')) ||
		!read_time_text(cursor, &time) || time == USECS_PER_DAY || (utc && !read_char(cursor, 'Z')) ||
		!julian_day(date, read_word(cursor, " BC"), &day))
		return false;
	// cannot overflow for valid dates, which are far from the limits of int64
	if (__builtin_mul_overflow(static_cast<int64>(day) - POSTGRES_EPOCH_JDATE, USECS_PER_DAY, value) ||
		__builtin_add_overflow(*value, time, value))
		return false;
	return IS_VALID_TIMESTAMP(*value);
}

} // namespace vectorgpu::types

// Dates, times and timestamps as text, in the form that PostgreSQL writes with DateStyle ISO and TimeZone UTC, whatever
// the session's settings are. PG dialect. Used by value_text.cpp.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "lib/stringinfo.h"
}

namespace vectorgpu::types
{

/// The part of a text that is still to be read.
struct TextCursor
{
	const char *next;
	const char *end;
};

/// Read one given character. Returns false, and reads nothing, if another one comes next.
inline bool
read_char(TextCursor *cursor, char wanted)
{
	if (cursor->next == cursor->end || *cursor->next != wanted)
		return false;
	cursor->next++;
	return true;
}

/// Append a date (days since 2000-01-01) as text.
extern void append_date_text(StringInfo text, int32 date);

/// Append a time of day (microseconds since midnight) as text.
extern void append_time_text(StringInfo text, int64 microseconds);

/// Append a timestamp (microseconds since 2000-01-01); utc: followed by Z.
extern void append_timestamp_text(StringInfo text, int64 value, bool utc);

/// Read a value. Return false if the text is malformed or the value out of range.
extern bool read_date_text(TextCursor *cursor, int32 *value);
extern bool read_time_text(TextCursor *cursor, int64 *microseconds);
extern bool read_timestamp_text(TextCursor *cursor, bool utc, int64 *value);

} // namespace vectorgpu::types

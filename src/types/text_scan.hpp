// Reading a value from text, as the input functions of all vector types do it. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "mb/pg_wchar.h"
}

#include "types/parse_float.hpp"
#include "types/vector_type.hpp"

namespace vectorgpu::types
{

/// The blanks of the C locale's isspace.
inline bool
is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

inline const char *
skip_blanks(const char *at)
{
	while (is_blank(*at))
		at++;
	return at;
}

/// Raise the error for a malformed literal at `at`, where `expected` should have been. at_end: the detail if the
/// literal ends there.
template <class E>
[[noreturn]] void
report_syntax_error(const char *literal, const char *at, const char *expected, const char *at_end)
{
	// counted in characters, not bytes
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			errmsg("invalid input syntax for type %s: \"%s\"", E::kTypeName, literal),
			*at == '\0'
				? errdetail("%s", at_end)
				: errdetail("Expected %s, but found \"%s\" at character %d.", expected, pnstrdup(at, pg_mblen(at)),
					  pg_mbstrlen_with_len(literal, static_cast<int>(at - literal)) + 1)));
	pg_unreachable();
}

/// Read the number at *at and move *at past it. Raises an error unless it is a finite number of this type.
template <class E>
inline typename E::Storage
parse_element(const char *literal, const char **at, const char *at_end)
{
	const char *start = *at;
	const char *end;

	errno = 0;
	const float number = parse_float(start, &end);

	if (unlikely(end == start))
		report_syntax_error<E>(literal, start, "a number", at_end);

	const typename E::Storage element = E::from_float(number);

	// if the text does not spell an infinity, the number was too large
	if (unlikely((E::is_infinite(element) && (errno == ERANGE || !std::isinf(number))) ||
			(E::kUnderflowIsError && number == 0 && errno == ERANGE)))
		ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				errmsg("\"%s\" is out of range for type %s", pnstrdup(start, end - start), E::kTypeName)));
	check_element<E>(element);
	*at = end;
	return element;
}

} // namespace vectorgpu::types

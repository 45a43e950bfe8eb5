// Text input and output of vector and halfvec, and their type modifier. PG dialect.
//
// The format is [1,2.5,-3e-7]: numbers as strtof reads them, blanks allowed around brackets and numbers.
#include "types/sql_function.hpp"

extern "C"
{
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
}

#include "types/parse_float.hpp"

namespace vectorgpu::types
{

namespace
{

// The blanks of the C locale's isspace.
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

/// Raise the error for a malformed literal at `at`, where `expected` should have been.
template <class E>
[[noreturn]] void
report_syntax_error(const char *literal, const char *at, const char *expected)
{
	// counted in characters, not bytes
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			errmsg("invalid input syntax for type %s: \"%s\"", E::kTypeName, literal),
			*at == '\0'
				? errdetail("Vector contents must end with \"]\".")
				: errdetail("Expected %s, but found \"%s\" at character %d.", expected, pnstrdup(at, pg_mblen(at)),
					  pg_mbstrlen_with_len(literal, static_cast<int>(at - literal)) + 1)));
	pg_unreachable();
}

// Read the number at *at and move *at past it. Raises an error unless it is a finite number of this type.
template <class E>
inline typename E::Storage
parse_element(const char *literal, const char **at)
{
	const char *start = *at;
	const char *end;

	errno = 0;
	const float number = parse_float(start, &end);

	if (unlikely(end == start))
		report_syntax_error<E>(literal, start, "a number");

	const typename E::Storage element = E::from_float(number);

	// if the text does not spell an infinity, the number was too large
	if (unlikely(E::is_infinite(element) && (errno == ERANGE || !std::isinf(number))))
		ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				errmsg("\"%s\" is out of range for type %s", pnstrdup(start, end - start), E::kTypeName)));
	check_element<E>(element);
	*at = end;
	return element;
}

// Return an upper bound on the number of elements in a literal, from its commas.
int
count_elements(const char *at)
{
	int n_elements = 1;

	while ((at = strchr(at, ',')) != NULL && n_elements < kMaxDimensions)
	{
		n_elements++;
		at++;
	}
	return n_elements;
}

template <class E>
Datum
in_impl(PG_FUNCTION_ARGS)
{
	const char *literal = PG_GETARG_CSTRING(0);
	const int32 typmod = PG_GETARG_INT32(2);
	const char *at = skip_blanks(literal);
	int dim = 0;

	if (*at != '[')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				errmsg("invalid input syntax for type %s: \"%s\"", E::kTypeName, literal),
				errdetail("Vector contents must start with \"[\".")));
	at = skip_blanks(at + 1);
	if (*at == ']')
		check_dim<E>(0);

	const int capacity = count_elements(at);
	VectorValue *result = new_vector<E>(capacity);
	typename E::Storage *elements = elements_of<E>(result);

	for (;;)
	{
		if (dim == capacity) // a literal has more numbers than that only if they are too many
			check_dim<E>(static_cast<int64>(dim) + 1);
		at = skip_blanks(at);
		elements[dim++] = parse_element<E>(literal, &at);
		at = skip_blanks(at);
		if (*at == ']')
			break;
		if (*at != ',')
			report_syntax_error<E>(literal, at, "\",\" or \"]\"");
		at++;
	}

	at = skip_blanks(at + 1);
	if (*at != '\0')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				errmsg("invalid input syntax for type %s: \"%s\"", E::kTypeName, literal),
				errdetail("Junk after closing right bracket.")));
	check_expected_dim(typmod, dim);

	// commas after the bracket were refused above, so every counted element was read
	Assert(dim == capacity);
	PG_RETURN_POINTER(result);
}

template <class E>
Datum
out_impl(PG_FUNCTION_ARGS)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const typename E::Storage *elements = elements_of<E>(value);

	// per element a number (the constant counts its terminator) and a comma or bracket; then the opening bracket and
	// the terminator
	char *text = static_cast<char *>(palloc(static_cast<Size>(value->dim) * FLOAT_SHORTEST_DECIMAL_LEN + 2));
	char *at = text;

	*at++ = '[';
	for (int i = 0; i < value->dim; i++)
	{
		if (i > 0)
			*at++ = ',';
		at += float_to_shortest_decimal_bufn(E::to_float(elements[i]), at);
	}
	*at++ = ']';
	*at = '\0';
	PG_RETURN_CSTRING(text);
}

template <class E>
Datum
typmod_in_impl(PG_FUNCTION_ARGS)
{
	ArrayType *modifiers = PG_GETARG_ARRAYTYPE_P(0);
	int n_modifiers;
	const int32 *modifier = ArrayGetIntegerTypmods(modifiers, &n_modifiers);

	if (n_modifiers != 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid type modifier")));
	if (*modifier < 1)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("dimensions for type %s must be at least 1", E::kTypeName)));
	if (*modifier > kMaxDimensions)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("dimensions for type %s cannot exceed %d", E::kTypeName, kMaxDimensions)));
	PG_RETURN_INT32(*modifier);
}

} // namespace

} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(in)
VG_SQL_FUNCTION_BOTH(out)
VG_SQL_FUNCTION_BOTH(typmod_in)

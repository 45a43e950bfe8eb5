// Text input and output of vector and halfvec, and the type modifier of all types. PG dialect.
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

#include "types/sparse.hpp"
#include "types/text_scan.hpp"

namespace vectorgpu::types
{

namespace
{

constexpr const char *kVectorEnd = "Vector contents must end with \"]\".";

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
		elements[dim++] = parse_element<E>(literal, &at, kVectorEnd);
		at = skip_blanks(at);
		if (*at == ']')
			break;
		if (*at != ',')
			report_syntax_error<E>(literal, at, "\",\" or \"]\"", kVectorEnd);
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
	if (*modifier > E::kMaxDim)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("dimensions for type %s cannot exceed %d", E::kTypeName, E::kMaxDim)));
	PG_RETURN_INT32(*modifier);
}

} // namespace

} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(in)
VG_SQL_FUNCTION_BOTH(out)
VG_SQL_FUNCTION_BOTH(typmod_in)
VG_SQL_FUNCTION(sparsevec_typmod_in, vectorgpu::types::typmod_in_impl<vectorgpu::types::Sparse>(fcinfo))

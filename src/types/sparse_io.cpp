// Text and binary input and output of sparsevec. PG dialect.
//
// Text: {1:1.5,7:-2}/10, that is index:element for each element that is not 0, indices from 1, then the dimensions.
// Binary, big-endian: int32 dim, int32 nnz, int32 0, int32 indices [nnz] from 0, float4 elements [nnz].
#include "types/sparse.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

extern "C"
{
#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "port/pg_bswap.h"
}

#include "types/sql_function.hpp"
#include "types/text_scan.hpp"

namespace vectorgpu::types
{
namespace
{

constexpr const char *kEnd = "Unexpected end of input.";

/// Read the whole number at *at and move *at past it. One out of range of int32 becomes the end of the range, which is
/// out of the bounds of indices and dimensions.
int32
parse_integer(const char *literal, const char **at)
{
	char *end;
	const long number = strtol(*at, &end, 10);

	if (end == *at)
		report_syntax_error<Sparse>(literal, *at, "a whole number", kEnd);
	*at = end;
	return static_cast<int32>(Max(Min(number, static_cast<long>(PG_INT32_MAX)), -static_cast<long>(PG_INT32_MAX)));
}

/// Move past `wanted`, and blanks before and after it.
const char *
skip_sign(const char *literal, const char *at, char wanted, const char *expected)
{
	at = skip_blanks(at);
	if (*at != wanted)
		report_syntax_error<Sparse>(literal, at, expected, kEnd);
	return skip_blanks(at + 1);
}

/// Return an upper bound on the number of elements in a literal, from its commas.
int
count_elements(const char *at)
{
	int n = 1;

	for (; (at = strchr(at, ',')) != NULL; at++)
		if (++n > kMaxNonZeros)
			break;
	check_nnz(n, kMaxSparseDimensions);
	return n;
}

/// Read the elements behind the opening brace at *at, except those that are 0, and move *at past the closing one.
/// elements [count_elements] in the order of the text. Returns their number.
int
parse_elements(const char *literal, const char **at, SparseElement *elements)
{
	const char *next = skip_blanks(*at + 1);
	int n = 0;

	if (*next == '}')
	{
		*at = next + 1;
		return 0;
	}
	for (;;)
	{
		next = skip_blanks(next);

		const int32 index = parse_integer(literal, &next) - 1;

		next = skip_sign(literal, next, ':', "\":\"");

		const float value = parse_element<Sparse>(literal, &next, kEnd);

		if (value != 0)
			elements[n++] = {index, value};
		next = skip_blanks(next);
		if (*next == '}')
			break;
		if (*next != ',')
			report_syntax_error<Sparse>(literal, next, "\",\" or \"}\"", kEnd);
		next++;
	}
	*at = next + 1;
	return n;
}

Datum
in(FunctionCallInfo fcinfo)
{
	const char *literal = PG_GETARG_CSTRING(0);
	const int32 typmod = PG_GETARG_INT32(2);
	SparseElement *elements = static_cast<SparseElement *>(palloc(count_elements(literal) * sizeof(SparseElement)));
	const char *at = skip_blanks(literal);

	if (*at != '{')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				errmsg("invalid input syntax for type %s: \"%s\"", Sparse::kTypeName, literal),
				errdetail("Vector contents must start with \"{\".")));

	const int nnz = parse_elements(literal, &at, elements);

	at = skip_sign(literal, at, '/', "\"/\"");

	const int32 dim = parse_integer(literal, &at);

	if (*skip_blanks(at) != '\0')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				errmsg("invalid input syntax for type %s: \"%s\"", Sparse::kTypeName, literal),
				errdetail("Junk after closing.")));
	check_dim<Sparse>(dim);
	check_expected_dim(typmod, dim);

	std::sort(
		elements, elements + nnz, [](const SparseElement &a, const SparseElement &b) { return a.index < b.index; });

	SparseValue *result = sparse_from_elements(dim, elements, nnz);

	check_indices(result);
	pfree(elements);
	PG_RETURN_POINTER(result);
}

Datum
out(FunctionCallInfo fcinfo)
{
	constexpr Size kNumberLength = 10; // of a positive int32
	const SparseValue *value = sparse_from_datum(PG_GETARG_DATUM(0));
	const int32 *indices = value->indices();
	const float *values = value->values();

	// per element an index, a colon, an element (the constant counts its terminator) and a comma; then braces, slash,
	// dimensions, terminator
	const Size size = value->nnz * (kNumberLength + 1 + FLOAT_SHORTEST_DECIMAL_LEN) + 4 + kNumberLength;
	char *text = static_cast<char *>(palloc(size));
	char *at = text;

	*at++ = '{';
	for (int i = 0; i < value->nnz; i++)
	{
		if (i > 0)
			*at++ = ',';
		at = std::to_chars(at, at + kNumberLength, indices[i] + 1).ptr;
		*at++ = ':';
		at += float_to_shortest_decimal_bufn(values[i], at);
	}
	*at++ = '}';
	*at++ = '/';
	at = std::to_chars(at, at + kNumberLength, value->dim).ptr;
	*at = '\0';
	PG_RETURN_CSTRING(text);
}

uint32
read_word(const char *bytes)
{
	uint32 word;

	memcpy(&word, bytes, sizeof(word));
	return pg_ntoh32(word);
}

Datum
recv(FunctionCallInfo fcinfo)
{
	StringInfo message = reinterpret_cast<StringInfo>(PG_GETARG_POINTER(0));
	const int32 typmod = PG_GETARG_INT32(2);
	const int32 dim = static_cast<int32>(pq_getmsgint(message, sizeof(int32)));
	const int32 nnz = static_cast<int32>(pq_getmsgint(message, sizeof(int32)));
	const int32 unused = static_cast<int32>(pq_getmsgint(message, sizeof(int32)));

	check_dim<Sparse>(dim);
	check_nnz(nnz, dim);
	check_expected_dim(typmod, dim);
	if (unused != 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("expected unused to be 0, not %d", unused)));

	const int array_bytes = nnz * static_cast<int>(sizeof(int32));
	const char *bytes = pq_getmsgbytes(message, 2 * array_bytes);
	SparseValue *result = new_sparse(dim, nnz);
	int32 *indices = result->indices();
	float *values = result->values();

	for (int i = 0; i < nnz; i++, bytes += sizeof(int32))
		indices[i] = static_cast<int32>(read_word(bytes));
	check_indices(result);
	for (int i = 0; i < nnz; i++, bytes += sizeof(float))
	{
		values[i] = std::bit_cast<float>(read_word(bytes));
		check_element<Sparse>(values[i]);
		if (values[i] == 0)
			ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
					errmsg("binary representation of sparsevec cannot contain zero values")));
	}
	PG_RETURN_POINTER(result);
}

Datum
send(FunctionCallInfo fcinfo)
{
	const SparseValue *value = sparse_from_datum(PG_GETARG_DATUM(0));
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendint32(&message, static_cast<uint32>(value->dim));
	pq_sendint32(&message, static_cast<uint32>(value->nnz));
	pq_sendint32(&message, static_cast<uint32>(value->unused));
	enlargeStringInfo(&message, value->nnz * static_cast<int>(sizeof(int32) + sizeof(float)));
	for (int i = 0; i < value->nnz; i++)
		pq_writeint32(&message, static_cast<uint32>(value->indices()[i]));
	for (int i = 0; i < value->nnz; i++)
		pq_writeint32(&message, std::bit_cast<uint32>(value->values()[i]));
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(sparsevec_in, vectorgpu::types::in(fcinfo))
VG_SQL_FUNCTION(sparsevec_out, vectorgpu::types::out(fcinfo))
VG_SQL_FUNCTION(sparsevec_recv, vectorgpu::types::recv(fcinfo))
VG_SQL_FUNCTION(sparsevec_send, vectorgpu::types::send(fcinfo))

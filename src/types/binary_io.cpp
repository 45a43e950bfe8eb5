// Binary input and output of vector and halfvec (COPY BINARY, binary parameters and results). PG dialect.
//
// Format, big-endian: int16 dim, int16 0, then dim elements of 4 or 2 bytes.
#include "types/sql_function.hpp"

extern "C"
{
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "port/pg_bswap.h"
}

namespace vectorgpu::types
{
namespace
{

inline float
swap_bytes(float value)
{
	return std::bit_cast<float>(pg_ntoh32(std::bit_cast<uint32>(value)));
}

inline uint16_t
swap_bytes(uint16_t value)
{
	return pg_ntoh16(value);
}

template <class E>
Datum
recv_impl(PG_FUNCTION_ARGS)
{
	using Storage = typename E::Storage;
	StringInfo message = reinterpret_cast<StringInfo>(PG_GETARG_POINTER(0));
	const int32 typmod = PG_GETARG_INT32(2);
	const int dim = static_cast<int>(pq_getmsgint(message, sizeof(int16)));
	const int unused = static_cast<int>(pq_getmsgint(message, sizeof(int16)));

	check_dim<E>(dim);
	check_expected_dim(typmod, dim);
	if (unused != 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("expected unused to be 0, not %d", unused)));

	const char *bytes = pq_getmsgbytes(message, dim * static_cast<int>(sizeof(Storage)));
	VectorValue *result = new_vector<E>(dim);
	Storage *elements = elements_of<E>(result);

	memcpy(elements, bytes, dim * sizeof(Storage));
	for (int i = 0; i < dim; i++)
	{
		elements[i] = swap_bytes(elements[i]);
		check_element<E>(elements[i]);
	}
	PG_RETURN_POINTER(result);
}

template <class E>
Datum
send_impl(PG_FUNCTION_ARGS)
{
	using Storage = typename E::Storage;
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const Storage *elements = elements_of<E>(value);
	const int n_bytes = value->dim * static_cast<int>(sizeof(Storage));
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendint16(&message, static_cast<uint16>(value->dim));
	pq_sendint16(&message, static_cast<uint16>(value->unused));
	enlargeStringInfo(&message, n_bytes);
	for (int i = 0; i < value->dim; i++)
	{
		const Storage element = swap_bytes(elements[i]);

		memcpy(message.data + message.len, &element, sizeof(Storage));
		message.len += sizeof(Storage);
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION_BOTH(recv)
VG_SQL_FUNCTION_BOTH(send)

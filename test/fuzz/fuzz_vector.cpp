// libFuzzer target: input of vector, halfvec and sparsevec. The first byte selects type and form (bit 0: halfvec, bit
// 1: binary, bit 2: sparsevec), the second a type modifier. A value that is read is written and read again: the bytes
// stay the same.
#include "fake_server.hpp"

#include <cstring>

#include "types/sparse.hpp"

extern "C"
{
#include "lib/stringinfo.h"

	Datum vectorgpu_vector_in(PG_FUNCTION_ARGS);
	Datum vectorgpu_vector_out(PG_FUNCTION_ARGS);
	Datum vectorgpu_vector_recv(PG_FUNCTION_ARGS);
	Datum vectorgpu_vector_send(PG_FUNCTION_ARGS);
	Datum vectorgpu_halfvec_in(PG_FUNCTION_ARGS);
	Datum vectorgpu_halfvec_out(PG_FUNCTION_ARGS);
	Datum vectorgpu_halfvec_recv(PG_FUNCTION_ARGS);
	Datum vectorgpu_halfvec_send(PG_FUNCTION_ARGS);
	Datum vectorgpu_sparsevec_in(PG_FUNCTION_ARGS);
	Datum vectorgpu_sparsevec_out(PG_FUNCTION_ARGS);
	Datum vectorgpu_sparsevec_recv(PG_FUNCTION_ARGS);
	Datum vectorgpu_sparsevec_send(PG_FUNCTION_ARGS);
}

using namespace vectorgpu;

namespace
{

struct Functions
{
	PGFunction in, out, recv, send;
	size_t element_bytes; // 0: of sparsevec
};

constexpr Functions kTypes[] = {
	{vectorgpu_vector_in, vectorgpu_vector_out, vectorgpu_vector_recv, vectorgpu_vector_send, 4},
	{vectorgpu_halfvec_in, vectorgpu_halfvec_out, vectorgpu_halfvec_recv, vectorgpu_halfvec_send, 2},
	{vectorgpu_sparsevec_in, vectorgpu_sparsevec_out, vectorgpu_sparsevec_recv, vectorgpu_sparsevec_send, 0},
};

Datum
call(PGFunction function, Datum argument, int32 typmod)
{
	LOCAL_FCINFO(fcinfo, 3);

	InitFunctionCallInfoData(*fcinfo, nullptr, 3, InvalidOid, nullptr, nullptr);
	fcinfo->args[0] = {argument, false};
	fcinfo->args[1] = {ObjectIdGetDatum(InvalidOid), false};
	fcinfo->args[2] = {Int32GetDatum(typmod), false};
	return function(fcinfo);
}

/// Receive a value from a message of exactly that size.
Datum
receive(const Functions &type, const char *bytes, size_t n, int32 typmod)
{
	char *copy = static_cast<char *>(palloc(n));
	StringInfoData message = {copy, static_cast<int>(n), static_cast<int>(n), 0};

	memcpy(copy, bytes, n);
	return call(type.recv, PointerGetDatum(&message), typmod);
}

bool
same(Datum a, Datum b)
{
	const void *x = DatumGetPointer(a);
	const void *y = DatumGetPointer(b);

	return VARSIZE(x) == VARSIZE(y) && memcmp(x, y, VARSIZE(x)) == 0;
}

void
require_dense(Datum value, int32 typmod, size_t element_bytes)
{
	const types::VectorValue *vector = reinterpret_cast<const types::VectorValue *>(DatumGetPointer(value));

	REQUIRE(vector->dim >= 1 && vector->dim <= kMaxDimensions && vector->unused == 0);
	REQUIRE(typmod < 0 || vector->dim == typmod);
	REQUIRE(VARSIZE(vector) == sizeof(*vector) + vector->dim * element_bytes);
}

void
require_sparse(Datum value, int32 typmod)
{
	const types::SparseValue *vector = reinterpret_cast<const types::SparseValue *>(DatumGetPointer(value));

	REQUIRE(vector->dim >= 1 && vector->dim <= types::kMaxSparseDimensions && vector->unused == 0);
	REQUIRE(typmod < 0 || vector->dim == typmod);
	REQUIRE(vector->nnz >= 0 && vector->nnz <= types::kMaxNonZeros && vector->nnz <= vector->dim);
	REQUIRE(VARSIZE(vector) == sizeof(*vector) + vector->nnz * (sizeof(int32) + sizeof(float)));
	for (int i = 0; i < vector->nnz; i++)
	{
		REQUIRE(vector->indices()[i] > (i > 0 ? vector->indices()[i - 1] : -1));
		REQUIRE(vector->indices()[i] < vector->dim);
		REQUIRE(std::isfinite(vector->values()[i]) && vector->values()[i] != 0);
	}
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Datum value; // written before a jump, read behind it
	int32 typmod;

	if (size < 2)
		return 0;
	const Functions &type = kTypes[(data[0] & 4) != 0 ? 2 : data[0] & 1];
	const char *rest = reinterpret_cast<const char *>(data) + 2;
	const bool binary = (data[0] & 2) != 0;
	const size_t n = size - 2;

	const fuzz::Call one_call;
	typmod = data[1] == 0 ? -1 : data[1];
	if (!fuzz::no_error(
			[&]
			{
				value =
					binary ? receive(type, rest, n, typmod) : call(type.in, CStringGetDatum(pnstrdup(rest, n)), typmod);
			}))
		return 0;

	if (type.element_bytes == 0)
		require_sparse(value, typmod);
	else
		require_dense(value, typmod, type.element_bytes);
	REQUIRE(fuzz::no_error([&] { REQUIRE(same(value, call(type.in, call(type.out, value, -1), typmod))); }));
	REQUIRE(fuzz::no_error(
		[&]
		{
			const bytea *sent = DatumGetByteaPP(call(type.send, value, -1));

			REQUIRE(same(value, receive(type, VARDATA_ANY(sent), VARSIZE_ANY_EXHDR(sent), typmod)));
		}));
	return 0;
}

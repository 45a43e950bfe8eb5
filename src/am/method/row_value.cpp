// Reading values of vector, halfvec and bit without copying the elements when they lie in the tuple. See row_value.hpp.
#include "am/method/row_value.hpp"

#include <cstring>

#include "types/vector_type.hpp"

extern "C"
{
#include "utils/varbit.h"
}

namespace vectorgpu::am
{

namespace
{

// Behind the length word, which may be short: vector and halfvec have int16 dim, int16 unused; bit has int32 bit_len.
constexpr Size kValueHeaderBytes = 4;

static_assert(sizeof(types::VectorValue) == VARHDRSZ + kValueHeaderBytes);
static_assert(offsetof(VarBit, bit_dat) == VARHDRSZ + kValueHeaderBytes);

const char *
type_name(ElementType element)
{
	return element == ElementType::kFloat16 ? "halfvec" : "vector";
}

} // namespace

RowValue
row_value_open(ElementType element, Datum datum)
{
	struct varlena *packed = pg_detoast_datum_packed(reinterpret_cast<struct varlena *>(DatumGetPointer(datum)));
	const char *data = VARDATA_ANY(packed);
	const Size n_bytes = VARSIZE_ANY_EXHDR(packed);
	RowValue value = {data + kValueHeaderBytes, 0, nullptr};

	if (reinterpret_cast<Pointer>(packed) != DatumGetPointer(datum))
		value.copy = packed;
	if (n_bytes >= kValueHeaderBytes)
	{
		if (element == ElementType::kBit)
			memcpy(&value.dim, data, sizeof(value.dim));
		else
		{
			int16 dim;

			memcpy(&dim, data, sizeof(dim));
			value.dim = static_cast<uint32>(dim);
		}
	}
	if (n_bytes < kValueHeaderBytes || n_bytes - kValueHeaderBytes != vector_bytes(element, value.dim))
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION), errmsg("invalid length of a vector value"),
				errdetail("%zu bytes cannot hold %u dimensions.", n_bytes, value.dim),
				errhint("The value is damaged: check the storage of the table.")));
	return value;
}

void
row_value_close(RowValue *value)
{
	if (value->copy != nullptr)
		pfree(value->copy);
	value->copy = nullptr;
}

RowValue
row_value_for_index(ElementType element, uint32 dim, Datum datum)
{
	const RowValue value = row_value_open(element, datum);

	if (value.dim == dim)
		return value;
	if (element == ElementType::kBit)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION), errmsg("expected %u bits, not %u", dim, value.dim),
				errdetail("An index on the column has %u bits.", dim)));
	ereport(ERROR,
		(errcode(ERRCODE_DATA_EXCEPTION),
			errmsg("expected %d dimensions, not %d", static_cast<int>(dim), static_cast<int>(value.dim)),
			errdetail("An index on the column has %u dimensions.", dim)));
	pg_unreachable();
}

RowValue
row_value_for_query(ElementType element, uint32 dim, Datum datum)
{
	const RowValue value = row_value_open(element, datum);

	if (value.dim == dim)
		return value;
	if (element == ElementType::kBit)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION), errmsg("different bit lengths %u and %u", dim, value.dim),
				errdetail("The index has %u bits, the value to compare with %u.", dim, value.dim)));
	ereport(ERROR,
		(errcode(ERRCODE_DATA_EXCEPTION),
			errmsg("different %s dimensions %d and %d", type_name(element), static_cast<int>(dim),
				static_cast<int>(value.dim)),
			errdetail("The index has %u dimensions, the value to compare with %u.", dim, value.dim)));
	pg_unreachable();
}

} // namespace vectorgpu::am

// Order of vector and halfvec for the btree operator classes: element by element, then the shorter one first. PG
// dialect.
#include "types/sql_function.hpp"

namespace vectorgpu::types
{
namespace
{

// Return -1, 0 or 1. -0 equals 0; there is no NaN. Values may have different lengths.
template <class E>
int
compare(const VectorValue *a, const VectorValue *b)
{
	const typename E::Storage *a_elements = elements_of<E>(a);
	const typename E::Storage *b_elements = elements_of<E>(b);
	const int n_common = Min(a->dim, b->dim);

	for (int i = 0; i < n_common; i++)
	{
		const float x = E::to_float(a_elements[i]);
		const float y = E::to_float(b_elements[i]);

		if (x < y)
			return -1;
		if (x > y)
			return 1;
	}
	return (a->dim > b->dim) - (a->dim < b->dim);
}

// Compare the two arguments and free copies made by detoasting, as btree support functions must.
template <class E>
int
compare_arguments(FunctionCallInfo fcinfo)
{
	const VectorValue *a = vector_from_datum(PG_GETARG_DATUM(0));
	const VectorValue *b = vector_from_datum(PG_GETARG_DATUM(1));
	const int order = compare<E>(a, b);

	if (PointerGetDatum(a) != PG_GETARG_DATUM(0))
		pfree(const_cast<VectorValue *>(a));
	if (PointerGetDatum(b) != PG_GETARG_DATUM(1))
		pfree(const_cast<VectorValue *>(b));
	return order;
}

} // namespace
} // namespace vectorgpu::types

#define VG_COMPARISON(name, to_datum, op)                                                                              \
	VG_SQL_FUNCTION(                                                                                                   \
		vector_##name, to_datum(vectorgpu::types::compare_arguments<vectorgpu::types::Float32>(fcinfo) op))            \
	VG_SQL_FUNCTION(halfvec_##name, to_datum(vectorgpu::types::compare_arguments<vectorgpu::types::Float16>(fcinfo) op))

VG_COMPARISON(lt, BoolGetDatum, < 0)
VG_COMPARISON(le, BoolGetDatum, <= 0)
VG_COMPARISON(eq, BoolGetDatum, == 0)
VG_COMPARISON(ne, BoolGetDatum, != 0)
VG_COMPARISON(ge, BoolGetDatum, >= 0)
VG_COMPARISON(gt, BoolGetDatum, > 0)
VG_COMPARISON(cmp, Int32GetDatum, +0)

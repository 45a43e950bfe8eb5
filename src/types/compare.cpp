// Order of the vector types for the btree operator classes: element by element, then the shorter one first. PG dialect.
#include "types/sparse.hpp"
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

// The same order for sparse values. They differ first where one stores an element and the other none or another one.
int
compare_sparse(const SparseValue *a, const SparseValue *b)
{
	const int32 *a_indices = a->indices();
	const int32 *b_indices = b->indices();
	const float *a_values = a->values();
	const float *b_values = b->values();
	int i = 0;

	while (i < a->nnz && i < b->nnz && a_indices[i] == b_indices[i] && a_values[i] == b_values[i])
		i++;

	const int32 a_index = i < a->nnz ? a_indices[i] : PG_INT32_MAX;
	const int32 b_index = i < b->nnz ? b_indices[i] : PG_INT32_MAX;
	const int32 index = Min(a_index, b_index);

	if (index < Min(a->dim, b->dim))
	{
		const float x = a_index == index ? a_values[i] : 0;
		const float y = b_index == index ? b_values[i] : 0;

		return (x > y) - (x < y);
	}
	return (a->dim > b->dim) - (a->dim < b->dim);
}

// Compare the two arguments and free copies made by detoasting, as btree support functions must.
template <class Value>
int
compare_arguments(FunctionCallInfo fcinfo, int (*compare_values)(const Value *, const Value *))
{
	const Value *a = reinterpret_cast<const Value *>(PG_DETOAST_DATUM(PG_GETARG_DATUM(0)));
	const Value *b = reinterpret_cast<const Value *>(PG_DETOAST_DATUM(PG_GETARG_DATUM(1)));
	const int order = compare_values(a, b);

	if (PointerGetDatum(a) != PG_GETARG_DATUM(0))
		pfree(const_cast<Value *>(a));
	if (PointerGetDatum(b) != PG_GETARG_DATUM(1))
		pfree(const_cast<Value *>(b));
	return order;
}

int
compare_vectors(FunctionCallInfo fcinfo)
{
	return compare_arguments(fcinfo, compare<Float32>);
}

int
compare_halfvecs(FunctionCallInfo fcinfo)
{
	return compare_arguments(fcinfo, compare<Float16>);
}

int
compare_sparsevecs(FunctionCallInfo fcinfo)
{
	return compare_arguments(fcinfo, compare_sparse);
}

} // namespace
} // namespace vectorgpu::types

#define VG_COMPARISON(name, to_datum, op)                                                                              \
	VG_SQL_FUNCTION(vector_##name, to_datum(vectorgpu::types::compare_vectors(fcinfo) op))                             \
	VG_SQL_FUNCTION(halfvec_##name, to_datum(vectorgpu::types::compare_halfvecs(fcinfo) op))                           \
	VG_SQL_FUNCTION(sparsevec_##name, to_datum(vectorgpu::types::compare_sparsevecs(fcinfo) op))

VG_COMPARISON(lt, BoolGetDatum, < 0)
VG_COMPARISON(le, BoolGetDatum, <= 0)
VG_COMPARISON(eq, BoolGetDatum, == 0)
VG_COMPARISON(ne, BoolGetDatum, != 0)
VG_COMPARISON(ge, BoolGetDatum, >= 0)
VG_COMPARISON(gt, BoolGetDatum, > 0)
VG_COMPARISON(cmp, Int32GetDatum, +0)

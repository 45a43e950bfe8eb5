// Casts of sparsevec: to a type modifier, from and to vector and halfvec, from arrays. PG dialect.
#include "types/cast.hpp"
#include "types/sparse.hpp"
#include "types/sql_function.hpp"

namespace vectorgpu::types
{
namespace
{

static_assert(kMaxDimensions <= kMaxNonZeros, "every vector and halfvec is within the limit of elements");

// typmod(value, typmod, explicit): the length coercion.
Datum
typmod(FunctionCallInfo fcinfo)
{
	const SparseValue *value = sparse_from_datum(PG_GETARG_DATUM(0));

	check_expected_dim(PG_GETARG_INT32(1), value->dim);
	PG_RETURN_POINTER(value);
}

// from_dense(value, typmod, explicit): from type E.
template <class E>
Datum
from_dense(FunctionCallInfo fcinfo)
{
	const VectorValue *value = vector_from_datum(PG_GETARG_DATUM(0));
	const typename E::Storage *from = elements_of<E>(value);
	int nnz = 0;

	check_expected_dim(PG_GETARG_INT32(1), value->dim);

	SparseElement *elements = static_cast<SparseElement *>(palloc(value->dim * sizeof(SparseElement)));

	for (int i = 0; i < value->dim; i++)
	{
		const float element = E::to_float(from[i]);

		if (element != 0)
			elements[nnz++] = {i, element};
	}

	SparseValue *result = sparse_from_elements(value->dim, elements, nnz);

	pfree(elements);
	PG_RETURN_POINTER(result);
}

// to_dense(value, typmod, explicit): to type E.
template <class E>
Datum
to_dense(FunctionCallInfo fcinfo)
{
	const SparseValue *value = sparse_from_datum(PG_GETARG_DATUM(0));

	check_dim<E>(value->dim);
	check_expected_dim(PG_GETARG_INT32(1), value->dim);

	VectorValue *result = new_vector<E>(value->dim);
	typename E::Storage *elements = elements_of<E>(result);

	memset(elements, 0, value->dim * sizeof(typename E::Storage));
	for (int i = 0; i < value->nnz; i++)
		elements[value->indices()[i]] = element_from_float<E>(value->values()[i]);
	PG_RETURN_POINTER(result);
}

// from_array(array, typmod, explicit). The array is of int4, float4, float8 or numeric.
Datum
from_array(FunctionCallInfo fcinfo)
{
	const ArrayElements from = array_elements(PG_GETARG_ARRAYTYPE_P(0));
	int nnz = 0;

	check_dim<Sparse>(from.n);
	check_expected_dim(PG_GETARG_INT32(1), from.n);

	SparseElement *elements = static_cast<SparseElement *>(palloc(Min(from.n, kMaxNonZeros) * sizeof(SparseElement)));

	for (int i = 0; i < from.n; i++)
	{
		const float element = float_from_array(from, i);

		if (element == 0)
			continue;
		check_nnz(nnz + 1, from.n);
		elements[nnz++] = {i, element};
	}
	for (int i = 0; i < nnz; i++)
		check_element<Sparse>(elements[i].value);

	SparseValue *result = sparse_from_elements(from.n, elements, nnz);

	pfree(elements);
	pfree(from.datums);
	PG_RETURN_POINTER(result);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(sparsevec_typmod, vectorgpu::types::typmod(fcinfo))
VG_SQL_FUNCTION(sparsevec_from_array, vectorgpu::types::from_array(fcinfo))
VG_SQL_FUNCTION(vector_to_sparsevec, vectorgpu::types::from_dense<vectorgpu::types::Float32>(fcinfo))
VG_SQL_FUNCTION(halfvec_to_sparsevec, vectorgpu::types::from_dense<vectorgpu::types::Float16>(fcinfo))
VG_SQL_FUNCTION(sparsevec_to_vector, vectorgpu::types::to_dense<vectorgpu::types::Float32>(fcinfo))
VG_SQL_FUNCTION(sparsevec_to_halfvec, vectorgpu::types::to_dense<vectorgpu::types::Float16>(fcinfo))

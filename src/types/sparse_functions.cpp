// Distances, norm and normalisation of sparsevec. PG dialect.
#include "engine/distance/distance.hpp"
#include "engine/distance/sparse.hpp"
#include "types/sparse.hpp"
#include "types/sql_function.hpp"

namespace vectorgpu::types
{
namespace
{

engine::SparseVector
stored_elements(const SparseValue *value)
{
	return {value->indices(), value->values(), static_cast<uint32_t>(value->nnz)};
}

double
score(FunctionCallInfo fcinfo, Metric metric)
{
	const SparseValue *a = sparse_from_datum(PG_GETARG_DATUM(0));
	const SparseValue *b = sparse_from_datum(PG_GETARG_DATUM(1));

	check_same_dim<Sparse>(a, b);
	return engine::sparse_score(metric, stored_elements(a), stored_elements(b));
}

Datum
distance(FunctionCallInfo fcinfo, Metric metric)
{
	PG_RETURN_FLOAT8(engine::finish_score(metric, score(fcinfo, metric)));
}

// Summed in double so that it does not overflow.
double
euclidean_norm(const SparseValue *value)
{
	double sum = 0;

	for (int i = 0; i < value->nnz; i++)
	{
		const double element = value->values()[i];

		sum += element * element;
	}
	return sqrt(sum);
}

// A zero vector has no direction and is returned unchanged. Elements that become 0 are left out.
Datum
l2_normalize(FunctionCallInfo fcinfo)
{
	const SparseValue *value = sparse_from_datum(PG_GETARG_DATUM(0));
	const double norm = euclidean_norm(value);
	SparseElement *elements = static_cast<SparseElement *>(palloc(value->nnz * sizeof(SparseElement)));
	int nnz = 0;

	for (int i = 0; i < value->nnz; i++)
	{
		// no element is larger than the norm, so the division cannot overflow
		const float element = static_cast<float>(value->values()[i] / norm);

		if (element != 0)
			elements[nnz++] = {value->indices()[i], element};
	}

	SparseValue *result = sparse_from_elements(value->dim, elements, nnz);

	pfree(elements);
	PG_RETURN_POINTER(result);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(sparsevec_l2_distance, vectorgpu::types::distance(fcinfo, vectorgpu::Metric::kL2))
VG_SQL_FUNCTION(sparsevec_l1_distance, vectorgpu::types::distance(fcinfo, vectorgpu::Metric::kL1))
VG_SQL_FUNCTION(sparsevec_cosine_distance, vectorgpu::types::distance(fcinfo, vectorgpu::Metric::kCosine))
VG_SQL_FUNCTION(sparsevec_negative_inner_product, vectorgpu::types::distance(fcinfo, vectorgpu::Metric::kInnerProduct))
// a subtraction, not a sign change: 0 stays 0
VG_SQL_FUNCTION(
	sparsevec_inner_product, Float8GetDatum(0.0 - vectorgpu::types::score(fcinfo, vectorgpu::Metric::kInnerProduct)))
// the engine's score of L2 is the sum of squares
VG_SQL_FUNCTION(sparsevec_l2_squared_distance, Float8GetDatum(vectorgpu::types::score(fcinfo, vectorgpu::Metric::kL2)))
VG_SQL_FUNCTION(sparsevec_norm,
	Float8GetDatum(vectorgpu::types::euclidean_norm(vectorgpu::types::sparse_from_datum(PG_GETARG_DATUM(0)))))
VG_SQL_FUNCTION(sparsevec_l2_normalize, vectorgpu::types::l2_normalize(fcinfo))

// The type sparsevec in memory: its layout, and how a value is made and checked. PG dialect.
#pragma once

#include "common/limits.hpp"
#include "types/vector_type.hpp"

namespace vectorgpu::types
{

using vectorgpu::kMaxNonZeros;
using vectorgpu::kMaxSparseDimensions;

/// Traits of sparsevec: elements are floats, those that are not 0 are stored.
struct Sparse : Float32
{
	static constexpr const char *kTypeName = "sparsevec";
	static constexpr int kMaxDim = kMaxSparseDimensions;
	static constexpr bool kUnderflowIsError = true; // an element that is given is not 0
};

/// The varlena of sparsevec; indices [nnz] and values [nnz] follow the header. Read a Datum only through
/// sparse_from_datum.
struct SparseValue
{
	int32 vl_len_; // varlena length word, set by SET_VARSIZE
	int32 dim;     // elements, 1 .. kMaxSparseDimensions
	int32 nnz;     // elements stored, 0 .. kMaxNonZeros
	int32 unused;  // 0

	/// Positions of the stored elements, from 0, ascending, each once.
	const int32 *indices() const { return reinterpret_cast<const int32 *>(this + 1); }
	int32 *indices() { return reinterpret_cast<int32 *>(this + 1); }
	/// The stored elements: finite and not 0.
	const float *values() const { return reinterpret_cast<const float *>(indices() + nnz); }
	float *values() { return reinterpret_cast<float *>(indices() + nnz); }
};

static_assert(sizeof(SparseValue) == 16, "the indices start at byte 16");

/// An element on its way into a value.
struct SparseElement
{
	int32 index; // from 0
	float value;
};

/// Return the value of a Datum of type sparsevec, detoasted. Do not write to it.
inline const SparseValue *
sparse_from_datum(Datum datum)
{
	return reinterpret_cast<const SparseValue *>(PG_DETOAST_DATUM(datum));
}

/// Return a new palloc'd value; indices and values are not initialized. `dim` must have passed check_dim, `nnz`
/// check_nnz.
inline SparseValue *
new_sparse(int dim, int nnz)
{
	const Size size = sizeof(SparseValue) + static_cast<Size>(nnz) * (sizeof(int32) + sizeof(float));
	SparseValue *value = static_cast<SparseValue *>(palloc(size));

	SET_VARSIZE(value, size);
	value->dim = dim;
	value->nnz = nnz;
	value->unused = 0;
	return value;
}

/// new_sparse from elements [nnz].
inline SparseValue *
sparse_from_elements(int dim, const SparseElement *elements, int nnz)
{
	SparseValue *value = new_sparse(dim, nnz);
	int32 *indices = value->indices();
	float *values = value->values();

	for (int i = 0; i < nnz; i++)
	{
		indices[i] = elements[i].index;
		values[i] = elements[i].value;
	}
	return value;
}

/// Raise an error unless a value of `dim` elements can have `nnz` that are not 0.
inline void
check_nnz(int64 nnz, int dim)
{
	if (nnz < 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("sparsevec cannot have negative number of elements")));
	if (nnz > kMaxNonZeros)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("sparsevec cannot have more than %d non-zero elements", kMaxNonZeros)));
	if (nnz > dim)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("sparsevec cannot have more elements than dimensions")));
}

/// Raise an error unless the indices are within the dimensions, ascending, and each once.
inline void
check_indices(const SparseValue *value)
{
	const int32 *indices = value->indices();

	for (int i = 0; i < value->nnz; i++)
	{
		if (unlikely(indices[i] < 0 || indices[i] >= value->dim))
			ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("sparsevec index out of bounds")));
		if (unlikely(i > 0 && indices[i] < indices[i - 1]))
			ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("sparsevec indices must be in ascending order")));
		if (unlikely(i > 0 && indices[i] == indices[i - 1]))
			ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("sparsevec indices must not contain duplicates")));
	}
}

} // namespace vectorgpu::types

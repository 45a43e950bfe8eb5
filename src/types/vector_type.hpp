// The types vector and halfvec in memory: one varlena layout, traits of the two element types, and the checks of every
// new value. PG dialect. Used by the files of this folder and by the access methods.
#pragma once

#include <cmath>
#include <type_traits>

#include "pg/postgres.hpp"

#include "common/half.hpp"
#include "common/limits.hpp"
#include "common/types.hpp"

namespace vectorgpu::types
{

/// The varlena of both types; the elements follow the header. On disk a small value may have a one-byte length word or
/// lie in a TOAST table, so read a Datum only through vector_from_datum.
struct VectorValue
{
	int32 vl_len_; // varlena length word, set by SET_VARSIZE
	int16 dim;     // elements, 1 .. kMaxDimensions
	int16 unused;  // 0

	const void *elements() const { return this + 1; }
	void *elements() { return this + 1; }
};

static_assert(sizeof(VectorValue) == 8, "the elements start at byte 8");

/// Return the value of a Datum of type vector or halfvec, detoasted. Do not write to it.
inline const VectorValue *
vector_from_datum(Datum datum)
{
	return reinterpret_cast<const VectorValue *>(PG_DETOAST_DATUM(datum));
}

/// Element traits: the name of a type, its stored form, and conversion to and from float.
struct Float32
{
	using Storage = float;
	static constexpr ElementType kElement = ElementType::kFloat32;
	static constexpr const char *kTypeName = "vector";
	static constexpr int kMaxDim = kMaxDimensions;
	static constexpr bool kUnderflowIsError = false; // of a number in text

	static float to_float(Storage value) { return value; }
	static Storage from_float(float value) { return value; }
	static bool is_nan(Storage value) { return std::isnan(value); }
	static bool is_infinite(Storage value) { return std::isinf(value); }
};

struct Float16
{
	using Storage = uint16_t; // bits of an IEEE 754 binary16
	static constexpr ElementType kElement = ElementType::kFloat16;
	static constexpr const char *kTypeName = "halfvec";
	static constexpr int kMaxDim = kMaxDimensions;
	static constexpr bool kUnderflowIsError = false;

	static float to_float(Storage value) { return half_to_float(value); }
	static Storage from_float(float value) { return float_to_half(value); }
	static bool is_nan(Storage value) { return half_is_nan(value); }
	static bool is_infinite(Storage value) { return half_is_infinite(value); }
};

/// elements [dim] of a value.
template <class E>
inline const typename E::Storage *
elements_of(const VectorValue *value)
{
	return static_cast<const typename E::Storage *>(value->elements());
}

template <class E>
inline typename E::Storage *
elements_of(VectorValue *value)
{
	return static_cast<typename E::Storage *>(value->elements());
}

/// Raise an error unless the type allows `dim` dimensions.
template <class E>
inline void
check_dim(int64 dim)
{
	if (dim < 1)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("%s must have at least 1 dimension", E::kTypeName)));
	if (dim > E::kMaxDim)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("%s cannot have more than %d dimensions", E::kTypeName, E::kMaxDim)));
}

/// Raise an error unless `dim` is the number in the type modifier; -1 allows any number.
inline void
check_expected_dim(int32 typmod, int dim)
{
	if (typmod != -1 && typmod != dim)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("expected %d dimensions, not %d", typmod, dim)));
}

/// Raise an error unless the operands of a binary operation have the same number of elements.
template <class E, class Value>
inline void
check_same_dim(const Value *a, const Value *b)
{
	if (a->dim != b->dim)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
				errmsg("different %s dimensions %d and %d", E::kTypeName, a->dim, b->dim)));
}

/// Raise an error if the element is NaN or infinite.
template <class E>
inline void
check_element(typename E::Storage value)
{
	if (E::is_nan(value))
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("NaN not allowed in %s", E::kTypeName)));
	if (E::is_infinite(value))
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("infinite value not allowed in %s", E::kTypeName)));
}

/// Return a new palloc'd value of `dim` elements, which are not initialized. `dim` must have passed check_dim.
template <class E>
inline VectorValue *
new_vector(int dim)
{
	const Size size = sizeof(VectorValue) + dim * sizeof(typename E::Storage);
	VectorValue *value = static_cast<VectorValue *>(palloc(size));

	SET_VARSIZE(value, size);
	value->dim = static_cast<int16>(dim);
	value->unused = 0;
	return value;
}

} // namespace vectorgpu::types

// What engine/graph/hash.cpp takes from gcc and clang does not have: elements of a vector in the order that another one names.
#ifndef VECTORGPU_FUZZ_GCC_SHUFFLE_HPP
#define VECTORGPU_FUZZ_GCC_SHUFFLE_HPP

#ifdef __clang__
template <class Vector, class Order>
Vector
__builtin_shuffle(Vector from, Order order)
{
	Vector to{};

	for (unsigned i = 0; i < sizeof(Vector) / sizeof(from[0]); i++)
		to[i] = from[order[i]];
	return to;
}
#endif

#endif

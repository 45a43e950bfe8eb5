// Loops of RaBitQ, included by ivf_loops.hpp. Plain C: elements do not depend on each other, or are added in eight
// lanes, so that the compiler makes registers of any width of them and the bits are the same at every level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

static void
flip_signs_of(const uint32_t *signs, size_t n, float *x)
{
	for (size_t first = 0; first < n; first += 8)
	{
		uint32_t bits[8];

		memcpy(bits, x + first, sizeof(bits));
		for (uint32_t i = 0; i < 8; i++)
			bits[i] ^= (signs[first / 32] >> (first % 32 + i)) << 31;
		memcpy(x + first, bits, sizeof(bits));
	}
}

// Eight lanes, of registers of any width.
typedef float Floats8 __attribute__((vector_size(32)));
typedef int32_t Ints8 __attribute__((vector_size(32)));
typedef uint8_t Bytes8 __attribute__((vector_size(8)));
typedef double Doubles8 __attribute__((vector_size(64)));

/// The steps of spans 1, 2 and 4 of eight elements, and the factor: sums in the first of each pair, differences in the
/// second.
static VECTORGPU_IVF_INLINE void
hadamard_eight(float *at, float factor)
{
	Floats8 x;

	memcpy(&x, at, sizeof(x));
#pragma GCC unroll 3
	for (int span = 1; span <= 4; span *= 2)
	{
		const Floats8 other = span == 1 ? __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6)
			: span == 2                 ? __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
										: __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
		const Floats8 sum = x + other;
		const Floats8 difference = other - x;

		x = span == 1   ? __builtin_shufflevector(sum, difference, 0, 9, 2, 11, 4, 13, 6, 15)
			: span == 2 ? __builtin_shufflevector(sum, difference, 0, 1, 10, 11, 4, 5, 14, 15)
						: __builtin_shufflevector(sum, difference, 0, 1, 2, 3, 12, 13, 14, 15);
	}
	x *= factor;
	memcpy(at, &x, sizeof(x));
}

/// The steps of the spans half ... kEach / 2 * half of kEach * half elements, in registers; half: a multiple of 8.
template <size_t kEach>
static VECTORGPU_IVF_INLINE void
hadamard_spans(float *x, size_t half)
{
	for (size_t i = 0; i < half; i += 8)
	{
		Floats8 v[kEach];

#pragma GCC unroll 8
		for (size_t j = 0; j < kEach; j++)
			memcpy(&v[j], x + j * half + i, sizeof(v[j]));
#pragma GCC unroll 3
		for (size_t step = 1; step < kEach; step *= 2)
#pragma GCC unroll 8
			for (size_t j = 0; j < kEach; j++)
				if ((j & step) == 0)
				{
					const Floats8 a = v[j];
					const Floats8 b = v[j + step];

					v[j] = a + b;
					v[j + step] = a - b;
				}
#pragma GCC unroll 8
		for (size_t j = 0; j < kEach; j++)
			memcpy(x + j * half + i, &v[j], sizeof(v[j]));
	}
}

template <size_t kEach>
static void
hadamard_pass(float *x, size_t n, size_t half)
{
	for (size_t first = 0; first < n; first += kEach * half)
		hadamard_spans<kEach>(x + first, half);
}

/// Three steps in a pass over the elements.
static void
hadamard_transform(float *x, size_t n, float factor)
{
	for (size_t first = 0; first < n; first += 8)
		hadamard_eight(x + first, factor);
	for (size_t half = 8; half < n; half *= 8)
		if (n / half >= 8)
			hadamard_pass<8>(x, n, half);
		else if (n / half == 4)
			hadamard_pass<4>(x, n, half);
		else
			hadamard_pass<2>(x, n, half);
}

static void
turn_pairs_of(float *a, float *b, size_t n, float factor)
{
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
	{
		Floats8 x;
		Floats8 y;

		memcpy(&x, a + i, sizeof(x));
		memcpy(&y, b + i, sizeof(y));

		const Floats8 sum = (x + y) * factor;
		const Floats8 difference = (x - y) * factor;

		memcpy(a + i, &sum, sizeof(sum));
		memcpy(b + i, &difference, sizeof(difference));
	}
	for (; i < n; i++)
	{
		const float x = a[i];
		const float y = b[i];

		a[i] = (x + y) * factor;
		b[i] = (x - y) * factor;
	}
}

template <class T>
static VECTORGPU_IVF_INLINE auto
sum_of_eight(const T &sums)
{
	return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

static void
levels_of(const RabitqLevels &call)
{
	const Ints8 most = call.most - Ints8{};
	Floats8 with_residual = {};
	Floats8 norm = {};

	for (size_t i = 0; i < call.n; i += 8)
	{
		Floats8 x;

		memcpy(&x, call.magnitudes + i, sizeof(x));

		const Ints8 free = __builtin_convertvector(x * call.inverse, Ints8);
		const Ints8 level = free > most ? most : free;
		const Floats8 u = __builtin_convertvector(level, Floats8) + 0.5f;
		const Bytes8 bytes = __builtin_convertvector(level, Bytes8);

		memcpy(call.levels + i, &bytes, sizeof(bytes));
		with_residual += x * u;
		norm += u * u;
	}
	*call.with_residual = sum_of_eight(with_residual);
	*call.norm = sum_of_eight(norm);
}

static void
products_of(const float *rotated, const float *list, const uint8_t *levels, size_t n, double *products)
{
	const Ints8 sign = INT32_MIN - Ints8{};
	Doubles8 with_residual = {};
	Doubles8 with_list = {};

	for (size_t i = 0; i < n; i += 8)
	{
		Bytes8 bytes;
		Floats8 y;
		Ints8 x;

		memcpy(&bytes, levels + i, sizeof(bytes));
		memcpy(&x, rotated + i, sizeof(x));
		memcpy(&y, list + i, sizeof(y));

		const Floats8 u = __builtin_convertvector(bytes, Floats8) + 0.5f;
		const Ints8 magnitude = x & ~sign;
		const Ints8 turned = reinterpret_cast<Ints8>(y) ^ (x & sign); // the list's, by the sign of the row's

		with_residual += __builtin_convertvector(reinterpret_cast<Floats8>(magnitude), Doubles8) *
			__builtin_convertvector(u, Doubles8);
		with_list +=
			__builtin_convertvector(reinterpret_cast<Floats8>(turned), Doubles8) * __builtin_convertvector(u, Doubles8);
	}
	products[0] = sum_of_eight(with_residual);
	products[1] = sum_of_eight(with_list);
}

static uint32_t
bounds_of(const RabitqBlock &block)
{
	float factors[3][32];
	float bounds[32];

	memcpy(factors, block.factors, (block.distances != nullptr ? 3 : 2) * sizeof(factors[0]));
	for (size_t i = 0; i < 32; i++)
		bounds[i] = factors[0][i] +
			factors[1][i] * (block.base + block.scale * static_cast<float>(static_cast<int32_t>(block.sums[i])));
	if (block.distances != nullptr)
		for (size_t i = 0; i < 32; i++)
			bounds[i] -= factors[2][i] * block.distances[i];
	for (size_t i = 0; i < 32; i++)
		block.scores[i] = block.constants[i] + static_cast<double>(bounds[i]);
	return block.distances != nullptr ? not_above(block.scores, block.limit) : 0;
}

} // namespace
} // namespace vectorgpu::engine::ivf

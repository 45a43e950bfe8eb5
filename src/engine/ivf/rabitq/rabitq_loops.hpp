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

static VECTORGPU_IVF_INLINE void
hadamard_step(float *a, float *b, size_t half)
{
	for (size_t i = 0; i < half; i++)
	{
		const float x = a[i];
		const float y = b[i];

		a[i] = x + y;
		b[i] = x - y;
	}
}

/// The steps of spans 1, 2 and 4 of eight elements.
static VECTORGPU_IVF_INLINE void
hadamard_eight(float *x, float factor)
{
	const float a0 = x[0] + x[1], a1 = x[0] - x[1], a2 = x[2] + x[3], a3 = x[2] - x[3];
	const float a4 = x[4] + x[5], a5 = x[4] - x[5], a6 = x[6] + x[7], a7 = x[6] - x[7];
	const float b0 = a0 + a2, b1 = a1 + a3, b2 = a0 - a2, b3 = a1 - a3;
	const float b4 = a4 + a6, b5 = a5 + a7, b6 = a4 - a6, b7 = a5 - a7;

	x[0] = (b0 + b4) * factor;
	x[1] = (b1 + b5) * factor;
	x[2] = (b2 + b6) * factor;
	x[3] = (b3 + b7) * factor;
	x[4] = (b0 - b4) * factor;
	x[5] = (b1 - b5) * factor;
	x[6] = (b2 - b6) * factor;
	x[7] = (b3 - b7) * factor;
}

static void
hadamard_transform(float *x, size_t n, float factor)
{
	for (size_t first = 0; first < n; first += 8)
		hadamard_eight(x + first, factor);
	for (size_t half = 8; half < n; half *= 2)
		for (size_t first = 0; first < n; first += 2 * half)
			hadamard_step(x + first, x + first + half, half);
}

// Eight lanes, of registers of any width.
typedef float Floats8 __attribute__((vector_size(32)));
typedef int32_t Ints8 __attribute__((vector_size(32)));
typedef uint8_t Bytes8 __attribute__((vector_size(8)));
typedef double Doubles8 __attribute__((vector_size(64)));

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

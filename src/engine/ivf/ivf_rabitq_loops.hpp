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

/// Two steps of the transform in one: spans `half` and 2 * half.
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

static void
hadamard_transform(float *x, size_t n, float factor)
{
	for (size_t half = 1; half < n; half *= 2)
		for (size_t first = 0; first < n; first += 2 * half)
			hadamard_step(x + first, x + first + half, half);
	for (size_t i = 0; i < n; i++)
		x[i] *= factor;
}

static void
levels_of(const RabitqLevels &call)
{
	float with_residual[8] = {};
	float norm[8] = {};

	for (size_t i = 0; i < call.n; i += 8)
		for (size_t j = 0; j < 8; j++)
		{
			const float x = call.magnitudes[i + j];
			int32_t level = static_cast<int32_t>(x * call.inverse);

			level = level > call.most ? call.most : level;
			call.levels[i + j] = static_cast<uint8_t>(level);

			const float u = static_cast<float>(level) + 0.5f;

			with_residual[j] += x * u;
			norm[j] += u * u;
		}
	*call.with_residual = ((with_residual[0] + with_residual[1]) + (with_residual[2] + with_residual[3])) +
		((with_residual[4] + with_residual[5]) + (with_residual[6] + with_residual[7]));
	*call.norm = ((norm[0] + norm[1]) + (norm[2] + norm[3])) + ((norm[4] + norm[5]) + (norm[6] + norm[7]));
}

static void
bounds_of(const RabitqBlock &block)
{
	float factors[3][32];

	memcpy(factors, block.factors, (block.distances != nullptr ? 3 : 2) * sizeof(factors[0]));
	for (size_t i = 0; i < 32; i++)
		block.bounds[i] =
			factors[0][i] + factors[1][i] * (block.base + block.scale * static_cast<float>(static_cast<int32_t>(block.sums[i])));
	if (block.distances != nullptr)
		for (size_t i = 0; i < 32; i++)
			block.bounds[i] -= factors[2][i] * block.distances[i];
}

} // namespace
} // namespace vectorgpu::engine::ivf

// The kernels of the inverted file without instruction-set flags: for CPUs without AVX2, and the reference that the
// others are compared with. fmaf is exact on every CPU, so that sums have the same bits everywhere.
#include <cstring>

#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr int kGroups = 1;

struct Vec
{
	static constexpr size_t kWidth = 4;

	struct Index
	{
		uint32_t value[kWidth];
	};

	float value[kWidth];

	template <class F>
	static VECTORGPU_IVF_INLINE Vec make(F f)
	{
		Vec v;

		for (size_t i = 0; i < kWidth; i++)
			v.value[i] = f(i);
		return v;
	}
	static VECTORGPU_IVF_INLINE Vec zero() { return {}; }
	static VECTORGPU_IVF_INLINE Vec load(const float *p)
	{
		return make([=](size_t i) { return p[i]; });
	}
	static VECTORGPU_IVF_INLINE Vec broadcast(float x)
	{
		return make([=](size_t) { return x; });
	}
	VECTORGPU_IVF_INLINE void store(float *p) const { memcpy(p, value, sizeof(value)); }
	static VECTORGPU_IVF_INLINE Vec load_bytes(const uint8_t *p)
	{
		return make([=](size_t i) { return static_cast<float>(p[i]); });
	}
	static VECTORGPU_IVF_INLINE Vec gather(const float *table, const uint8_t *p)
	{
		return make([=](size_t i) { return table[p[i]]; });
	}
	static VECTORGPU_IVF_INLINE Vec fma(Vec a, Vec b, Vec c)
	{
		return make([&](size_t i) { return __builtin_fmaf(a.value[i], b.value[i], c.value[i]); });
	}
	static VECTORGPU_IVF_INLINE Vec loose_fma(Vec a, Vec b, Vec c)
	{
		return make([&](size_t i) { return a.value[i] * b.value[i] + c.value[i]; });
	}
	static VECTORGPU_IVF_INLINE Vec fnma(Vec a, Vec b, Vec c)
	{
		return make([&](size_t i) { return __builtin_fmaf(-a.value[i], b.value[i], c.value[i]); });
	}
	static VECTORGPU_IVF_INLINE Vec add(Vec a, Vec b)
	{
		return make([&](size_t i) { return a.value[i] + b.value[i]; });
	}
	static VECTORGPU_IVF_INLINE Vec subtract(Vec a, Vec b)
	{
		return make([&](size_t i) { return a.value[i] - b.value[i]; });
	}
	static VECTORGPU_IVF_INLINE Vec absolute(Vec a)
	{
		return make([&](size_t i) { return __builtin_fabsf(a.value[i]); });
	}
	static VECTORGPU_IVF_INLINE Index load_index(const uint32_t *p)
	{
		Index index;

		memcpy(index.value, p, sizeof(index.value));
		return index;
	}
	static VECTORGPU_IVF_INLINE void store_index(uint32_t *p, Index index)
	{
		memcpy(p, index.value, sizeof(index.value));
	}
	static VECTORGPU_IVF_INLINE void keep_smaller(Vec v, uint32_t group, Vec &best, Index &which, Vec &second)
	{
		for (size_t i = 0; i < kWidth; i++)
		{
			const bool smaller = v.value[i] < best.value[i];
			const float larger = smaller ? best.value[i] : v.value[i];

			second.value[i] = larger < second.value[i] ? larger : second.value[i];
			best.value[i] = smaller ? v.value[i] : best.value[i];
			which.value[i] = smaller ? group : which.value[i];
		}
	}
};

float
reduce(const Vec *lanes)
{
	float sums[32];

	memcpy(sums, lanes, sizeof(sums));
	for (size_t half = 16; half > 0; half /= 2)
		for (size_t i = 0; i < half; i++)
			sums[i] += sums[i + half];
	return sums[0];
}

void
sum_nibbles(const uint8_t *codes, size_t code_bytes, const uint8_t *table, uint32_t *sums)
{
	memset(sums, 0, 32 * sizeof(uint32_t));
	for (size_t j = 0; j < code_bytes; j++)
		for (size_t row = 0; row < 32; row++)
		{
			const uint8_t code = codes[j * 32 + row];

			sums[row] += static_cast<uint32_t>(table[j * 32 + (code & 15)] + table[j * 32 + 16 + (code >> 4)]);
		}
}

int32_t
dot_planes(const uint8_t *planes, size_t n_planes, size_t plane_bytes, const int8_t *elements)
{
	int32_t sum = 0;

	for (size_t j = 0; j < plane_bytes; j++)
		for (size_t i = 0; i < 8; i++)
		{
			int32_t number = 0;

			for (size_t plane = 0; plane < n_planes; plane++)
				number |= ((planes[plane * plane_bytes + j] >> i) & 1) << plane;
			sum += number * elements[8 * j + i];
		}
	return sum;
}

uint32_t
not_above(const double *scores, double limit)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < 32; i++)
		mask |= static_cast<uint32_t>(!(scores[i] > limit)) << i;
	return mask;
}

} // namespace
} // namespace vectorgpu::engine::ivf

#include "engine/ivf/ivf_loops.hpp"

namespace vectorgpu::engine::ivf
{

const IvfKernels kScalarIvfKernels = kKernels;

} // namespace vectorgpu::engine::ivf

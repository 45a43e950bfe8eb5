// The canonical distance in plain C++, for CPUs without AVX2 and as the reference of the other levels in tests.
// Thread-safe, no state. fmaf is the C library's: one instruction behind a call if the CPU has FMA, else an exact but
// slow emulation. Never a * b + c, which rounds twice and gives other results.
#include <cstdint>
#include <cstring>

#include "common/half.hpp"
#include "engine/distance/score_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

struct Lanes
{
	float v[32];

	static Lanes zero() { return Lanes{}; }

	static Lanes load_float(const unsigned char *p) { return load_float_tail(p, 32); }

	static Lanes load_float_tail(const unsigned char *p, size_t n)
	{
		Lanes lanes{};

		memcpy(lanes.v, p, n * 4);
		return lanes;
	}

	static Lanes load_half(const unsigned char *p) { return load_half_tail(p, 32); }

	static Lanes load_half_tail(const unsigned char *p, size_t n)
	{
		Lanes lanes{};

		for (size_t j = 0; j < n; j++)
		{
			uint16_t half;

			memcpy(&half, p + j * 2, 2);
			lanes.v[j] = half_to_float(half);
		}
		return lanes;
	}

	void store(float *p) const { memcpy(p, v, sizeof(v)); }

	static Lanes subtract(const Lanes &a, const Lanes &b)
	{
		Lanes d;

		for (int j = 0; j < 32; j++)
			d.v[j] = a.v[j] - b.v[j];
		return d;
	}

	static Lanes multiply_add(const Lanes &a, const Lanes &b, const Lanes &c)
	{
		Lanes sum;

		for (int j = 0; j < 32; j++)
			sum.v[j] = __builtin_fmaf(a.v[j], b.v[j], c.v[j]);
		return sum;
	}

	static Lanes add_absolute(const Lanes &sum, const Lanes &d)
	{
		Lanes result;

		for (int j = 0; j < 32; j++)
			result.v[j] = sum.v[j] + __builtin_fabsf(d.v[j]);
		return result;
	}

	static float reduce(const Lanes &sum)
	{
		Lanes tree = sum;

		for (int width = 16; width >= 1; width /= 2)
			for (int j = 0; j < width; j++)
				tree.v[j] += tree.v[j + width];
		return tree.v[0];
	}
};

} // namespace
} // namespace vectorgpu::engine

#include "engine/distance/score_loops.hpp"

namespace vectorgpu::engine
{

const ScoreKernels kScalarScoreKernels = kKernels;

} // namespace vectorgpu::engine

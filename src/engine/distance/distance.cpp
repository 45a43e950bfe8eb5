// The canonical distance: choice of the kernel for a call, and of the instruction set for the process. Called by every
// SQL distance function, the scans and the engines; thread-safe; allocates nothing; never fails.
#include "engine/distance/distance.hpp"

#include <atomic>
#include <cmath>
#include <cpuid.h>
#include <limits>

#include "engine/distance/score_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

struct Level
{
	SimdLevel level;
	const ScoreKernels *kernels;
};

constexpr Level kLevels[] = {
	{SimdLevel::kAvx512, &kAvx512ScoreKernels}, // best first
	{SimdLevel::kAvx2, &kAvx2ScoreKernels},
	{SimdLevel::kScalar, &kScalarScoreKernels},
};

/// Null until the first use. Two threads may fill it at once: both write the same.
std::atomic<const Level *> chosen_level{nullptr};

bool
cpu_has_f16c()
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

const Level *
find_level(SimdLevel wanted)
{
	for (const Level &candidate : kLevels)
		if ((wanted == SimdLevel::kAuto || wanted == candidate.level) && simd_supported(candidate.level))
			return &candidate;
	return nullptr;
}

const Level &
current_level()
{
	const Level *level = chosen_level.load(std::memory_order_relaxed);

	if (level == nullptr)
	{
		level = find_level(SimdLevel::kAuto); // never null: scalar is always there
		chosen_level.store(level, std::memory_order_relaxed);
	}
	return *level;
}

ScoreKernel
find_kernel(const ScoreKernels &kernels, const DistanceSpec &spec)
{
	const size_t element = spec.element == ElementType::kFloat16 ? 1 : 0;

	switch (spec.metric)
	{
		case Metric::kL2:
			return kernels.l2[element];
		case Metric::kInnerProduct:
			return kernels.inner_product[element];
		case Metric::kCosine:
			return kernels.cosine[element];
		case Metric::kL1:
			return kernels.l1[element];
		case Metric::kHamming:
			return kernels.hamming;
		case Metric::kJaccard:
			return kernels.jaccard;
		case Metric::kMatchCount:
		case Metric::kEdit:
			break; // not of vectors
	}
	return nullptr;
}

} // namespace

bool
metric_supports(Metric metric, ElementType element)
{
	const bool bits = element == ElementType::kBit;

	switch (metric)
	{
		case Metric::kL2:
		case Metric::kInnerProduct:
		case Metric::kCosine:
		case Metric::kL1:
			return element == ElementType::kFloat32 || element == ElementType::kFloat16;
		case Metric::kHamming:
		case Metric::kJaccard:
			return bits;
		case Metric::kMatchCount:
		case Metric::kEdit:
			break; // not of vectors
	}
	return false;
}

void
compute_scores(const DistanceSpec &spec, const void *query, const void *rows, size_t row_stride, size_t n_rows,
	double *scores, ptrdiff_t read_ahead)
{
	if (n_rows == 0)
		return;
	if (!metric_supports(spec.metric, spec.element))
	{
		// A caller's error. Set every score to NaN rather than read past a row.
		for (size_t i = 0; i < n_rows; i++)
			scores[i] = std::numeric_limits<double>::quiet_NaN();
		return;
	}

	const ScoreCall call = {static_cast<const unsigned char *>(query), static_cast<const unsigned char *>(rows),
		row_stride, n_rows, spec.dim, scores, read_ahead};

	find_kernel(*current_level().kernels, spec)(call);
}

double
finish_score(Metric metric, double score)
{
	if (std::isnan(score))
		return std::numeric_limits<double>::quiet_NaN();

	// The score of L2 is a float s. sqrt in double keeps distinct floats distinct and in order: for s < t neighbouring
	// floats t / s >= 1 + 2^-24 (the gap is the widest relative to s for subnormals, the narrowest just below a power
	// of two), so sqrt(t) / sqrt(s) >= sqrt(1 + 2^-24) > 1 + 2^-26, while rounding moves each root by a factor within
	// 1 +- 2^-53. Every root is a normal double or zero, since sqrt(2^-149) is far above 2^-1022.
	if (metric == Metric::kL2)
		return std::sqrt(score) + 0.0; // the root of -0 is -0
	return score + 0.0;
}

double
distance(const DistanceSpec &spec, const void *a, const void *b)
{
	double score;

	compute_scores(spec, a, b, 0, 1, &score);
	return finish_score(spec.metric, score);
}

void
widen_halves(const void *halves, size_t n, float *floats)
{
	current_level().kernels->widen_halves(static_cast<const unsigned char *>(halves), n, floats);
}

bool
simd_supported(SimdLevel level)
{
	// The compiler's table also asks whether the operating system saves the registers.
	switch (level)
	{
		case SimdLevel::kAuto:
		case SimdLevel::kScalar:
			return true;
		case SimdLevel::kAvx2:
			return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
		case SimdLevel::kAvx512:
			return simd_supported(SimdLevel::kAvx2) && __builtin_cpu_supports("avx512f") &&
				__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
				__builtin_cpu_supports("avx512vl");
	}
	return false;
}

bool
set_simd_level(SimdLevel level)
{
	const Level *found = find_level(level);

	if (found == nullptr)
		return false;
	chosen_level.store(found, std::memory_order_relaxed);
	return true;
}

SimdLevel
simd_level()
{
	return current_level().level;
}

} // namespace vectorgpu::engine

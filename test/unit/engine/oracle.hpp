// The canonical distance written a second time, as plainly as its definition in src/engine/distance/README.md, and test
// data for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/half.hpp"
#include "common/types.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::engine::test
{

using Bytes = std::vector<uint8_t>;

inline const Metric kFloatMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};
inline const Metric kBitMetrics[] = {Metric::kHamming, Metric::kJaccard};

inline const char *
metric_name(Metric metric)
{
	const char *names[] = {"l2", "inner product", "cosine", "l1", "hamming", "jaccard"};

	return names[static_cast<int>(metric)];
}

/// Every level that this CPU has.
inline std::vector<SimdLevel>
supported_levels()
{
	std::vector<SimdLevel> levels;

	for (SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2, SimdLevel::kAvx512})
		if (simd_supported(level))
			levels.push_back(level);
	return levels;
}

inline const char *
level_name(SimdLevel level)
{
	const char *names[] = {"auto", "scalar", "avx2", "avx512"};

	return names[static_cast<int>(level)];
}

/// Element i as the float that the definition works with.
inline float
element_at(ElementType element, const void *vector, size_t i)
{
	const uint8_t *bytes = static_cast<const uint8_t *>(vector);

	if (element == ElementType::kFloat16)
	{
		uint16_t half;

		std::memcpy(&half, bytes + 2 * i, 2);
		return half_to_float(half);
	}

	float value;

	std::memcpy(&value, bytes + 4 * i, 4);
	return value;
}

inline bool
bit_at(const void *vector, size_t i)
{
	return ((static_cast<const uint8_t *>(vector)[i / 8] >> (7 - i % 8)) & 1) != 0;
}

/// 32 lanes and the tree of halves.
struct OracleSum
{
	float lane[32] = {};

	float total() const
	{
		float tree[32];

		std::copy(lane, lane + 32, tree);
		for (int width = 16; width >= 1; width /= 2)
			for (int j = 0; j < width; j++)
				tree[j] = tree[j] + tree[j + width];
		return tree[0];
	}
};

inline double
oracle_score(const DistanceSpec &spec, const void *query, const void *row)
{
	double score = 0;

	if (spec.element == ElementType::kBit)
	{
		size_t common = 0, any = 0, differing = 0;

		for (size_t i = 0; i < spec.dim; i++)
		{
			common += bit_at(query, i) && bit_at(row, i);
			any += bit_at(query, i) || bit_at(row, i);
			differing += bit_at(query, i) != bit_at(row, i);
		}
		if (spec.metric == Metric::kHamming)
			return static_cast<double>(differing);
		return common == 0 ? 1 : 1 - static_cast<double>(common) / static_cast<double>(any);
	}

	OracleSum first, aa, bb;

	for (size_t i = 0; i < (spec.dim + 31) / 32 * 32; i++)
	{
		const float a = i < spec.dim ? element_at(spec.element, query, i) : 0;
		const float b = i < spec.dim ? element_at(spec.element, row, i) : 0;
		const float d = a - b;

		switch (spec.metric)
		{
			case Metric::kL2:
				first.lane[i % 32] = std::fma(d, d, first.lane[i % 32]);
				break;
			case Metric::kL1:
				first.lane[i % 32] = first.lane[i % 32] + std::fabs(d);
				break;
			default:
				first.lane[i % 32] = std::fma(a, b, first.lane[i % 32]);
				aa.lane[i % 32] = std::fma(a, a, aa.lane[i % 32]);
				bb.lane[i % 32] = std::fma(b, b, bb.lane[i % 32]);
				break;
		}
	}

	score = first.total();
	if (spec.metric == Metric::kInnerProduct)
		score = -score;
	if (spec.metric == Metric::kCosine)
	{
		const double norms = static_cast<double>(aa.total()) * static_cast<double>(bb.total());
		const double similarity = score / std::sqrt(norms);

		if (norms == 0)
			score = std::numeric_limits<double>::quiet_NaN();
		else if (std::isnan(similarity))
			score = similarity;
		else
			score = 1 - std::clamp(similarity, -1.0, 1.0);
	}
	if (std::isnan(score))
		return std::numeric_limits<double>::quiet_NaN();
	return score == 0 ? 0 : score;
}

inline uint64_t
bits_of(double value)
{
	return std::bit_cast<uint64_t>(value);
}

/// Kinds of hard data.
enum class Data
{
	kGaussian,
	kSubnormal,
	kHuge,       // sums overflow to infinity
	kExtremes,   // zeros of both signs, FLT_MAX, subnormals, infinities, NaN, mixed
	kTinyAndBig, // cancellation
};

inline const Data kAllData[] = {Data::kGaussian, Data::kSubnormal, Data::kHuge, Data::kExtremes, Data::kTinyAndBig};

inline float
random_value(Data data, std::mt19937 &rng)
{
	const float normal = std::normal_distribution<float>()(rng);

	switch (data)
	{
		case Data::kGaussian:
			return normal;
		case Data::kSubnormal:
			return normal * 1e-40f;
		case Data::kHuge:
			return normal * 1e38f;
		case Data::kTinyAndBig:
			return rng() % 2 == 0 ? normal * 1e6f : normal * 1e-6f;
		case Data::kExtremes:
			break;
	}

	const float extremes[] = {0.0f, -0.0f, 1.0f, -1.0f, std::numeric_limits<float>::max(),
		-std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(),
		normal, normal * 1e-39f, normal * 1e-22f, normal * 1e18f};

	if (rng() % 200 == 0)
		return rng() % 2 == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
	return extremes[rng() % (sizeof(extremes) / sizeof(extremes[0]))];
}

/// Write one random vector at `to`.
inline void
random_vector(const DistanceSpec &spec, Data data, std::mt19937 &rng, uint8_t *to)
{
	for (size_t i = 0; i < spec.dim && spec.element != ElementType::kBit; i++)
	{
		const float value = random_value(data, rng);

		if (spec.element == ElementType::kFloat32)
			std::memcpy(to + 4 * i, &value, 4);
		else
		{
			const uint16_t half = data == Data::kExtremes ? static_cast<uint16_t>(rng()) : float_to_half(value);

			std::memcpy(to + 2 * i, &half, 2);
		}
	}
	if (spec.element == ElementType::kBit)
	{
		// Few, half or most of the bits set; the pad bits stay zero.
		const unsigned density = 1 + rng() % 7;

		std::memset(to, 0, vector_bytes(spec.element, spec.dim));
		for (size_t i = 0; i < spec.dim; i++)
			if (rng() % 8 < density)
				to[i / 8] = static_cast<uint8_t>(to[i / 8] | (0x80 >> (i % 8)));
	}
}

} // namespace vectorgpu::engine::test

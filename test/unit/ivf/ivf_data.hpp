// Data and plain references for the tests of the inverted file. Every reference is the definition in plain standard
// C++.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/thread_pool.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf::test
{

using Floats = std::vector<float>;
using Buffer = std::vector<uint8_t>;

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

/// Sets a level for a scope.
struct AtLevel
{
	explicit AtLevel(SimdLevel level) { EXPECT_TRUE(set_simd_level(level)); }
	~AtLevel() { set_simd_level(SimdLevel::kAuto); }
};

inline Floats
normal_rows(size_t n, size_t dim, unsigned seed, float scale = 1)
{
	std::mt19937 rng(seed);
	std::normal_distribution<float> normal(0, scale);
	Floats rows(n * dim);

	for (float &x : rows)
		x = normal(rng);
	return rows;
}

/// n_centres far apart, rows around them.
inline Floats
clustered_rows(size_t n, size_t dim, size_t n_centres, unsigned seed, float spread = 0.1f)
{
	std::mt19937 rng(seed);
	std::normal_distribution<float> normal(0, 1);
	Floats centres(n_centres * dim);
	Floats rows(n * dim);

	for (float &x : centres)
		x = 10 * normal(rng);
	for (size_t i = 0; i < n; i++)
		for (size_t d = 0, c = rng() % n_centres; d < dim; d++)
			rows[i * dim + d] = centres[c * dim + d] + spread * normal(rng);
	return rows;
}

/// Integers, so that many distances tie.
inline Floats
integer_rows(size_t n, size_t dim, unsigned seed, int largest)
{
	std::mt19937 rng(seed);
	Floats rows(n * dim);

	for (float &x : rows)
		x = static_cast<float>(rng() % static_cast<unsigned>(largest + 1));
	return rows;
}

inline double
l2_score(const float *a, const float *b, size_t dim)
{
	double score;

	compute_scores({Metric::kL2, ElementType::kFloat32, static_cast<uint32_t>(dim)}, a, b, 0, 1, &score);
	return score;
}

/// The first of the nearest by canonical score.
inline std::vector<uint32_t>
oracle_labels(const Floats &rows, const Floats &centroids, size_t dim)
{
	std::vector<uint32_t> labels;

	for (size_t i = 0; i < rows.size() / dim; i++)
	{
		uint32_t best = 0;

		for (size_t c = 1; c < centroids.size() / dim; c++)
			if (l2_score(&rows[i * dim], &centroids[c * dim], dim) <
				l2_score(&rows[i * dim], &centroids[best * dim], dim))
				best = static_cast<uint32_t>(c);
		labels.push_back(best);
	}
	return labels;
}

inline double
oracle_inertia(const Floats &rows, const Floats &centroids, size_t dim)
{
	const std::vector<uint32_t> labels = oracle_labels(rows, centroids, dim);
	double sum = 0;

	for (size_t i = 0; i < labels.size(); i++)
		sum += l2_score(&rows[i * dim], &centroids[labels[i] * dim], dim);
	return sum;
}

/// Threads of the CPU engine's pool, as the worker lends them.
struct Threads
{
	explicit Threads(size_t n) : pool(n) {}

	Call call()
	{
		Call call;

		call.n_threads = pool.n_threads();
		call.parallel_context = &pool;
		call.parallel = [](void *context, size_t n_tasks, void (*task)(void *, size_t), void *argument)
		{ static_cast<ThreadPool *>(context)->run(n_tasks, [&](size_t i) { task(argument, i); }); };
		return call;
	}

	ThreadPool pool;
};

/// Rows of a u8bin file of the data folder that VECTORGPU_DATA names (unpacked from NAME.u8bin.gz); empty without one.
inline Floats
data_rows(const std::string &name, uint32_t *dim, size_t most)
{
	const char *folder = std::getenv("VECTORGPU_DATA");
	Floats rows;
	uint32_t header[2];

	if (folder == nullptr)
		return rows;

	FILE *file = popen(("gzip -dc '" + std::string(folder) + "/" + name + ".u8bin.gz'").c_str(), "r");

	if (file != nullptr && fread(header, 4, 2, file) == 2)
	{
		std::vector<uint8_t> bytes(std::min<size_t>(header[0], most) * header[1]);

		*dim = header[1];
		if (fread(bytes.data(), 1, bytes.size(), file) == bytes.size())
			rows.assign(bytes.begin(), bytes.end());
	}
	if (file != nullptr)
		pclose(file);
	return rows;
}

} // namespace vectorgpu::engine::ivf::test

// Random numbers and first centroids of k-means. Internal to the folder.
#pragma once

#include "engine/ivf/assign.hpp"

namespace vectorgpu::engine::ivf
{

/// SplitMix64 (Steele, Lea, Flood, 2014): one multiplication-xorshift per number; any seed is good.
struct Random
{
	uint64_t state;

	uint64_t next()
	{
		uint64_t z = state += 0x9E3779B97F4A7C15;

		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
		return z ^ (z >> 31);
	}
	/// A number in 0 .. n - 1; n > 0, n < 2^32. The bias is below n / 2^64.
	uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
	/// A number in [0, 1).
	double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

/// Seed with different rows at random; if there are fewer rows than clusters, with all rows in their order, repeated.
/// numbers [n_rows]: scratch; centroids [n_clusters, dim].
void seed_random(const RowSource &source, size_t n_rows, size_t dim, size_t n_clusters, Random *random,
	uint32_t *numbers, float *centroids);

/// Scratch of seed_plus_plus, both [n_rows].
struct SeedScratch
{
	uint32_t *numbers = nullptr;
	float *distances = nullptr;
};

/// Seed by k-means++ (Arthur, Vassilvitskii, 2007) on a random sample of at most kSeedRows rows a cluster: each next
/// seed is drawn with probability proportional to its squared distance from the seeds so far. False: stopped.
bool seed_plus_plus(const RowSource &source, size_t n_rows, size_t dim, size_t n_clusters, Random *random,
	const SeedScratch &scratch, float *centroids, const Call &call, Progress progress);
constexpr size_t kSeedRows = 64;

} // namespace vectorgpu::engine::ivf

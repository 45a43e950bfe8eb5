// See kmeans_seed.hpp.
#include "engine/ivf/kmeans_seed.hpp"

#include <algorithm>
#include <utility>

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine::ivf
{

namespace
{

/// Set the first n of numbers [n_rows] to different row numbers, drawn at random.
void
draw_rows(size_t n_rows, size_t n, Random *random, uint32_t *numbers)
{
	for (size_t i = 0; i < n_rows; i++)
		numbers[i] = static_cast<uint32_t>(i);
	for (size_t i = 0; i < n; i++) // the start of a shuffle
		std::swap(numbers[i], numbers[i + random->below(n_rows - i)]);
}

/// Prefetch a row that will be needed soon: rows of a sample lie far apart.
void
ask_for(const float *row, size_t dim)
{
	constexpr size_t kFloatsPerLine = 16;
	constexpr size_t kMost = 256; // bytes; the hardware prefetches the rest

	for (size_t d = 0; d < std::min(dim, kMost); d += kFloatsPerLine)
		__builtin_prefetch(row + d);
}

} // namespace

void
seed_random(const RowSource &source, size_t n_rows, size_t dim, size_t n_clusters, Random *random, uint32_t *numbers,
	float *centroids)
{
	const bool choose = n_rows > n_clusters;

	if (choose)
		draw_rows(n_rows, n_clusters, random, numbers);
	for (size_t c = 0; c < n_clusters; c++)
		std::copy_n(source.row(choose ? numbers[c] : c % n_rows), dim, centroids + c * dim);
}

bool
seed_plus_plus(const RowSource &source, size_t n_rows, size_t dim, size_t n_clusters, Random *random,
	const SeedScratch &scratch, float *centroids, const Call &call, Progress progress)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, static_cast<uint32_t>(dim)};
	const size_t n_sample = std::min(n_rows, kSeedRows * n_clusters);
	size_t chosen;

	draw_rows(n_rows, n_sample, random, scratch.numbers);
	std::sort(scratch.numbers, scratch.numbers + n_sample);
	chosen = random->below(n_sample);
	for (size_t c = 0;; c++)
	{
		constexpr size_t kRowsPerCheck = 4096;
		constexpr size_t kAhead = 8;
		float *distances = scratch.distances;
		double sum = 0;

		std::copy_n(source.row(scratch.numbers[chosen]), dim, centroids + c * dim);
		if (c + 1 == n_clusters)
			return true;
		for (size_t i = 0; i < n_sample; i++)
		{
			double score;

			if (i % kRowsPerCheck == 0 && !go_on(call, progress))
				return false;
			if (i + kAhead < n_sample)
				ask_for(source.row(scratch.numbers[i + kAhead]), dim);
			compute_scores(spec, centroids + c * dim, source.row(scratch.numbers[i]), 0, 1, &score, 0);
			distances[i] = c == 0 ? static_cast<float>(score) : std::min(distances[i], static_cast<float>(score));
			sum += static_cast<double>(distances[i]);
		}

		double left = random->fraction() * sum;

		// A row at distance 0 is not drawn while others are left; if none is, the last row serves.
		for (chosen = 0; chosen + 1 < n_sample; chosen++)
		{
			left -= static_cast<double>(distances[chosen]);
			if (left < 0)
				break;
		}
	}
}

} // namespace vectorgpu::engine::ivf

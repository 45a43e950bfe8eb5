// Rows like those of test/bench/embeddings.py, made quickly by all threads: groups of uneven size, few latent
// dimensions, noise, length 1. Random numbers are hashes of the row, so that the rows do not depend on the threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

namespace vectorgpu::bench
{

class MadeEmbeddings
{
public:
	MadeEmbeddings(uint32_t dim, uint32_t n_groups) : dim_(dim), bounds_(n_groups), centres_(size_t{n_groups} * dim)
	{
		double sum = 0;
		uint64_t state = kSeed;

		for (uint32_t g = 0; g < n_groups; g++)
			bounds_[g] = sum += 1 / std::sqrt(g + 1.0);
		for (double &bound : bounds_)
			bound /= sum;
		for (float &x : centres_)
			x = normal(&state);
		projection_.resize(size_t{kLatent} * dim);
		for (float &x : projection_)
			x = (next(&state) >> 40 & 1) != 0 ? kSpread : -kSpread;
	}

	/// Rows [first, first + n) into rows [n, dim].
	void make(uint64_t first, uint32_t n, float *rows, size_t n_workers) const
	{
		std::vector<std::thread> threads;

		for (size_t t = 0; t < n_workers; t++)
			threads.emplace_back(
				[=, this]
				{
					const uint64_t end = n * (t + 1) / n_workers;

					for (uint64_t i = n * t / n_workers; i < end; i++)
						make_row(first + i, rows + i * dim_);
				});
		for (std::thread &thread : threads)
			thread.join();
	}

private:
	static constexpr uint32_t kLatent = 64;
	static constexpr uint64_t kSeed = 0x6d616465;
	static constexpr float kSpread = 0.6f / 8; // of a latent dimension: divided by the root of kLatent
	static constexpr float kNoise = 0.2f;

	static uint64_t next(uint64_t *state)
	{
		uint64_t x = *state += 0x9e3779b97f4a7c15;

		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
		x = (x ^ x >> 27) * 0x94d049bb133111eb;
		return x ^ x >> 31;
	}

	/// The sum of four uniform numbers of 16 bits, with mean 0 and deviation 1.
	static float normal(uint64_t *state)
	{
		const uint64_t bits = next(state);
		const uint32_t sum =
			static_cast<uint32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));

		return (static_cast<float>(sum) - 131070) / 37836.945f;
	}

	void make_row(uint64_t number, float *row) const
	{
		uint64_t state = kSeed + (number + 1) * 0xd1342543de82ef95;
		const double place = static_cast<double>(next(&state) >> 11) * 0x1p-53;
		const size_t group = std::min<size_t>(
			static_cast<size_t>(std::upper_bound(bounds_.begin(), bounds_.end(), place) - bounds_.begin()),
			bounds_.size() - 1);
		double squares = 0;

		std::copy_n(&centres_[group * dim_], dim_, row);
		for (uint32_t l = 0; l < kLatent; l++)
		{
			const float z = normal(&state);

			for (uint32_t d = 0; d < dim_; d++)
				row[d] += z * projection_[size_t{l} * dim_ + d];
		}
		for (uint32_t d = 0; d < dim_; d++)
		{
			row[d] += kNoise * normal(&state);
			squares += static_cast<double>(row[d]) * static_cast<double>(row[d]);
		}
		for (uint32_t d = 0; d < dim_; d++)
			row[d] = static_cast<float>(row[d] / std::sqrt(squares));
	}

	uint32_t dim_;
	std::vector<double> bounds_;    // of the groups, in [0, 1]
	std::vector<float> centres_;    // [groups, dim]
	std::vector<float> projection_; // [latent, dim]
};

} // namespace vectorgpu::bench

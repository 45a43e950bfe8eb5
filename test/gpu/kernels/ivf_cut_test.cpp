// The lists of queries with conditions against plain code: rows that pass evenly, near a query, away from it, and none.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/device/device.hpp"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr uint32_t kLists = 400;

struct Lists
{
	std::vector<uint64_t> offsets = {0};
	std::vector<uint32_t> n_pass; // and of all

	/// Up to most_rows rows each. About this share of them passes in the list of a number.
	template <class Share>
	Lists(uint32_t most_rows, const Share &share, std::mt19937 &rng)
	{
		uint32_t all = 0;

		for (uint32_t list = 0; list < kLists; list++)
		{
			const uint32_t n = static_cast<uint32_t>(rng() % (most_rows + 1));

			offsets.push_back(offsets.back() + n);
			n_pass.push_back(std::binomial_distribution<uint32_t>(n, share(list))(rng));
			all += n_pass.back();
		}
		n_pass.push_back(all);
	}

	/// By definition (kernels::IvfCut).
	uint32_t looked_at(const std::vector<kernels::Entry> &ranked, uint32_t most, float least, float full) const
	{
		const float share = static_cast<float>(n_pass[kLists]) / static_cast<float>(offsets[kLists]);
		const auto first_lists = [&](float part)
		{ return static_cast<uint32_t>(std::ceil(part * static_cast<float>(most))); };
		uint64_t rows = 0, passing = 0, parts = 0;
		float wanted = 0;

		for (uint32_t i = 0; i < first_lists(least); i++)
			rows += n_rows(ranked[i].row);
		wanted = share * static_cast<float>(static_cast<uint32_t>(rows));
		for (uint32_t i = 0; i < most; i++)
		{
			const uint64_t list = ranked[i].row;
			const float p = static_cast<float>(n_pass[list]) / static_cast<float>(std::max(n_rows(list), 1u));

			passing += n_pass[list];
			parts += static_cast<uint32_t>(1024.0f * (std::sqrt(p) * (1.0f + .6f * p * (1.0f - p))));
			if (static_cast<float>(static_cast<uint32_t>(passing)) >= wanted &&
				(i + 1 >= first_lists(least) || parts >= uint64_t{1024} * first_lists(full)))
				return i + 1;
		}
		return 0;
	}

	uint32_t n_rows(uint64_t list) const { return static_cast<uint32_t>(offsets[list + 1] - offsets[list]); }
};

class Cutting
{
public:
	Cutting() { EXPECT_TRUE(Device::open(0, nullptr, &device_).is_ok()); }

	/// Queries whose nearest lists are first, first + 1, … Returns how many of them look at fewer lists than the first
	/// ones, at more, at none.
	std::vector<size_t> compare(const Lists &lists, uint32_t most, float least, float full)
	{
		constexpr uint32_t kQueries = 64;
		const uint32_t stride = most + 3;
		std::vector<kernels::Entry> ranked;
		std::vector<uint32_t> counts(kQueries, most);
		std::vector<uint8_t> redo(kQueries);
		std::vector<size_t> found(3);
		DeviceBuffer d_offsets, d_n_pass, d_ranked, d_counts, d_redo;

		for (uint32_t q = 0; q < kQueries; q++)
			for (uint32_t i = 0; i < stride; i++)
				ranked.push_back({i, (q * 5 + i) % kLists});
		counts[kQueries - 1] = 1;
		send(lists.offsets, &d_offsets);
		send(lists.n_pass, &d_n_pass);
		send(ranked, &d_ranked);
		send(counts, &d_counts);
		send(redo, &d_redo);
		EXPECT_EQ(kernels::launch_ivf_cut({d_offsets.as<uint64_t>(), kLists, d_ranked.as<kernels::Entry>(),
											  d_counts.as<uint32_t>(), stride},
					  {d_n_pass.as<uint32_t>(), least, full}, kQueries, d_counts.as<uint32_t>(), d_redo.as<uint8_t>(),
					  nullptr),
			cudaSuccess);
		EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);

		const std::vector<uint32_t> named = counts;

		EXPECT_EQ(cudaMemcpy(counts.data(), d_counts.get(), kQueries * sizeof(uint32_t), cudaMemcpyDeviceToHost),
			cudaSuccess);
		EXPECT_EQ(cudaMemcpy(redo.data(), d_redo.get(), kQueries, cudaMemcpyDeviceToHost), cudaSuccess);
		for (uint32_t q = 0; q < kQueries; q++)
		{
			const std::vector<kernels::Entry> own(ranked.begin() + q * stride, ranked.begin() + (q + 1) * stride);
			const uint32_t expected = lists.looked_at(own, named[q], least, full);
			const uint32_t first = static_cast<uint32_t>(std::ceil(least * static_cast<float>(named[q])));

			EXPECT_EQ(counts[q], expected) << "query " << q;
			EXPECT_EQ(redo[q], expected == 0 ? kernels::kAnswerIsAway : 0) << "query " << q;
			found[0] += expected > 0 && expected < first ? 1 : 0;
			found[1] += expected > first ? 1 : 0;
			found[2] += expected == 0 ? 1 : 0;
		}
		return found;
	}

private:
	template <class T>
	void send(const std::vector<T> &values, DeviceBuffer *to)
	{
		const size_t bytes = values.size() * sizeof(T);

		ASSERT_TRUE(to->allocate(&device_, bytes, "test").is_ok());
		ASSERT_EQ(cudaMemcpy(to->get(), values.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
	}

	Device device_;
};

TEST(IvfCut, ListsByTheRowsInThemThatPass)
{
	std::mt19937 rng(3);
	Cutting cutting;

	for (const uint32_t most_rows : {4u, 2000u})
		for (const uint32_t most : {2u, 40u, 83u, kernels::kIvfMostCut})
		{
			SCOPED_TRACE(testing::Message() << most << " lists of up to " << most_rows << " rows");
			const Lists even(most_rows, [](uint32_t) { return .4; }, rng);
			const Lists apart(most_rows, [](uint32_t list) { return list < kLists / 2 ? .9 : .02; }, rng);
			const Lists none(most_rows, [](uint32_t) { return 0.; }, rng);
			const Lists all(most_rows, [](uint32_t) { return 1.; }, rng);

			for (const float full : {.1f, .4f, 1.0f})
			{
				(void) cutting.compare(even, most, .8f, full);
				(void) cutting.compare(none, most, .8f, full);
				(void) cutting.compare(all, most, .8f, full);

				const std::vector<size_t> found = cutting.compare(apart, most, .8f, full);

				if (most_rows < 100 || most != 83)
					continue;
				EXPECT_GT(found[2], 0u); // some have few rows that pass nearby
				if (full < 1)
				{
					EXPECT_GT(found[0], 10u);
				}
			}
		}
}

} // namespace
} // namespace vectorgpu::cuda::test

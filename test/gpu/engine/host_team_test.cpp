// The host's threads around large searches: every number is processed once, whichever threads call at the same time,
// and no exception is lost.
#include "cuda/device/host_team.hpp"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kMany = 1 << 20; // bytes that are worth sharing

TEST(HostTeam, EveryNumberIsInOnePiece)
{
	for (size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{1000}, size_t{100003}})
		for (size_t bytes : {size_t{0}, kMany, 100 * kMany})
		{
			std::vector<std::atomic<int>> seen(n);

			HostTeam::get().share(n, bytes,
				[&](size_t first, size_t last)
				{
					for (size_t i = first; i < last; i++)
						seen[i]++;
				});
			for (const std::atomic<int> &times : seen)
				ASSERT_EQ(times, 1);
		}
}

TEST(HostTeam, OneAtATime)
{
	for (size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{57}})
	{
		std::vector<std::atomic<int>> seen(n);

		HostTeam::get().share_each(n,
			[&](size_t first, size_t last)
			{
				for (size_t i = first; i < last; i++)
					seen[i]++;
			});
		for (const std::atomic<int> &times : seen)
			ASSERT_EQ(times, 1);
	}
}

TEST(HostTeam, CallersAtTheSameTime)
{
	constexpr size_t kNumbers = 1000;
	std::vector<std::thread> callers;
	std::atomic<uint64_t> sum{0};

	for (int caller = 0; caller < 4; caller++)
		callers.emplace_back(
			[&]
			{
				for (int round = 0; round < 200; round++)
					HostTeam::get().share(kNumbers, 10 * kMany,
						[&](size_t first, size_t last)
						{
							for (size_t i = first; i < last; i++)
								sum += i;
						});
			});
	for (std::thread &caller : callers)
		caller.join();
	EXPECT_EQ(sum, 4 * 200 * (kNumbers * (kNumbers - 1) / 2));
}

TEST(HostTeam, ExceptionsReachTheCaller)
{
	for (int round = 0; round < 20; round++)
		EXPECT_THROW(HostTeam::get().share(1000, 10 * kMany,
						 [&](size_t first, size_t last)
						 {
							 if (first <= 500 && 500 < last)
								 throw std::length_error("thrown");
						 }),
			std::length_error);
}

TEST(HostTeam, InOrder)
{
	constexpr size_t kMost = 100000;
	std::vector<std::atomic<uint8_t>> written(kMost);

	for (const size_t n : {size_t{1}, size_t{7}, size_t{1000}, kMost})
		for (const size_t bytes : {size_t{1}, kMany, 40 * kMany})
		{
			size_t next = 0;

			for (std::atomic<uint8_t> &each : written)
				each.store(0);
			HostTeam::get().share_in_order(
				n, bytes,
				[&](size_t first, size_t last)
				{
					for (size_t i = first; i < last; i++)
						written[i].fetch_add(1, std::memory_order_relaxed);
				},
				[&](size_t first, size_t last)
				{
					ASSERT_EQ(first, next);
					ASSERT_LE(last, n);
					for (; next < last; next++)
						ASSERT_EQ(written[next].load(std::memory_order_relaxed), 1);
				});
			EXPECT_EQ(next, n);
		}
}

TEST(HostTeam, ExceptionsInOrderReachTheCaller)
{
	for (int round = 0; round < 20; round++)
	{
		size_t after = 0;

		EXPECT_THROW(HostTeam::get().share_in_order(
						 1000, 10 * kMany,
						 [&](size_t first, size_t last)
						 {
							 if (first <= 500 && 500 < last)
								 throw std::length_error("thrown");
						 },
						 [&](size_t, size_t last) { after = last; }),
			std::length_error);
		EXPECT_LE(after, size_t{500});
	}
}

} // namespace
} // namespace vectorgpu::cuda::test

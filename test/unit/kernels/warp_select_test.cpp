// WarpSelect's networks and queues, run on the host: the same templates that the kernels instantiate.
#include "experiments/warp_select.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace vectorgpu::kernels
{
namespace
{

using Vec = HostWarp::Vec;

/// Lane-stride arrays as plain ones and back.
template <int N>
void
spread(const std::vector<uint64_t> &from, Vec *to)
{
	for (int i = 0; i < 32 * N; i++)
		to[i / 32][i % 32] = from[i];
}

template <int N>
std::vector<uint64_t>
gather(const Vec *from)
{
	std::vector<uint64_t> to(32 * N);

	for (int i = 0; i < 32 * N; i++)
		to[i] = from[i / 32][i % 32];
	return to;
}

std::vector<uint64_t>
random_keys(size_t n, uint64_t most, std::mt19937_64 &rng)
{
	std::vector<uint64_t> keys(n);

	for (uint64_t &key : keys)
		key = rng() % most;
	return keys;
}

template <int N>
void
expect_sorts()
{
	std::mt19937_64 rng(N);

	for (uint64_t most : {uint64_t{2}, uint64_t{40}, kWarpSelectMost})
		for (int trial = 0; trial < 30; trial++)
		{
			std::vector<uint64_t> keys = random_keys(32 * N, most, rng);
			Vec x[N];

			spread<N>(keys, x);
			Network<HostWarp>::sort<N>(x);
			std::sort(keys.begin(), keys.end());
			ASSERT_EQ(gather<N>(x), keys) << N;
		}
}

TEST(WarpSelect, SortsEveryLength)
{
	expect_sorts<1>();
	expect_sorts<2>();
	expect_sorts<3>();
	expect_sorts<4>();
	expect_sorts<5>();
	expect_sorts<6>();
	expect_sorts<7>();
	expect_sorts<8>();
	expect_sorts<13>();
	expect_sorts<32>();
}

TEST(WarpSelect, ASortOfZerosAndOnesSorts)
{
	// A network that sorts all sequences of zeros and ones sorts everything. All 2^32 are too many for one vector:
	// every number of ones at every rotation, and random ones.
	std::mt19937_64 rng(1);

	for (int ones = 0; ones <= 32; ones++)
		for (int turn = 0; turn < 32; turn++)
			for (int form = 0; form < 3; form++)
			{
				Vec x;

				for (int i = 0; i < 32; i++)
					x[i] = (form == 0          ? (i + turn) % 32 < ones
								   : form == 1 ? (i * 5 + turn) % 32 < ones
											   : static_cast<int>(rng() % 32) < ones)
						? 1
						: 0;

				const int sum = static_cast<int>(std::count(x.begin(), x.end(), 1u));

				Network<HostWarp>::sort<1>(&x);
				ASSERT_TRUE(std::is_sorted(x.begin(), x.end()));
				ASSERT_EQ(std::count(x.begin(), x.end(), 1u), sum);
			}
}

template <int NL, int NR>
void
expect_merges()
{
	// The 0-1 principle for merges is exhaustive: sorted inputs of zeros and ones are their numbers of ones.
	for (int left_ones = 0; left_ones <= 32 * NL; left_ones++)
		for (int right_ones = 0; right_ones <= 32 * NR; right_ones++)
		{
			Vec left[NL];
			Vec right[NR];

			for (int i = 0; i < 32 * NL; i++)
				left[i / 32][i % 32] = i >= 32 * NL - left_ones;
			for (int i = 0; i < 32 * NR; i++)
				right[i / 32][i % 32] = i >= 32 * NR - right_ones;
			Network<HostWarp>::merge<NL, NR>(left, right);

			const std::vector<uint64_t> low = gather<NL>(left);
			const std::vector<uint64_t> high = gather<NR>(right);
			const int zeros = 32 * (NL + NR) - left_ones - right_ones;

			for (int i = 0; i < 32 * (NL + NR); i++)
				ASSERT_EQ(i < 32 * NL ? low[i] : high[i - 32 * NL], i >= zeros ? 1u : 0u) << NL << " + " << NR;
		}
}

TEST(WarpSelect, MergesOddSizes)
{
	expect_merges<1, 1>();
	expect_merges<1, 2>();
	expect_merges<2, 1>();
	expect_merges<1, 3>();
	expect_merges<4, 3>();
	expect_merges<3, 4>();
	expect_merges<5, 3>();
	expect_merges<5, 2>();
	expect_merges<8, 4>();
	expect_merges<7, 8>();
}

template <int W, int T>
void
expect_selects()
{
	std::mt19937_64 rng(W * 100 + T);

	for (size_t n : {1, 31, 32, 33, 500, 5000})
		for (uint64_t most : {uint64_t{1}, uint64_t{20}, uint64_t{1} << 60})
			for (int order = 0; order < 3; order++)
			{
				std::vector<uint64_t> keys = random_keys(n, most, rng);
				WarpSelect<HostWarp, W, T> select;

				if (order == 1)
					std::sort(keys.begin(), keys.end());
				if (order == 2)
					std::sort(keys.rbegin(), keys.rend()); // each smaller than the ones before
				select.init();
				for (size_t first = 0; first < n; first += 32)
				{
					Vec key = HostWarp::all(kWarpSelectMost);

					for (size_t i = first; i < std::min(n, first + 32); i++)
						key[i - first] = keys[i];
					select.add(key);
				}
				select.finish();
				std::sort(keys.begin(), keys.end());
				keys.resize(32 * W, kWarpSelectMost);
				ASSERT_EQ(gather<W>(select.warp_queue), keys)
					<< "k " << 32 * W << ", t " << T << ", n " << n << ", most " << most;
			}
}

TEST(WarpSelect, SelectsTheSmallest)
{
	// The paper's pairs of k and t (section 4.3), and odd ones.
	expect_selects<1, 2>();
	expect_selects<4, 3>();
	expect_selects<8, 4>();
	expect_selects<32, 8>();
	expect_selects<3, 1>();
	expect_selects<5, 7>();
}

} // namespace
} // namespace vectorgpu::kernels

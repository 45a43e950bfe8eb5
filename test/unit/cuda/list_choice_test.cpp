// The choice between inverted lists and all rows, at the sizes that were measured (test/gpu/REPORT*.md,
// gpu/kernels/ivf/README.md).
#include "cuda/device/list_choice.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace vectorgpu::cuda
{
namespace
{

constexpr ListPass kTen = {10, true, false};

/// SIFT: as bytes, or as float32 that a pass reads rounded to bytes for few queries, else to binary16.
ListChoice
sift(double probes, bool bytes, uint32_t n_queries, uint32_t n_lists = 945)
{
	if (bytes)
		return {894717, 128, n_lists, probes, 128, 128, 128, false, true};
	return {894717, 128, n_lists, probes, 512, 256, n_queries <= 4 ? 128u : 256u, n_queries <= 4, false};
}

ListChoice
fashion(double probes, uint32_t /* n_queries */)
{
	return {60000, 784, 245, probes, 784, 784, 784, false, true};
}

ListChoice
arxiv(double probes, uint32_t n_queries)
{
	return {150000, 256, 387, probes, 1024, 512, n_queries <= 4 ? 256u : 512u, n_queries <= 4, false};
}

double
pass_us(const ListChoice &rows, uint32_t n_queries, const ListPass &pass = kTen)
{
	return list_pass_us({&rows, 1}, n_queries, pass);
}

double
lists_us_of(const ListChoice &rows, uint32_t n_queries)
{
	return lists_us({&rows, 1}, n_queries, false);
}

template <class Rows>
bool
scores_all(const Rows &rows, const ListPass &pass = kTen)
{
	return choose_pass({{rows(kChoiceOne)}, {rows(kChoiceMany)}, {rows(kChoiceLarge)}}, pass);
}

auto
sift_of(double probes, bool bytes)
{
	return [=](uint32_t n) { return sift(probes, bytes, n); };
}

auto
arxiv_of(double probes)
{
	return [=](uint32_t n) { return arxiv(probes, n); };
}

TEST(ListChoice, PassesTakeNearlyWhatWasMeasured)
{
	EXPECT_NEAR(pass_us(sift(1, true, 1), 1), 73, 5);
	EXPECT_NEAR(pass_us(sift(1, true, 16), 16), 103, 6);
	EXPECT_NEAR(pass_us(sift(1, true, 256), 256), 1126, 80);
	EXPECT_NEAR(pass_us(fashion(1, 1), 1), 36, 3);
	EXPECT_NEAR(pass_us(fashion(1, 16), 16), 49, 3);
	EXPECT_NEAR(pass_us(sift(1, false, 1), 1), 87, 5);
	EXPECT_NEAR(pass_us(sift(1, false, 16), 16), 99, 6);
	EXPECT_NEAR(pass_us(sift(1, false, 256), 256), 1304, 150);
	EXPECT_NEAR(pass_us(arxiv(1, 1), 1), 53, 4);
	EXPECT_NEAR(pass_us(arxiv(1, 16), 16), 62, 6);
	EXPECT_NEAR(pass_us(arxiv(1, 256), 256), 196, 35);
}

TEST(ListChoice, ALargeBatchOverWideRowsTakesItsProductsAndBytes)
{
	const ListChoice wide = {500000, 4096, 707, 1, 16384, 8192, 8192, false, false};

	EXPECT_GT(pass_us(wide, kChoiceLarge), 1000 + 950); // 5.2e11 products, 4.1e9 bytes
}

TEST(ListChoice, ListsTakeNearlyWhatWasMeasured)
{
	EXPECT_NEAR(lists_us_of(sift(30, true, 1), 1), 40, 3);
	EXPECT_NEAR(lists_us_of(sift(30, true, 16), 16), 55, 5);
	EXPECT_NEAR(lists_us_of(sift(30, true, 64), 64), 98, 5);
	EXPECT_NEAR(lists_us_of(sift(16, false, 1, 1024), 1), 41, 3);
	EXPECT_NEAR(lists_us_of(sift(64, false, 1, 1024), 1), 52, 3);
	EXPECT_NEAR(lists_us_of(sift(32, false, 8, 1024), 8), 79, 8);
	EXPECT_NEAR(lists_us_of(sift(64, false, 8, 1024), 8), 110, 8);
	EXPECT_NEAR(lists_us_of(sift(16, false, 32, 1024), 32), 115, 10);
	EXPECT_NEAR(lists_us_of(sift(32, false, 64, 1024), 64), 239, 12);
	EXPECT_NEAR(lists_us_of(sift(64, false, 64, 1024), 64), 258, 12);
}

TEST(ListChoice, ASmallSetIsLookedAtWholeALargeOneIsNot)
{
	EXPECT_FALSE(scores_all(arxiv_of(2)));
	EXPECT_TRUE(scores_all(arxiv_of(34))); // recall .98
	EXPECT_TRUE(scores_all(arxiv_of(100)));
	for (const bool bytes : {true, false})
	{
		EXPECT_FALSE(scores_all(sift_of(30, bytes))) << bytes;  // .955
		EXPECT_FALSE(scores_all(sift_of(50, bytes))) << bytes;  // .98
		EXPECT_FALSE(scores_all(sift_of(700, bytes))) << bytes; // a join's batches are faster by lists
	}
	EXPECT_TRUE(scores_all([](uint32_t n) { return fashion(20, n); }));
	EXPECT_TRUE(scores_all([](uint32_t) { return ListChoice{20000, 64, 141, 60, 64, 64, 64, false, true}; }));
	EXPECT_FALSE(
		scores_all([](uint32_t n) { return ListChoice{10000000, 96, 3162, 100, 384, 192, 96, n <= 4, false}; }));
}

TEST(ListChoice, MoreProbesNeverLeadBackToLists)
{
	bool before = false;

	for (double probes = 1; probes < 387; probes++)
	{
		const bool now = scores_all(arxiv_of(probes));

		EXPECT_TRUE(now || !before) << probes;
		before = now;
	}
	EXPECT_TRUE(before);
}

TEST(ListChoice, MoreResultsAndOtherWaysMakeAPassDearer)
{
	const ListChoice rows = sift(1, true, 16);

	EXPECT_TRUE(scores_all(arxiv_of(40)));
	EXPECT_FALSE(scores_all(arxiv_of(40), {100, true, false}));
	EXPECT_GT(pass_us(rows, 16, {10, false, false}), pass_us(rows, 16));
	EXPECT_GT(pass_us(rows, 16, {10, true, true}), pass_us(rows, 16));
}

TEST(ListChoice, SegmentsOfListsAreSearchedOneAfterAnother)
{
	const ListChoice half = {75000, 256, 194, 17, 1024, 512, 512, false, false};
	const std::vector<ListChoice> two = {half, half};
	const ListChoice whole = arxiv(34, 16);

	EXPECT_GT(lists_us(two, 1, false), lists_us({&whole, 1}, 1, false) + 30);
	EXPECT_GT(list_pass_us(two, 16, kTen), list_pass_us({&whole, 1}, 16, kTen) + 10);
	EXPECT_LT(list_pass_us(two, 16, kTen), list_pass_us({&whole, 1}, 16, kTen) + 25);
}

} // namespace
} // namespace vectorgpu::cuda

// Copies of random sizes that come and go, some thousands of them, in a budget that they fill (G8, G12): at the end
// there is as much memory as at the beginning, and room for as large a copy.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kBudget = size_t{24} << 20;
constexpr size_t kMostRows = 1 << 18; // more than the budget has room for
constexpr unsigned kMostBits = 16;    // rows of a copy, for which there is room when it is alone
constexpr unsigned kMostCopies = 96;

struct Churn
{
	std::unique_ptr<CudaEngine> engine;
	Rows rows{{Metric::kL2, ElementType::kFloat32, 16}};
	std::map<CopyId, size_t> copies; // and the rows of each
	std::mt19937 rng{12};

	Churn()
	{
		CudaEngineOptions options;

		options.memory_bytes = kBudget;
		options.workspace_bytes = size_t{256} << 20;
		options.self_test = false;
		make_or_throw(options, &engine);
		rows.add_random(kMostRows, Data::kGaussian, rng, 1);
	}

	/// A copy of the first n rows, the last of them in its delta. Leaves nothing behind if there is no room.
	Status add(size_t n)
	{
		const size_t n_delta = std::min<size_t>(n / 2, 50);
		CopyId copy = 0;

		VECTORGPU_TRY(engine->create({rows.spec}, &copy));

		Status status = engine->load_segment(copy, 1, rows.block(0, n - n_delta));

		if (status.is_ok())
			status = engine->seal_segment(copy, 1);
		if (status.is_ok() && n_delta > 0)
			status = engine->append_delta(copy, 0, rows.block(n - n_delta, n_delta));
		if (!status.is_ok())
		{
			EXPECT_TRUE(engine->drop(copy).is_ok());
			return status;
		}
		copies[copy] = n;
		return status;
	}

	void drop_one()
	{
		auto gone = copies.begin();

		std::advance(gone, rng() % copies.size());
		ASSERT_OK(engine->drop(gone->first));
		copies.erase(gone);
	}

	/// Any copy finds the nearest of any of its rows: that row itself.
	void search_one()
	{
		auto asked = copies.begin();

		std::advance(asked, rng() % copies.size());

		const size_t row = rng() % asked->second;
		const SearchQuery query = {rows.vector(row), 3, false, {}};
		std::vector<std::vector<Neighbor>> found;

		ASSERT_OK(engine->search(asked->first, {&query, 1}, &found, nullptr));
		ASSERT_FALSE(found[0].empty());
		EXPECT_EQ(found[0][0].row, rows.ids[row]) << "of " << asked->second << " rows";
	}

	/// The most rows, to a 64th of all, for which a copy alone has room.
	size_t most_alone()
	{
		size_t n = 0;

		for (size_t step = kMostRows / 2; step >= kMostRows / 64; step /= 2)
			if (add(n + step).is_ok())
			{
				n += step;
				drop_one();
			}
		return n;
	}
};

TEST(Churn, CopiesOfRandomSizesLeaveNothingBehind)
{
	Churn churn;
	const char *wanted = getenv("VECTORGPU_CHURN");
	const int n_rounds = wanted != nullptr ? atoi(wanted) : 2000;
	const uint64_t before = churn.engine->stats().resident_bytes;
	const size_t most_before = churn.most_alone();
	int n_refused = 0;

	EXPECT_GT(most_before, kMostRows / 64);
	for (int round = 0; round < n_rounds; round++)
	{
		// Most copies are small; some take a large part of the budget.
		const size_t n = 1 + churn.rng() % (size_t{1} << (1 + churn.rng() % kMostBits));

		while (churn.copies.size() >= kMostCopies)
			ASSERT_NO_FATAL_FAILURE(churn.drop_one());
		for (;;)
		{
			const Status status = churn.add(n);

			if (status.is_ok())
				break;
			ASSERT_EQ(status.code, StatusCode::kOutOfMemory) << status.message;
			n_refused++;
			ASSERT_FALSE(churn.copies.empty()) << n << " rows find no room though nothing else is there";
			ASSERT_NO_FATAL_FAILURE(churn.drop_one());
		}
		ASSERT_LE(churn.engine->stats().resident_bytes, kBudget);
		if (round % 8 == 0)
		{
			ASSERT_NO_FATAL_FAILURE(churn.search_one());
		}
	}
	EXPECT_GT(n_refused, 0) << "the budget was never full";
	while (!churn.copies.empty())
		ASSERT_NO_FATAL_FAILURE(churn.drop_one());
	EXPECT_EQ(churn.engine->stats().resident_bytes, before);
	EXPECT_EQ(churn.engine->stats().n_copies, 0u);
	EXPECT_EQ(churn.most_alone(), most_before);
}

} // namespace
} // namespace vectorgpu::cuda::test

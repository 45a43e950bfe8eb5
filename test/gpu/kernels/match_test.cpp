// Match counts on the device against the index in host memory, which test/unit/match checks against the definition:
// counts, order and ties are equal, whatever the counters' width, the parts in which an index is loaded and the chunks
// of a batch.
#include <algorithm>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "cuda/resident/match_index.hpp"
#include "match/sets.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using namespace engine::match;
using vectorgpu::test::equalities;
using vectorgpu::test::index_of;
using vectorgpu::test::parts_of;
using vectorgpu::test::Range;
using vectorgpu::test::Set;
using vectorgpu::test::stored_query;

struct Asked
{
	std::vector<Range> ranges;
	size_t k = 10;
	bool has_after = false;
	engine::Neighbor after{};
};

/// An index on the device and the same in host memory.
class MatchPair
{
public:
	explicit MatchPair(MatchIndex index, uint64_t budget_bytes = 0, uint64_t workspace_bytes = uint64_t{1} << 30)
		: index_(std::move(index)), workspace_(&stream_, &memory_)
	{
		EXPECT_TRUE(Device::open(0, nullptr, &device_).is_ok());
		EXPECT_TRUE(on_device_.load(&device_, index_.tiles(), index_.n_rows(), index_.n_keys(), budget_bytes).is_ok());
		EXPECT_TRUE(stream_.create(&device_).is_ok());
		EXPECT_TRUE(memory_.allocate(&device_, workspace_bytes, "test").is_ok());
	}

	void set_dead(std::vector<uint8_t> bits)
	{
		dead_ = std::move(bits);
		ASSERT_TRUE(on_device_.set_dead(dead_).is_ok());
	}

	void expect_equal(const std::vector<Asked> &asked)
	{
		std::vector<std::string> stored;
		std::vector<std::vector<CodeRange>> ranges;
		std::vector<MatchQuery> queries;
		std::vector<MatchRequest> requests;
		std::vector<std::vector<engine::Neighbor>> expected;
		std::vector<std::vector<MatchFound>> found;
		const auto ids = index_.row_ids();

		for (const Asked &one : asked)
			stored.push_back(stored_query(one.ranges));
		for (const std::string &query : stored)
			ranges.push_back(index_.resolve(parts_of(query)));
		for (size_t i = 0; i < asked.size(); i++)
		{
			MatchRequest request;

			queries.push_back({{stored[i].data(), stored[i].size()}, asked[i].k, asked[i].has_after, asked[i].after});
			request.ranges = ranges[i];
			request.most_count = index_.most_count(ranges[i]);
			request.k = asked[i].k;
			request.has_after = asked[i].has_after;
			request.after_count = static_cast<uint32_t>(-asked[i].after.score);
			request.after_row =
				static_cast<uint32_t>(std::upper_bound(ids.begin(), ids.end(), asked[i].after.row) - ids.begin());
			requests.push_back(request);
		}
		ASSERT_TRUE(index_.search(queries, dead_.empty() ? nullptr : dead_.data(), &expected));

		const Status status = on_device_.search(requests, &workspace_, &found);

		ASSERT_TRUE(status.is_ok()) << status.message;
		for (size_t i = 0; i < asked.size(); i++)
		{
			ASSERT_EQ(found[i].size(), expected[i].size()) << "query " << i << " k " << asked[i].k;
			for (size_t j = 0; j < found[i].size(); j++)
			{
				ASSERT_EQ(found[i][j].count, static_cast<uint32_t>(-expected[i][j].score))
					<< "query " << i << " k " << asked[i].k << " place " << j;
				ASSERT_EQ(ids[found[i][j].row], expected[i][j].row)
					<< "query " << i << " k " << asked[i].k << " place " << j;
			}
		}
	}

	const DeviceMatchIndex &on_device() const { return on_device_; }
	void limit_launches(uint64_t most_work) { on_device_.limit_launches(most_work); }

	/// The search alone.
	Status search(std::span<const MatchRequest> requests, engine::SearchControl *control)
	{
		std::vector<std::vector<MatchFound>> found;

		return on_device_.search(requests, &workspace_, &found, control);
	}

private:
	Device device_;
	MatchIndex index_;
	DeviceMatchIndex on_device_;
	Stream stream_;
	DeviceBuffer memory_;
	MatchWorkspace workspace_;
	std::vector<uint8_t> dead_;
};

std::string
element(char attribute, uint32_t value)
{
	return {attribute, static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::vector<RowId>
ids_for(size_t n)
{
	std::vector<RowId> ids(n);

	for (size_t i = 0; i < n; i++)
		ids[i] = 5 + i * 3;
	return ids;
}

struct Shape
{
	size_t n_rows;
	int n_attributes;
	uint32_t n_values;
	int elements; // of a row, at most: one attribute may have several
	uint32_t seed;
};

std::vector<Set>
rows_of(const Shape &shape, std::mt19937 &random)
{
	std::vector<Set> rows(shape.n_rows);

	for (Set &row : rows)
		for (int n = static_cast<int>(random() % static_cast<uint32_t>(shape.elements + 1)); n > 0; n--)
			row.insert(element(static_cast<char>('A' + random() % static_cast<uint32_t>(shape.n_attributes)),
				random() % shape.n_values));
	return rows;
}

std::vector<Range>
ranges_of(const Shape &shape, std::mt19937 &random)
{
	std::vector<Range> ranges;

	for (int attribute = 0; attribute < shape.n_attributes; attribute++)
	{
		const uint32_t divisor = 1 + static_cast<uint32_t>(random() % 20);
		const uint32_t low = static_cast<uint32_t>(random() % shape.n_values);
		const uint32_t width = 1 + static_cast<uint32_t>(random() % std::max(1u, shape.n_values / divisor));
		const char name = static_cast<char>('A' + attribute);

		if (random() % 5 != 0)
			ranges.emplace_back(element(name, low), element(name, low + width));
	}
	return ranges;
}

class MatchShapes : public ::testing::TestWithParam<Shape>
{
};

TEST_P(MatchShapes, EqualTheHostIndex)
{
	const Shape shape = GetParam();
	std::mt19937 random(shape.seed);
	MatchPair pair(index_of(rows_of(shape, random), ids_for(shape.n_rows)));
	std::vector<Asked> asked;
	std::vector<uint8_t> dead(shape.n_rows / 8 + 1);

	for (const size_t k :
		{size_t{0}, size_t{1}, size_t{7}, size_t{100}, size_t{2048}, size_t{2049}, size_t{5000}, shape.n_rows + 3})
		for (int i = 0; i < 3; i++)
			asked.push_back({ranges_of(shape, random), std::min<size_t>(k, 9000), false, {}});
	asked.push_back({{}, 20, false, {}});
	ASSERT_NO_FATAL_FAILURE(pair.expect_equal(asked));
	for (Asked &one : asked)
	{
		one.has_after = random() % 2 == 0;
		one.after = {-static_cast<double>(random() % 6), 5 + random() % (shape.n_rows * 3 + 1)};
	}
	ASSERT_NO_FATAL_FAILURE(pair.expect_equal(asked));
	for (uint8_t &byte : dead)
		byte = static_cast<uint8_t>(random() & random());
	ASSERT_NO_FATAL_FAILURE(pair.set_dead(dead));
	ASSERT_NO_FATAL_FAILURE(pair.expect_equal(asked));
	ASSERT_NO_FATAL_FAILURE(pair.set_dead(std::vector<uint8_t>(dead.size(), 0xFF)));
	ASSERT_NO_FATAL_FAILURE(pair.expect_equal(asked));
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatchShapes,
	::testing::Values(Shape{1, 2, 3, 3, 1}, Shape{31, 3, 3, 5, 2}, Shape{5000, 10, 40, 12, 3}, Shape{65536, 4, 5, 4, 4},
		Shape{140000, 3, 100000, 6, 5}, Shape{70000, 12, 3, 30, 6}, Shape{3000, 1, 2000, 400, 7}));

// Batches of several kinds in turn do not affect each other; neither do chunks of a batch and parts of an index.
TEST(Match, ChunksAndPartsChangeNothing)
{
	const Shape shape = {200000, 6, 50, 8, 11};
	std::mt19937 random(shape.seed);
	const std::vector<Set> rows = rows_of(shape, random);
	std::vector<Asked> asked;

	for (int i = 0; i < 60; i++)
		asked.push_back({ranges_of(shape, random), 1 + random() % 300, false, {}});

	MatchPair whole(index_of(rows, ids_for(rows.size())));
	MatchPair in_parts(index_of(rows, ids_for(rows.size())), 1, 1000000);

	EXPECT_EQ(whole.on_device().n_parts(), 1u);
	EXPECT_EQ(in_parts.on_device().n_parts(), 4u);
	ASSERT_NO_FATAL_FAILURE(whole.expect_equal(asked));
	ASSERT_NO_FATAL_FAILURE(whole.expect_equal(asked));
	ASSERT_NO_FATAL_FAILURE(in_parts.expect_equal(asked));
}

// As many launches as there are tiles, and queries, give the answer of one. Each is a sign of life, and a search can
// end between two of them.
TEST(Match, LaunchesAreShort)
{
	const Shape shape = {200000, 4, 50, 8, 17};
	std::mt19937 random(shape.seed);
	MatchPair pair(index_of(rows_of(shape, random), ids_for(shape.n_rows)));
	std::vector<Asked> asked;
	std::vector<MatchRequest> requests;
	const std::vector<CodeRange> all = {{0, 200}};

	for (int i = 0; i < 20; i++)
		asked.push_back({ranges_of(shape, random), i % 5 == 0 ? 3000 : 1 + random() % 300, false, {}});
	for (const uint64_t most_work : {uint64_t{1}, uint64_t{300000}, uint64_t{2000000}, uint64_t{1} << 40})
	{
		pair.limit_launches(most_work);
		ASSERT_NO_FATAL_FAILURE(pair.expect_equal(asked));
	}
	for (int i = 0; i < 10; i++)
		requests.push_back({all, 8, 10, false, 0, 0, {}});
	for (const bool stopped : {false, true})
	{
		engine::SearchControl control;

		control.stop = stopped;
		pair.limit_launches(1);
		EXPECT_EQ(pair.search(requests, &control).code, stopped ? StatusCode::kCancelled : StatusCode::kOk);
		EXPECT_EQ(control.progress.load(), stopped ? 1u : 4u * 10 - 1);
	}
}

// Ties go to the first rows, over tiles; one posting list has all rows.
TEST(Match, AllRowsEqual)
{
	const size_t n = 3 * kTileRows + 100;
	const std::vector<Set> rows(n, Set{element('A', 1), element('B', 2)});
	MatchPair pair(index_of(rows, ids_for(n)));
	const std::vector<Range> both = equalities(rows[0]);
	std::vector<Asked> asked;

	for (const size_t k : {size_t{1}, size_t{100}, size_t{2048}, size_t{70000}})
	{
		asked.push_back({both, k, false, {}});
		asked.push_back({{both[0]}, k, true, {-1, 5 + 3 * 65535}});
		asked.push_back({{{element('C', 1), element('C', 2)}}, k, false, {}});
	}
	ASSERT_NO_FATAL_FAILURE(pair.expect_equal(asked));
}

// Every width of a counter, and more items than are looked up at a time.
TEST(Match, HugeSets)
{
	for (const size_t n_elements :
		{size_t{14}, size_t{15}, size_t{254}, size_t{255}, size_t{2000}, size_t{65534}, size_t{65535}, size_t{100000}})
	{
		Set huge;
		Set third;

		for (uint32_t i = 0; i < n_elements; i++)
		{
			huge.insert(element('A', 2 * i));
			if (i % 3 == 0)
				third.insert(element('A', 2 * i));
		}

		std::vector<Set> rows(40000, Set{element('A', 0)});

		rows[33] = third;
		rows[39999] = huge;
		rows[17000] = huge;
		MatchPair pair(index_of(rows, ids_for(rows.size())));

		ASSERT_NO_FATAL_FAILURE(pair.expect_equal({{equalities(huge), 5, false, {}}, {equalities(third), 50, false, {}},
			{{{element('A', 0), element('B', 0)}}, 3, false, {}},
			{equalities(huge), 5, true, {-static_cast<double>(third.size()), 5}}}));
	}
}

// For tools that slow kernels down.
TEST(Match, Reduced)
{
	const Shape shape = {66000, 5, 30, 8, 31};
	std::mt19937 random(shape.seed);
	MatchPair pair(index_of(rows_of(shape, random), ids_for(shape.n_rows)));
	std::vector<uint8_t> dead(shape.n_rows / 8 + 1, 0x11);

	ASSERT_NO_FATAL_FAILURE(
		pair.expect_equal({{ranges_of(shape, random), 10, false, {}}, {ranges_of(shape, random), 300, false, {}}}));
	ASSERT_NO_FATAL_FAILURE(pair.set_dead(dead));
	ASSERT_NO_FATAL_FAILURE(pair.expect_equal({{ranges_of(shape, random), 10, true, {-2, 1000}}}));
}

} // namespace
} // namespace vectorgpu::cuda::test

// c-PQ on the device, which is only compared (test/bench/gpu/count_pq), against the index in host memory: counts, rows
// and ties, at any k, whether or not its tables run over.
#include <random>

#include <gtest/gtest.h>

#include "count_pq/count_pq_search.hpp"
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

std::string
element(char attribute, uint32_t value)
{
	return {attribute, static_cast<char>(value >> 8), static_cast<char>(value)};
}

class CountPq : public ::testing::Test
{
protected:
	void SetUp() override { ASSERT_TRUE(Device::open(0, nullptr, &device_).is_ok()); }

	/// The first k rows of each query by c-PQ and by the host. *n_overflown: queries whose table ran over.
	void expect_equal(const std::vector<Set> &rows, const std::vector<std::vector<Range>> &queries, size_t k,
		uint32_t n_buckets, size_t *n_overflown)
	{
		std::vector<RowId> ids(rows.size());
		std::vector<std::string> stored;
		std::vector<std::vector<CodeRange>> ranges;
		std::vector<MatchQuery> wanted;
		std::vector<MatchRequest> requests;
		std::vector<std::vector<engine::Neighbor>> expected;
		std::vector<std::vector<MatchFound>> found;
		DeviceMatchIndex on_device;
		bench::CountPqSearch search(&device_, uint64_t{64} << 20, n_buckets);

		for (size_t i = 0; i < ids.size(); i++)
			ids[i] = i;

		const MatchIndex index = index_of(rows, ids);

		ASSERT_TRUE(on_device.load(&device_, index.tiles(), index.n_rows(), index.n_keys(), 0).is_ok());
		for (const auto &query : queries)
		{
			stored.push_back(stored_query(query));
			ranges.push_back(index.resolve(parts_of(stored.back())));
		}
		for (size_t i = 0; i < queries.size(); i++)
		{
			wanted.push_back({{stored[i].data(), stored[i].size()}, k, false, {}, false});
			requests.push_back({ranges[i], index.most_count(ranges[i]), k, false, 0, 0, {}});
		}
		ASSERT_TRUE(index.search(wanted, nullptr, &expected));

		const Status status = search.search(on_device, requests, &found);

		ASSERT_TRUE(status.is_ok()) << status.message;
		for (size_t i = 0; i < queries.size(); i++)
		{
			ASSERT_EQ(found[i].size(), expected[i].size()) << "query " << i << " k " << k;
			for (size_t j = 0; j < found[i].size(); j++)
			{
				ASSERT_EQ(found[i][j].row, expected[i][j].row) << "query " << i << " k " << k << " place " << j;
				ASSERT_EQ(found[i][j].count, static_cast<uint32_t>(-expected[i][j].score))
					<< "query " << i << " k " << k << " place " << j;
			}
		}
		*n_overflown = search.n_overflown();
	}

	Device device_;
};

// Counters of 1 to 16 bits, many ties and few, k of 1, of 56 to 5,000, and of all rows; tables as large as they should
// be, and of one bucket.
TEST_F(CountPq, EqualsTheHostIndexAtAnyK)
{
	struct
	{
		size_t n_rows;
		uint32_t n_attributes;
		uint32_t n_values;
		uint32_t n_elements; // of a row, at most
	} const shapes[] = {{3, 1, 2, 1}, {5000, 1, 3, 1}, {70000, 3, 4, 3}, {140000, 10, 30, 14}, {66000, 2, 3000, 40},
		{3000, 1, 2000, 600}};

	for (const auto &shape : shapes)
	{
		std::mt19937 random(static_cast<uint32_t>(shape.n_rows));
		std::vector<Set> rows(shape.n_rows);
		std::vector<std::vector<Range>> queries(1);
		const auto attribute = [](uint32_t i) { return static_cast<char>('A' + i); };

		for (Set &row : rows)
			for (uint32_t n = static_cast<uint32_t>(random() % (shape.n_elements + 1)); n > 0; n--)
				row.insert(element(attribute(static_cast<uint32_t>(random() % shape.n_attributes)),
					static_cast<uint32_t>(random() % shape.n_values)));
		for (uint32_t q = 0; q < 24; q++)
		{
			std::vector<Range> ranges;

			for (uint32_t i = 0; i < shape.n_attributes; i++)
			{
				const uint32_t low = static_cast<uint32_t>(random() % shape.n_values);

				ranges.emplace_back(element(attribute(i), low),
					element(
						attribute(i), low + 1 + static_cast<uint32_t>(random() % (1 + shape.n_values / (1 + q % 8)))));
			}
			queries.push_back(std::move(ranges));
		}
		for (const size_t k :
			{size_t{1}, size_t{7}, size_t{56}, size_t{100}, size_t{777}, size_t{5000}, shape.n_rows + 3})
			for (const uint32_t n_buckets : {0u, 1u})
			{
				size_t n_overflown;

				SCOPED_TRACE(testing::Message() << shape.n_rows << " rows, " << n_buckets << " buckets");
				ASSERT_NO_FATAL_FAILURE(expect_equal(rows, queries, k, n_buckets, &n_overflown));
				if (n_buckets == 1 && k == 777 && shape.n_rows >= 66000)
				{
					EXPECT_GT(n_overflown, 0u);
				}
			}
	}
}

// All rows tie, at every place.
TEST_F(CountPq, AllRowsEqual)
{
	const std::vector<Set> rows(2 * kTileRows + 100, Set{element('A', 1), element('B', 2)});
	const std::vector<Range> both = equalities(rows[0]);
	size_t n_overflown;

	for (const size_t k : {size_t{1}, size_t{100}, size_t{70000}})
		ASSERT_NO_FATAL_FAILURE(
			expect_equal(rows, {both, {both[0]}, {{element('C', 1), element('C', 2)}}}, k, 0, &n_overflown));
}

} // namespace
} // namespace vectorgpu::cuda::test

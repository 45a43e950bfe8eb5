// Searches that name the rows that pass, over the wire: answers compared with brute force over these rows; what does
// not fit the copy is refused.
#include "worker/keys/given_rows.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

constexpr uint64_t kSegmentRows = 3000;
constexpr uint64_t kDeltaFirst = 5; // of the copy: numbers of the delta begin at the multiple of 8 before it

struct Given
{
	wire::GivenRows head{};
	std::vector<wire::GivenSegment> segments;
	std::vector<uint32_t> numbers; // of the segments, then of the delta

	std::vector<uint8_t> bytes() const
	{
		const size_t of_segments = segments.size() * sizeof(wire::GivenSegment);
		std::vector<uint8_t> all(
			(sizeof(head) + of_segments + numbers.size() * sizeof(uint32_t) + sizeof(uint64_t) - 1) / 8 * 8);

		memcpy(all.data(), &head, sizeof(head));
		if (!segments.empty())
			memcpy(all.data() + sizeof(head), segments.data(), of_segments);
		if (!numbers.empty())
			memcpy(all.data() + sizeof(head) + of_segments, numbers.data(), numbers.size() * sizeof(uint32_t));
		return all;
	}
};

/// One of `step` rows of a table whose first kSegmentRows are segment 1; `table` gets tombstones for the others.
Given
every(size_t step, Table *table)
{
	Given given;

	given.head.delta_end = kDeltaFirst + table->size() - kSegmentRows;
	given.head.n_segments = 1;
	given.segments.push_back({1, 0, kSegmentRows});
	for (size_t i = 0; i < table->size(); i++)
	{
		table->dead[i] = i % step != 0;
		if (table->dead[i])
			continue;
		given.numbers.push_back(static_cast<uint32_t>(i < kSegmentRows ? i : i - kSegmentRows + kDeltaFirst));
		(i < kSegmentRows ? given.segments[0].n_given : given.head.n_delta)++;
	}
	return given;
}

Answer
search_given(Client *client, const Table &table, const std::vector<float> &query, uint64_t k, const Given &given,
	std::vector<Neighbor> *found, uint64_t manifest_generation = 1)
{
	const std::vector<uint8_t> bytes = given.bytes();
	wire::SearchRequest request{};

	request.version = {manifest_generation, kDeltaFirst + table.size() - kSegmentRows, 0};
	request.k = k;
	request.dim = table.spec.dim;
	request.element = table.spec.element;
	request.metric = table.spec.metric;
	request.given = 1;
	request.program_bytes = static_cast<uint32_t>(bytes.size());

	Answer answer = exchange(client, RequestType::kSearch, table.key,
		{part_of(request), {bytes.data(), bytes.size()}, {query.data(), query.size() * sizeof(float)}});

	found->clear();
	if (answer.ok())
		*found = neighbors(answer);
	return answer;
}

struct WorkerGivenRows : testing::Test
{
	DataDirectory directory;
	ThreadWorker served{options_for_test()};
	Connection connection{Role::kLoader};
	Client *client = &connection.client;
	Table table{4000, 16, 1};
	std::vector<float> query = table.query(7);
	std::vector<Neighbor> found;

	void SetUp() override
	{
		ASSERT_TRUE(create(client, table, 0, kDeltaFirst).ok());
		ASSERT_TRUE(send_rows(client, table, 1, 0, 0, kSegmentRows).ok());
		ASSERT_TRUE(seal(client, table, 1, kSegmentRows).ok());
		ASSERT_TRUE(send_rows(client, table, 0, kDeltaFirst, kSegmentRows, table.size()).ok());
		ASSERT_TRUE(manifest(client, table, 1, {1}, kDeltaFirst).ok());
	}

	ReplyStatus status_of(const Given &given) { return search_given(client, table, query, 10, given, &found).status(); }
};

TEST_F(WorkerGivenRows, only_these_are_found)
{
	for (const size_t step : {1, 2, 9, 10, 11, 100, 1500, 5000})
	{
		Table passing = table;
		const Given given = every(step, &passing);
		const Answer answer = search_given(client, table, query, 50, given, &found);

		ASSERT_TRUE(answer.ok()) << step;
		EXPECT_TRUE(same(found, passing.nearest(query, 50, table.size()))) << step;
		EXPECT_EQ(answer.header.n_passing, given.numbers.size());
		EXPECT_EQ(answer.header.filter_way, step < 10 ? wire::FilterWay::kMask : wire::FilterWay::kList) << step;
		EXPECT_EQ(answer.header.filter_found, 0u);
	}

	// A search without conditions behind them looks at all rows.
	ASSERT_TRUE(search(client, table, query, 10, &found, {1, kDeltaFirst + 1000, 0}).ok());
	EXPECT_TRUE(same(found, table.nearest(query, 10, table.size())));
}

TEST_F(WorkerGivenRows, rows_of_the_delta_behind_those_known_fail)
{
	Table passing = table;
	Given given = every(1, &passing);

	given.head.delta_end -= 500;
	given.head.n_delta -= 500;
	given.numbers.resize(given.numbers.size() - 500);
	ASSERT_TRUE(search_given(client, table, query, 50, given, &found).ok());
	EXPECT_TRUE(same(found, table.nearest(query, 50, table.size() - 500)));
}

TEST_F(WorkerGivenRows, another_manifest_is_not_searched)
{
	const Given given = every(10, &table);

	ASSERT_TRUE(create(client, table).ok());
	ASSERT_TRUE(send_rows(client, table, 2, 0, 0, kSegmentRows).ok());
	ASSERT_TRUE(seal(client, table, 2, kSegmentRows).ok());
	ASSERT_TRUE(manifest(client, table, 2, {2}, kDeltaFirst).ok());
	EXPECT_EQ(status_of(given), ReplyStatus::kBehind);

	Given newer = given;

	newer.segments[0].segment = 2;
	EXPECT_TRUE(search_given(client, table, query, 10, newer, &found, 2).ok());
	EXPECT_TRUE(same(found, table.nearest(query, 10, table.size())));
}

TEST_F(WorkerGivenRows, malformed_rows_are_refused)
{
	const Given good = every(100, &table);

	EXPECT_EQ(status_of(good), ReplyStatus::kOk);

	const auto refused = [&](const auto &change)
	{
		Given given = good;

		change(&given);
		return status_of(given) == ReplyStatus::kInvalid;
	};

	EXPECT_TRUE(refused([](Given *g) { g->head.n_segments = 2; }));
	EXPECT_TRUE(refused([](Given *g) { g->head.n_segments = UINT32_MAX; }));
	EXPECT_TRUE(refused([](Given *g) { g->head.n_delta += 10000; }));
	EXPECT_TRUE(refused([](Given *g) { g->head.n_delta = UINT32_MAX; }));
	EXPECT_TRUE(refused([](Given *g) { g->head.delta_end++; }));
	EXPECT_TRUE(refused([](Given *g) { g->head.delta_end = UINT64_MAX; }));
	EXPECT_TRUE(refused([](Given *g) { g->head.delta_end = 0; }));
	EXPECT_TRUE(refused([](Given *g) { g->segments[0].n_given = UINT32_MAX; }));
	EXPECT_TRUE(refused([](Given *g) { g->segments[0].segment = 0; }));
	EXPECT_TRUE(refused([](Given *g) { std::swap(g->numbers[0], g->numbers[1]); }));
	EXPECT_TRUE(refused([](Given *g) { g->numbers[g->segments[0].n_given - 1] = kSegmentRows; }));
	EXPECT_TRUE(refused([](Given *g) { g->numbers.back() = UINT32_MAX; }));
	EXPECT_NE(status_of(
				  [&]
				  {
					  Given g = good;
					  g.segments[0].n_rows--;
					  return g;
				  }()),
		ReplyStatus::kOk);
	EXPECT_EQ(status_of(good), ReplyStatus::kOk);
}

} // namespace
} // namespace vectorgpu::worker_test

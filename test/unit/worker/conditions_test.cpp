// Searches with conditions over the wire: a worker in this process, answers compared with brute force over the rows
// that pass.
#include "worker/keys_support.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

/// A table whose rows have key columns.
struct KeyedTable : Table
{
	KeyedTable(size_t n_rows, uint32_t dim, uint32_t seed) : Table(n_rows, dim, seed), keys(random_keys(n_rows, seed))
	{
	}

	std::vector<KeyRow> keys;

	std::vector<Neighbor> passing(
		const std::vector<float> &query, size_t k, size_t n_visible, const Condition &condition) const
	{
		Table table = *this;

		for (size_t i = 0; i < size(); i++)
			table.dead[i] = dead[i] || !condition.holds(keys[i]);
		return table.nearest(query, k, n_visible);
	}
};

Answer
create_keyed(Client *client, const KeyedTable &table)
{
	const wire::CreateRequest request{
		0, 0, table.spec.dim, table.spec.element, table.spec.metric, wire::CopyKind::kRows, 0};
	const wire::KeyColumns keys = two_columns();

	return exchange(client, RequestType::kCreate, table.key, {part_of(request), part_of(keys)});
}

Answer
load_keys(Client *client, const KeyedTable &table, uint32_t segment, size_t n_rows, size_t part = 1000)
{
	const std::vector<uint8_t> area = area_of(table.keys, n_rows);
	Answer answer;

	for (size_t at = 0; at < area.size(); at += part)
	{
		const wire::KeysRequest request{at, segment, 0};

		answer = exchange(client, RequestType::kLoadKeys, table.key,
			{part_of(request), {area.data() + at, std::min(part, area.size() - at)}});
		if (!answer.ok())
			return answer;
	}
	return answer;
}

Answer
append(Client *client, const KeyedTable &table, size_t n_segment, size_t first, size_t last)
{
	const wire::RowsRequest request{first - n_segment, 0, static_cast<uint32_t>(last - first)};
	const std::vector<uint8_t> images = images_of(table.keys, first, last);

	return exchange(client, RequestType::kAppend, table.key,
		{part_of(request), {table.row_ids.data() + first, (last - first) * 8},
			{table.row(first), (last - first) * table.spec.dim * sizeof(float)}, {images.data(), images.size()}});
}

/// Rows [0, n_segment) as segment 1, the others up to n_rows as the delta.
void
load_keyed(Client *client, const KeyedTable &table, size_t n_segment, size_t n_rows)
{
	ASSERT_TRUE(create_keyed(client, table).ok());
	ASSERT_TRUE(send_rows(client, table, 1, 0, 0, n_segment).ok());
	ASSERT_TRUE(load_keys(client, table, 1, n_segment).ok());
	ASSERT_TRUE(seal(client, table, 1, n_segment).ok());
	if (n_rows > n_segment)
	{
		ASSERT_TRUE(append(client, table, n_segment, n_segment, n_rows).ok());
	}
	ASSERT_TRUE(manifest(client, table, 1, {1}).ok());
}

/// ahead: rows [n_ahead_first, n_visible) of the table go along.
Answer
search_passing(Client *client, const KeyedTable &table, const std::vector<float> &query, uint64_t k,
	const std::vector<uint8_t> &program, std::vector<Neighbor> *found, const wire::CopyVersion &version = {},
	size_t n_segment = 0, size_t ahead_first = 0, size_t n_visible = 0)
{
	wire::SearchRequest request{};
	const size_t n = n_visible - ahead_first;
	const std::vector<uint8_t> images = images_of(table.keys, ahead_first, n_visible);

	request.version = version;
	request.k = k;
	request.dim = table.spec.dim;
	request.element = table.spec.element;
	request.metric = table.spec.metric;
	request.program_bytes = static_cast<uint32_t>(program.size());
	if (n > 0)
	{
		request.n_rows = static_cast<uint32_t>(n);
		request.rows_position = ahead_first - n_segment;
		request.key_bytes = kImageBytes;
	}

	Answer answer = exchange(client, RequestType::kSearch, table.key,
		{part_of(request), {program.data(), program.size()}, {table.row_ids.data() + ahead_first, n * 8},
			{table.row(ahead_first), n * table.spec.dim * sizeof(float)}, {images.data(), images.size()},
			{query.data(), query.size() * sizeof(float)}});

	found->clear();
	if (answer.ok())
		*found = neighbors(answer);
	return answer;
}

struct WorkerConditions : testing::Test
{
	DataDirectory directory;
	ThreadWorker served{options_for_test()};
	Connection connection{Role::kLoader};
	Client *client = &connection.client;
	std::vector<Neighbor> found;
};

TEST_F(WorkerConditions, rows_that_fail_are_left_out)
{
	const KeyedTable table(4000, 16, 1);

	load_keyed(client, table, 3000, 4000);
	for (uint32_t i = 0; i < 60; i++)
	{
		const std::vector<float> query = table.query(100 + i);
		const Condition condition{i * 10,
			i * 10 +
				(i % 3 == 0          ? 5
						: i % 3 == 1 ? 60
									 : 500),
			static_cast<uint8_t>(i % 2 == 0 ? 255 : i % 4)};
		const size_t k = i % 5 == 0 ? 1000 : 10;
		const Answer answer = search_passing(client, table, query, k, condition.program(), &found, {1, 1000, 0});
		uint64_t n_passing = 0;

		ASSERT_TRUE(answer.ok());
		EXPECT_TRUE(same(found, table.passing(query, k, table.size(), condition))) << i;
		for (const KeyRow &row : table.keys)
			n_passing += condition.holds(row) ? 1 : 0;
		EXPECT_EQ(answer.header.n_passing, n_passing);
		EXPECT_NE(answer.header.filter_way, wire::FilterWay::kNone);
		EXPECT_EQ(answer.header.filter_found, 0u);
	}

	// Without conditions the answer is as before, and a known program is found.
	const std::vector<float> query = table.query(5);

	ASSERT_TRUE(search(client, table, query, 10, &found, {1, 1000, 0}).ok());
	EXPECT_TRUE(same(found, table.nearest(query, 10, table.size())));
	EXPECT_EQ(search_passing(client, table, query, 10, Condition{0, 5, 255}.program(), &found, {1, 1000, 0})
				  .header.filter_found,
		1u);
}

TEST_F(WorkerConditions, rows_that_come_with_a_search_are_tested)
{
	const KeyedTable table(2600, 16, 2);
	const Condition condition{300, 700, 3};
	size_t held = 2200;

	load_keyed(client, table, 2000, held);
	for (uint32_t i = 0; held < table.size(); i++)
	{
		const size_t last = std::min<size_t>(table.size(), held + 1 + i * 7 % 40);
		const std::vector<float> query = table.query(i);

		ASSERT_TRUE(
			search_passing(client, table, query, 20, condition.program(), &found, {1, last - 2000, 0}, 2000, held, last)
				.ok());
		EXPECT_TRUE(same(found, table.passing(query, 20, last, condition))) << last;
		held = last;
	}
}

TEST_F(WorkerConditions, a_merge_moves_codes)
{
	const KeyedTable table(3000, 16, 3);
	const Condition condition{0, 300, 255};
	const std::vector<float> query = table.query(9);

	load_keyed(client, table, 2000, 3000);
	ASSERT_TRUE(search_passing(client, table, query, 10, condition.program(), &found, {1, 1000, 0}).ok());

	// All rows become segment 2; the delta begins behind them.
	ASSERT_TRUE(create_keyed(client, table).ok());
	ASSERT_TRUE(send_rows(client, table, 2, 0, 0, 3000).ok());
	ASSERT_TRUE(load_keys(client, table, 2, 3000).ok());
	ASSERT_TRUE(seal(client, table, 2, 3000).ok());
	ASSERT_TRUE(manifest(client, table, 2, {2}, 1000).ok());

	const Answer answer = search_passing(client, table, query, 10, condition.program(), &found, {2, 1000, 0});

	ASSERT_TRUE(answer.ok());
	EXPECT_EQ(answer.header.filter_found, 0u);
	EXPECT_TRUE(same(found, table.passing(query, 10, 3000, condition)));
}

TEST_F(WorkerConditions, what_does_not_fit_is_refused)
{
	const KeyedTable table(1000, 16, 4);
	const std::vector<float> query = table.query(9);
	const std::vector<uint8_t> program = Condition{1, 2, 255}.program();
	std::vector<uint8_t> broken = program;

	ASSERT_TRUE(create_keyed(client, table).ok());
	ASSERT_TRUE(send_rows(client, table, 1, 0, 0, 1000).ok());
	EXPECT_EQ(seal(client, table, 1, 1000).status(), ReplyStatus::kInvalid); // without its codes
	ASSERT_TRUE(load_keys(client, table, 1, 1000).ok());

	const wire::KeysRequest more{area_of(table.keys, 1000).size(), 1, 0};
	const uint64_t word = 0;

	EXPECT_EQ(exchange(client, RequestType::kLoadKeys, table.key, {part_of(more), part_of(word)}).status(),
		ReplyStatus::kInvalid);
	ASSERT_TRUE(seal(client, table, 1, 1000).ok());
	ASSERT_TRUE(manifest(client, table, 1, {1}).ok());
	EXPECT_EQ(send_rows(client, table, 0, 0, 0, 10).status(), ReplyStatus::kInvalid); // rows without codes
	broken[8] = 0xEE;
	EXPECT_EQ(search_passing(client, table, query, 10, broken, &found).status(), ReplyStatus::kInvalid);
	EXPECT_TRUE(search_passing(client, table, query, 10, program, &found).ok());

	// A copy without key columns takes no conditions.
	KeyedTable plain(500, 16, 5);

	plain.key = key_of(2);
	load(client, plain, 500);
	EXPECT_EQ(search_passing(client, plain, query, 10, program, &found).status(), ReplyStatus::kInvalid);
}

/// The rows that are known of programs take room: another copy finds less.
TEST(WorkerConditionsBudget, counts_the_rows_that_are_known)
{
	constexpr size_t kPrograms = 120; // of 512 bytes and more, with the rows
	constexpr uint64_t kRoom = 40000;

	for (const bool known : {false, true})
	{
		DataDirectory directory;
		worker::Options options = options_for_test();

		options.memory_budget_bytes = uint64_t{8} << 20;

		ThreadWorker served(options);
		Connection connection{Role::kLoader};
		Connection other{Role::kLoader};
		const KeyedTable table(2000, 16, 7);
		Table second(100, 8, 2, 5);
		std::vector<Neighbor> found;

		load_keyed(&connection.client, table, 2000, 2000);
		for (size_t i = 0; known && i < kPrograms; i++)
			ASSERT_TRUE(search_passing(&connection.client, table, table.query(1), 5,
				Condition{static_cast<uint32_t>(i), static_cast<uint32_t>(i) + 3, 255}.program(), &found)
					.ok());

		const uint64_t left = options.memory_budget_bytes - stats(&connection.client).resident_bytes;

		ASSERT_TRUE(create(&other.client, second, left - kRoom).ok());
		EXPECT_EQ(stats(&other.client).n_evictions, known ? 1u : 0u);
	}
}

} // namespace
} // namespace vectorgpu::worker_test

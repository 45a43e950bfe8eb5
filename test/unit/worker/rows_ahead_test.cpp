// Rows of the delta that come along with a search.
#include "worker/hook_engine.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

/// SEARCH for all rows, with rows [first, last) of the table coming along as delta rows from `position` on.
Answer
search_with_rows(Client *client, const Table &table, const wire::CopyVersion &version, uint64_t position, size_t first,
	size_t last, const std::vector<uint64_t> &headers)
{
	const std::vector<float> query = table.query(5);
	wire::SearchRequest request{};

	request.version = version;
	request.k = 200;
	request.dim = table.spec.dim;
	request.element = table.spec.element;
	request.metric = table.spec.metric;
	request.rows_position = position;
	request.n_rows = static_cast<uint32_t>(last - first);
	return exchange(client, RequestType::kSearch, table.key,
		{part_of(request), {headers.data() + first, (last - first) * 8},
			{table.row(first), (last - first) * table.spec.dim * 4}, {query.data(), query.size() * 4}});
}

/// Rows that come along with a search, taken by the dispatcher or (engines that may wait) by the loading thread.
struct WorkerRowsAhead : testing::TestWithParam<bool>
{
	WorkerRowsAhead()
	{
		auto made = std::make_unique<HookEngine>();

		made->at_once = GetParam();
		hook = made.get();
		served = std::make_unique<ThreadWorker>(options_for_test(), std::move(made));
	}

	DataDirectory directory;
	HookEngine *hook;
	std::unique_ptr<ThreadWorker> served;
};

TEST_P(WorkerRowsAhead, are_in_the_answer)
{
	Connection backend;
	Connection other;
	Table table(100, 8, 1);

	load(&backend.client, table, 90); // manifest 1, delta 10
	table.add(20, 2);
	for (Client *client : {&backend.client, &other.client}) // the second brings what is there already
	{
		const Answer answer = search_with_rows(client, table, {1, 13, 0}, 10, 100, 103, table.row_ids);

		ASSERT_TRUE(answer.ok()) << static_cast<int>(answer.status());
		EXPECT_TRUE(same(neighbors(answer), table.nearest(table.query(5), 200, 103)));
	}

	const Answer half_known = search_with_rows(&other.client, table, {1, 16, 0}, 12, 102, 106, table.row_ids);

	ASSERT_TRUE(half_known.ok());
	EXPECT_TRUE(same(neighbors(half_known), table.nearest(table.query(5), 200, 106)));
}

TEST_P(WorkerRowsAhead, may_be_null_or_dead)
{
	Connection backend;
	Table table(100, 8, 1);

	load(&backend.client, table, 100);
	table.add(4, 2);

	std::vector<uint64_t> headers = table.row_ids;

	headers[101] |= wire::kRowNull;
	headers[103] |= wire::kRowDead;
	table.dead[101] = table.dead[103] = true;

	const Answer answer = search_with_rows(&backend.client, table, {1, 4, 0}, 0, 100, 104, headers);

	ASSERT_TRUE(answer.ok());
	EXPECT_TRUE(same(neighbors(answer), table.nearest(table.query(5), 200, 104)));

	// One that the copy has alive and this client knows to be dead.
	headers[102] |= wire::kRowDead;
	table.dead[102] = true;

	const Answer again = search_with_rows(&backend.client, table, {1, 4, 0}, 2, 102, 104, headers);

	ASSERT_TRUE(again.ok());
	EXPECT_TRUE(same(neighbors(again), table.nearest(table.query(5), 200, 104)));
}

TEST_P(WorkerRowsAhead, do_not_help_if_other_rows_are_missing)
{
	Connection backend;
	Table table(100, 8, 1);

	EXPECT_EQ(
		search_with_rows(&backend.client, table, {1, 3, 0}, 0, 0, 3, table.row_ids).status(), ReplyStatus::kAbsent);
	load(&backend.client, table, 100);
	table.add(20, 2);
	EXPECT_EQ(search_with_rows(&backend.client, table, {1, 13, 0}, 10, 110, 113, table.row_ids).status(),
		ReplyStatus::kBehind);
	EXPECT_EQ(
		search_with_rows(&backend.client, table, {2, 3, 0}, 0, 100, 103, table.row_ids).status(), ReplyStatus::kBehind);

	const Answer answer = search_with_rows(&backend.client, table, {1, 2, 0}, 0, 100, 102, table.row_ids);

	ASSERT_TRUE(answer.ok());
	EXPECT_TRUE(same(neighbors(answer), table.nearest(table.query(5), 200, 103))); // the refused search left its rows
}

TEST_P(WorkerRowsAhead, leave_the_copy_unchanged_without_memory)
{
	Connection backend;
	Table table(100, 8, 1);
	std::vector<Neighbor> found;

	load(&backend.client, table, 100);
	table.add(20, 2);
	hook->out_of_memory = true;
	EXPECT_EQ(
		search_with_rows(&backend.client, table, {1, 3, 0}, 0, 100, 103, table.row_ids).status(), ReplyStatus::kBehind);
	hook->out_of_memory = false;
	ASSERT_TRUE(search(&backend.client, table, table.query(5), 200, &found, {1, 0, 0}).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(5), 200, 100)));
}

INSTANTIATE_TEST_SUITE_P(engine, WorkerRowsAhead, testing::Bool(),
	[](const auto &with) { return with.param ? "appends_at_once" : "may_wait"; });

} // namespace
} // namespace vectorgpu::worker_test

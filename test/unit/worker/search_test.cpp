// Searches over the wire: a worker in this process, answers compared with brute force.
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct WorkerSearch : testing::TestWithParam<uint32_t> // spin_us
{
	DataDirectory directory;
};

TEST_P(WorkerSearch, answers_as_brute_force_does)
{
	worker::Options options = options_for_test();

	options.spin_us = GetParam();

	ThreadWorker served(options);
	Connection loader(Role::kLoader);
	Connection backend;
	const Table table(3000, 24, 1);
	std::vector<Neighbor> found;

	ASSERT_EQ(loader.result, ClientResult::kOk);
	ASSERT_EQ(backend.result, ClientResult::kOk);
	load(&loader.client, table, 2500);
	for (uint32_t i = 0; i < 50; i++)
	{
		const std::vector<float> query = table.query(100 + i);
		const size_t k = i % 10 == 9 ? 3000 : i + 1;
		const Answer answer = search(&backend.client, table, query, k, &found, {1, 500, 0});

		ASSERT_TRUE(answer.ok());
		EXPECT_TRUE(same(found, table.nearest(query, k, table.size()))) << "query " << i << " k " << k;
	}
}

TEST_P(WorkerSearch, gives_results_larger_than_the_reply_area_in_parts)
{
	worker::Options options = options_for_test();

	options.spin_us = GetParam();

	ThreadWorker served(options);
	Connection backend;
	const Table table(20000, 4, 2);
	std::vector<Neighbor> found;

	load(&backend.client, table, 20000);

	const std::vector<float> query = table.query(7);

	ASSERT_TRUE(search(&backend.client, table, query, 20000, &found).ok());
	EXPECT_TRUE(same(found, table.nearest(query, 20000, table.size())));
	EXPECT_EQ(stats(&backend.client).kept_bytes, 0u);

	// Continued after a result: the rest, and no row twice.
	const std::vector<Neighbor> all = found;
	std::vector<Neighbor> rest;

	ASSERT_TRUE(search(&backend.client, table, query, 20000, &rest, {}, &all[1234]).ok());
	EXPECT_TRUE(same(rest, {all.begin() + 1235, all.end()}));
}

INSTANTIATE_TEST_SUITE_P(spin, WorkerSearch, testing::Values(0, 50));

} // namespace
} // namespace vectorgpu::worker_test

// Several dispatchers: how sessions are shared, and that their clients' searches, appends and manifests work together
// as those of one.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "worker/hook_engine.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

constexpr size_t kDispatchers = 3;

worker::Options
several_dispatchers()
{
	worker::Options options = options_for_test();

	options.n_dispatchers = kDispatchers;
	return options;
}

/// Sessions of each dispatcher, fewest first.
std::vector<size_t>
sessions_of_each(ThreadWorker *served)
{
	std::vector<size_t> n;

	for (size_t i = 0; i < kDispatchers; i++)
		n.push_back((*served)->sessions_of(i));
	std::sort(n.begin(), n.end());
	return n;
}

TEST(Dispatchers, share_the_sessions)
{
	const DataDirectory directory;
	ThreadWorker served(several_dispatchers());
	std::vector<std::unique_ptr<Connection>> connections;

	for (int i = 0; i < 7; i++)
	{
		connections.push_back(std::make_unique<Connection>());
		ASSERT_EQ(connections.back()->result, ClientResult::kOk);
	}
	EXPECT_TRUE(wait_until([&] { return sessions_of_each(&served) == std::vector<size_t>{2, 2, 3}; }));

	// Each of them serves.
	for (const auto &connection : connections)
		EXPECT_TRUE(exchange(&connection->client, RequestType::kPing, CopyKey{}, {}).ok());

	// New clients take the places of those that have gone.
	connections.erase(connections.begin(), connections.begin() + 4);
	EXPECT_TRUE(wait_until(
		[&]
		{
			const std::vector<size_t> n = sessions_of_each(&served);

			return n[0] + n[1] + n[2] == 3;
		}));
	for (int i = 0; i < 3; i++)
		connections.push_back(std::make_unique<Connection>());
	EXPECT_TRUE(wait_until([&] { return sessions_of_each(&served) == std::vector<size_t>{2, 2, 2}; }));
	connections.clear();
	EXPECT_TRUE(wait_until([&] { return sessions_of_each(&served) == std::vector<size_t>{0, 0, 0}; }));
}

TEST(Dispatchers, see_a_doorbell_that_was_rung_earlier)
{
	const DataDirectory directory;
	ThreadWorker served(several_dispatchers());

	for (int i = 0; i < 200; i++)
	{
		Connection backend;

		ASSERT_EQ(backend.result, ClientResult::kOk);
		EXPECT_TRUE(exchange(&backend.client, RequestType::kPing, CopyKey{}, {}).ok());
	}
}

/// Clients on all dispatchers search one copy while two others append the same rows to it and publish manifests.
void
search_while_others_write(bool at_once)
{
	constexpr size_t kRows = 400;
	constexpr size_t kFirst = 100; // rows that exist from the start
	const DataDirectory directory;
	auto made = std::make_unique<HookEngine>();

	made->at_once = at_once;

	ThreadWorker served(several_dispatchers(), std::move(made));
	const Table table(kRows, 8, 1);
	const std::vector<float> query = table.query(7);
	Connection loader;
	std::atomic<uint64_t> n_there{0}; // delta rows that every search must see
	std::atomic<bool> done{false};
	std::vector<std::thread> threads;
	std::atomic<int> n_searches{0};

	{
		Table first = table;

		first.row_ids.resize(kFirst);
		first.vectors.resize(kFirst * first.spec.dim);
		load(&loader.client, first, kFirst);
	}
	for (int t = 0; t < 6; t++)
		threads.emplace_back(
			[&]
			{
				Connection backend;

				ASSERT_EQ(backend.result, ClientResult::kOk);
				while (!done)
				{
					const uint64_t delta = n_there;
					std::vector<Neighbor> found;

					ASSERT_TRUE(search(&backend.client, table, query, kRows, &found, {1, delta, 0}).ok());
					ASSERT_GE(found.size(), kFirst + delta);
					ASSERT_TRUE(same(found, table.nearest(query, kRows, found.size()))); // a prefix of the rows
					n_searches++;
				}
			});
	for (size_t i = kFirst; i < kRows; i += 5)
	{
		Connection other;

		ASSERT_TRUE(send_rows(&loader.client, table, 0, i - kFirst, i, i + 5).ok());
		ASSERT_TRUE(send_rows(&other.client, table, 0, i - kFirst, i, i + 5).ok()); // the copy has them already
		n_there = i + 5 - kFirst;

		Answer published;

		ASSERT_TRUE(wait_until(
			[&]
			{
				published = create(&loader.client, table);
				return published.status() != ReplyStatus::kBusy;
			}));
		ASSERT_TRUE(published.ok());
		ASSERT_TRUE(manifest(&loader.client, table, 1 + i, {1}).ok());
	}
	EXPECT_TRUE(wait_until([&] { return n_searches > 50; }));
	done = true;
	for (std::thread &thread : threads)
		thread.join();
}

TEST(Dispatchers, search_beside_each_other_and_beside_writers)
{
	search_while_others_write(true);
}

TEST(Dispatchers, share_batches)
{
	search_while_others_write(false);
}

} // namespace
} // namespace vectorgpu::worker_test

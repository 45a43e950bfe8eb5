// Searches that a dispatcher runs itself because the engine answers them at once.
#include "worker/batcher_fixture.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct RoundTest : BatcherTest
{
	worker::Search *put(size_t copy, size_t k)
	{
		worker::Search *search = make(copy, k);

		round.searches.push_back(search);
		return search;
	}

	worker::Round round{8};
};

TEST_F(RoundTest, is_answered_before_submit_returns_if_the_engine_answers_at_once)
{
	engine.at_once = true;
	batcher.hold(true); // excludes the engine's thread

	worker::Search *first = put(0, 2);

	put(1, 1);
	put(0, 4000); // not compatible with the first
	worker::Search *last = put(0, 3);

	batcher.submit(&round);
	ASSERT_EQ(finished.size(), 4u);
	EXPECT_TRUE(round.searches.empty());
	EXPECT_EQ(finished[0].search, first);
	EXPECT_EQ(finished[1].search, last);
	EXPECT_EQ(finished[1].results.size(), 3u);
	EXPECT_EQ(finished[1].info.size, 2u);
	EXPECT_EQ(batcher.n_batches(), 3u);
	ASSERT_EQ(engine.calls().size(), 3u);
	EXPECT_EQ(engine.calls()[0].ks, (std::vector<size_t>{2, 3}));
	EXPECT_EQ(engine.calls()[1].copy, copies[1]);
	batcher.hold(false);
}

TEST_F(RoundTest, goes_to_the_engines_thread_otherwise)
{
	batcher.hold(true);
	put(0, 2);
	put(0, 3);
	put(1, 1);
	batcher.submit(&round);
	EXPECT_EQ(n_finished(), 0u);
	EXPECT_EQ(batcher.n_queued(), 3u);
	batcher.hold(false);
	ASSERT_TRUE(wait_for(3));
}

TEST_F(RoundTest, does_not_run_beside_a_task)
{
	std::atomic<bool> running{false};
	std::atomic<bool> end{false};

	engine.at_once = true;
	batcher.run_between(
		[&]
		{
			running = true;
			wait_until([&] { return end.load(); });
		});
	ASSERT_TRUE(wait_until([&] { return running.load(); }));
	put(0, 2);
	batcher.submit(&round);
	EXPECT_EQ(n_finished(), 0u); // it waits for the task
	end = true;
	ASSERT_TRUE(wait_for(1));
}

TEST_F(RoundTest, hands_out_of_memory_to_each_search)
{
	engine.at_once = true;
	engine.out_of_memory = true;
	put(0, 1);
	put(0, 1);
	batcher.submit(&round);
	ASSERT_EQ(finished.size(), 2u);
	EXPECT_EQ(finished[0].code, StatusCode::kOutOfMemory);
	EXPECT_EQ(finished[1].code, StatusCode::kOutOfMemory);
}

} // namespace
} // namespace vectorgpu::worker_test

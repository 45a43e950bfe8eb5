// Answers that a thread of its own writes while the engine runs the next batch.
#include "worker/batcher_fixture.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct DeliveryTest : BatcherTest
{
	DeliveryTest() : BatcherTest(true) {}

	/// A batch of 8, then one of n_more; the answers of the first are held back.
	void send(int n_more)
	{
		held_size = 8;
		batcher.hold(true);
		for (int i = 0; i < 8 + n_more; i++)
			add(0, 3);
		batcher.hold(false);
	}
};

TEST_F(DeliveryTest, runs_the_next_batch_while_answers_are_written)
{
	send(5);
	ASSERT_TRUE(wait_for(5)); // the second batch
	EXPECT_EQ(n_finished(), 5u);
	held_size = 0;
	ASSERT_TRUE(wait_for(13));
	EXPECT_NE(finished[0].thread, finished[5].thread);
	for (const Finished &f : finished)
	{
		EXPECT_EQ(f.code, StatusCode::kOk);
		ASSERT_EQ(f.results.size(), 3u);
		EXPECT_EQ(f.results[0].row, 1u);
	}
}

TEST_F(DeliveryTest, writes_the_answers_itself_if_the_other_thread_is_busy)
{
	send(7 + 8);
	ASSERT_TRUE(wait_until([&] { return engine.calls().size() == 2; })); // 8; 8, which is held as well
	std::this_thread::sleep_for(std::chrono::milliseconds(30));
	EXPECT_EQ(engine.calls().size(), 2u);
	held_size = 0;
	ASSERT_TRUE(wait_for(23));
	EXPECT_EQ(engine.calls().size(), 3u);
}

TEST_F(DeliveryTest, a_lone_search_takes_no_other_thread)
{
	add(0, 1);
	ASSERT_TRUE(wait_for(1));
	add(0, 1);
	ASSERT_TRUE(wait_for(2));
	EXPECT_EQ(finished[0].thread, finished[1].thread);
}

TEST_F(DeliveryTest, tasks_wait_for_answers_being_written)
{
	std::atomic<bool> ran{false};

	send(1);
	ASSERT_TRUE(wait_for(1));
	batcher.run_between([&] { ran = true; });
	std::this_thread::sleep_for(std::chrono::milliseconds(30));
	EXPECT_FALSE(ran);
	held_size = 0;
	EXPECT_TRUE(wait_until([&] { return ran.load(); }));
	EXPECT_EQ(n_finished(), 9u);
}

TEST_F(DeliveryTest, stopping_leaves_no_answer_unwritten)
{
	send(1);
	ASSERT_TRUE(wait_for(1));

	std::thread release(
		[&]
		{
			std::this_thread::sleep_for(std::chrono::milliseconds(20));
			held_size = 0;
		});

	batcher.stop();
	release.join();
	EXPECT_EQ(n_finished(), 9u);
}

} // namespace
} // namespace vectorgpu::worker_test

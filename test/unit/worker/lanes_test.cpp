// Batches that run side by side: for an engine of several devices, and of small copies beside others.
#include "worker/batcher_fixture.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct LanesTest : BatcherTest
{
	LanesTest() : BatcherTest(false, 0, 2) {}
};

TEST_F(LanesTest, two_batches_run_and_a_third_waits)
{
	engine.set_gate(false);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	add(1, 2);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
	for (int i = 0; i < 3; i++)
		add(0, 3);
	EXPECT_EQ(batcher.n_queued(), 3u);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(5));
	EXPECT_EQ(engine.calls().size(), 3u);
	for (const Finished &f : finished)
		EXPECT_EQ(f.code, StatusCode::kOk);
}

TEST_F(LanesTest, more_searches_than_a_batch_takes_go_to_both)
{
	batcher.hold(true);
	for (int i = 0; i < 16; i++)
		add(0, 2); // at most 8 of them form a batch
	engine.set_gate(false);
	batcher.hold(false);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
	EXPECT_EQ(batcher.n_queued(), 0u);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(16));
	EXPECT_EQ(engine.calls().size(), 2u);
}

TEST_F(LanesTest, a_task_waits_for_both_and_keeps_further_batches_waiting)
{
	std::atomic<bool> ran{false};
	std::atomic<size_t> running{99};

	engine.set_gate(false);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	batcher.run_between(
		[&]
		{
			running = engine.n_waiting();
			ran = true;
		});
	add(1, 1); // the other lane has the task
	EXPECT_FALSE(wait_until([&] { return ran.load() || engine.n_waiting() == 2; }, 100));
	engine.set_gate(true);
	ASSERT_TRUE(wait_until([&] { return ran.load(); }));
	EXPECT_EQ(running, 0u);
	ASSERT_TRUE(wait_for(2));
	for (int i = 0; i < 200; i++) // tasks and batches in turn
	{
		std::atomic<bool> again{false};

		add(i % 2, 2);
		batcher.run_between([&] { again = true; });
		ASSERT_TRUE(wait_until([&] { return again.load(); }));
	}
	ASSERT_TRUE(wait_for(202));
}

TEST_F(LanesTest, one_batch_that_hangs_is_no_progress_though_others_end)
{
	worker::Batcher::Seen seen;

	engine.set_gate(false);
	EXPECT_TRUE(batcher.progressing(&seen));
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	EXPECT_TRUE(batcher.progressing(&seen)); // it has begun since
	EXPECT_FALSE(batcher.progressing(&seen));
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(1));
	ASSERT_TRUE(wait_until([&] { return batcher.progressing(&seen); }));
}

TEST_F(LanesTest, a_cancelled_batch_is_stopped_and_the_other_is_not)
{
	engine.set_gate(false);

	worker::Search *first = add(0, 1);

	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	add(1, 2);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
	EXPECT_FALSE(batcher.cancel(first)); // it runs
	ASSERT_TRUE(wait_for(1));
	EXPECT_EQ(finished[0].search, first);
	EXPECT_EQ(engine.n_waiting(), 1u);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(2));
	EXPECT_EQ(finished[1].code, StatusCode::kOk);
}

/// Clients that come back one by one are gathered by the lane that has answered them.
TEST_F(LanesTest, idle_lanes_leave_searches_to_the_one_that_gathers)
{
	batcher.hold(true);
	for (int i = 0; i < 4; i++)
		add(0, 2);
	engine.set_gate(false);
	batcher.hold(false);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	fake_now += 800 * 1000; // the batch has taken 0.8 ms: its clients get 0.1 ms
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(4));
	for (int i = 0; i < 4; i++)
		add(0, 2);
	ASSERT_TRUE(wait_for(8));

	const std::vector<SearchCall> calls = engine.calls();

	ASSERT_EQ(calls.size(), 2u);
	EXPECT_EQ(calls[0].ks.size(), 4u);
	EXPECT_EQ(calls[1].ks.size(), 4u);
	EXPECT_FALSE(batcher.gathering());
}

struct LargeLanesTest : BatcherTest
{
	LargeLanesTest() : BatcherTest(false, 0, 2, 1, 256) {}

	/// Submit 120 searches while both lanes are busy, and let one of them end. Returns how many it leaves to the other.
	size_t left_by_one_lane(bool last)
	{
		engine.set_gate(false);

		worker::Search *first = add(0, 1);

		EXPECT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
		add(1, 1);
		EXPECT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
		for (int i = 0; i < 120; i++)
		{
			worker::Search *search = make(0, 2);

			search->is_last = last;
			batcher.submit(search);
		}
		batcher.wake();
		EXPECT_FALSE(batcher.cancel(first));
		EXPECT_TRUE(wait_for(1));
		EXPECT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
		return batcher.n_queued();
	}
};

/// The last searches of a client are shared with a lane that is busy, others are not.
TEST_F(LargeLanesTest, the_last_searches_are_shared)
{
	EXPECT_EQ(left_by_one_lane(true), 60u);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(122));
}

TEST_F(LargeLanesTest, a_lane_takes_all_that_wait_if_more_may_come)
{
	EXPECT_EQ(left_by_one_lane(false), 0u);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(122));
}

/// With lanes that poll after their batches.
struct SpinningLanesTest : BatcherTest
{
	SpinningLanesTest() : BatcherTest(false, 1000, 2) {}
};

/// A lane that polls takes nothing while another one gathers: that one has to be woken.
TEST_F(SpinningLanesTest, a_lane_that_gathers_is_woken_though_another_one_polls)
{
	engine.set_gate(false);
	batcher.hold(true);

	worker::Search *const first = add(0, 2);
	worker::Search *const second = add(0, 2);

	batcher.hold(false);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	add(1, 2);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
	fake_now += 800 * 1000; // so long that the lane waits for its clients
	batcher.cancel(first);
	batcher.cancel(second);
	ASSERT_TRUE(wait_for(2));
	EXPECT_TRUE(batcher.gathering());
	std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it polls
	fake_now += 2000 * 1000;
	std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it sleeps
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(3));
	std::this_thread::sleep_for(std::chrono::milliseconds(50)); // the other one polls
	add(0, 2);
	std::this_thread::sleep_for(std::chrono::milliseconds(50));
	fake_now += 2000 * 1000; // no other client comes
	ASSERT_TRUE(wait_for(4));
}

/// With a helper, which takes small copies while several wait.
struct HelpersTest : BatcherTest
{
	HelpersTest() : BatcherTest(false, 0, 1, 2) {}

	worker::Search *add_small(size_t copy)
	{
		worker::Search *search = make(copy, 2);

		search->is_small = true;
		batcher.submit(search);
		batcher.wake();
		return search;
	}
};

TEST_F(HelpersTest, a_small_copy_is_searched_beside_another)
{
	engine.set_gate(false);
	add(0, 2);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 1; }));
	add(0, 2);
	EXPECT_FALSE(wait_until([&] { return engine.n_waiting() == 2; }, 50)); // not small

	worker::Search *small = add_small(1);

	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() == 2; }));
	EXPECT_EQ(batcher.n_queued(), 1u);
	EXPECT_FALSE(batcher.cancel(small)); // it runs, and is stopped
	ASSERT_TRUE(wait_for(1));
	EXPECT_EQ(finished[0].search, small);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(3));
}

TEST_F(HelpersTest, a_task_waits_for_a_helper_and_no_helper_begins_meanwhile)
{
	std::atomic<size_t> running{99};
	std::atomic<bool> ran{false};

	batcher.hold(true);
	add_small(0);
	add_small(1);
	engine.set_gate(false);
	batcher.hold(false);
	ASSERT_TRUE(wait_until([&] { return engine.n_waiting() >= 1; })); // the engine's thread may be first for both
	batcher.run_between(
		[&]
		{
			running = engine.n_waiting();
			ran = true;
		});
	add_small(0);
	add_small(1);
	EXPECT_FALSE(wait_until([&] { return ran.load(); }, 50));
	engine.set_gate(true);
	ASSERT_TRUE(wait_until([&] { return ran.load(); }));
	EXPECT_EQ(running, 0u);
	ASSERT_TRUE(wait_for(4));
	for (int i = 0; i < 200; i++)
	{
		std::atomic<bool> again{false};

		add_small(0);
		add_small(1);
		batcher.run_between([&] { again = true; });
		ASSERT_TRUE(wait_until([&] { return again.load(); }));
	}
	ASSERT_TRUE(wait_for(404));
}

} // namespace
} // namespace vectorgpu::worker_test

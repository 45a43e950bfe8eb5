// How long the engine's thread waits for the clients of its last batch to come back, on a clock that the test sets: at
// most an eighth of that batch's time, at most 5 ms, not at all below 50 us, and never for a lone client. With a GPU at
// most three quarters, and for the clients of two batches, while batches of more do not take longer.
#include "worker/batcher_fixture.hpp"

namespace vectorgpu::worker_test
{
namespace
{

constexpr uint64_t kUs = 1000;
constexpr uint64_t kMs = 1000 * kUs;

struct Gather : BatcherTest
{
	explicit Gather(bool elsewhere = false, uint32_t spin_us = 0) : BatcherTest(elsewhere, spin_us) {}

	/// A batch of n searches for which the engine takes `engine_ns`.
	void run_batch(size_t n, uint64_t engine_ns)
	{
		const size_t before = n_finished();

		batcher.hold(true);
		for (size_t i = 0; i < n; i++)
			add(0, 1);
		engine.set_gate(false);
		batcher.hold(false);
		ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
		fake_now += engine_ns;
		engine.set_gate(true);
		ASSERT_TRUE(wait_for(before + n));
		ASSERT_EQ(finished.back().info.size, n);
		ASSERT_EQ(finished.back().info.engine_ns, engine_ns);
	}

	/// Send one search and expect that it waits until the clock has advanced by `most_ns`, and no longer.
	void expect_wait(uint64_t most_ns)
	{
		const size_t before = n_finished();

		add(0, 1);
		ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
		fake_now += most_ns - 1;
		std::this_thread::sleep_for(std::chrono::milliseconds(20)); // gives a fault time to show
		EXPECT_TRUE(batcher.gathering());
		EXPECT_EQ(n_finished(), before);
		fake_now += 1;
		ASSERT_TRUE(wait_for(before + 1)); // it is not woken: it polls
		EXPECT_EQ(finished.back().info.size, 1u);
	}
};

TEST_F(Gather, waits_an_eighth_of_the_batch_before_it)
{
	run_batch(4, 8 * kMs);
	expect_wait(kMs);
}

TEST_F(Gather, waits_five_milliseconds_at_most)
{
	run_batch(4, 800 * kMs);
	expect_wait(5 * kMs);
}

TEST_F(Gather, ends_when_as_many_have_come_as_before)
{
	run_batch(3, 80 * kMs);
	add(0, 1);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	EXPECT_EQ(n_finished(), 3u);
	add(0, 1);
	ASSERT_TRUE(wait_for(6)); // the clock stands still
	EXPECT_EQ(finished.back().info.size, 3u);
}

TEST_F(Gather, never_delays_a_lone_client)
{
	run_batch(1, 800 * kMs);
	for (size_t i = 0; i < 3; i++)
	{
		add(0, 1);
		ASSERT_TRUE(wait_for(2 + i)); // the clock stands still
	}
}

TEST_F(Gather, does_not_wait_for_less_than_fifty_microseconds)
{
	run_batch(4, 8 * 50 * kUs - 1);
	add(0, 1);
	ASSERT_TRUE(wait_for(5));
	run_batch(4, 8 * 50 * kUs);
	expect_wait(50 * kUs);
}

TEST_F(Gather, waits_once_after_a_batch)
{
	run_batch(2, 80 * kMs);
	expect_wait(5 * kMs);
	add(0, 1);
	ASSERT_TRUE(wait_for(4));
}

TEST_F(Gather, is_no_delay_for_a_task)
{
	std::atomic<bool> ran{false};

	run_batch(4, 80 * kMs);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	batcher.run_between([&] { ran = true; });
	EXPECT_TRUE(wait_until([&] { return ran.load(); }));
	fake_now += 5 * kMs;
	ASSERT_TRUE(wait_for(5));
}

struct GatherForGpu : Gather
{
	explicit GatherForGpu(uint32_t spin_us = 0) : Gather(true, spin_us) {}

	/// Two groups of two clients take turns: the second group waits while the engine works for the first.
	void run_with_waiting(uint64_t engine_ns)
	{
		const size_t before = n_finished();

		batcher.hold(true);
		add(0, 1);
		add(0, 1);
		engine.set_gate(false);
		batcher.hold(false);
		ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
		add(0, 1);
		add(0, 1);
		fake_now += engine_ns;
		engine.set_gate(true);
		ASSERT_TRUE(wait_for(before + 2));
		ASSERT_EQ(finished.back().info.size, 2u);
	}
};

TEST_F(GatherForGpu, makes_one_group_of_two_that_take_turns)
{
	run_with_waiting(4 * kMs);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	add(0, 1);
	fake_now += 3 * kMs - 1;
	add(0, 1);
	ASSERT_TRUE(wait_for(6)); // before three quarters have passed
	EXPECT_EQ(finished.back().info.size, 4u);
}

TEST_F(GatherForGpu, waits_three_quarters_for_both_groups)
{
	run_with_waiting(4 * kMs);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	fake_now += 3 * kMs - 1;
	std::this_thread::sleep_for(std::chrono::milliseconds(20)); // gives a fault time to show
	EXPECT_TRUE(batcher.gathering());
	EXPECT_EQ(n_finished(), 2u);
	fake_now += 1;
	ASSERT_TRUE(wait_for(4));
	EXPECT_EQ(finished.back().info.size, 2u);
}

TEST_F(GatherForGpu, does_not_wait_for_both_where_larger_batches_take_longer)
{
	run_batch(1, kMs);
	run_with_waiting(2 * kMs); // twice the shortest: an eighth, for two, which wait already
	ASSERT_TRUE(wait_for(5));  // the clock stands still
	EXPECT_EQ(finished.back().info.size, 2u);
}

TEST_F(GatherForGpu, gives_up_for_a_while_where_clients_do_not_come_again)
{
	for (int i = 0; i < 4; i++)
	{
		run_batch(2, 4 * kMs);
		expect_wait(3 * kMs);
	}
	run_batch(2, 4 * kMs);
	expect_wait(kMs / 2);
}

TEST_F(GatherForGpu, does_not_wait_for_both_after_less_than_two_hundred_microseconds)
{
	run_with_waiting(200 * kUs - 1);
	ASSERT_TRUE(wait_for(4)); // the clock stands still
	EXPECT_EQ(finished.back().info.size, 2u);
	run_with_waiting(200 * kUs);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	fake_now += 150 * kUs;
	ASSERT_TRUE(wait_for(8));
}

/// The engine's thread polls while it waits, on a clock that advances by a nanosecond whenever it is read.
struct GatherByPolling : GatherForGpu
{
	GatherByPolling() : GatherForGpu(200) {}
};

TEST_F(GatherByPolling, makes_one_group_of_two_that_take_turns)
{
	run_with_waiting(4 * kMs);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	add(0, 1);
	add(0, 1);
	ASSERT_TRUE(wait_for(6));
	EXPECT_EQ(finished.back().info.size, 4u);
}

TEST_F(GatherByPolling, waits_no_longer_than_three_quarters)
{
	run_with_waiting(4 * kMs);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	EXPECT_EQ(n_finished(), 2u);
	fake_now += 3 * kMs;
	ASSERT_TRUE(wait_for(4));
	EXPECT_EQ(finished.back().info.size, 2u);
}

TEST_F(GatherByPolling, is_no_delay_for_a_task)
{
	std::atomic<bool> ran{false};

	run_with_waiting(4 * kMs);
	ASSERT_TRUE(wait_until([&] { return batcher.gathering(); }));
	batcher.run_between([&] { ran = true; });
	EXPECT_TRUE(wait_until([&] { return ran.load(); }));
	ASSERT_TRUE(wait_until([&] { return n_finished() == 4; }));
}

} // namespace
} // namespace vectorgpu::worker_test

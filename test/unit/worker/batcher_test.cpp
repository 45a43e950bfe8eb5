// The batcher with the gate of a hooked engine and a clock that the test sets.
#include "worker/batcher_fixture.hpp"

namespace vectorgpu::worker_test
{
namespace
{

TEST_F(BatcherTest, sends_a_lone_search_at_once_without_any_time_passing)
{
	add(0, 2);
	ASSERT_TRUE(wait_for(1)); // the clock stands still
	EXPECT_EQ(finished[0].info.size, 1u);
	EXPECT_EQ(finished[0].results.size(), 2u);
	EXPECT_EQ(finished[0].results[0].row, 1u);
}

TEST_F(BatcherTest, batches_searches_that_came_while_the_engine_was_busy)
{
	engine.set_gate(false);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	for (int i = 0; i < 5; i++)
		add(0, 2);
	add(0, 4000);
	add(1, 1);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(8));

	const std::vector<SearchCall> calls = engine.calls();

	ASSERT_EQ(calls.size(), 4u);
	EXPECT_EQ(calls[0].ks, (std::vector<size_t>{1}));
	EXPECT_EQ(calls[1].ks, (std::vector<size_t>{2, 2, 2, 2, 2}));
	EXPECT_EQ(calls[2].copy, copies[1]); // its turn comes before the first copy's other searches
	EXPECT_EQ(calls[3].ks, (std::vector<size_t>{4000}));
}

TEST_F(BatcherTest, holds_for_a_test_and_splits_at_the_largest_batch)
{
	batcher.hold(true);
	for (int i = 0; i < 20; i++)
		add(0, 3);
	EXPECT_EQ(batcher.n_queued(), 20u);
	batcher.hold(false);
	ASSERT_TRUE(wait_for(20));
	for (const SearchCall &call : engine.calls())
		EXPECT_LE(call.ks.size(), 8u);
	EXPECT_EQ(engine.calls().size(), 3u);
}

TEST_F(BatcherTest, answers_do_not_depend_on_batch_mates)
{
	batcher.hold(true);

	worker::Search *two = add(0, 2);
	worker::Search *five = add(0, 5);
	worker::Search *one = add(0, 1);

	batcher.hold(false);
	ASSERT_TRUE(wait_for(3));
	for (const Finished &f : finished)
	{
		const size_t k = f.search == two ? 2 : f.search == five ? 5 : 1;

		ASSERT_EQ(f.results.size(), k);
		for (size_t i = 0; i < k; i++)
			EXPECT_EQ(f.results[i].row, i + 1);
	}
	EXPECT_NE(one, nullptr);
}

TEST_F(BatcherTest, cancels_waiting_searches_and_stops_the_engine_when_all_are_cancelled)
{
	engine.set_gate(false);

	worker::Search *running = add(0, 1);

	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));

	worker::Search *waiting = add(0, 1);

	EXPECT_TRUE(batcher.cancel(waiting));
	EXPECT_FALSE(batcher.cancel(waiting));
	EXPECT_EQ(batcher.n_queued(), 0u);
	EXPECT_FALSE(batcher.cancel(running)); // the gate stays closed: only the stop flag lets the engine return
	ASSERT_TRUE(wait_for(1));
	EXPECT_EQ(finished[0].search, running);
	EXPECT_EQ(finished[0].code, StatusCode::kCancelled);

	// The flag does not stop the next search.
	engine.set_gate(true);
	add(0, 1);
	ASSERT_TRUE(wait_for(2));
	EXPECT_EQ(finished[1].code, StatusCode::kOk);
}

TEST_F(BatcherTest, does_not_stop_a_batch_with_a_live_search)
{
	batcher.hold(true);

	worker::Search *given_up = add(0, 1);

	add(0, 1);
	engine.set_gate(false);
	batcher.hold(false);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	EXPECT_FALSE(batcher.cancel(given_up));
	std::this_thread::sleep_for(std::chrono::milliseconds(50));
	EXPECT_EQ(n_finished(), 0u);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(2));
	EXPECT_EQ(finished[0].code, StatusCode::kOk);
	EXPECT_EQ(finished[1].code, StatusCode::kOk);
}

TEST_F(BatcherTest, reports_whether_the_engine_advances)
{
	worker::Batcher::Seen seen;
	worker::Batcher::Seen seen_by_another;

	EXPECT_TRUE(batcher.progressing(&seen)); // idle
	engine.set_gate(false);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	EXPECT_TRUE(batcher.progressing(&seen)); // it has begun meanwhile
	EXPECT_FALSE(batcher.progressing(&seen));
	EXPECT_FALSE(batcher.progressing(&seen));
	EXPECT_TRUE(batcher.progressing(&seen_by_another)); // each caller has its own state
	EXPECT_FALSE(batcher.progressing(&seen_by_another));
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(1));
	ASSERT_TRUE(wait_until([&] { return batcher.progressing(&seen) && batcher.progressing(&seen); }));
}

TEST_F(BatcherTest, runs_tasks_between_batches)
{
	std::atomic<bool> ran{false};

	engine.set_gate(false);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	batcher.run_between([&] { ran = true; });
	std::this_thread::sleep_for(std::chrono::milliseconds(30));
	EXPECT_FALSE(ran);
	engine.set_gate(true);
	EXPECT_TRUE(wait_until([&] { return ran.load(); }));
}

TEST_F(BatcherTest, reports_out_of_memory_to_each_search_and_goes_on)
{
	batcher.hold(true);
	add(0, 1);
	add(0, 1);
	engine.out_of_memory = true;
	batcher.hold(false);
	ASSERT_TRUE(wait_for(2));
	EXPECT_EQ(finished[0].code, StatusCode::kOutOfMemory);
	EXPECT_EQ(finished[1].code, StatusCode::kOutOfMemory);
	engine.out_of_memory = false;
	add(0, 1);
	ASSERT_TRUE(wait_for(3));
	EXPECT_EQ(finished[2].code, StatusCode::kOk);
}

TEST_F(BatcherTest, measures_the_engine_with_its_clock)
{
	engine.set_gate(false);
	add(0, 1);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	fake_now += 5000;
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(1));
	EXPECT_EQ(finished[0].info.engine_ns, 5000u);
}

TEST_F(BatcherTest, refuses_the_search_that_the_engine_refuses_and_not_its_batch_mates)
{
	const auto given = std::make_shared<engine::Passing>();
	const auto segment = std::make_shared<engine::PassingSegment>();
	worker::Search *wrong = make(0, 5);
	worker::Search *right = make(0, 5);

	segment->segment = 1;
	segment->n_rows = 6; // it has 5
	segment->n_pass = 1;
	segment->bits = {0x20};
	given->segments.push_back(segment);
	wrong->passing = given;
	engine.set_gate(false);
	add(1, 1);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	batcher.submit(wrong);
	batcher.submit(right);
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(3));
	EXPECT_EQ(finished[1].search, wrong);
	EXPECT_EQ(finished[1].code, StatusCode::kInvalidArgument);
	EXPECT_EQ(finished[2].search, right);
	EXPECT_EQ(finished[2].code, StatusCode::kOk);
	EXPECT_EQ(finished[2].results.size(), 5u);
}

TEST_F(BatcherTest, rows_given_for_another_manifest_give_no_answer)
{
	std::atomic<uint64_t> manifest{1};
	const auto given = std::make_shared<engine::Passing>();
	const auto segment = std::make_shared<engine::PassingSegment>();
	worker::Search *kept = make(0, 5);
	worker::Search *late = make(0, 5);

	segment->segment = 1;
	segment->n_rows = 5;
	segment->n_pass = 2;
	segment->bits = {0x12};
	given->segments.push_back(segment);
	for (worker::Search *search : {kept, late})
	{
		search->passing = given;
		search->manifest = &manifest;
		search->wanted_manifest = 1;
	}
	batcher.submit(kept);
	batcher.wake();
	ASSERT_TRUE(wait_for(1));
	EXPECT_FALSE(kept->outdated);
	EXPECT_EQ(finished[0].results.size(), 2u);

	engine.set_gate(false);
	add(1, 1);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	batcher.submit(late);
	manifest = 2; // while it waits
	engine.set_gate(true);
	ASSERT_TRUE(wait_for(3));
	EXPECT_TRUE(late->outdated);
	EXPECT_TRUE(finished[2].results.empty());
}

} // namespace
} // namespace vectorgpu::worker_test

// Cancels and stops of builds that wait, run, or have ended.
#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "worker/build_jobs.hpp"

namespace vectorgpu::worker
{
namespace
{

using wire::ReplyStatus;

constexpr uint64_t kBudget = uint64_t{1} << 30;

struct BuildCancels : testing::Test
{
	BuildCancels() : engine(engine::make_cpu_engine({})), jobs(*engine, kBudget) { jobs.start(); }
	~BuildCancels() override { jobs.stop(); }

	/// What a step of a build that was never begun says: kAbsent, unless it was cancelled.
	ReplyStatus
	try_step(uint64_t session, wire::BuildStep step = wire::BuildStep::kTrain)
	{
		wire::RequestView view{};
		std::vector<wire::RowLabel> labels;

		view.build = {step, 0, 0};
		return jobs.build(session, view, 0, &labels);
	}

	/// A step as a request, which begins, says so, and waits until it may go on.
	struct Request
	{
		std::promise<void> begun;
		std::promise<void> may_go_on;
		std::promise<ReplyStatus> answer;
	};

	void
	ask(uint64_t session, Request *request, wire::BuildStep step = wire::BuildStep::kTrain)
	{
		jobs.push(session,
			[this, session, request, step]
			{
				request->begun.set_value();
				request->may_go_on.get_future().wait();
				request->answer.set_value(try_step(session, step));
			});
	}

	/// Lives until the thread has stopped.
	Request *make() { return &requests.emplace_back(); }

	std::unique_ptr<engine::Engine> engine;
	std::deque<Request> requests;
	BuildJobs jobs;
};

TEST_F(BuildCancels, one_that_waits_is_not_begun)
{
	Request *first = make(), *second = make(), *third = make(), *again = make();

	ask(1, first);
	ask(2, second);
	ask(3, third);
	first->begun.get_future().wait();
	jobs.cancel(2);
	for (Request *request : {first, second, third})
		request->may_go_on.set_value();
	EXPECT_EQ(first->answer.get_future().get(), ReplyStatus::kAbsent) << "another's cancel";
	EXPECT_EQ(second->answer.get_future().get(), ReplyStatus::kCancelled);
	EXPECT_EQ(third->answer.get_future().get(), ReplyStatus::kAbsent) << "another's cancel";

	again->may_go_on.set_value();
	ask(2, again);
	EXPECT_EQ(again->answer.get_future().get(), ReplyStatus::kAbsent) << "of a request that is over";
}

TEST_F(BuildCancels, one_that_runs_stops)
{
	Request *request = make();

	ask(1, request);
	request->begun.get_future().wait();
	jobs.cancel(1);
	request->may_go_on.set_value();
	EXPECT_EQ(request->answer.get_future().get(), ReplyStatus::kCancelled);
}

TEST_F(BuildCancels, of_a_session_that_has_its_answer_reach_nobody)
{
	Request *first = make(), *second = make(), *third = make();

	first->may_go_on.set_value();
	ask(1, first);
	first->answer.get_future().wait();
	ask(2, second);
	second->begun.get_future().wait();
	jobs.cancel(1);
	ask(1, third);
	second->may_go_on.set_value();
	third->may_go_on.set_value();
	EXPECT_EQ(second->answer.get_future().get(), ReplyStatus::kAbsent);
	EXPECT_EQ(third->answer.get_future().get(), ReplyStatus::kAbsent);
}

TEST_F(BuildCancels, an_end_is_done_all_the_same)
{
	Request *request = make();

	ask(1, request, wire::BuildStep::kEnd);
	request->begun.get_future().wait();
	jobs.cancel(1);
	request->may_go_on.set_value();
	EXPECT_EQ(request->answer.get_future().get(), ReplyStatus::kAbsent);
}

/// Whatever the thread is at: a request that has begun sees that the worker stops.
TEST_F(BuildCancels, stop_reaches_what_begins_at_that_moment)
{
	for (int round = 0; round < 200; round++)
	{
		BuildJobs stopped(*engine, kBudget);
		std::atomic<bool> began{false};
		std::atomic<bool> ended{false};

		stopped.start();
		stopped.push(1,
			[&]
			{
				wire::RequestView view{};
				std::vector<wire::RowLabel> labels;

				began = true;
				view.build = {wire::BuildStep::kTrain, 0, 0};
				while (stopped.build(1, view, 0, &labels) != ReplyStatus::kCancelled)
					std::this_thread::yield();
				ended = true;
			});
		if (round % 2 == 0)
			std::this_thread::yield();
		stopped.stop();
		EXPECT_EQ(began, ended);
	}
}

} // namespace
} // namespace vectorgpu::worker

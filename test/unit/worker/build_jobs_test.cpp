// Cancelling and stopping builds that wait, run, or have ended.
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "worker/build_jobs.hpp"
#include "worker/hook_engine.hpp"
#include "worker/tiers/tiered_engine.hpp"

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

	/// A request of a build that was never begun: kAbsent, unless it was cancelled.
	ReplyStatus try_request(uint64_t session, wire::RequestType type = wire::RequestType::kTrain)
	{
		wire::RequestView view{};
		BuildJobs::Answer answer;

		view.header.type = type;
		return jobs.build(session, view, 0, &answer);
	}

	/// A request that announces that it has begun, then waits until it may go on.
	struct Request
	{
		std::promise<void> begun;
		std::promise<void> may_go_on;
		std::promise<ReplyStatus> answer;
	};

	void ask(uint64_t session, Request *request, wire::RequestType type = wire::RequestType::kTrain)
	{
		jobs.push(session,
			[this, session, request, type]
			{
				request->begun.set_value();
				request->may_go_on.get_future().wait();
				request->answer.set_value(try_request(session, type));
			});
	}

	/// Lives until the thread has stopped.
	Request *make() { return &requests.emplace_back(); }

	std::unique_ptr<engine::Engine> engine;
	std::deque<Request> requests;
	BuildJobs jobs;
};

TEST_F(BuildCancels, prevent_a_waiting_request)
{
	Request *first = make(), *second = make(), *third = make(), *again = make();

	ask(1, first);
	ask(2, second);
	ask(3, third);
	first->begun.get_future().wait();
	jobs.cancel(2);
	for (Request *request : {first, second, third})
		request->may_go_on.set_value();
	EXPECT_EQ(first->answer.get_future().get(), ReplyStatus::kAbsent) << "another session was cancelled";
	EXPECT_EQ(second->answer.get_future().get(), ReplyStatus::kCancelled);
	EXPECT_EQ(third->answer.get_future().get(), ReplyStatus::kAbsent) << "another session was cancelled";

	again->may_go_on.set_value();
	ask(2, again);
	EXPECT_EQ(again->answer.get_future().get(), ReplyStatus::kAbsent) << "the cancelled request is over";
}

TEST_F(BuildCancels, stop_a_running_request)
{
	Request *request = make();

	ask(1, request);
	request->begun.get_future().wait();
	jobs.cancel(1);
	request->may_go_on.set_value();
	EXPECT_EQ(request->answer.get_future().get(), ReplyStatus::kCancelled);
}

TEST_F(BuildCancels, of_an_answered_request_have_no_effect)
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

TEST_F(BuildCancels, do_not_prevent_an_end)
{
	Request *request = make();

	ask(1, request, wire::RequestType::kEndBuild);
	request->begun.get_future().wait();
	jobs.cancel(1);
	request->may_go_on.set_value();
	EXPECT_EQ(request->answer.get_future().get(), ReplyStatus::kAbsent);
}

/// In every state of the thread, a request that has begun sees that the worker stops.
TEST_F(BuildCancels, stop_reaches_a_request_that_begins_at_that_moment)
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
				BuildJobs::Answer answer;

				began = true;
				view.header.type = wire::RequestType::kTrain;
				while (stopped.build(1, view, 0, &answer) != ReplyStatus::kCancelled)
					std::this_thread::yield();
				ended = true;
			});
		if (round % 2 == 0)
			std::this_thread::yield();
		stopped.stop();
		EXPECT_EQ(began, ended);
	}
}

/// Graphs whose nearest rows come from another engine, as with a GPU.
struct GraphBuilds : testing::Test
{
	static constexpr uint32_t kRows = 400;
	static constexpr uint32_t kDim = 4;

	GraphBuilds()
	{
		auto device = std::make_unique<worker_test::HookEngine>();
		TieredEngineOptions options;

		hook = device.get();
		options.host_bytes = kBudget;
		options.background = false;
		engine = make_tiered_engine(std::move(device), engine::make_cpu_engine({}), options);
		jobs = std::make_unique<BuildJobs>(*engine, kBudget);
		jobs->start();
		for (uint32_t i = 0; i < kRows * kDim; i++)
			vectors.push_back(static_cast<float>(i * 7919 % 1009));
	}

	~GraphBuilds() override
	{
		hook->set_gate(true);
		jobs->stop();
	}

	/// Return the status of the session's request; fail if there is no answer with the gate in its present state.
	ReplyStatus ask(uint64_t session, std::function<ReplyStatus()> work)
	{
		const auto answer = std::make_shared<std::promise<ReplyStatus>>();
		std::future<ReplyStatus> future = answer->get_future();

		jobs->push(session, [answer, work = std::move(work)] { answer->set_value(work()); });
		if (future.wait_for(std::chrono::minutes(2)) == std::future_status::ready)
			return future.get();
		ADD_FAILURE() << "no answer";
		hook->set_gate(true);
		return future.get();
	}

	ReplyStatus step(uint64_t session, wire::RequestType what, uint32_t n_rows = 0)
	{
		return ask(session,
			[this, session, what, n_rows]
			{
				wire::RequestView view{};
				BuildJobs::Answer answer;

				view.header.type = what;
				if (what == wire::RequestType::kBeginGraph)
					view.begin_graph = {kDim, ElementType::kFloat32, Metric::kL2, 0, 0, kRows, 8, 1, 0, 0};
				else
					view.build_rows = {0, n_rows, 0};
				view.vectors = reinterpret_cast<const uint8_t *>(vectors.data());
				view.row_bytes = kDim * sizeof(float);
				return jobs->build(session, view, 0, &answer);
			});
	}

	void begin(uint64_t session)
	{
		ASSERT_EQ(step(session, wire::RequestType::kBeginGraph), ReplyStatus::kOk);
		ASSERT_EQ(step(session, wire::RequestType::kAddGraphRows, kRows), ReplyStatus::kOk);
		ASSERT_EQ(step(session, wire::RequestType::kStartGraph), ReplyStatus::kOk);
	}

	wire::GraphBuildState wait_for_end(uint64_t session)
	{
		for (;;)
		{
			std::vector<uint8_t> bytes;
			wire::GraphBuildState state{};

			EXPECT_EQ(ask(session,
						  [&]
						  {
							  return jobs->read(
								  session, {wire::BuildResult::kGraphState, sizeof(state), 0}, sizeof(state), &bytes);
						  }),
				ReplyStatus::kOk);
			if (bytes.size() == sizeof(state))
				memcpy(&state, bytes.data(), sizeof(state));
			if (state.stage == wire::GraphBuildStage::kDone || state.stage == wire::GraphBuildStage::kFailed ||
				HasFailure())
				return state;
			std::this_thread::yield();
		}
	}

	void wait_until_it_searches()
	{
		while (!hook->waiting())
			std::this_thread::yield();
	}

	worker_test::HookEngine *hook;
	std::unique_ptr<engine::Engine> engine;
	std::unique_ptr<BuildJobs> jobs;
	std::vector<float> vectors;
};

TEST_F(GraphBuilds, that_are_abandoned_delay_no_other_build)
{
	hook->deaf = true;
	hook->set_gate(false);
	for (uint64_t session = 1; session <= 3; session++)
	{
		begin(session);
		wait_until_it_searches();
	}
	jobs->closed(1);
	EXPECT_EQ(step(2, wire::RequestType::kEndBuild), ReplyStatus::kOk);
	EXPECT_EQ(step(3, wire::RequestType::kBeginGraph), ReplyStatus::kOk) << "replaces the first build";
	EXPECT_EQ(step(2, wire::RequestType::kAddGraphRows, kRows), ReplyStatus::kAbsent);
	hook->set_gate(true);
	EXPECT_EQ(step(3, wire::RequestType::kAddGraphRows, kRows), ReplyStatus::kOk);
	EXPECT_EQ(step(3, wire::RequestType::kStartGraph), ReplyStatus::kOk);
	EXPECT_EQ(wait_for_end(3).stage, wire::GraphBuildStage::kDone);
}

TEST_F(GraphBuilds, free_their_copy_if_searches_run_out_of_memory)
{
	hook->set_gate(false);
	begin(1);
	wait_until_it_searches();
	EXPECT_EQ(hook->stats().n_copies, 1U);
	hook->out_of_memory = true;
	hook->set_gate(true);

	const wire::GraphBuildState state = wait_for_end(1);

	EXPECT_EQ(state.stage, wire::GraphBuildStage::kDone);
	EXPECT_EQ(state.exact, 0U);
	EXPECT_EQ(hook->stats().n_copies, 0U);
}

TEST_F(GraphBuilds, leave_an_eighth_of_the_device_to_others)
{
	const uint64_t needed = kRows * (kDim * sizeof(float) + 16);

	hook->budget = needed;
	begin(1);

	wire::GraphBuildState state = wait_for_end(1);

	EXPECT_EQ(state.stage, wire::GraphBuildStage::kDone);
	EXPECT_EQ(state.exact, 0U);
	EXPECT_TRUE(hook->calls().empty());
	hook->budget = needed * 8 / 7 + 8;
	begin(1);
	state = wait_for_end(1);
	EXPECT_EQ(state.stage, wire::GraphBuildStage::kDone);
	EXPECT_EQ(state.exact, 1U);
	EXPECT_FALSE(hook->calls().empty());
}

} // namespace
} // namespace vectorgpu::worker

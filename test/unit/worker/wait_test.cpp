// How a client waits and how the worker looks for requests: the futex on the slot's state, and polling on a clock that
// the test sets.
#include <pthread.h>

#include "worker/batcher_fixture.hpp"

namespace vectorgpu::worker_test
{
namespace
{

constexpr uint32_t kSleepUs = 10 * 1000;
constexpr uint32_t kLongSleepUs = 60 * 1000 * 1000;

TEST(ClientSleep, ends_with_the_reply_and_when_its_time_is_over)
{
	const DataDirectory directory;
	auto made = std::make_unique<HookEngine>();
	HookEngine *hook = made.get();
	ThreadWorker served(options_for_test(), std::move(made));
	Connection backend;
	const Table table(60, 8, 1);

	load(&backend.client, table, 60);
	EXPECT_EQ(wire::client_sleep(&backend.client, kLongSleepUs), ClientState::kIdle); // nothing to wait for
	for (int i = 0; i < 20; i++)
	{
		hook->set_gate(false);
		ASSERT_EQ(submit_search(&backend.client, table, table.query(1), 5), ClientResult::kOk);
		EXPECT_EQ(wire::client_sleep(&backend.client, kSleepUs), ClientState::kPending);

		const uint64_t started_ns = wire::monotonic_ns();
		std::thread opens([&] { hook->set_gate(true); });
		ReplyHeader header;
		uint8_t body[5 * sizeof(wire::WireNeighbor)];

		// It also returns when the worker takes the request.
		EXPECT_TRUE(
			wait_until([&] { return wire::client_sleep(&backend.client, kLongSleepUs) == ClientState::kReplied; }));
		EXPECT_LT(wire::monotonic_ns() - started_ns, uint64_t{kLongSleepUs} * 1000); // woken before the limit
		opens.join();
		EXPECT_EQ(wire::client_take_reply(&backend.client, &header, body, sizeof(body)), ClientResult::kOk);
		EXPECT_EQ(header.n_items, 5u);
	}
}

TEST(ClientSleep, ends_with_a_signal_whose_handler_restarts_system_calls)
{
	const DataDirectory directory;
	auto made = std::make_unique<HookEngine>();
	HookEngine *hook = made.get();
	ThreadWorker served(options_for_test(), std::move(made));
	Connection backend;
	const Table table(60, 8, 1);
	const pthread_t self = pthread_self();
	struct sigaction action = {};
	struct sigaction before = {};
	std::atomic<bool> awake{false};

	load(&backend.client, table, 60);
	action.sa_handler = [](int) {};
	action.sa_flags = SA_RESTART;
	ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
	hook->set_gate(false);
	ASSERT_EQ(submit_search(&backend.client, table, table.query(1), 5), ClientResult::kOk);
	ASSERT_TRUE(wait_until([&] { return hook->waiting(); })); // taken: the state does not change any more

	std::thread disturbs(
		[&]
		{
			while (!awake)
			{
				pthread_kill(self, SIGUSR1);
				std::this_thread::sleep_for(std::chrono::milliseconds(10));
			}
		});
	const uint64_t started_ns = wire::monotonic_ns();

	EXPECT_EQ(wire::client_sleep(&backend.client, kLongSleepUs), ClientState::kPending);
	EXPECT_LT(wire::monotonic_ns() - started_ns, uint64_t{kLongSleepUs} * 1000);
	awake = true;
	disturbs.join();
	sigaction(SIGUSR1, &before, nullptr);
	hook->set_gate(true);
	EXPECT_EQ(wire::client_wait(&backend.client, kReplyTimeoutMs), ClientState::kReplied);
}

TEST(Polling, of_a_slot_goes_on_for_the_spin_time_after_its_last_request)
{
	const DataDirectory directory;
	worker::Options options = options_for_test();

	options.spin_us = 50;

	worker::Worker served(options, worker::make_engine(options), fake_clock);

	ASSERT_TRUE(served.listen(1000).is_ok());

	std::thread thread([&] { served.run(); });
	{
		Connection backend;
		const std::atomic<uint32_t> &polls = backend.client.slot->worker_polls;

		ASSERT_EQ(backend.result, ClientResult::kOk);
		EXPECT_EQ(polls, 0u);
		for (int i = 0; i < 3; i++)
		{
			EXPECT_TRUE(exchange(&backend.client, RequestType::kPing, CopyKey{}, {}).ok());
			EXPECT_EQ(polls, 1u);
			fake_now += 49 * 1000;
			std::this_thread::sleep_for(std::chrono::milliseconds(20)); // gives a fault time to show
			EXPECT_EQ(polls, 1u);
		}
		fake_now += 1000;
		EXPECT_TRUE(wait_until([&] { return polls == 0; }));
		EXPECT_TRUE(exchange(&backend.client, RequestType::kPing, CopyKey{}, {}).ok()); // with its doorbell again
		EXPECT_EQ(polls, 1u);
	}
	served.stop();
	thread.join();
}

} // namespace
} // namespace vectorgpu::worker_test

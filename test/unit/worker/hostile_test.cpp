// Clients that break the protocol: the worker lives, others get right answers, nothing leaks.
#include <sys/socket.h>
#include <sys/un.h>

#include "wire/address.hpp"
#include "worker/hook_engine.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct WorkerHostile : testing::Test
{
	DataDirectory directory;

	/// A bare connection; -1 if there is none.
	static int connect_bare()
	{
		sockaddr_un address{};
		char path[wire::kSocketPathBytes];
		const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		const timeval timeout = {20, 0};

		wire::format_socket_path(kEpoch, path);
		address.sun_family = AF_UNIX;
		memcpy(address.sun_path, path, sizeof(path));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
		if (connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0)
			return fd;
		close(fd);
		return -1;
	}
};

TEST_F(WorkerHostile, a_wrong_greeting_ends_the_connection)
{
	ThreadWorker served(options_for_test());
	const wire::Hello good{wire::kMagic, wire::kProtocolVersion, Role::kBackend, kEpoch, 1, 0, 0};
	wire::Hello hellos[6] = {good, good, good, good, good, good};
	const wire::WelcomeStatus expected[6] = {wire::WelcomeStatus::kMalformed, wire::WelcomeStatus::kOtherVersion,
		wire::WelcomeStatus::kOtherEpoch, wire::WelcomeStatus::kMalformed, wire::WelcomeStatus::kMalformed,
		wire::WelcomeStatus::kMalformed};

	hellos[0].magic++;
	hellos[1].version++;
	hellos[2].epoch++;
	hellos[3].role = static_cast<Role>(5);
	hellos[4].zero0 = 1;
	for (int i = 0; i < 6; i++)
	{
		const int fd = connect_bare();
		const size_t length = i == 5 ? 31 : sizeof(wire::Hello);
		wire::Welcome welcome{};

		ASSERT_GE(fd, 0);
		ASSERT_EQ(send(fd, &hellos[i], length, 0), static_cast<ssize_t>(length));
		ASSERT_EQ(recv(fd, &welcome, sizeof(welcome), 0), static_cast<ssize_t>(sizeof(welcome))) << i;
		EXPECT_EQ(welcome.status, expected[i]) << i;
		EXPECT_EQ(recv(fd, &welcome, sizeof(welcome), 0), 0);
		close(fd);
	}

	Client client;

	wire::client_init(&client);
	EXPECT_EQ(wire::client_connect(&client, kEpoch + 1, Role::kBackend, 5000), ClientResult::kUnavailable);
	EXPECT_EQ(Connection().result, ClientResult::kOk);
}

TEST_F(WorkerHostile, silence_instead_of_a_greeting_is_ended_by_time)
{
	ThreadWorker served(options_for_test());
	const int fd = connect_bare();
	uint8_t byte = 0;

	ASSERT_GE(fd, 0);
	EXPECT_EQ(recv(fd, &byte, 1, 0), 0); // after five seconds
	close(fd);
}

TEST_F(WorkerHostile, bytes_after_the_greeting_end_the_session)
{
	ThreadWorker served(options_for_test());
	Connection backend;

	ASSERT_EQ(send(backend.client.socket, "x", 1, 0), 1);
	EXPECT_TRUE(wait_until([&] { return !wire::client_alive(&backend.client); }));
	EXPECT_EQ(Connection().result, ClientResult::kOk);
}

TEST_F(WorkerHostile, malformed_requests_get_an_answer)
{
	ThreadWorker served(options_for_test());
	Connection backend;
	wire::SlotHeader *slot = backend.client.slot;
	uint8_t byte = 0;
	const Part one = {&byte, 1};
	ReplyHeader header;

	EXPECT_EQ(exchange(&backend.client, RequestType::kPing, CopyKey{}, {one}).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(exchange(&backend.client, static_cast<RequestType>(99), CopyKey{}, {}).status(), ReplyStatus::kInvalid);
	for (const uint32_t length : {0u, 63u, 65u, 262144u, 262145u, 0x7fffffffu, 0xffffffffu})
	{
		// A good PING with a wrong length.
		ASSERT_EQ(wire::client_submit(&backend.client, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kOk);
		ASSERT_EQ(wire::client_wait(&backend.client, kReplyTimeoutMs), ClientState::kReplied);
		ASSERT_EQ(wire::client_take_reply(&backend.client, &header, nullptr, 0), ClientResult::kOk);

		const uint64_t bell = 1;

		slot->request_length = length;
		slot->state = static_cast<uint32_t>(wire::SlotState::kSubmitted);
		ASSERT_EQ(write(backend.client.doorbell, &bell, sizeof(bell)), 8);
		ASSERT_TRUE(wait_until([&] { return slot->state == static_cast<uint32_t>(wire::SlotState::kReplied); }))
			<< length;

		ReplyStatus status;

		memcpy(
			&status, reinterpret_cast<uint8_t *>(slot) + wire::kSlotHeaderBytes + backend.client.request_area_bytes, 4);
		EXPECT_EQ(status, ReplyStatus::kInvalid) << length;
		slot->state = static_cast<uint32_t>(wire::SlotState::kIdle);
	}
	EXPECT_EQ(stats(&backend.client).n_invalid, 9u);
}

/// Random requests, random bytes in the slot's header, state flips, cancels, doorbells: at full speed for a bounded
/// time.
void
rage(uint32_t seed, const Table &table, const std::atomic<bool> *stop)
{
	std::mt19937_64 random(seed);

	while (!*stop)
	{
		Connection connection(seed % 2 == 0 ? Role::kBackend : Role::kLoader);

		if (connection.result != ClientResult::kOk)
			continue;

		uint8_t *base = reinterpret_cast<uint8_t *>(connection.client.slot);
		uint8_t *request = base + wire::kSlotHeaderBytes;
		wire::SlotHeader *slot = connection.client.slot;

		for (int i = 0; i < 2000 && !*stop; i++)
		{
			const uint64_t bell = 1;
			wire::RequestHeader header{};
			const uint64_t what = random() % 16;

			header.type = static_cast<RequestType>(random() % 16);
			header.body_bytes = static_cast<uint32_t>(random() % 4 == 0 ? random() : random() % 400);
			header.sequence = random() % 3;
			header.key = random() % 2 == 0 ? table.key : key_of(static_cast<uint32_t>(random() % 4 + 10));
			memcpy(request, &header, sizeof(header));
			for (size_t at = sizeof(header); at < 600; at += 4)
			{
				const uint32_t small = static_cast<uint32_t>(random() % 4 == 0 ? random() : random() % 20);

				memcpy(request + at, &small, 4);
			}
			slot->request_sequence = header.sequence;
			slot->request_length = static_cast<uint32_t>(random() % 8 == 0 ? random() : header.body_bytes + 64);
			if (what == 0)
				slot->cancel = random() % 3;
			if (what == 1)
				slot->client_waits = static_cast<uint32_t>(random());
			slot->state = what < 12 ? 1 : static_cast<uint32_t>(random() % 6);
			if (what == 2)
				slot->worker_polls = 1;
			else if (write(connection.client.doorbell, &bell, sizeof(bell)) != 8)
				return;
			if (random() % 4 == 0)
				std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
			memset(base + 64, static_cast<int>(random()), 16);
		}
	}
}

TEST_F(WorkerHostile, raging_clients_do_not_disturb_others)
{
	worker::Options options = options_for_test();

	options.memory_budget_bytes = 64 * 1024 * 1024;
	options.spin_us = 20;
	options.kept_budget_bytes = 16 * 1024 * 1024;

	ThreadWorker served(options);
	Connection backend;
	const Table table(2000, 16, 1, 100); // a key that the others do not guess, so that they cannot drop it
	const Table bait(100, 16, 2, 10);
	std::atomic<bool> stop{false};
	std::vector<std::thread> raging;
	std::vector<Neighbor> found;
	int n_wrong = 0;
	int n_searches = 0;

	load(&backend.client, table, 1500);
	load(&backend.client, bait, 100);
	for (uint32_t i = 0; i < 4; i++)
		raging.emplace_back(rage, i, std::cref(bait), &stop);

	const uint64_t until = wire::monotonic_ns() + uint64_t{4} * 1000000000;

	const uint64_t latest = until + uint64_t{60} * 1000000000; // a busy machine is slow

	while (wire::monotonic_ns() < until ||
		((n_searches <= 5 || stats(&backend.client).n_invalid <= 100) && wire::monotonic_ns() < latest))
	{
		const size_t k = static_cast<size_t>(n_searches) % 7 * 300 + 1;
		const std::vector<float> query = table.query(static_cast<uint32_t>(n_searches));

		if (!search(&backend.client, table, query, k, &found, {1, 500, 0}).ok() ||
			!same(found, table.nearest(query, k, 2000)))
			n_wrong++;
		n_searches++;
	}
	stop = true;
	for (std::thread &thread : raging)
		thread.join();
	EXPECT_EQ(n_wrong, 0) << "of " << n_searches;
	EXPECT_GT(n_searches, 5);
	EXPECT_TRUE(wait_until([&] { return stats(&backend.client).n_sessions == 1; }));
	EXPECT_GT(stats(&backend.client).n_invalid, 100u);
	EXPECT_TRUE(wait_until([&] { return stats(&backend.client).kept_bytes == 0; }));
}

TEST_F(WorkerHostile, a_hung_engine_stops_only_its_own_heartbeats)
{
	auto made = std::make_unique<HookEngine>();
	HookEngine &engine = *made;
	ThreadWorker served(options_for_test(), std::move(made));
	Connection backend;
	Connection waiting;
	Connection other;
	const Table table(100, 8, 1);

	load(&backend.client, table, 100);
	engine.set_gate(false);
	ASSERT_EQ(submit_search(&backend.client, table, table.query(5), 10), ClientResult::kOk);
	ASSERT_TRUE(wait_until([&] { return engine.waiting(); }));
	ASSERT_EQ(submit_search(&waiting.client, table, table.query(5), 10), ClientResult::kOk);
	EXPECT_TRUE(wait_until([&] { return wire::client_silence_ns(&backend.client) > 600u * 1000 * 1000; }));
	EXPECT_TRUE(wait_until([&] { return wire::client_silence_ns(&waiting.client) > 600u * 1000 * 1000; }));
	EXPECT_TRUE(exchange(&other.client, RequestType::kPing, CopyKey{}, {}).ok());
	EXPECT_TRUE(exchange(&other.client, RequestType::kDescribe, table.key, {}).ok());

	// A waiting request can be cancelled at once, and a client can leave.
	wire::client_abandon(&waiting.client);
	EXPECT_EQ(wire::client_wait(&waiting.client, kReplyTimeoutMs), ClientState::kIdle);
	wire::client_close(&backend.client);
	EXPECT_TRUE(wait_until([&] { return stats(&other.client).n_sessions == 2; }));
	engine.set_gate(true);
}

} // namespace
} // namespace vectorgpu::worker_test

// The real executable: many clients that cancel and die, a worker that is killed, stopped, or loses its parent.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "wire/address.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct WorkerProcess : testing::Test
{
	DataDirectory directory;
};

int
count_descriptors(pid_t pid)
{
	const std::string command = "ls /proc/" + std::to_string(pid) + "/fd | wc -l";
	FILE *pipe = popen(command.c_str(), "r");
	int n = -1;

	if (pipe == nullptr || fscanf(pipe, "%d", &n) != 1)
		n = -1;
	if (pipe != nullptr)
		pclose(pipe);
	return n;
}

/// Return oom_score_adj of process `pid`; 0 if it cannot be read.
int
oom_score_adj(const std::string &pid)
{
	std::ifstream file("/proc/" + pid + "/oom_score_adj");
	int adjust = 0;

	file >> adjust;
	return adjust;
}

/// Set oom_score_adj of this process. Lowering it needs a privilege.
bool
set_oom_score_adj(int adjust)
{
	std::ofstream file("/proc/self/oom_score_adj");

	file << adjust << std::flush;
	return file.good();
}

TEST_F(WorkerProcess, answers_sixteen_clients_that_cancel_at_random)
{
	ProcessWorker served({"--engine", "cpu", "--threads", "2"});
	Connection loader(Role::kLoader);
	const Table table(4000, 16, 1);
	std::vector<std::vector<float>> queries;
	std::vector<std::vector<Neighbor>> expected;
	std::atomic<int> n_wrong{0};
	std::atomic<int> n_answered{0};
	std::atomic<int> n_cancelled{0};
	std::vector<std::thread> threads;

	ASSERT_EQ(loader.result, ClientResult::kOk);
	load(&loader.client, table, 3000);
	for (uint32_t i = 0; i < 40; i++)
	{
		queries.push_back(table.query(i));
		expected.push_back(table.nearest(queries.back(), 4000, table.size()));
	}
	for (uint32_t t = 0; t < 16; t++)
		threads.emplace_back(
			[&, t]
			{
				std::mt19937 random(t);
				Connection backend;
				std::vector<Neighbor> found;

				for (int i = 0; i < 120; i++)
				{
					const size_t which = random() % queries.size();
					const size_t ks[] = {1, 10, 100, 1000, 4000};
					const size_t k = ks[random() % 5];

					if (random() % 3 == 0)
					{
						// Abandoned at a random moment; the slot becomes free later.
						if (submit_search(&backend.client, table, queries[which], k, {1, 1000, 0}) != ClientResult::kOk)
							n_wrong++;
						wire::client_spin(&backend.client, random() % 500);
						wire::client_abandon(&backend.client);
						if (wire::client_wait(&backend.client, kReplyTimeoutMs) != ClientState::kIdle)
							n_wrong++;
						n_cancelled++;
						continue;
					}
					if (!search(&backend.client, table, queries[which], k, &found, {1, 1000, 0}).ok() ||
						!same(found, {expected[which].begin(), expected[which].begin() + static_cast<ptrdiff_t>(k)}))
						n_wrong++;
					n_answered++;
				}
			});
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(n_wrong, 0);
	EXPECT_GT(n_answered, 1000);
	EXPECT_GT(n_cancelled, 300);
	EXPECT_TRUE(wait_until([&] { return stats(&loader.client).n_sessions == 1; }));

	const wire::WorkerStats after = stats(&loader.client);

	EXPECT_EQ(after.n_invalid, 0u);
	EXPECT_EQ(after.n_internal, 0u);
	EXPECT_EQ(after.n_queued, 0u);
	EXPECT_EQ(after.kept_bytes, 0u);
}

TEST_F(WorkerProcess, outlives_clients_that_are_killed_at_any_moment)
{
	ProcessWorker served({"--engine", "cpu"});
	Connection backend;
	const Table table(3000, 16, 1);
	std::vector<Neighbor> found;
	std::mt19937 random(3);

	load(&backend.client, table, 3000);

	const int before = count_descriptors(served.pid());

	for (int round = 0; round < 40; round++)
	{
		const pid_t child = fork();

		if (child == 0)
		{
			// A backend that searches, or a loader in the middle of loading.
			Client client;
			const Table mine(2000, 16, 9, 2 + static_cast<uint32_t>(round));

			wire::client_init(&client);
			if (wire::client_connect(&client, kEpoch, round % 2 == 0 ? Role::kBackend : Role::kLoader, 5000) !=
				ClientResult::kOk)
				_exit(1);
			for (;;)
			{
				if (round % 2 == 0)
					(void) submit_search(&client, table, table.query(1), 2000);
				else if (!create(&client, mine).ok() || !send_rows(&client, mine, 1, 0, 0, 2000).ok())
					_exit(1);
				if (wire::client_wait(&client, 1000) == ClientState::kReplied)
				{
					ReplyHeader header;
					static uint8_t body[65536];

					(void) wire::client_take_reply(&client, &header, body, sizeof(body));
				}
				if (round % 2 == 1)
					(void) exchange(&client, RequestType::kDrop, mine.key, {});
			}
		}
		usleep(random() % 20000);
		kill(child, SIGKILL);
		waitpid(child, nullptr, 0);
		ASSERT_TRUE(search(&backend.client, table, table.query(1), 5, &found).ok());
	}
	EXPECT_TRUE(
		wait_until([&] { return stats(&backend.client).n_sessions == 1 && stats(&backend.client).n_copies == 1; }));
	EXPECT_TRUE(wait_until([&] { return count_descriptors(served.pid()) == before; }));
	EXPECT_TRUE(wait_until([&] { return stats(&backend.client).kept_bytes == 0; }));
	ASSERT_TRUE(search(&backend.client, table, table.query(1), 3000, &found).ok());
	EXPECT_TRUE(same(found, table.nearest(table.query(1), 3000, 3000)));
}

TEST_F(WorkerProcess, that_is_killed_is_noticed_at_once)
{
	ProcessWorker served({"--engine", "cpu"});
	Connection backend;

	ASSERT_TRUE(wire::client_alive(&backend.client));
	served.signal(SIGSTOP);
	ASSERT_EQ(wire::client_submit(&backend.client, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kOk);

	std::thread killer(
		[&]
		{
			std::this_thread::sleep_for(std::chrono::milliseconds(100));
			served.signal(SIGKILL);
		});
	const uint64_t before = wire::monotonic_ns();
	const ClientState state = wire::client_wait(&backend.client, kReplyTimeoutMs);
	const uint64_t waited_ms = (wire::monotonic_ns() - before) / 1000000;

	killer.join();
	EXPECT_EQ(state, ClientState::kBroken);
	EXPECT_LT(waited_ms, uint64_t{kReplyTimeoutMs} / 2);
	EXPECT_FALSE(wire::client_alive(&backend.client));
}

TEST_F(WorkerProcess, that_is_stopped_gives_no_sign_of_life_and_goes_on_later)
{
	ProcessWorker served({"--engine", "cpu"});
	Connection backend;
	ReplyHeader header;

	served.signal(SIGSTOP);
	ASSERT_EQ(wire::client_submit(&backend.client, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kOk);
	EXPECT_EQ(wire::client_wait(&backend.client, 300), ClientState::kPending);
	EXPECT_GE(wire::client_silence_ns(&backend.client), 250u * 1000 * 1000);
	wire::client_abandon(&backend.client);
	EXPECT_EQ(wire::client_submit(&backend.client, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kNotReady);
	EXPECT_TRUE(wire::client_alive(&backend.client));

	// A new client connects to the listening socket and gets no greeting.
	Client late;

	wire::client_init(&late);
	EXPECT_EQ(wire::client_connect(&late, kEpoch, Role::kBackend, 200), ClientResult::kTimeout);
	served.signal(SIGCONT);
	ASSERT_EQ(wire::client_wait(&backend.client, kReplyTimeoutMs), ClientState::kIdle); // the late answer was discarded
	ASSERT_EQ(wire::client_submit(&backend.client, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kOk);
	ASSERT_EQ(wire::client_wait(&backend.client, kReplyTimeoutMs), ClientState::kReplied);
	EXPECT_EQ(wire::client_take_reply(&backend.client, &header, nullptr, 0), ClientResult::kOk);
	EXPECT_EQ(header.sequence, 2u);
}

TEST_F(WorkerProcess, ends_when_its_parent_closes_the_pipe)
{
	int ends[2];

	ASSERT_EQ(pipe(ends), 0);
	fcntl(ends[1], F_SETFD, FD_CLOEXEC);

	ProcessWorker served(
		{"--engine", "null", "--parent-fd", std::to_string(ends[0]), "--parent-pid", std::to_string(getpid())});
	Connection backend;

	close(ends[0]);
	ASSERT_EQ(backend.result, ClientResult::kOk);
	close(ends[1]);

	const int status = served.reap();

	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	EXPECT_TRUE(wait_until([&] { return !wire::client_alive(&backend.client); }));
}

TEST_F(WorkerProcess, keeps_no_descriptor_of_its_parent_and_is_first_to_go_without_memory)
{
	const int secret = open("/dev/null", O_RDONLY); // not close-on-exec

	ASSERT_GE(fcntl(secret, F_DUPFD, 100), 100);

	const int own = oom_score_adj("self");
	ProcessWorker served({"--engine", "null"});
	Connection backend;

	ASSERT_EQ(backend.result, ClientResult::kOk);
	EXPECT_EQ(oom_score_adj(std::to_string(served.pid())), std::min(std::max(own, 0) + 500, 1000));
	EXPECT_NE(access(("/proc/" + std::to_string(served.pid()) + "/fd/100").c_str(), F_OK), 0);
	close(100);
	close(secret);
}

TEST_F(WorkerProcess, is_first_to_go_without_memory_where_its_parent_is_preferred_too)
{
	const int own = oom_score_adj("self");
	const int raised = std::min(std::max(own, 0) + 300, 1000);

	if (!set_oom_score_adj(raised))
		GTEST_SKIP() << "may not write /proc/self/oom_score_adj";

	ProcessWorker served({"--engine", "null"});
	Connection backend;

	set_oom_score_adj(own); // allowed to root, or if it is not lower than at the beginning
	ASSERT_EQ(backend.result, ClientResult::kOk);
	EXPECT_EQ(oom_score_adj(std::to_string(served.pid())), std::min(raised + 500, 1000));
}

TEST_F(WorkerProcess, serves_without_the_gpu_that_was_asked_for)
{
	ProcessWorker served({"--device", "cuda:999", "--gpu-memory", "1048576"});
	Connection backend;

	ASSERT_EQ(backend.result, ClientResult::kOk);
	EXPECT_EQ(backend.client.engine, wire::EngineKind::kCpu);
	EXPECT_TRUE(exchange(&backend.client, RequestType::kPing, CopyKey{}, {}).ok());
}

TEST_F(WorkerProcess, refuses_wrong_arguments_and_a_second_worker)
{
	ProcessWorker wrong({"--engine", "quantum"});
	ProcessWorker wrong_device({"--device", "cuda:-1"});
	ProcessWorker served({"--engine", "null"});
	Connection backend;

	EXPECT_EQ(WEXITSTATUS(wrong.reap()), 2);
	EXPECT_EQ(WEXITSTATUS(wrong_device.reap()), 2);
	ASSERT_EQ(backend.result, ClientResult::kOk);

	ProcessWorker second({"--engine", "null"});

	EXPECT_EQ(WEXITSTATUS(second.reap()), 1); // after waiting for the first to die
	EXPECT_TRUE(exchange(&backend.client, RequestType::kPing, CopyKey{}, {}).ok());
}

TEST_F(WorkerProcess, takes_over_from_one_that_was_killed)
{
	struct stat status;

	{
		ProcessWorker first({"--engine", "null"});
		Connection backend;

		ASSERT_EQ(backend.result, ClientResult::kOk);
	}
	// A stale socket, and one of another epoch.
	ASSERT_EQ(symlink("nowhere", "pgsql_tmp_vectorgpu/pgsql_tmp_w.0000000000000001"), 0);
	ASSERT_EQ(symlink("nowhere", "pgsql_tmp_vectorgpu/w.0000000000000001"), 0); // the name in earlier builds

	Client client;

	wire::client_init(&client);
	EXPECT_EQ(wire::client_connect(&client, kEpoch, Role::kBackend, 1000), ClientResult::kUnavailable);

	ProcessWorker next({"--engine", "null"});
	Connection backend;

	EXPECT_EQ(backend.result, ClientResult::kOk);
	EXPECT_NE(lstat("pgsql_tmp_vectorgpu/pgsql_tmp_w.0000000000000001", &status), 0);
	EXPECT_NE(lstat("pgsql_tmp_vectorgpu/w.0000000000000001", &status), 0);
	ASSERT_EQ(stat("pgsql_tmp_vectorgpu", &status), 0);
	EXPECT_EQ(status.st_mode & 0777, 0700u);
	ASSERT_EQ(stat("pgsql_tmp_vectorgpu/pgsql_tmp_w.0123456789abcdef", &status), 0);
	EXPECT_EQ(status.st_mode & 0077, 0u);
}

TEST_F(WorkerProcess, refuses_a_folder_that_others_may_enter)
{
	ASSERT_EQ(mkdir(wire::kSocketFolder, 0755), 0);
	ASSERT_EQ(chmod(wire::kSocketFolder, 0755), 0);

	ProcessWorker served({"--engine", "null"});

	EXPECT_EQ(WEXITSTATUS(served.reap()), 1);
}

TEST_F(WorkerProcess, sends_clients_away_when_it_is_full_and_takes_new_ones_later)
{
	ProcessWorker served({"--engine", "null", "--max-sessions", "3"});
	std::vector<std::unique_ptr<Connection>> connections;

	for (int i = 0; i < 3; i++)
	{
		connections.push_back(std::make_unique<Connection>());
		ASSERT_EQ(connections.back()->result, ClientResult::kOk);
	}
	EXPECT_EQ(Connection().result, ClientResult::kFull);
	connections.pop_back();
	EXPECT_TRUE(wait_until([] { return Connection().result == ClientResult::kOk; }));
}

TEST_F(WorkerProcess, survives_running_out_of_descriptors)
{
	ProcessWorker served({"--engine", "null"});
	Connection first;
	rlimit few = {};
	std::vector<std::unique_ptr<Client>> held;
	int n_open = 0;

	ASSERT_EQ(first.result, ClientResult::kOk);
	// Room for a few clients besides its own descriptors, whose number depends on the machine and on a sanitizer.
	few.rlim_cur = few.rlim_max = static_cast<rlim_t>(count_descriptors(served.pid()) + 8);
	ASSERT_EQ(prlimit(served.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
	for (int i = 0; i < 20; i++)
	{
		Client client;

		wire::client_init(&client);
		if (wire::client_connect(&client, kEpoch, Role::kBackend, 2000) == ClientResult::kOk)
			n_open++;
		wire::client_close(&client);
	}
	for (int i = 0; i < 20; i++)
	{
		auto connection = std::make_unique<Client>();

		wire::client_init(connection.get());

		const ClientResult result = wire::client_connect(connection.get(), kEpoch, Role::kBackend, 2000);

		EXPECT_TRUE(result == ClientResult::kOk || result == ClientResult::kFull ||
			result == ClientResult::kUnavailable || result == ClientResult::kSystem)
			<< wire::client_result_text(result);
		held.push_back(std::move(connection));
	}
	EXPECT_TRUE(exchange(&first.client, RequestType::kPing, CopyKey{}, {}).ok());
	for (const auto &client : held)
		wire::client_close(client.get());
	EXPECT_GT(n_open, 0);
	EXPECT_TRUE(wait_until([] { return Connection().result == ClientResult::kOk; }));
}

} // namespace
} // namespace vectorgpu::worker_test

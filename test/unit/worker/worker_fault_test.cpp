// Every fault point of the worker with every action: the client sees an answer, an error, or the end of the connection,
// never a wrong answer and never a hang; the worker lives unless the action ends it.
#include <sys/wait.h>

#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

#ifdef VECTORGPU_FAULTS

constexpr const char *kPoints[] = {"accept", "make_slot", "send_welcome", "receive", "create", "load_segment",
	"append_delta", "tombstones", "manifest", "search", "reply"};

struct WorkerFault : testing::TestWithParam<std::tuple<const char *, const char *>>
{
	DataDirectory directory;
};

/// Connect; try again while the worker lives. True: there is a session.
bool
connect(Client *client, const ProcessWorker &served)
{
	bool connected = false;

	wire::client_init(client);
	wait_until(
		[&]
		{
			connected = wire::client_connect(client, kEpoch, Role::kLoader, 2000) == ClientResult::kOk;
			return connected || served.has_ended();
		},
		kReplyTimeoutMs);
	return connected;
}

/// Load the table and search it; false at the first failure. Sets *wrong if an answer is wrong.
bool
course(Client *client, const Table &table, bool *wrong)
{
	const uint8_t none[2] = {};
	const wire::TombstonesRequest tombstones{1, 0, 10, 0, 1, 0};
	std::vector<Neighbor> found;

	if (!create(client, table).ok() || !send_rows(client, table, 1, 0, 0, 50).ok() ||
		!seal(client, table, 1, 50).ok() || !send_rows(client, table, 0, 0, 50, 60).ok() ||
		!exchange(client, RequestType::kTombstones, table.key, {part_of(tombstones), {none, 2}}).ok() ||
		!manifest(client, table, 1, {1}, 0, 1).ok() ||
		!search(client, table, table.query(3), 100, &found, {1, 10, 1}).ok())
		return false;
	*wrong = !same(found, table.nearest(table.query(3), 100, 60));
	return true;
}

TEST_P(WorkerFault, is_an_error_and_no_wrong_answer)
{
	const auto [point, action] = GetParam();
	const bool deadly = strcmp(action, "exit") == 0 || strcmp(action, "abort") == 0;
	const std::string fault = std::string(point) + ":1:" + action;
	ProcessWorker served({"--engine", "cpu"}, fault.c_str());
	const Table table(60, 8, 1);
	bool done = false;

	for (int attempt = 0; attempt < 5 && !done; attempt++)
	{
		Client client;
		bool wrong = false;

		if (deadly && attempt > 0)
			break;
		if (connect(&client, served))
		{
			done = course(&client, table, &wrong);
			EXPECT_FALSE(wrong);
			if (!done && !deadly)
				(void) exchange(&client, RequestType::kDrop, table.key, {});
		}
		wire::client_close(&client);
		if (!done)
			std::this_thread::sleep_for(std::chrono::milliseconds(50)); // for the lease of the session to end
	}
	if (deadly)
	{
		const int status = served.reap();

		EXPECT_FALSE(done);
		EXPECT_TRUE(strcmp(action, "exit") == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 3
												: WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
			<< status;
	}
	else
		EXPECT_TRUE(done);
}

INSTANTIATE_TEST_SUITE_P(every, WorkerFault,
	testing::Combine(testing::ValuesIn(kPoints), testing::Values("error", "enomem", "corrupt", "exit", "abort")),
	[](const auto &with) { return std::string(std::get<0>(with.param)) + "_" + std::get<1>(with.param); });

TEST(WorkerFaultSleep, of_an_engine_is_seen_by_its_heartbeat)
{
	const DataDirectory directory;
	ProcessWorker served({"--engine", "cpu"}, "search:1:sleep");
	Connection backend;
	Connection other;
	const Table table(60, 8, 1);

	load(&backend.client, table, 60);
	ASSERT_EQ(submit_search(&backend.client, table, table.query(1), 5), ClientResult::kOk);
	EXPECT_TRUE(wait_until([&] { return wire::client_silence_ns(&backend.client) > uint64_t{1000} * 1000 * 1000; }));
	EXPECT_TRUE(exchange(&other.client, RequestType::kPing, CopyKey{}, {}).ok());
}

/// A client that reads edges while recall is measured learns why a build failed meanwhile.
TEST(WorkerFaultGraph, is_what_a_reader_of_edges_learns)
{
	const DataDirectory directory;
	ProcessWorker served({"--engine", "cpu"}, "build_graph:1:enomem");
	Connection connection;
	Client *client = &connection.client;
	const Table table(60, 8, 1);
	const wire::BeginGraphRequest begin{table.spec.dim, table.spec.element, table.spec.metric, 0, 1, 60, 8, 1, 0, 0};
	const wire::BuildRowsRequest rows{0, 60, 0};
	const wire::ReadBuildRequest edges{wire::BuildResult::kEdges, 4, 0};
	const wire::ReadBuildRequest entries{wire::BuildResult::kEntries, 4, 0};
	const wire::ReadBuildRequest state{wire::BuildResult::kGraphState, sizeof(wire::GraphBuildState), 0};
	wire::GraphBuildState seen{};

	ASSERT_TRUE(exchange(client, RequestType::kBeginGraph, table.key, {part_of(begin)}).ok());
	ASSERT_TRUE(exchange(client, RequestType::kAddGraphRows, table.key,
		{part_of(rows), {table.row(0), 60 * table.spec.dim * sizeof(float)}})
			.ok());
	ASSERT_TRUE(exchange(client, RequestType::kStartGraph, table.key, {}).ok());
	ASSERT_TRUE(wait_until(
		[&]
		{
			const Answer answer = exchange(client, RequestType::kReadBuild, table.key, {part_of(state)});

			if (answer.body.size() == sizeof(seen))
				memcpy(&seen, answer.body.data(), sizeof(seen));
			return seen.stage == wire::GraphBuildStage::kFailed;
		}));
	EXPECT_EQ(seen.failure, ReplyStatus::kOutOfMemory);
	EXPECT_EQ(
		exchange(client, RequestType::kReadBuild, table.key, {part_of(edges)}).status(), ReplyStatus::kOutOfMemory);
	EXPECT_EQ(exchange(client, RequestType::kReadBuild, table.key, {part_of(entries)}).status(), ReplyStatus::kInvalid);
}

#else

TEST(WorkerFault, needs_a_build_with_fault_points)
{
	GTEST_SKIP() << "configure with -DVECTORGPU_FAULTS=ON";
}

#endif

} // namespace
} // namespace vectorgpu::worker_test

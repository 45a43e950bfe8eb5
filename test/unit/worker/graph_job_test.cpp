// Builds of graphs by the worker, from the wire to edges and recall.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/graph/calibrate/measure.hpp"
#include "engine/graph/insert.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

using wire::BuildResult;
using wire::GraphBuildStage;
using wire::GraphBuildState;

constexpr uint32_t kDegree = 8;

struct WorkerGraphBuilds : testing::Test
{
	WorkerGraphBuilds() : served(options_for_test()), table(900, 6, 1) {}

	Answer step(Client *client, RequestType what, uint64_t first = 0, size_t n = 0)
	{
		const wire::BuildRowsRequest request{
			what == RequestType::kAddGraphRows ? first : 0, static_cast<uint32_t>(n), 0};
		std::vector<float> rows;

		if (n == 0)
			return exchange(client, what, table.key, {});

		for (size_t i = first; i < first + n; i++)
			rows.insert(rows.end(), table.row(i), table.row(i) + table.spec.dim);
		return exchange(client, what, table.key, {part_of(request), {rows.data(), rows.size() * sizeof(float)}});
	}

	Answer begin(Client *client, uint32_t n_rows, Metric metric = Metric::kL2, uint32_t code_bits = 0)
	{
		const wire::BeginGraphRequest spec{
			table.spec.dim, table.spec.element, metric, 0, 1, n_rows, kDegree, 1, code_bits, 0};

		return exchange(client, RequestType::kBeginGraph, table.key, {part_of(spec)});
	}

	Answer ask(Client *client, BuildResult result, size_t n_bytes)
	{
		const wire::ReadBuildRequest request{result, static_cast<uint32_t>(n_bytes), 0};

		return exchange(client, RequestType::kReadBuild, table.key, {part_of(request)});
	}

	template <class T>
	std::vector<T> read(Client *client, BuildResult result, size_t n)
	{
		const Answer answer = ask(client, result, n * sizeof(T));
		std::vector<T> values(n);

		EXPECT_TRUE(answer.ok());
		EXPECT_EQ(answer.body.size(), n * sizeof(T));
		if (answer.body.size() == n * sizeof(T))
			memcpy(values.data(), answer.body.data(), n * sizeof(T));
		return values;
	}

	/// Begin when abandoned builds have stopped: until then they keep their places.
	bool begin_when_free(Client *client, uint32_t n_rows)
	{
		for (;;)
		{
			const ReplyStatus status = begin(client, n_rows).status();

			if (status != ReplyStatus::kRefused)
				return status == ReplyStatus::kOk;
			std::this_thread::yield();
		}
	}

	GraphBuildState wait_for_end(Client *client)
	{
		for (;;)
		{
			const GraphBuildState state = read<GraphBuildState>(client, BuildResult::kGraphState, 1)[0];

			if (state.stage == GraphBuildStage::kDone || state.stage == GraphBuildStage::kFailed ||
				testing::Test::HasFailure())
				return state;
			std::this_thread::yield();
		}
	}

	DataDirectory directory;
	ThreadWorker served;
	Table table;
};

/// The graph and recall equal those of one thread without a worker.
TEST_F(WorkerGraphBuilds, give_the_graph_of_one_thread)
{
	namespace graph = engine::graph;

	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		Connection connection;
		Client &client = connection.client;

		ASSERT_TRUE(begin(&client, 900, metric).ok());
		for (size_t first = 0; first < 900; first += 300)
			ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, first, 300).ok());
		ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());

		const GraphBuildState state = wait_for_end(&client);

		ASSERT_EQ(state.stage, GraphBuildStage::kDone);
		EXPECT_EQ(state.failure, ReplyStatus::kOk);
		EXPECT_EQ(state.exact, 0U);
		EXPECT_GT(state.progress, 0U);

		std::vector<float> vectors;
		graph::GraphRows rows;
		graph::BuildSpec spec;
		graph::BuildReport report;
		std::vector<uint32_t> edges(900 * kDegree);
		engine::ivf::Calibration calibration;

		for (size_t i = 0; i < 900; i++)
			vectors.insert(vectors.end(), table.row(i), table.row(i) + table.spec.dim);
		rows = {{graph::build_metric(metric), table.spec.element, table.spec.dim}, vectors.data(),
			table.spec.dim * sizeof(float), 900};
		spec.degree = kDegree;
		spec.knn.k = 0;
		spec.knn.n_aside = graph::query_rows(900);

		std::vector<uint32_t> queries(spec.knn.n_aside);
		std::vector<uint32_t> entries(graph::entry_count(900, spec));
		std::vector<uint8_t> work(graph::graph_build_bytes(rows, spec));

		ASSERT_TRUE(
			graph::graph_build(rows, spec, edges.data(), entries.data(), &report, work.data(), work.size()).is_ok());

		graph::MeasuredGraph measured = {rows, edges.data(), kDegree, entries.data(), report.n_entries};

		measured.rows.spec.metric = metric;
		ASSERT_TRUE(graph::measure_without(
			rows, spec, queries.data(), static_cast<uint32_t>(queries.size()), &measured, work.data(), work.size())
				.is_ok());
		EXPECT_EQ(measured.held_out, queries.data());

		std::vector<uint8_t> calibration_work(graph::calibrate_bytes(measured, 1));

		engine::ivf::DepthCalibration depths;

		ASSERT_TRUE(
			graph::calibrate(measured, &calibration, calibration_work.data(), calibration_work.size(), {}, &depths)
				.is_ok());
		entries.resize(report.n_entries);
		EXPECT_EQ(state.n_connected, report.n_connected);
		EXPECT_EQ(state.n_queries, calibration.n_queries);
		EXPECT_GT(state.n_points, 0U);
		ASSERT_EQ(state.n_points, calibration.n_points);
		ASSERT_EQ(state.n_entries, report.n_entries);
		EXPECT_EQ(read<uint32_t>(&client, BuildResult::kEdges, edges.size()), edges);
		EXPECT_EQ(read<uint32_t>(&client, BuildResult::kEntries, report.n_entries), entries);

		const std::vector<wire::WidthRecall> points =
			read<wire::WidthRecall>(&client, BuildResult::kRecall, state.n_points);

		for (uint32_t i = 0; i < state.n_points; i++)
		{
			EXPECT_EQ(points[i].width, calibration.probes[i]);
			EXPECT_EQ(points[i].recall, calibration.recall[i]);
		}
		ASSERT_EQ(state.n_depths, depths.n_depths);
		ASSERT_GT(depths.n_depths, 0U);

		const std::vector<wire::DepthRecall> recalls =
			read<wire::DepthRecall>(&client, BuildResult::kDepths, state.n_depths);

		for (uint32_t d = 0; d < depths.n_depths; d++)
		{
			EXPECT_EQ(recalls[d].n_nearest, depths.depths[d]);
			EXPECT_EQ(recalls[d].n_queries, depths.n_queries);
			for (uint32_t i = 0; i < state.n_points; i++)
				EXPECT_EQ(recalls[d].recall[i], depths.recall[d][i]);
		}
		ASSERT_TRUE(step(&client, RequestType::kEndBuild).ok());
		EXPECT_EQ(ask(&client, BuildResult::kGraphState, sizeof(GraphBuildState)).status(), ReplyStatus::kAbsent);
	}
}

/// They do not change any more then.
TEST_F(WorkerGraphBuilds, give_edges_while_recall_is_measured)
{
	constexpr int kAttempts = 50; // a client that is not scheduled meanwhile sees no such stage
	std::vector<uint32_t> early;

	for (int attempt = 0; attempt < kAttempts && early.empty(); attempt++)
	{
		Connection connection;
		Client &client = connection.client;
		GraphBuildStage stage = GraphBuildStage::kRows;

		ASSERT_TRUE(begin_when_free(&client, 900));
		ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, 0, 900).ok());
		ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());
		while (stage < GraphBuildStage::kRecall)
			stage = read<GraphBuildState>(&client, BuildResult::kGraphState, 1)[0].stage;
		if (stage == GraphBuildStage::kRecall)
			early = read<uint32_t>(&client, BuildResult::kEdges, 900 * kDegree);
		ASSERT_EQ(wait_for_end(&client).stage, GraphBuildStage::kDone);
		if (stage == GraphBuildStage::kRecall)
		{
			EXPECT_EQ(early, read<uint32_t>(&client, BuildResult::kEdges, 900 * kDegree));
		}
		ASSERT_TRUE(step(&client, RequestType::kEndBuild).ok());
	}
	EXPECT_FALSE(early.empty());
}

TEST_F(WorkerGraphBuilds, refuse_requests_out_of_order)
{
	Connection connection;
	Client &client = connection.client;

	EXPECT_EQ(step(&client, RequestType::kStartGraph).status(), ReplyStatus::kAbsent);
	ASSERT_TRUE(begin(&client, 500).ok());
	EXPECT_EQ(read<GraphBuildState>(&client, BuildResult::kGraphState, 1)[0].stage, GraphBuildStage::kRows);
	EXPECT_EQ(step(&client, RequestType::kStartGraph).status(), ReplyStatus::kInvalid) << "before all rows are there";
	EXPECT_EQ(ask(&client, BuildResult::kEdges, 4).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, 0, 300).ok());
	EXPECT_EQ(step(&client, RequestType::kAddGraphRows, 0, 300).status(), ReplyStatus::kInvalid)
		<< "the same rows twice";
	EXPECT_EQ(step(&client, RequestType::kAddGraphRows, 400, 100).status(), ReplyStatus::kInvalid) << "a gap";
	EXPECT_EQ(step(&client, RequestType::kAddGraphRows, 300, 201).status(), ReplyStatus::kInvalid)
		<< "more than announced";
	EXPECT_EQ(step(&client, RequestType::kAddTraining, 0, 1).status(), ReplyStatus::kInvalid) << "a request of lists";
	EXPECT_EQ(step(&client, RequestType::kTrain).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(ask(&client, BuildResult::kCentroids, 4).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, 300, 200).ok());
	ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());
	EXPECT_EQ(step(&client, RequestType::kStartGraph).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(step(&client, RequestType::kAddGraphRows, 500, 1).status(), ReplyStatus::kInvalid);
	ASSERT_EQ(wait_for_end(&client).stage, GraphBuildStage::kDone);
	EXPECT_EQ(ask(&client, BuildResult::kEdges, 500 * kDegree * 4 + 1).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(ask(&client, BuildResult::kNeighbors, 4).status(), ReplyStatus::kInvalid) << "of lists";

	ASSERT_TRUE(begin(&client, 500).ok()) << "a second build replaces the first";
	EXPECT_EQ(read<GraphBuildState>(&client, BuildResult::kGraphState, 1)[0].stage, GraphBuildStage::kRows);
}

/// Rows 0 .. 899 of the table as pages of a relation, from byte kFirstByte of a stream on, in files of few pages.
struct WorkerGraphPages : WorkerGraphBuilds
{
	static constexpr uint32_t kPageBytes = 1024;
	static constexpr uint32_t kPayloadBytes = kPageBytes - 24 - sizeof(wire::WirePageTag);
	static constexpr uint32_t kStartPage = 3;
	static constexpr uint32_t kFilePages = 7;
	static constexpr uint64_t kFirstByte = 5000;

	WorkerGraphPages()
	{
		const size_t row_bytes = table.spec.dim * sizeof(float);
		std::vector<uint8_t> stream(kFirstByte, 0xaa);

		for (size_t i = 0; i < 900; i++)
		{
			const uint8_t *row = reinterpret_cast<const uint8_t *>(table.row(i));

			stream.insert(stream.end(), row, row + row_bytes);
		}
		std::filesystem::create_directories("base/5");
		for (size_t page = 0; page * kPayloadBytes < stream.size(); page++)
		{
			const size_t n = std::min<size_t>(kPayloadBytes, stream.size() - page * kPayloadBytes);

			write(static_cast<uint32_t>(page), stream.data() + page * kPayloadBytes, n);
		}
	}

	static wire::AddGraphPagesRequest pages()
	{
		return {0, kFirstByte, 900, kStartPage, kPageBytes, kFilePages, 24, 0, tag()};
	}

	static wire::WirePageTag tag() { return {0, 2, 1, 9, 0, 0, 77, {1, 2, 3}}; }

	static std::string file_of(uint32_t block)
	{
		return "base/5/6" + (block < kFilePages ? "" : "." + std::to_string(block / kFilePages));
	}

	static void write(uint32_t page, const uint8_t *payload, size_t n)
	{
		const uint32_t block = kStartPage + page;
		std::vector<uint8_t> bytes(kPageBytes, 0xbb);
		wire::WirePageTag own = tag();
		FILE *file = fopen(file_of(block).c_str(), "ab+");

		own.checksum = page * 17;
		own.used = static_cast<uint32_t>(n);
		own.position = page;
		memcpy(bytes.data() + 24, &own, sizeof(own));
		memcpy(bytes.data() + 24 + sizeof(own), payload, n);
		ASSERT_NE(file, nullptr);
		ASSERT_EQ(ftruncate(fileno(file), block % kFilePages * kPageBytes), 0);
		ASSERT_EQ(fwrite(bytes.data(), 1, kPageBytes, file), kPageBytes);
		ASSERT_EQ(fclose(file), 0);
	}

	ReplyStatus add(Client *client, wire::AddGraphPagesRequest spec, const std::string &path = "base/5/6")
	{
		spec.path_bytes = static_cast<uint32_t>(path.size());
		return exchange(client, RequestType::kAddGraphPages, table.key, {part_of(spec), {path.data(), path.size()}})
			.status();
	}

	std::vector<uint32_t> edges_when_done(Client *client)
	{
		EXPECT_TRUE(step(client, RequestType::kStartGraph).ok());
		EXPECT_EQ(wait_for_end(client).stage, GraphBuildStage::kDone);
		return read<uint32_t>(client, BuildResult::kEdges, 900 * kDegree);
	}
};

TEST_F(WorkerGraphPages, give_the_graph_of_rows_that_are_sent)
{
	Connection connection;
	Client &client = connection.client;

	ASSERT_TRUE(begin(&client, 900).ok());
	for (size_t first = 0; first < 900; first += 300)
		ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, first, 300).ok());

	const std::vector<uint32_t> edges = edges_when_done(&client);

	ASSERT_TRUE(begin(&client, 900).ok());
	ASSERT_EQ(add(&client, pages()), ReplyStatus::kOk);
	EXPECT_EQ(edges_when_done(&client), edges);

	// Some rows in either way.
	wire::AddGraphPagesRequest some = pages();

	ASSERT_TRUE(begin(&client, 900).ok());
	ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, 0, 300).ok());
	some.position = some.n_rows = 300;
	some.first += 300 * table.spec.dim * sizeof(float);
	ASSERT_EQ(add(&client, some), ReplyStatus::kOk);
	ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, 600, 300).ok());
	EXPECT_EQ(edges_when_done(&client), edges);
}

TEST_F(WorkerGraphPages, that_cannot_be_read_leave_the_build_as_it_was)
{
	Connection connection;
	Client &client = connection.client;
	const auto changed = [&](auto change)
	{
		wire::AddGraphPagesRequest spec = pages();

		change(&spec);
		return add(&client, spec);
	};

	ASSERT_TRUE(begin(&client, 900).ok());
	for (const char *path :
		{"/etc/passwd", "base/../base/5/6", "base/5/..", "postgresql.conf", "base", "pg_tblspc/../x"})
		EXPECT_EQ(add(&client, pages(), path), ReplyStatus::kInvalid) << path;
	EXPECT_EQ(add(&client, pages(), std::string("base/5/6\0", 9)), ReplyStatus::kInvalid);
	EXPECT_EQ(add(&client, pages(), "base/5/7"), ReplyStatus::kUnsupported) << "no such file";
	EXPECT_EQ(add(&client, pages(), "base/5"), ReplyStatus::kUnsupported) << "a folder";
	EXPECT_EQ(changed([](auto *spec) { spec->position = 1; }), ReplyStatus::kInvalid);
	EXPECT_EQ(changed([](auto *spec) { spec->n_rows = 901; }), ReplyStatus::kInvalid);
	EXPECT_EQ(changed([](auto *spec) { spec->start_page = UINT32_MAX; }), ReplyStatus::kInvalid);
	EXPECT_EQ(changed([](auto *spec) { spec->start_page++; }), ReplyStatus::kUnsupported) << "at another position";
	EXPECT_EQ(changed([](auto *spec) { spec->first += 5000; }), ReplyStatus::kUnsupported) << "beyond the last page";
	EXPECT_EQ(changed([](auto *spec) { spec->tag.role++; }), ReplyStatus::kUnsupported);
	EXPECT_EQ(changed([](auto *spec) { spec->tag.stream++; }), ReplyStatus::kUnsupported);
	EXPECT_EQ(changed([](auto *spec) { spec->tag.owner++; }), ReplyStatus::kUnsupported);
	EXPECT_EQ(changed([](auto *spec) { spec->tag.magic++; }), ReplyStatus::kUnsupported);
	EXPECT_EQ(changed([](auto *spec) { spec->tag.uuid[15]++; }), ReplyStatus::kUnsupported);
	EXPECT_EQ(step(&client, RequestType::kStartGraph).status(), ReplyStatus::kInvalid) << "no rows have come";
	ASSERT_EQ(add(&client, pages()), ReplyStatus::kOk);
	EXPECT_EQ(add(&client, pages()), ReplyStatus::kInvalid) << "the same rows twice";
	edges_when_done(&client);
	EXPECT_EQ(add(&client, pages()), ReplyStatus::kInvalid) << "after the build";
}

/// A graph that rows are inserted into: rows 0 .. 799 without every 40th, and 800 .. 899.
struct WorkerGraphInserts : WorkerGraphBuilds
{
	WorkerGraphInserts()
	{
		namespace graph = engine::graph;
		graph::BuildReport report;

		for (uint32_t i = 0; i < 900; i++)
		{
			if (i < 800)
				before.insert(before.end(), table.row(i), table.row(i) + table.spec.dim);
			if (i < 800)
				numbers.push_back(i % 40 == 7 ? graph::kNoNode : static_cast<uint32_t>(now.size() / table.spec.dim));
			if (i >= 800 || i % 40 != 7)
				now.insert(now.end(), table.row(i), table.row(i) + table.spec.dim);
		}
		spec.degree = kDegree;
		spec.knn.k = 0;
		edges.resize(800 * kDegree);
		entries.resize(graph::entry_count(800, spec));
		std::vector<uint8_t> work(graph::graph_build_bytes(rows_of(before), spec));
		EXPECT_TRUE(
			graph::graph_build(rows_of(before), spec, edges.data(), entries.data(), &report, work.data(), work.size())
				.is_ok());
		entries.resize(report.n_entries);
	}

	engine::graph::GraphRows rows_of(const std::vector<float> &floats) const
	{
		return {{Metric::kL2, table.spec.element, table.spec.dim}, floats.data(), table.spec.dim * sizeof(float),
			static_cast<uint32_t>(floats.size() / table.spec.dim)};
	}

	Answer begin_insert(Client *client, uint32_t n_kept = 780)
	{
		const wire::BeginInsertRequest insert{
			{table.spec.dim, table.spec.element, Metric::kL2, 0, 0, 880, kDegree, 1, 0, 0}, 800, n_kept};

		return exchange(client, RequestType::kBeginInsert, table.key, {part_of(insert)});
	}

	/// Send items [first, first + n) of an array with `width` numbers each.
	template <class T>
	Answer bring(Client *client, RequestType what, const std::vector<T> &items, size_t width, size_t first, size_t n)
	{
		const wire::BuildRowsRequest request{first, static_cast<uint32_t>(n), 0};

		return exchange(
			client, what, table.key, {part_of(request), {items.data() + first * width, n * width * sizeof(T)}});
	}

	bool bring_all(Client *client)
	{
		return bring(client, RequestType::kAddGraphRows, now, table.spec.dim, 0, 880).ok() &&
			bring(client, RequestType::kAddBaseNumbers, numbers, 1, 0, 500).ok() &&
			bring(client, RequestType::kAddBaseNumbers, numbers, 1, 500, 300).ok() &&
			bring(client, RequestType::kAddBaseEdges, edges, kDegree, 0, 300).ok() &&
			bring(client, RequestType::kAddBaseEdges, edges, kDegree, 300, 500).ok() &&
			bring(client, RequestType::kAddBaseEntries, entries, 1, 0, entries.size()).ok();
	}

	std::vector<float> before;
	std::vector<float> now;
	std::vector<uint32_t> numbers;
	std::vector<uint32_t> edges;
	std::vector<uint32_t> entries;
	engine::graph::BuildSpec spec;
};

TEST_F(WorkerGraphInserts, give_the_graph_of_one_thread)
{
	namespace graph = engine::graph;

	Connection connection;
	Client &client = connection.client;

	ASSERT_TRUE(begin_insert(&client).ok());
	ASSERT_TRUE(bring_all(&client));
	ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());

	const GraphBuildState state = wait_for_end(&client);

	ASSERT_EQ(state.stage, GraphBuildStage::kDone);

	const graph::BaseGraph base = {
		800, edges.data(), entries.data(), static_cast<uint32_t>(entries.size()), numbers.data()};
	std::vector<uint32_t> merged(880 * kDegree);
	std::vector<uint32_t> merged_entries(graph::entry_count(880, spec));
	std::vector<uint8_t> work(graph::graph_insert_bytes(rows_of(now), spec, {800, 20}));
	graph::BuildReport report;

	ASSERT_TRUE(graph::graph_insert(
		rows_of(now), spec, base, merged.data(), merged_entries.data(), &report, work.data(), work.size())
			.is_ok());
	merged_entries.resize(report.n_entries);
	EXPECT_EQ(state.n_connected, report.n_connected);
	ASSERT_EQ(state.n_entries, report.n_entries);
	EXPECT_EQ(read<uint32_t>(&client, BuildResult::kEdges, merged.size()), merged);
	EXPECT_EQ(read<uint32_t>(&client, BuildResult::kEntries, report.n_entries), merged_entries);
}

TEST_F(WorkerGraphInserts, refuse_requests_out_of_order_and_fail_for_an_inconsistent_graph)
{
	Connection connection;
	Client &client = connection.client;

	ASSERT_TRUE(begin(&client, 500).ok());
	EXPECT_EQ(bring(&client, RequestType::kAddBaseNumbers, numbers, 1, 0, 10).status(), ReplyStatus::kInvalid)
		<< "not an insertion";
	ASSERT_TRUE(begin_insert(&client).ok());
	EXPECT_EQ(bring(&client, RequestType::kAddBaseNumbers, numbers, 2, 0, 10).status(), ReplyStatus::kInvalid)
		<< "two numbers a row";
	EXPECT_EQ(bring(&client, RequestType::kAddBaseEdges, edges, kDegree - 1, 0, 10).status(), ReplyStatus::kInvalid)
		<< "another degree";
	EXPECT_EQ(bring(&client, RequestType::kAddBaseEdges, edges, kDegree, 1, 10).status(), ReplyStatus::kInvalid)
		<< "a gap";
	ASSERT_TRUE(bring_all(&client));
	EXPECT_EQ(bring(&client, RequestType::kAddBaseEdges, edges, kDegree, 0, 10).status(), ReplyStatus::kInvalid)
		<< "the same rows twice";
	EXPECT_EQ(bring(&client, RequestType::kAddGraphRows, now, table.spec.dim, 0, 1).status(), ReplyStatus::kInvalid)
		<< "one row more";
	ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());
	EXPECT_EQ(bring(&client, RequestType::kAddBaseEntries, entries, 1, 0, 1).status(), ReplyStatus::kInvalid)
		<< "the build runs already";
	ASSERT_EQ(wait_for_end(&client).stage, GraphBuildStage::kDone);

	const auto fails = [&](uint32_t n_kept = 780)
	{
		EXPECT_TRUE(begin_insert(&client, n_kept).ok());
		EXPECT_TRUE(bring_all(&client));
		EXPECT_TRUE(step(&client, RequestType::kStartGraph).ok());

		const GraphBuildState state = wait_for_end(&client);

		return state.stage == GraphBuildStage::kFailed && state.failure == ReplyStatus::kInvalid;
	};

	EXPECT_TRUE(fails(779)) << "another number of rows stays";
	edges[100 * kDegree] = 800;
	EXPECT_TRUE(fails());
	edges[100 * kDegree] = engine::graph::kNoNode;
	entries[0] = 800;
	EXPECT_TRUE(fails());
	entries[0] = 0;
	numbers[0] = numbers[1];
	EXPECT_TRUE(fails()) << "two rows of one number";

	ASSERT_TRUE(begin_insert(&client).ok());
	ASSERT_TRUE(bring(&client, RequestType::kAddGraphRows, now, table.spec.dim, 0, 880).ok());
	ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());
	EXPECT_EQ(wait_for_end(&client).failure, ReplyStatus::kInvalid) << "without the base";
}

/// A session that ends, or begins another build, stops its running build.
TEST_F(WorkerGraphBuilds, end_with_their_session)
{
	for (int round = 0; round < 20; round++)
	{
		Connection connection;
		Client &client = connection.client;

		for (int again = 0; again < 2; again++)
		{
			ASSERT_TRUE(begin_when_free(&client, 900));
			ASSERT_TRUE(step(&client, RequestType::kAddGraphRows, 0, 900).ok());
			ASSERT_TRUE(step(&client, RequestType::kStartGraph).ok());
		}
	}

	Connection connection;

	EXPECT_TRUE(begin_when_free(&connection.client, 10)) << "after twenty others";
}

TEST(WorkerGraphBudget, refuses_what_is_too_large)
{
	DataDirectory directory;
	worker::Options options = options_for_test();

	options.build_budget_bytes = 1 << 20;

	ThreadWorker served(options);
	Connection connection;
	Client &client = connection.client;
	const auto begin = [&](uint32_t n_rows)
	{
		const wire::BeginGraphRequest spec{6, ElementType::kFloat32, Metric::kL2, 0, 0, n_rows, kDegree, 1, 0, 0};

		return exchange(&client, RequestType::kBeginGraph, {}, {part_of(spec)}).status();
	};

	EXPECT_EQ(begin(10), ReplyStatus::kOk);
	EXPECT_EQ(begin(100000), ReplyStatus::kRefused);
	EXPECT_EQ(begin(4000000000), ReplyStatus::kRefused);
}

} // namespace
} // namespace vectorgpu::worker_test

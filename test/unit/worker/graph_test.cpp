// Copies with a graph, from the wire to the answer.
#include <vector>

#include <gtest/gtest.h>

#include "engine/graph_rows.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

using engine::test::GraphedRows;
using engine::test::Rows;

constexpr uint32_t kDegree = 8;
constexpr uint64_t kGraphRows = 900;

struct WorkerGraph : testing::Test
{
	WorkerGraph() : served(options_for_test()), table(1000, 10, 1), graph(rows_of(table, kGraphRows), kDegree, 2) {}

	static Rows rows_of(const Table &from, size_t n)
	{
		Rows rows(from.spec);

		for (size_t i = 0; i < n; i++)
			rows.add(from.row_ids[i], reinterpret_cast<const uint8_t *>(from.row(i)));
		return rows;
	}

	Answer create_graph(Client *client, wire::CopyKind kind = wire::CopyKind::kGraph)
	{
		const wire::CreateRequest request{0, 0, table.spec.dim, table.spec.element, table.spec.metric, kind, 0};

		return exchange(client, RequestType::kCreate, table.key, {part_of(request)});
	}

	Answer send_graph(Client *client, uint64_t first, uint64_t end, uint32_t degree = kDegree)
	{
		const std::vector<uint8_t> bytes = graph.description();
		const wire::StructureRequest request{first, 1, degree};

		return exchange(
			client, RequestType::kLoadStructure, table.key, {part_of(request), {bytes.data() + first, end - first}});
	}

	void load_all(Client *client)
	{
		const uint64_t size = graph.description().size();

		ASSERT_TRUE(create_graph(client).ok());
		ASSERT_TRUE(send_rows(client, table, 1, 0, 0, kGraphRows).ok());
		ASSERT_TRUE(send_graph(client, 0, 100).ok());
		ASSERT_TRUE(send_graph(client, 100, size).ok());
		ASSERT_TRUE(seal(client, table, 1, kGraphRows).ok());
		ASSERT_TRUE(send_rows(client, table, 0, 0, kGraphRows, 1000).ok());
		ASSERT_TRUE(manifest(client, table, 1, {1}).ok());
	}

	/// Send a SEARCH with this width (0: all rows).
	Answer search_width(Client *client, const std::vector<float> &query, uint64_t k, uint32_t width)
	{
		const wire::SegmentProbes probes{1, width, 0, 0};
		wire::SearchRequest request{};

		request.k = k;
		request.dim = table.spec.dim;
		request.element = table.spec.element;
		request.metric = table.spec.metric;
		request.n_probes = width > 0 ? 1 : 0;
		return exchange(client, RequestType::kSearch, table.key,
			{part_of(request), {&probes, width > 0 ? sizeof(probes) : 0}, {query.data(), query.size() * 4}});
	}

	DataDirectory directory;
	ThreadWorker served;
	Table table;
	GraphedRows graph;
};

TEST_F(WorkerGraph, is_searched_by_width)
{
	Connection backend;
	const Rows delta = [&]
	{
		Rows rows(table.spec);

		for (size_t i = kGraphRows; i < 1000; i++)
			rows.add(table.row_ids[i], reinterpret_cast<const uint8_t *>(table.row(i)));
		return rows;
	}();

	load_all(&backend.client);
	for (const uint32_t width : {0u, 1u, 20u, 100u, 113u, 100000u})
	{
		const std::vector<float> query = table.query(width + 1);
		const Answer answer = search_width(&backend.client, query, 50, width);

		ASSERT_TRUE(answer.ok());
		EXPECT_TRUE(
			same(neighbors(answer), engine::test::nearest_in_graphs({{&graph, width}}, &delta, query.data(), 50)))
			<< width;
		EXPECT_EQ(answer.header.coverage, width == 0 || width >= 113 ? wire::Coverage::kAll : wire::Coverage::kPart)
			<< width;
	}
}

TEST_F(WorkerGraph, with_invalid_parts_is_refused)
{
	Connection loader;
	const uint64_t size = graph.description().size();

	ASSERT_TRUE(create_graph(&loader.client).ok());
	EXPECT_EQ(send_graph(&loader.client, 0, size).status(), ReplyStatus::kInvalid); // of a segment without rows
	ASSERT_TRUE(send_rows(&loader.client, table, 1, 0, 0, kGraphRows).ok());
	EXPECT_EQ(send_graph(&loader.client, 8, size).status(), ReplyStatus::kInvalid);    // a gap
	EXPECT_EQ(send_graph(&loader.client, 0, size, 2).status(), ReplyStatus::kInvalid); // too much for two edges a row
	EXPECT_EQ(send_graph(&loader.client, 0, 50, 257).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(send_graph(&loader.client, 0, 50).ok());
	EXPECT_EQ(send_graph(&loader.client, 50, size, 9).status(), ReplyStatus::kInvalid);    // another degree
	EXPECT_EQ(seal(&loader.client, table, 1, kGraphRows).status(), ReplyStatus::kInvalid); // a part of it
	ASSERT_TRUE(send_graph(&loader.client, 50, size).ok());
	ASSERT_TRUE(seal(&loader.client, table, 1, kGraphRows).ok());
	EXPECT_EQ(send_graph(&loader.client, size - 4, size).status(), ReplyStatus::kInvalid); // complete
}

TEST_F(WorkerGraph, whose_edges_are_wrong_never_becomes_searchable)
{
	Connection loader;

	graph.edges[77] = kGraphRows;
	ASSERT_TRUE(create_graph(&loader.client).ok());
	ASSERT_TRUE(send_rows(&loader.client, table, 1, 0, 0, kGraphRows).ok());
	ASSERT_TRUE(send_graph(&loader.client, 0, graph.description().size()).ok());
	EXPECT_EQ(seal(&loader.client, table, 1, kGraphRows).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(manifest(&loader.client, table, 1, {1}).status(), ReplyStatus::kInvalid);
	EXPECT_NE(search_width(&loader.client, table.query(1), 5, 20).status(), ReplyStatus::kOk);
}

TEST_F(WorkerGraph, is_counted_and_freed)
{
	Connection backend;

	load_all(&backend.client);
	EXPECT_EQ(stats(&backend.client).resident_bytes, 1000 * (10 * 4 + 16) + graph.description().size());
	ASSERT_TRUE(create_graph(&backend.client).ok());
	ASSERT_TRUE(manifest(&backend.client, table, 2, {}).ok()); // without the segment
	EXPECT_EQ(stats(&backend.client).resident_bytes, 100 * (10 * 4 + 16));
}

} // namespace
} // namespace vectorgpu::worker_test

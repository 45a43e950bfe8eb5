// Copies with inverted lists, from the wire to the answer.
#include <vector>

#include <gtest/gtest.h>

#include "engine/coded_rows.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

using engine::test::ListRows;
using engine::test::Rows;

struct WorkerLists : testing::Test
{
	WorkerLists() : served(options_for_test()), table(400, 10, 1), random(3), lists(rows_of(table, 300), 12, random) {}

	static Rows rows_of(const Table &from, size_t n)
	{
		Rows rows(from.spec);

		for (size_t i = 0; i < n; i++)
			rows.add(from.row_ids[i], reinterpret_cast<const uint8_t *>(from.row(i)));
		return rows;
	}

	Answer create_lists(Client *client)
	{
		const wire::CreateRequest request{
			0, 0, table.spec.dim, table.spec.element, table.spec.metric, wire::CopyKind::kLists, 0};

		return exchange(client, RequestType::kCreate, table.key, {part_of(request)});
	}

	Answer send_list_rows(Client *client)
	{
		const std::vector<uint8_t> vectors = lists.vectors_by_place();
		const wire::RowsRequest request{0, 1, 300};

		return exchange(client, RequestType::kLoadRows, table.key,
			{part_of(request), {table.row_ids.data(), 300 * 8}, {vectors.data(), vectors.size()}});
	}

	Answer send_lists(Client *client, uint64_t first, uint64_t end, uint32_t n_lists = 12)
	{
		const std::vector<uint8_t> bytes = lists.description();
		const wire::StructureRequest request{first, 1, n_lists};

		return exchange(
			client, RequestType::kLoadStructure, table.key, {part_of(request), {bytes.data() + first, end - first}});
	}

	void load_all(Client *client)
	{
		const uint64_t size = lists.description().size();

		ASSERT_TRUE(create_lists(client).ok());
		ASSERT_TRUE(send_list_rows(client).ok());
		ASSERT_TRUE(send_lists(client, 0, 100).ok());
		ASSERT_TRUE(send_lists(client, 100, size).ok());
		ASSERT_TRUE(seal(client, table, 1, 300).ok());
		ASSERT_TRUE(send_rows(client, table, 0, 0, 300, 400).ok());
		ASSERT_TRUE(manifest(client, table, 1, {1}).ok());
	}

	/// A SEARCH with probes (0: without).
	Answer search_probes(Client *client, const std::vector<float> &query, uint64_t k, uint32_t n_probes)
	{
		const wire::SegmentProbes probes{1, n_probes, 0, 0};
		wire::SearchRequest request{};

		request.k = k;
		request.dim = table.spec.dim;
		request.element = table.spec.element;
		request.metric = table.spec.metric;
		request.n_probes = n_probes > 0 ? 1 : 0;
		return exchange(client, RequestType::kSearch, table.key,
			{part_of(request), {&probes, n_probes > 0 ? sizeof(probes) : 0}, {query.data(), query.size() * 4}});
	}

	DataDirectory directory;
	ThreadWorker served;
	Table table;
	std::mt19937 random;
	ListRows lists;
};

TEST_F(WorkerLists, are_searched_by_probes)
{
	Connection backend;
	const std::vector<float> query = table.query(7);
	Rows delta(table.spec);

	load_all(&backend.client);
	for (size_t i = 300; i < 400; i++)
		delta.add(table.row_ids[i], reinterpret_cast<const uint8_t *>(table.row(i)));
	for (const uint32_t n_probes : {0u, 1u, 5u, 12u, 40u})
	{
		const Answer answer = search_probes(&backend.client, query, 350, n_probes);

		ASSERT_TRUE(answer.ok()) << n_probes;
		EXPECT_TRUE(
			same(neighbors(answer), engine::test::nearest_in_lists({{&lists, n_probes}}, &delta, query.data(), 350)))
			<< n_probes;
		EXPECT_EQ(
			answer.header.coverage, n_probes == 1 || n_probes == 5 ? wire::Coverage::kPart : wire::Coverage::kAll);
	}
}

TEST_F(WorkerLists, report_the_loaded_bytes)
{
	Connection loader;
	const uint64_t size = lists.description().size();

	ASSERT_TRUE(create_lists(&loader.client).ok());
	ASSERT_TRUE(send_list_rows(&loader.client).ok());
	ASSERT_TRUE(send_lists(&loader.client, 0, 96).ok());

	const Answer described = exchange(&loader.client, RequestType::kDescribe, table.key, {});
	wire::SegmentState state{};

	ASSERT_TRUE(described.ok());
	ASSERT_EQ(described.header.n_items, 1u);
	memcpy(&state, described.body.data() + sizeof(wire::CopyState), sizeof(state));
	EXPECT_EQ(state.n_rows, 300u);
	EXPECT_EQ(state.structure_bytes, 96u);
	EXPECT_EQ(seal(&loader.client, table, 1, 300).status(), ReplyStatus::kInvalid); // not all of them
	ASSERT_TRUE(send_lists(&loader.client, 96, size).ok());
	EXPECT_TRUE(seal(&loader.client, table, 1, 300).ok());
}

TEST_F(WorkerLists, with_invalid_parts_are_refused)
{
	Connection loader;
	Connection other;
	const uint64_t size = lists.description().size();

	EXPECT_EQ(send_lists(&loader.client, 0, size).status(), ReplyStatus::kAbsent);
	ASSERT_TRUE(create_lists(&loader.client).ok());
	EXPECT_EQ(send_lists(&loader.client, 0, size).status(), ReplyStatus::kInvalid); // of a segment without rows
	ASSERT_TRUE(send_list_rows(&loader.client).ok());
	EXPECT_EQ(send_lists(&other.client, 0, size).status(), ReplyStatus::kBusy);
	EXPECT_EQ(send_lists(&loader.client, 8, size).status(), ReplyStatus::kInvalid);    // a gap
	EXPECT_EQ(send_lists(&loader.client, 0, size, 1).status(), ReplyStatus::kInvalid); // too much for one list
	ASSERT_TRUE(send_lists(&loader.client, 0, 50).ok());
	EXPECT_EQ(send_lists(&loader.client, 50, size, 13).status(), ReplyStatus::kInvalid); // another number of lists
	EXPECT_EQ(send_lists(&loader.client, 0, 50).status(), ReplyStatus::kInvalid);        // again
	ASSERT_TRUE(send_lists(&loader.client, 50, size).ok());
	ASSERT_TRUE(seal(&loader.client, table, 1, 300).ok());
	EXPECT_EQ(send_lists(&loader.client, size - 4, size).status(), ReplyStatus::kInvalid); // complete
	EXPECT_TRUE(manifest(&loader.client, table, 1, {1}).ok());
}

TEST_F(WorkerLists, whose_numbers_are_wrong_never_become_searchable)
{
	Connection loader;

	lists.numbers[5] = lists.numbers[6];
	ASSERT_TRUE(create_lists(&loader.client).ok());
	ASSERT_TRUE(send_list_rows(&loader.client).ok());
	ASSERT_TRUE(send_lists(&loader.client, 0, lists.description().size()).ok());
	EXPECT_EQ(seal(&loader.client, table, 1, 300).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(manifest(&loader.client, table, 1, {1}).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(search_probes(&loader.client, table.query(1), 5, 2).status(), ReplyStatus::kBusy); // still being loaded
}

TEST_F(WorkerLists, have_checksums)
{
	Connection backend;
	const std::vector<uint8_t> bytes = lists.description();
	wire::ChecksumReply whole{};
	wire::ChecksumReply part{};
	wire::ChecksumRequest request{1, 1, 0, bytes.size()};

	load_all(&backend.client);

	Answer answer = exchange(&backend.client, RequestType::kChecksum, table.key, {part_of(request)});

	ASSERT_TRUE(answer.ok());
	memcpy(&whole, answer.body.data(), sizeof(whole));
	request.n_rows -= 4;
	answer = exchange(&backend.client, RequestType::kChecksum, table.key, {part_of(request)});
	ASSERT_TRUE(answer.ok());
	memcpy(&part, answer.body.data(), sizeof(part));
	EXPECT_NE(whole.vectors_xxh3, part.vectors_xxh3);
	request.n_rows += 8;
	EXPECT_EQ(exchange(&backend.client, RequestType::kChecksum, table.key, {part_of(request)}).status(),
		ReplyStatus::kInvalid);
}

TEST_F(WorkerLists, a_copy_of_rows_has_none)
{
	Connection backend;

	load(&backend.client, table, 300);
	EXPECT_EQ(search_probes(&backend.client, table.query(1), 5, 2).status(), ReplyStatus::kInvalid);
	ASSERT_TRUE(create(&backend.client, table).ok());
	EXPECT_EQ(send_lists(&backend.client, 0, 50).status(), ReplyStatus::kInvalid);
}

TEST_F(WorkerLists, are_counted_and_freed)
{
	Connection backend;

	load_all(&backend.client);

	const uint64_t resident = stats(&backend.client).resident_bytes;

	EXPECT_EQ(resident, 400 * (10 * 4 + 16) + lists.description().size());
	ASSERT_TRUE(create_lists(&backend.client).ok());
	ASSERT_TRUE(manifest(&backend.client, table, 2, {}).ok()); // without the segment
	EXPECT_EQ(stats(&backend.client).resident_bytes, 100 * (10 * 4 + 16));
}

/// The same rows with codes.
struct WorkerCodedLists : WorkerLists
{
	WorkerCodedLists() : coded(lists, engine::ivf::CodeKind::kPq, 4, 8, false) {}

	void load_coded(Client *client)
	{
		const wire::CreateRequest create{
			0, 0, table.spec.dim, table.spec.element, table.spec.metric, wire::CopyKind::kCodedLists, 0};
		const std::vector<uint8_t> bytes = coded.coded_description();
		const auto send = [&](uint64_t first, uint64_t end)
		{
			const wire::StructureRequest request{first, 1, 12};

			return exchange(
				client, RequestType::kLoadStructure, table.key, {part_of(request), {bytes.data() + first, end - first}})
				.ok();
		};

		ASSERT_TRUE(exchange(client, RequestType::kCreate, table.key, {part_of(create)}).ok());
		ASSERT_TRUE(send_list_rows(client).ok());
		ASSERT_TRUE(send(0, lists.description().size() + 7)); // within the head
		ASSERT_TRUE(send(lists.description().size() + 7, bytes.size()));
		ASSERT_TRUE(seal(client, table, 1, 300).ok());
		ASSERT_TRUE(send_rows(client, table, 0, 0, 300, 400).ok());
		ASSERT_TRUE(manifest(client, table, 1, {1}).ok());
	}

	Answer search(Client *client, const std::vector<float> &query, uint64_t k, const wire::SegmentProbes &probes)
	{
		wire::SearchRequest request{};

		request.k = k;
		request.dim = table.spec.dim;
		request.element = table.spec.element;
		request.metric = table.spec.metric;
		request.n_probes = 1;
		return exchange(client, RequestType::kSearch, table.key,
			{part_of(request), {&probes, sizeof(probes)}, {query.data(), query.size() * 4}});
	}

	engine::test::CodedRows coded;
};

TEST_F(WorkerCodedLists, are_searched_by_probes_and_candidates)
{
	Connection backend;
	const std::vector<float> query = table.query(7);
	Rows delta(table.spec);

	load_coded(&backend.client);
	for (size_t i = 300; i < 400; i++)
		delta.add(table.row_ids[i], reinterpret_cast<const uint8_t *>(table.row(i)));
	for (const uint32_t n_probes : {1u, 5u, 12u})
		for (const uint32_t n_candidates : {1u, 20u, 1000u})
		{
			const Answer answer = search(&backend.client, query, 350, {1, n_probes, n_candidates, 0});

			ASSERT_TRUE(answer.ok()) << n_probes;
			EXPECT_TRUE(same(neighbors(answer),
				engine::test::nearest_in_coded({{&coded, n_probes, n_candidates}}, &delta, query.data(), 350)))
				<< n_probes << " " << n_candidates;
			EXPECT_EQ(answer.header.coverage, n_probes < 12 ? wire::Coverage::kPart : wire::Coverage::kAll);
		}
	EXPECT_EQ(stats(&backend.client).resident_bytes, 400 * (10 * 4 + 16) + coded.coded_description().size());
}

/// Codes without the rows.
struct WorkerCodes : WorkerCodedLists
{
	void load_codes(Client *client)
	{
		const wire::CreateRequest create{
			0, 0, table.spec.dim, table.spec.element, table.spec.metric, wire::CopyKind::kCodes, 0};
		const wire::RowsRequest rows{0, 1, 300};
		const wire::StructureRequest request{0, 1, 12};
		const std::vector<uint8_t> bytes = coded.coded_description();

		ASSERT_TRUE(exchange(client, RequestType::kCreate, table.key, {part_of(create)}).ok());
		ASSERT_TRUE(exchange(
			client, RequestType::kLoadRows, table.key, {part_of(rows), {lists.rows.ids.data(), 300 * sizeof(RowId)}})
				.ok());
		ASSERT_TRUE(
			exchange(client, RequestType::kLoadStructure, table.key, {part_of(request), {bytes.data(), bytes.size()}})
				.ok());
		ASSERT_TRUE(seal(client, table, 1, 300).ok());
		ASSERT_TRUE(send_rows(client, table, 0, 0, 300, 400).ok());
		ASSERT_TRUE(manifest(client, table, 1, {1}).ok());
	}
};

TEST_F(WorkerCodes, return_the_requested_number_of_candidates)
{
	Connection backend;
	const std::vector<float> query = table.query(7);

	load_codes(&backend.client);
	for (const uint32_t n_probes : {1u, 5u, 12u})
		for (const uint32_t n_candidates : {1u, 20u, 1000u})
		{
			const Answer answer = search(&backend.client, query, 2000, {1, n_probes, n_candidates, 0});

			ASSERT_TRUE(answer.ok()) << n_probes;
			EXPECT_TRUE(same(neighbors(answer),
				engine::test::candidates_in_codes({{&coded, n_probes, n_candidates}}, query.data(), 2000)))
				<< n_probes << " " << n_candidates;
			EXPECT_EQ(answer.header.coverage, wire::Coverage::kPart);
		}
	EXPECT_EQ(stats(&backend.client).resident_bytes, 300 * 16 + 100 * (10 * 4 + 16) + coded.coded_description().size());
	EXPECT_EQ(search(&backend.client, query, 5, {1, 2, 0, 0}).status(), ReplyStatus::kInvalid);
	EXPECT_EQ(search_probes(&backend.client, query, 5, 0).status(), ReplyStatus::kInvalid);
}

TEST_F(WorkerCodes, take_no_vectors)
{
	Connection backend;
	const wire::CreateRequest create{
		0, 0, table.spec.dim, table.spec.element, table.spec.metric, wire::CopyKind::kCodes, 0};

	ASSERT_TRUE(exchange(&backend.client, RequestType::kCreate, table.key, {part_of(create)}).ok());
	EXPECT_EQ(send_list_rows(&backend.client).status(), ReplyStatus::kInvalid);
}

TEST_F(WorkerCodedLists, alone_accept_candidates)
{
	Connection backend;

	load_coded(&backend.client);
	EXPECT_EQ(search(&backend.client, table.query(1), 5, {1, 2, 0, 0}).status(), ReplyStatus::kInvalid);
	EXPECT_TRUE(exchange(&backend.client, RequestType::kDrop, table.key, {}).ok());
	load_all(&backend.client);
	EXPECT_EQ(search(&backend.client, table.query(1), 5, {1, 2, 7, 0}).status(), ReplyStatus::kInvalid);
	EXPECT_TRUE(search(&backend.client, table.query(1), 5, {1, 2, 0, 0}).ok());
}

} // namespace
} // namespace vectorgpu::worker_test

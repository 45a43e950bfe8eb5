// SEARCH_MANY: each search is answered as it would be alone, whatever becomes of the others.
#include "worker/batcher_fixture.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

/// The body of a SEARCH_MANY.
struct Many
{
	std::vector<uint8_t> bytes;
	uint32_t n = 0;

	void put(const void *data, size_t size)
	{
		const uint8_t *const from = static_cast<const uint8_t *>(data);

		bytes.insert(bytes.end(), from, from + size);
	}

	/// Add a SEARCH with the sequence number that the client's next request has.
	void add(const Client &client, const Table &table, const std::vector<float> &query, uint64_t k,
		const wire::CopyVersion &version = {}, RequestType type = RequestType::kSearch)
	{
		const size_t query_bytes = query.size() * sizeof(float);
		wire::SearchRequest search{};
		wire::RequestHeader header{};

		search.version = version;
		search.k = k;
		search.dim = table.spec.dim;
		search.element = table.spec.element;
		search.metric = table.spec.metric;
		header.type = type;
		header.body_bytes = static_cast<uint32_t>(sizeof(search) + query_bytes);
		header.sequence = client.sequence + 1;
		header.key = table.key;
		put(&header, sizeof(header));
		put(&search, sizeof(search));
		put(query.data(), query_bytes);
		n++;
	}

	ClientResult submit(Client *client) const
	{
		const wire::SearchManyRequest request{n, 0};
		const Part parts[] = {part_of(request), {bytes.data(), bytes.size()}};

		return wire::client_submit(client, RequestType::kSearchMany, nullptr, parts, 2);
	}
};

struct Found
{
	ReplyStatus status;
	std::vector<Neighbor> rows;
};

/// Wait for the reply, and take it apart.
std::vector<Found>
take(Client *client, ReplyStatus *whole)
{
	std::vector<uint8_t> body(client->reply_area_bytes);
	std::vector<Found> found;
	ReplyHeader header;

	*whole = ReplyStatus::kInternal;
	EXPECT_EQ(wire::client_wait(client, kReplyTimeoutMs), ClientState::kReplied);
	EXPECT_EQ(wire::client_take_reply(client, &header, body.data(), body.size()), ClientResult::kOk);
	*whole = header.status;

	const uint8_t *data = body.data();
	size_t length = header.body_bytes;
	const uint8_t *items = nullptr;
	ReplyHeader part;

	for (uint32_t i = 0; i < header.n_items; i++)
	{
		EXPECT_EQ(wire::parse_next_found(&data, &length, client->sequence, &part, &items), wire::ParseResult::kOk);
		found.push_back({part.status, std::vector<Neighbor>(part.n_items)});
		if (part.n_items > 0)
			memcpy(found.back().rows.data(), items, part.body_bytes);
	}
	EXPECT_EQ(length, 0u);
	return found;
}

/// Who runs the searches.
enum class Runner
{
	kEngine,
	kHelpers,    // beside the engine's thread
	kDevices,    // two threads, for an engine of two devices, and helpers
	kDispatcher, // at once
};

struct SearchMany : testing::TestWithParam<Runner>
{
	SearchMany()
	{
		auto made = std::make_unique<HookEngine>(GetParam() == Runner::kDevices ? 2 : 1);

		hook = made.get();
		hook->at_once = GetParam() == Runner::kDispatcher;
		hook->threads = GetParam() == Runner::kHelpers || GetParam() == Runner::kDevices ? 4 : 1;
		served.emplace(options_for_test(), std::move(made));
		backend.emplace();
		load(&backend->client, first, 300);
		load(&backend->client, second, 200);
	}

	DataDirectory directory;
	HookEngine *hook;
	std::optional<ThreadWorker> served;
	std::optional<Connection> backend;
	const Table first = Table(300, 8, 1, 1);
	const Table second = Table(200, 8, 2, 2);
	const Table absent = Table(10, 8, 3, 3);
};

TEST_P(SearchMany, answers_each_as_alone)
{
	for (uint32_t round = 0; round < 20; round++)
	{
		Many many;
		ReplyStatus whole;

		for (uint32_t i = 0; i < 40; i++)
			many.add(backend->client, i % 3 == 0 ? first : second, first.query(100 * round + i), i + 1);
		ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);

		const std::vector<Found> found = take(&backend->client, &whole);

		ASSERT_EQ(found.size(), 40u);
		for (uint32_t i = 0; i < 40; i++)
		{
			const Table &table = i % 3 == 0 ? first : second;

			EXPECT_EQ(found[i].status, ReplyStatus::kOk);
			EXPECT_TRUE(same(found[i].rows, table.nearest(first.query(100 * round + i), i + 1, table.size())));
		}
	}
}

TEST_P(SearchMany, answers_the_good_ones_beside_the_bad_ones)
{
	const std::vector<float> query = first.query(5);
	Many many;
	ReplyStatus whole;

	many.add(backend->client, absent, query, 3);
	many.add(backend->client, first, query, 3);
	many.add(backend->client, second, query, 3, {9, 0, 0}); // newer than the copy
	many.add(backend->client, second, query, 0);            // k
	many.add(backend->client, second, query, 3, {}, RequestType::kPing);
	many.add(backend->client, second, query, 5);
	ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);

	const std::vector<Found> found = take(&backend->client, &whole);

	ASSERT_EQ(found.size(), 6u);
	EXPECT_EQ(found[0].status, ReplyStatus::kAbsent);
	EXPECT_TRUE(same(found[1].rows, first.nearest(query, 3, first.size())));
	EXPECT_EQ(found[2].status, ReplyStatus::kBehind);
	EXPECT_EQ(found[3].status, ReplyStatus::kInvalid);
	EXPECT_EQ(found[4].status, ReplyStatus::kInvalid);
	EXPECT_TRUE(same(found[5].rows, second.nearest(query, 5, second.size())));
}

TEST_P(SearchMany, takes_a_length_that_leads_outside_for_the_end)
{
	const std::vector<float> query = first.query(6);
	Many many;
	ReplyStatus whole;

	many.add(backend->client, first, query, 3);

	const size_t second_at = many.bytes.size();

	many.add(backend->client, first, query, 3);
	many.add(backend->client, first, query, 3);
	many.bytes[second_at + offsetof(wire::RequestHeader, body_bytes) + 2] = 0xff;
	ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);

	const std::vector<Found> found = take(&backend->client, &whole);

	ASSERT_EQ(found.size(), 3u);
	EXPECT_TRUE(same(found[0].rows, first.nearest(query, 3, first.size())));
	EXPECT_EQ(found[1].status, ReplyStatus::kInvalid);
	EXPECT_EQ(found[2].status, ReplyStatus::kInvalid);
}

TEST_P(SearchMany, has_the_status_of_the_first_if_none_was_searched)
{
	Many many;
	ReplyStatus whole;

	many.add(backend->client, absent, first.query(1), 3);
	many.add(backend->client, first, first.query(1), 3, {9, 0, 0});
	ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);
	EXPECT_EQ(take(&backend->client, &whole).size(), 0u);
	EXPECT_EQ(whole, ReplyStatus::kAbsent);
}

TEST_P(SearchMany, refuses_the_rows_that_do_not_fit)
{
	const Table large(5000, 8, 4, 4);
	const std::vector<float> query = first.query(7);
	Many many;
	ReplyStatus whole;

	load(&backend->client, large, 5000);
	many.add(backend->client, large, query, 3000); // 48 kB
	many.add(backend->client, large, query, 3000);
	many.add(backend->client, large, query, 500);
	ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);

	const std::vector<Found> found = take(&backend->client, &whole);

	ASSERT_EQ(found.size(), 3u);
	EXPECT_TRUE(same(found[0].rows, large.nearest(query, 3000, large.size())));
	EXPECT_EQ(found[1].status, ReplyStatus::kRefused);
	EXPECT_TRUE(same(found[2].rows, large.nearest(query, 500, large.size())));
}

TEST_P(SearchMany, refuses_a_number_of_searches_that_cannot_be)
{
	Many many;

	many.add(backend->client, first, first.query(1), 3);
	for (const uint32_t n : {0u, wire::kMostSearchesTogether + 1, 0xffffffffu})
	{
		ReplyStatus whole;

		many.n = n;
		ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);
		EXPECT_EQ(take(&backend->client, &whole).size(), 0u);
		EXPECT_EQ(whole, ReplyStatus::kInvalid);
	}
}

TEST_P(SearchMany, can_be_given_up)
{
	const std::vector<float> query = first.query(8);
	std::vector<Neighbor> found;
	Many many;

	hook->at_once = false; // else the dispatcher waits for the gate
	hook->set_gate(false);
	for (int i = 0; i < 10; i++)
		many.add(backend->client, i % 2 == 0 ? first : second, query, 3);
	ASSERT_EQ(many.submit(&backend->client), ClientResult::kOk);
	ASSERT_TRUE(wait_until([&] { return hook->waiting(); })); // one batch is in the engine, others wait
	wire::client_abandon(&backend->client);
	hook->set_gate(true);
	ASSERT_TRUE(wait_until([&] { return wire::client_poll(&backend->client) == ClientState::kIdle; }));
	ASSERT_TRUE(search(&backend->client, first, query, 10, &found).ok());
	EXPECT_TRUE(same(found, first.nearest(query, 10, first.size())));
}

TEST_P(SearchMany, outlives_its_client)
{
	Many many;
	std::vector<Neighbor> found;

	hook->at_once = false;
	hook->set_gate(false);
	{
		Connection other;

		for (int i = 0; i < 10; i++)
			many.add(other.client, i % 2 == 0 ? first : second, first.query(9), 3);
		ASSERT_EQ(many.submit(&other.client), ClientResult::kOk);
		ASSERT_TRUE(wait_until([&] { return hook->waiting(); }));
	}
	hook->set_gate(true);
	ASSERT_TRUE(search(&backend->client, first, first.query(9), 10, &found).ok());
	EXPECT_TRUE(same(found, first.nearest(first.query(9), 10, first.size())));
}

INSTANTIATE_TEST_SUITE_P(
	runner, SearchMany, testing::Values(Runner::kEngine, Runner::kHelpers, Runner::kDevices, Runner::kDispatcher));

} // namespace
} // namespace vectorgpu::worker_test

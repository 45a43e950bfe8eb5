// SEARCH_MANY: each search is answered as it would be alone, whatever becomes of the others.
#include <thread>

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

	ClientResult submit(Client *client, uint32_t flags = 0) const
	{
		const wire::SearchManyRequest request{n, flags};
		const Part parts[] = {part_of(request), {bytes.data(), bytes.size()}};

		return wire::client_submit(client, RequestType::kSearchMany, nullptr, parts, 2);
	}
};

struct Found
{
	ReplyStatus status;
	std::vector<Neighbor> rows;
};

/// Wait for the reply, and take it apart. sequence: of the request whose answers it has; 0: the last one.
std::vector<Found>
take(Client *client, ReplyStatus *whole, uint64_t sequence = 0)
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
		EXPECT_EQ(wire::parse_next_found(&data, &length, sequence != 0 ? sequence : client->sequence, &part, &items),
			wire::ParseResult::kOk);
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
	explicit SearchMany(size_t max_batch = 256)
	{
		worker::Options options = options_for_test();
		auto made = std::make_unique<HookEngine>(GetParam() == Runner::kDevices ? 2 : 1);

		hook = made.get();
		hook->at_once = GetParam() == Runner::kDispatcher;
		hook->threads = GetParam() == Runner::kHelpers || GetParam() == Runner::kDevices ? 4 : 1;
		options.max_batch = max_batch;
		served.emplace(options, std::move(made));
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

constexpr uint32_t kContinues = wire::kManyContinues;
constexpr uint32_t kFollows = wire::kManyFollows;

/// Requests that follow each other; each has three searches.
struct SearchManyStream : SearchMany
{
	static constexpr size_t kBatch = 8;

	explicit SearchManyStream(size_t max_batch = kBatch) : SearchMany(max_batch) {}

	Client *client() { return &backend->client; }

	/// Send the next request, and return true if its reply has no answers.
	bool send(uint32_t flags)
	{
		Many many;

		for (uint32_t i = 0; i < 3; i++)
			many.add(*client(), i == 1 ? second : first, query(n_sent, i), 4);
		EXPECT_EQ(many.submit(client(), (n_sent > n_answered ? kContinues : 0) | flags), ClientResult::kOk);
		n_sent++;
		sequences.push_back(client()->sequence);
		return receive();
	}

	/// Ask for answers alone.
	bool fetch()
	{
		EXPECT_EQ(Many().submit(client(), kContinues), ClientResult::kOk);
		return receive();
	}

	/// Check the reply, and return true if it has no answers.
	bool receive()
	{
		ReplyStatus whole;
		const std::vector<Found> found = take(client(), &whole, sequences[n_answered]);

		EXPECT_EQ(whole, ReplyStatus::kOk);
		if (found.empty())
			return true;
		EXPECT_EQ(found.size(), 3u);
		for (uint32_t i = 0; i < 3; i++)
		{
			const Table &table = i == 1 ? second : first;

			EXPECT_EQ(found[i].status, ReplyStatus::kOk);
			EXPECT_TRUE(same(found[i].rows, table.nearest(query(n_answered, i), 4, table.size())));
		}
		n_answered++;
		return false;
	}

	/// With a closed gate: n requests get no answers, and the one behind them waits for those of the first.
	void expect_receipts(size_t n)
	{
		for (size_t i = 0; i < n; i++)
			EXPECT_TRUE(send(kFollows));
		// All devices, for one session.
		EXPECT_TRUE(wait_until([&] { return hook->n_waiting() >= hook->n_batches_at_once(); }));

		std::thread opens(
			[&]
			{
				std::this_thread::sleep_for(std::chrono::milliseconds(50));
				hook->set_gate(true);
			});

		EXPECT_FALSE(send(kFollows));
		opens.join();
		while (n_answered < n_sent)
			EXPECT_FALSE(fetch());
	}

	std::vector<float> query(size_t request, uint32_t i) const
	{
		return first.query(static_cast<int>(10 * request + i));
	}

	std::vector<uint64_t> sequences;
	size_t n_sent = 0;
	size_t n_answered = 0;
};

TEST_P(SearchManyStream, is_answered_in_order)
{
	for (int i = 0; i < 200; i++)
		(void) send(i % 20 < 19 ? kFollows : 0);
	while (n_answered < n_sent)
		EXPECT_FALSE(fetch());
}

TEST_P(SearchManyStream, is_not_answered_before_the_engine_is_full)
{
	hook->at_once = false;
	hook->set_gate(false);

	const size_t n_lanes = hook->n_batches_at_once();

	expect_receipts((2 * n_lanes * kBatch + 2) / 3 - 1); // of three searches each
}

/// With batches of many more searches than the requests have.
struct SearchManyDeep : SearchManyStream
{
	SearchManyDeep() : SearchManyStream(256) {}
};

TEST_P(SearchManyDeep, has_no_more_requests_than_a_client_may_count)
{
	hook->at_once = false;
	hook->set_gate(false);
	expect_receipts(wire::kMostUnanswered - 1);
}

INSTANTIATE_TEST_SUITE_P(runner, SearchManyDeep, testing::Values(Runner::kEngine, Runner::kDevices));

TEST_P(SearchManyStream, gives_up_what_the_next_search_does_not_want)
{
	std::vector<Neighbor> found;
	ReplyStatus whole;

	hook->at_once = false;
	hook->set_gate(false);
	EXPECT_TRUE(send(kFollows));
	EXPECT_TRUE(send(kFollows));
	ASSERT_TRUE(wait_until([&] { return hook->waiting(); }));
	hook->set_gate(true);
	ASSERT_TRUE(search(client(), first, first.query(8), 10, &found).ok());
	EXPECT_TRUE(same(found, first.nearest(first.query(8), 10, first.size())));
	EXPECT_EQ(Many().submit(client(), kContinues), ClientResult::kOk);
	EXPECT_EQ(take(client(), &whole).size(), 0u);
	EXPECT_EQ(whole, ReplyStatus::kInvalid);
	n_answered = n_sent;
	EXPECT_FALSE(send(0));
}

TEST_P(SearchManyStream, begins_anew)
{
	hook->at_once = false;
	hook->set_gate(false);
	EXPECT_TRUE(send(kFollows));
	EXPECT_TRUE(send(kFollows));
	n_answered = n_sent;
	EXPECT_TRUE(send(kFollows));
	hook->set_gate(true);
	EXPECT_FALSE(fetch());
}

TEST_P(SearchManyStream, can_be_given_up)
{
	std::vector<Neighbor> found;

	hook->at_once = false;
	hook->set_gate(false);
	EXPECT_TRUE(send(kFollows));
	EXPECT_TRUE(send(kFollows));
	EXPECT_EQ(Many().submit(client(), kContinues), ClientResult::kOk);
	ASSERT_TRUE(wait_until([&] { return hook->waiting(); }));
	wire::client_abandon(client());
	hook->set_gate(true);
	ASSERT_TRUE(wait_until([&] { return wire::client_poll(client()) == ClientState::kIdle; }));
	ASSERT_TRUE(search(client(), first, first.query(8), 10, &found).ok());
	EXPECT_TRUE(same(found, first.nearest(first.query(8), 10, first.size())));
}

TEST_P(SearchManyStream, outlives_its_client)
{
	std::vector<Neighbor> found;

	hook->at_once = false;
	hook->set_gate(false);
	EXPECT_TRUE(send(kFollows));
	EXPECT_TRUE(send(kFollows));
	ASSERT_TRUE(wait_until([&] { return hook->waiting(); }));
	backend.reset(); // while it has no request
	backend.emplace();
	hook->set_gate(true);
	ASSERT_TRUE(search(client(), first, first.query(9), 10, &found).ok());
	EXPECT_TRUE(same(found, first.nearest(first.query(9), 10, first.size())));
}

INSTANTIATE_TEST_SUITE_P(runner, SearchManyStream,
	testing::Values(Runner::kEngine, Runner::kHelpers, Runner::kDevices, Runner::kDispatcher));
INSTANTIATE_TEST_SUITE_P(
	runner, SearchMany, testing::Values(Runner::kEngine, Runner::kHelpers, Runner::kDevices, Runner::kDispatcher));

} // namespace
} // namespace vectorgpu::worker_test

// Builds of inverted lists by the worker, from the wire to labels and neighbours.
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/list_builder.hpp"
#include "worker/support.hpp"

namespace vectorgpu::worker_test
{
namespace
{

struct WorkerBuilds : testing::Test
{
	WorkerBuilds() : served(options_for_test()), table(900, 6, 1) {}

	Answer step(Client *client, RequestType what, uint64_t first = 0, size_t n = 0, uint64_t position = 0)
	{
		const wire::BuildRowsRequest request{position, static_cast<uint32_t>(n), 0};
		std::vector<float> rows;

		if (n == 0)
			return exchange(client, what, table.key, {});

		for (size_t i = first; i < first + n; i++)
			rows.insert(rows.end(), table.row(i), table.row(i) + table.spec.dim);
		return exchange(client, what, table.key, {part_of(request), {rows.data(), rows.size() * sizeof(float)}});
	}

	Answer begin(Client *client, uint32_t n_clusters, uint32_t n_training, uint32_t n_queries, uint32_t k)
	{
		const wire::BeginListsRequest spec{
			table.spec.dim, table.spec.element, table.spec.metric, {}, n_clusters, n_training, n_queries, k, 1, 10, 0};

		return exchange(client, RequestType::kBeginLists, table.key, {part_of(spec)});
	}

	template <class T>
	std::vector<T> read(Client *client, wire::BuildResult result, size_t n)
	{
		const uint32_t n_bytes = static_cast<uint32_t>(n * sizeof(T));
		const wire::ReadBuildRequest request{result, n_bytes, 0};
		const Answer answer = exchange(client, RequestType::kReadBuild, table.key, {part_of(request)});
		std::vector<T> values(n);

		EXPECT_TRUE(answer.ok());
		EXPECT_EQ(answer.body.size(), n_bytes);
		if (answer.body.size() == n_bytes)
			memcpy(values.data(), answer.body.data(), n_bytes);
		return values;
	}

	double distance(const float *a, const float *b) const
	{
		double sum = 0;

		for (uint32_t d = 0; d < table.spec.dim; d++)
			sum += (double(a[d]) - double(b[d])) * (double(a[d]) - double(b[d]));
		return sum;
	}

	/// Assign all rows and compare with a brute-force search.
	void check_labels(Client *client, const std::vector<float> &centroids)
	{
		const size_t n_lists = centroids.size() / table.spec.dim;

		for (size_t first = 0; first < 900; first += 300)
		{
			const Answer answer = step(client, RequestType::kAssign, first, 300, first);

			ASSERT_TRUE(answer.ok());
			ASSERT_EQ(answer.body.size(), 300 * sizeof(wire::RowLabel));
			for (size_t i = 0; i < 300; i++)
			{
				wire::RowLabel label;

				memcpy(&label, answer.body.data() + i * sizeof(label), sizeof(label));
				ASSERT_LT(label.list, n_lists);

				const double own = distance(table.row(first + i), centroids.data() + label.list * table.spec.dim);

				EXPECT_NEAR(label.score, own, 1e-4 * (own + 1));
				for (size_t list = 0; list < n_lists; list++)
					EXPECT_LE(own,
						distance(table.row(first + i), centroids.data() + list * table.spec.dim) * (1 + 1e-5) + 1e-5);
			}
		}
	}

	DataDirectory directory;
	ThreadWorker served;
	Table table;
};

TEST_F(WorkerBuilds, a_builder_sends_thousands_of_rows_at_a_time)
{
	constexpr size_t kRows = 40000; // of 6 floats: more than a backend's areas hold, and so are their labels
	Connection small;
	Connection large(Role::kBuilder);
	Table many(kRows, 6, 2);
	std::vector<uint8_t> labels[2]; // by the backend, by the builder

	ASSERT_EQ(large.result, ClientResult::kOk);
	EXPECT_EQ(small.client.request_area_bytes, wire::kRequestAreaBytes);
	EXPECT_EQ(large.client.request_area_bytes, wire::kBuilderRequestAreaBytes);
	EXPECT_EQ(large.client.reply_area_bytes, wire::kBuilderReplyAreaBytes);
	table = many;
	for (const auto &[client, at_a_time, all] :
		{std::tuple{&small.client, size_t{4000}, &labels[0]}, {&large.client, kRows, &labels[1]}})
	{
		ASSERT_TRUE(begin(client, 7, 500, 0, 0).ok());
		ASSERT_TRUE(step(client, RequestType::kAddTraining, 0, 500).ok());
		ASSERT_TRUE(step(client, RequestType::kTrain).ok());
		for (size_t first = 0; first < kRows; first += at_a_time)
		{
			const Answer answer = step(client, RequestType::kAssign, first, at_a_time, first);

			ASSERT_TRUE(answer.ok());
			ASSERT_EQ(answer.body.size(), at_a_time * sizeof(wire::RowLabel));
			all->insert(all->end(), answer.body.begin(), answer.body.end());
		}
	}
	EXPECT_EQ(labels[0], labels[1]);
	EXPECT_EQ(step(&small.client, RequestType::kAssign, 0, kRows).result, ClientResult::kTooLarge);
}

TEST_F(WorkerBuilds, rows_of_the_next_request_lie_beside_those_of_the_last)
{
	constexpr uint32_t kRows = 150;
	const size_t n_bytes = kRows * table.spec.dim * sizeof(float);
	const size_t places[] = {0, (n_bytes + wire::kRowsAlignment - 1) / wire::kRowsAlignment * wire::kRowsAlignment};
	Connection builder(Role::kBuilder);
	std::vector<uint8_t> labels;

	ASSERT_EQ(builder.result, ClientResult::kOk);
	ASSERT_TRUE(begin(&builder.client, 7, 500, 0, 0).ok());
	ASSERT_TRUE(step(&builder.client, RequestType::kAddTraining, 0, 500).ok());
	ASSERT_TRUE(step(&builder.client, RequestType::kTrain).ok());
	for (uint64_t first = 0; first < 900; first += kRows)
	{
		const size_t skipped = places[first / kRows % 2];
		const size_t other = places[1 - first / kRows % 2];
		const wire::BuildRowsRequest request{first, kRows, static_cast<uint32_t>(skipped)};
		const Part there[] = {part_of(request), {nullptr, skipped + n_bytes}};
		const Part parts[] = {part_of(request), {table.row(first), n_bytes}};
		uint8_t *rows = wire::client_body(&builder.client) + sizeof(request);
		Answer answer;

		ASSERT_EQ(wire::client_submit(&builder.client, RequestType::kAssign, nullptr, first > 0 ? there : parts, 2),
			ClientResult::kOk);
		if (first + kRows < 900)
			memcpy(rows + other, table.row(first + kRows), n_bytes);
		ASSERT_EQ(wire::client_wait(&builder.client, kReplyTimeoutMs), ClientState::kReplied);
		answer.body.resize(builder.client.reply_area_bytes);
		answer.result =
			wire::client_take_reply(&builder.client, &answer.header, answer.body.data(), answer.body.size());
		ASSERT_TRUE(answer.ok());
		labels.insert(labels.end(), answer.body.begin(), answer.body.begin() + answer.header.body_bytes);
	}
	EXPECT_EQ(step(&builder.client, RequestType::kAssign, 0, 900).body, labels);
}

TEST_F(WorkerBuilds, few_builders_have_large_areas_at_a_time)
{
	std::vector<std::unique_ptr<Connection>> builders;

	for (size_t i = 0; i < 17; i++)
	{
		builders.push_back(std::make_unique<Connection>(Role::kBuilder));
		ASSERT_EQ(builders.back()->result, ClientResult::kOk);
		EXPECT_EQ(builders.back()->client.request_area_bytes,
			i < 16 ? wire::kBuilderRequestAreaBytes : wire::kRequestAreaBytes);
	}
	builders.clear();
	EXPECT_TRUE(wait_until(
		[]
		{
			const Connection again(Role::kBuilder);

			return again.client.request_area_bytes == wire::kBuilderRequestAreaBytes;
		},
		kReplyTimeoutMs));
}

TEST_F(WorkerBuilds, train_assign_and_find_neighbors)
{
	Connection connection;
	Client &client = connection.client;
	constexpr uint32_t kK = 5;

	ASSERT_TRUE(begin(&client, 7, 500, 2, kK).ok());
	ASSERT_TRUE(step(&client, RequestType::kAddTraining, 0, 200).ok());
	EXPECT_EQ(step(&client, RequestType::kTrain).status(), ReplyStatus::kInvalid) << "before all rows are there";
	ASSERT_TRUE(step(&client, RequestType::kAddTraining, 200, 300).ok());
	EXPECT_EQ(step(&client, RequestType::kAddTraining, 0, 1).status(), ReplyStatus::kInvalid) << "more than announced";
	EXPECT_EQ(step(&client, RequestType::kAssign, 0, 1).status(), ReplyStatus::kInvalid) << "before the training";
	ASSERT_TRUE(step(&client, RequestType::kTrain).ok());

	const wire::BuildReport report = read<wire::BuildReport>(&client, wire::BuildResult::kReport, 1)[0];

	ASSERT_EQ(report.n_used, 7u);
	EXPECT_GT(report.inertia, 0);
	ASSERT_TRUE(step(&client, RequestType::kAddQueries, 40, 2).ok());
	check_labels(&client, read<float>(&client, wire::BuildResult::kCentroids, size_t{7} * table.spec.dim));

	const std::vector<wire::WireNeighbor> found =
		read<wire::WireNeighbor>(&client, wire::BuildResult::kNeighbors, 2 * kK);

	for (uint32_t q = 0; q < 2; q++)
	{
		std::multimap<double, uint64_t> all;

		for (size_t i = 0; i < 900; i++)
			all.emplace(distance(table.row(40 + q), table.row(i)), i);

		auto expected = all.begin();

		for (uint32_t i = 0; i < kK; i++, ++expected)
		{
			EXPECT_EQ(found[q * kK + i].row, expected->second);
			EXPECT_NEAR(found[q * kK + i].score, expected->first, 1e-4 * (expected->first + 1));
		}
	}
	ASSERT_TRUE(step(&client, RequestType::kEndBuild).ok());
	EXPECT_EQ(step(&client, RequestType::kAssign, 0, 1).status(), ReplyStatus::kAbsent);
}

TEST_F(WorkerBuilds, take_centroids_and_reject_rows_of_another_size)
{
	Connection connection;
	Client &client = connection.client;

	EXPECT_EQ(step(&client, RequestType::kTrain).status(), ReplyStatus::kAbsent);
	ASSERT_TRUE(begin(&client, 3, 0, 0, 0).ok());
	ASSERT_TRUE(step(&client, RequestType::kAddCentroids, 10, 2).ok());
	ASSERT_TRUE(step(&client, RequestType::kAddCentroids, 12, 1).ok());
	EXPECT_EQ(step(&client, RequestType::kAddCentroids, 12, 1).status(), ReplyStatus::kInvalid);

	std::vector<float> centroids;

	for (size_t i = 10; i < 13; i++)
		centroids.insert(centroids.end(), table.row(i), table.row(i) + table.spec.dim);
	check_labels(&client, centroids);

	const wire::BuildRowsRequest request{0, 1, 0};

	EXPECT_EQ(exchange(&client, RequestType::kAssign, table.key, {part_of(request), {centroids.data(), 4}}).status(),
		ReplyStatus::kInvalid);
}

TEST_F(WorkerBuilds, codes_equal_those_of_a_local_builder)
{
	Connection connection;
	Client &client = connection.client;
	const auto send_codes = [&](const wire::BeginCodesRequest &spec)
	{ return exchange(&client, RequestType::kBeginCodes, table.key, {part_of(spec)}); };
	const wire::BeginCodesRequest bytes{wire::CodesKind::kSq8, 0, 0, 0, 0, 300, 0, 1};
	const wire::BeginCodesRequest parts{wire::CodesKind::kPq, 4, 0, 0, 3, 300, 0, 1};
	const wire::BeginCodesRequest bits{wire::CodesKind::kRabitq, 4, 0, 0, 0, 0, 0, 1};

	EXPECT_EQ(send_codes(bytes).status(), ReplyStatus::kAbsent);
	for (const wire::BeginCodesRequest &spec : {bytes, parts, bits})
	{
		ASSERT_TRUE(begin(&client, 3, 0, 0, 0).ok());
		EXPECT_EQ(send_codes(spec).status(), ReplyStatus::kInvalid) << "before the centroids";
		ASSERT_TRUE(step(&client, RequestType::kAddCentroids, 10, 3).ok());
		ASSERT_TRUE(send_codes(spec).ok());
		EXPECT_EQ(step(&client, RequestType::kAssign, 0, 1).status(), ReplyStatus::kInvalid) << "before the training";

		const bool is_pq = spec.kind == wire::CodesKind::kPq;
		const bool is_rabitq = spec.kind == wire::CodesKind::kRabitq;
		const size_t padded = (table.spec.dim + 7) / 8;
		const size_t code_bytes = is_pq ? 2 : is_rabitq ? 4 * padded + 5 * sizeof(float) : table.spec.dim;
		const size_t n_floats = is_pq ? size_t{16} * 6 : size_t{2} * table.spec.dim;
		std::vector<float> model(table.spec.dim + 1, 0.5f);

		if (is_rabitq)
		{
			const wire::BuildRowsRequest floats{0, static_cast<uint32_t>(model.size()), 0};

			model.back() = 17; // the seed of the rotation
			EXPECT_EQ(step(&client, RequestType::kTrainCodes).status(), ReplyStatus::kInvalid) << "nothing to train";
			ASSERT_TRUE(exchange(&client, RequestType::kAddCodesModel, table.key,
				{part_of(floats), {model.data(), model.size() * sizeof(float)}})
					.ok());
		}
		else
		{
			ASSERT_TRUE(step(&client, RequestType::kAddCodesTraining, 0, 300).ok());
			EXPECT_EQ(step(&client, RequestType::kAddCodesTraining, 0, 1).status(), ReplyStatus::kInvalid);
			ASSERT_TRUE(step(&client, RequestType::kTrainCodes).ok());
			model = read<float>(&client, wire::BuildResult::kCodesModel, n_floats);
		}

		const Answer answer = step(&client, RequestType::kAssign, 500, 400, 500);

		ASSERT_TRUE(answer.ok());
		ASSERT_EQ(answer.body.size(), 400 * (sizeof(wire::RowLabel) + code_bytes + (is_pq ? sizeof(float) : 0)));

		// The same without the wire, with the model that was read.
		const auto engine = engine::make_cpu_engine({});
		engine::SearchControl control;
		std::unique_ptr<engine::ListBuilder> builder;
		engine::ListBuildSpec lists;
		engine::ListCodeSpec codes;
		std::vector<uint32_t> labels(400);
		std::vector<float> scores(400);
		std::vector<float> terms(400);
		std::vector<uint8_t> coded(400 * code_bytes);
		std::vector<uint8_t> is_out(400);

		lists.rows = table.spec;
		lists.n_clusters = 3;
		codes.codes.kind = static_cast<engine::ivf::CodeKind>(spec.kind);
		codes.codes.metric = table.spec.metric;
		codes.codes.dim = table.spec.dim;
		if (is_pq)
			codes.codes.pq = {table.spec.metric, table.spec.dim, 3, 4, false};
		if (is_rabitq)
			codes.codes.bits = 4;
		ASSERT_TRUE(engine->make_list_builder(lists, &control, &builder).is_ok());
		ASSERT_TRUE(builder->add_centroids(table.row(10), 3).is_ok());
		ASSERT_TRUE(builder->begin_codes(codes).is_ok());
		ASSERT_TRUE(builder->add_code_model(model.data(), model.size()).is_ok());
		ASSERT_TRUE(builder
				->assign(
					0, table.row(500), 400, labels.data(), scores.data(), {coded.data(), terms.data(), is_out.data()})
				.is_ok());
		for (size_t i = 0; i < 400; i++)
		{
			wire::RowLabel label;

			memcpy(&label, answer.body.data() + i * sizeof(label), sizeof(label));
			EXPECT_EQ(label.list & ~wire::kRowOutOfRange, labels[i]);
			EXPECT_EQ((label.list & wire::kRowOutOfRange) != 0, is_out[i] != 0);
			EXPECT_EQ(label.score, scores[i]);
		}

		const uint8_t *rest = answer.body.data() + 400 * sizeof(wire::RowLabel);

		if (is_pq)
		{
			EXPECT_EQ(memcmp(rest, terms.data(), 400 * sizeof(float)), 0);
			rest += 400 * sizeof(float);
		}
		EXPECT_EQ(memcmp(rest, coded.data(), coded.size()), 0);
	}
	EXPECT_EQ(send_codes({wire::CodesKind::kPq, 8, 0, 0, 100, 300, 0, 1}).status(), ReplyStatus::kInvalid)
		<< "more parts than dimensions";
}

TEST_F(WorkerBuilds, count_codes_that_are_sent_back)
{
	constexpr uint32_t kBatch = 32;
	constexpr size_t kCounts = wire::kCountedNeighbors * wire::kCountPoints;
	Connection connection;
	Client &client = connection.client;
	const uint32_t dim = table.spec.dim;
	const auto begin_counts = [&](uint32_t n_queries)
	{
		const wire::BeginCountsRequest spec{n_queries, kBatch, 1, 0};

		return exchange(&client, RequestType::kBeginCounts, table.key, {part_of(spec)}).status();
	};
	const auto send = [&](RequestType what, uint64_t position, uint32_t n, const std::vector<uint8_t> &bytes)
	{
		const wire::BuildRowsRequest request{position, n, 0};

		return exchange(&client, what, table.key, {part_of(request), {bytes.data(), bytes.size()}}).status();
	};
	const wire::BeginCodesRequest codes{wire::CodesKind::kSq8, 0, 0, 0, 0, 300, 0, 1};

	ASSERT_TRUE(begin(&client, 3, 0, 0, 0).ok());
	EXPECT_EQ(begin_counts(1), ReplyStatus::kInvalid) << "before the centroids";
	ASSERT_TRUE(step(&client, RequestType::kAddCentroids, 10, 3).ok());
	ASSERT_TRUE(exchange(&client, RequestType::kBeginCodes, table.key, {part_of(codes)}).ok());
	EXPECT_EQ(begin_counts(1), ReplyStatus::kInvalid) << "before the codes have a model";
	ASSERT_TRUE(step(&client, RequestType::kAddCodesTraining, 0, 300).ok());
	ASSERT_TRUE(step(&client, RequestType::kTrainCodes).ok());
	EXPECT_EQ(send(RequestType::kAddCounted, 0, 1, std::vector<uint8_t>(700)), ReplyStatus::kInvalid);
	EXPECT_EQ(begin_counts(UINT32_MAX), ReplyStatus::kInvalid);
	ASSERT_EQ(begin_counts(1), ReplyStatus::kOk);

	// All 64 rows have the code 0, which is nearer to the query than its first neighbour, and farther than the second.
	std::vector<uint8_t> query(sizeof(wire::CountedQuery) + dim * sizeof(float) + 3);
	std::vector<uint8_t> rows(64 * (sizeof(uint32_t) + dim));
	const std::vector<float> model = read<float>(&client, wire::BuildResult::kCodesModel, size_t{2} * dim);
	wire::CountedQuery counted{};
	double nearest = 0;

	for (uint32_t d = 0; d < dim; d++)
		nearest += std::pow(double(table.row(0)[d]) - double(model[d]), 2);
	counted.n_neighbors = 2;
	counted.n_copies = 1;
	counted.limits[0] = nearest * 1.001;
	counted.limits[1] = nearest * 0.999;
	counted.copies[0] = 5;
	memcpy(query.data(), &counted, sizeof(counted));
	memcpy(query.data() + sizeof(counted), table.row(0), dim * sizeof(float));
	query[query.size() - 2] = 4; // the point of list 1
	for (uint32_t i = 0; i < 64; i++)
	{
		const uint32_t list = i % 2;

		memcpy(rows.data() + i * sizeof(list), &list, sizeof(list));
	}
	EXPECT_EQ(send(RequestType::kCountCodes, 0, 64, rows), ReplyStatus::kInvalid) << "before the query";
	ASSERT_EQ(send(RequestType::kAddCounted, 0, 1, query), ReplyStatus::kOk);
	EXPECT_EQ(send(RequestType::kAddCounted, 0, 1, query), ReplyStatus::kInvalid) << "more than were announced";
	EXPECT_EQ(send(RequestType::kCountCodes, 0, 63, rows), ReplyStatus::kInvalid) << "rows of another size";
	ASSERT_EQ(send(RequestType::kCountCodes, 0, 64, rows), ReplyStatus::kOk);
	rows[0] = 3;
	EXPECT_EQ(send(RequestType::kCountCodes, 64, 64, rows), ReplyStatus::kInvalid) << "a list that there is not";

	const std::vector<uint32_t> counts = read<uint32_t>(&client, wire::BuildResult::kCounts, kCounts);

	EXPECT_EQ(counts[0], 32u) << "rows of list 0 before the first neighbour";
	EXPECT_EQ(counts[4], 31u) << "of list 1, without the copy";
	for (size_t i = 0; i < kCounts; i++)
		EXPECT_EQ(counts[i], i == 0 ? 32u : i == 4 ? 31u : 0u);
}

TEST_F(WorkerBuilds, refuse_bits_that_are_too_many_as_floats)
{
	constexpr uint32_t kDim = 64000;
	constexpr size_t kMost = (size_t{32} << 20) / (kDim * sizeof(float));
	Connection connection(Role::kBuilder);
	const wire::BeginListsRequest spec{kDim, ElementType::kBit, Metric::kHamming, {}, 1, 0, 0, 0, 1, 10, 0};
	const std::vector<float> centroid(kDim, 0.5f);
	const std::vector<uint8_t> rows((kMost + 1) * kDim / 8, 0x5a);
	const auto send = [&](RequestType what, const void *bytes, size_t n, size_t row_bytes)
	{
		const wire::BuildRowsRequest request{0, static_cast<uint32_t>(n), 0};

		return exchange(&connection.client, what, table.key, {part_of(request), {bytes, n * row_bytes}}).status();
	};

	ASSERT_TRUE(exchange(&connection.client, RequestType::kBeginLists, table.key, {part_of(spec)}).ok());
	ASSERT_EQ(send(RequestType::kAddCentroids, centroid.data(), 1, kDim * sizeof(float)), ReplyStatus::kOk);
	EXPECT_EQ(send(RequestType::kAssign, rows.data(), kMost + 1, kDim / 8), ReplyStatus::kInvalid);
	EXPECT_EQ(send(RequestType::kAssign, rows.data(), kMost, kDim / 8), ReplyStatus::kOk);
}

TEST_F(WorkerBuilds, refuse_sizes_beyond_the_limit)
{
	Connection connection;
	Client &client = connection.client;

	EXPECT_EQ(begin(&client, 10, 0xFFFFFFFF, 0, 0).status(), ReplyStatus::kRefused);
	EXPECT_EQ(begin(&client, 10, 10, 5000, 10).status(), ReplyStatus::kInvalid);

	const wire::BeginCodesRequest spec{wire::CodesKind::kSq8, 0, 0, 0, 0, 0x7FFFFFFF, 0, 1};

	ASSERT_TRUE(begin(&client, 3, 0, 0, 0).ok());
	ASSERT_TRUE(step(&client, RequestType::kAddCentroids, 10, 3).ok());
	EXPECT_EQ(exchange(&client, RequestType::kBeginCodes, table.key, {part_of(spec)}).status(), ReplyStatus::kRefused);
	EXPECT_TRUE(step(&client, RequestType::kAssign, 0, 1).ok()) << "labels without codes";
}

TEST_F(WorkerBuilds, refuse_more_counts_than_the_limit)
{
	constexpr uint32_t kDim = 16000;
	Connection connection(Role::kBuilder);
	const auto request = [&](RequestType what, const auto &spec)
	{ return exchange(&connection.client, what, table.key, {part_of(spec)}).status(); };
	const auto send = [&](RequestType what, const std::vector<float> &values, size_t row_values)
	{
		const wire::BuildRowsRequest rows{0, static_cast<uint32_t>(values.size() / row_values), 0};

		return exchange(
			&connection.client, what, table.key, {part_of(rows), {values.data(), values.size() * sizeof(float)}})
			.status();
	};
	const wire::BeginListsRequest lists{kDim, ElementType::kFloat32, Metric::kL2, {}, 1, 0, 0, 0, 1, 10, 0};
	const wire::BeginCodesRequest codes{wire::CodesKind::kSq8, 0, 0, 0, 0, 0, 0, 1};

	ASSERT_EQ(request(RequestType::kBeginLists, lists), ReplyStatus::kOk);
	ASSERT_EQ(send(RequestType::kAddCentroids, std::vector<float>(kDim, 0.5f), kDim), ReplyStatus::kOk);
	ASSERT_EQ(request(RequestType::kBeginCodes, codes), ReplyStatus::kOk);
	ASSERT_EQ(send(RequestType::kAddCodesModel, std::vector<float>(size_t{2} * kDim, 1), 1), ReplyStatus::kOk);
	EXPECT_EQ(request(RequestType::kBeginCounts, wire::BeginCountsRequest{1 << 16, 32, 1, 0}), ReplyStatus::kRefused);
	EXPECT_EQ(request(RequestType::kBeginCounts, wire::BeginCountsRequest{1 << 10, 32, 1, 0}), ReplyStatus::kOk);
}

} // namespace
} // namespace vectorgpu::worker_test

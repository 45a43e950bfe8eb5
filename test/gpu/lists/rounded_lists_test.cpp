// Lists of reals by estimates over rows in binary16: the CPU engine's answers, bit for bit, for every metric, shapes of
// all numbers of dimensions, rows that differ by less than binary16 tells apart, rows and queries that the filter's
// bound does not cover, tombstones, searches that continue, several segments; and which batches go this way.
#include <array>
#include <cmath>
#include <limits>

#include "answers.hpp"
#include "engine/list_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;
using engine::test::ListRows;

constexpr uint32_t kLists = 20;

/// Made once, with this way or without it; neither has the ways of few queries.
CudaEngine *
lists_engine(bool rounded, bool narrow = true)
{
	static std::unique_ptr<CudaEngine> engines[4];
	std::unique_ptr<CudaEngine> &engine = engines[2 * static_cast<int>(rounded) + static_cast<int>(narrow)];

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.self_test = options.few_lists = options.few_real_lists = options.list_choice = false;
		options.rounded_lists = rounded;
		options.narrow = narrow;
		options.workspace_bytes = size_t{256} << 20;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// Made once. Rows of any size are kept in signed bytes, too, which small batches read.
CudaEngine *
scaled_engine()
{
	static std::unique_ptr<CudaEngine> engine;

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.self_test = options.few_lists = options.few_real_lists = options.list_choice = false;
		options.scaled_least_bytes = 1;
		options.workspace_bytes = size_t{256} << 20;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// Adds `row` with the number `value` at one place.
void
add_with(Rows *rows, std::vector<float> row, size_t at, float value, RowId id)
{
	row[at] = value;
	rows->add(id, reinterpret_cast<const uint8_t *>(row.data()));
}

/// One segment in both engines, and queries for it.
struct RoundedLists
{
	explicit RoundedLists(const DistanceSpec &spec, CudaEngine *cuda = lists_engine(true))
		: rng(spec.dim), rows(spec), queries(spec), both(engine::CopySpec(spec, CopyKind::kLists), cuda)
	{
	}

	void load(uint32_t n_lists = kLists)
	{
		const ListRows lists(rows, n_lists, rng);

		both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); });
	}

	/// Each query has another k and other probes, up to these. taken: all of them go this way.
	void expect_batch(size_t n, size_t k, uint32_t n_probes, bool taken = true, bool with_after = false)
	{
		std::vector<SearchQuery> batch;
		std::vector<std::array<SegmentProbes, 1>> named(n);
		const uint64_t before = both.cuda()->n_rounded_lists();

		for (size_t i = 0; i < n; i++)
		{
			named[i] = {SegmentProbes{1, n_probes - std::min(n_probes - 1, static_cast<uint32_t>(i % 3))}};
			batch.push_back({queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}});
			batch.back().probes = named[i];

			const double score = oracle_score(rows.spec, batch.back().query, rows.vector(17));

			if (with_after && i % 2 == 0 && std::isfinite(score))
			{
				batch.back().has_after = true;
				batch.back().after = {score, rows.ids[17]};
			}
		}
		SCOPED_TRACE(testing::Message() << metric_name(rows.spec.metric) << " element "
										<< static_cast<int>(rows.spec.element) << " dim " << rows.spec.dim << " batch "
										<< n << " k " << k << " probes " << n_probes);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
		EXPECT_EQ(both.cuda()->n_rounded_lists() - before, taken ? n : 0);
	}

	std::mt19937 rng;
	Rows rows;
	Rows queries;
	Both both;
};

constexpr Metric kRoundedMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

TEST(RoundedLists, DimensionsAndBatches)
{
	for (const Metric metric : kRoundedMetrics)
		for (const ElementType element : {ElementType::kFloat32, ElementType::kFloat16})
			for (const uint32_t dim : {3u, 31u, 32u, 33u, 64u, 65u, 96u, 128u, 129u, 200u, 784u})
			{
				RoundedLists held({metric, element, dim});

				held.rows.add_random(6000, Data::kGaussian, held.rng, 100);
				held.queries.add_random(130, Data::kGaussian, held.rng, 0);
				held.load();
				for (const size_t n : {5u, 33u, 300u})
					ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 10, 8));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, 1, 19));
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, 30, 12, true, true));
			}
}

TEST(RoundedLists, ManyDimensions)
{
	// 32, 16 and 8 queries a tile, and more dimensions than the filter has room for.
	for (const uint32_t dim : {1536u, 1600u, 4096u, 9000u, 16000u})
	{
		RoundedLists held({Metric::kL2, ElementType::kFloat32, dim});

		held.rows.add_random(1500, Data::kGaussian, held.rng, 100);
		held.queries.add_random(40, Data::kGaussian, held.rng, 0);
		held.load(5);
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, 10, 4, dim <= 9000));
	}
}

/// Rows in signed bytes: dimensions that end within 64 bytes and on them, rows and queries beyond the bound,
/// tombstones.
TEST(RoundedLists, SignedBytes)
{
	constexpr float kInfinity = std::numeric_limits<float>::infinity();

	for (const Metric metric : kRoundedMetrics)
		for (const uint32_t dim : {33u, 64u, 90u, 256u, 515u})
		{
			RoundedLists held({metric, ElementType::kFloat32, dim}, scaled_engine());
			std::vector<uint8_t> dead(20000 / 8);
			const std::vector<float> ones(dim, 1.0f);

			held.rows.add_random(19990, Data::kGaussian, held.rng, 1);
			for (RowId id = 19991; id <= 20000; id++)
				add_with(&held.rows, ones, id % dim, id % 2 == 0 ? kInfinity : -1e30f, id);
			held.queries.add_random(60, Data::kGaussian, held.rng, 0);
			for (const float number : {kInfinity, -kInfinity, 1e30f, 70000.0f, std::numeric_limits<float>::quiet_NaN()})
				add_with(&held.queries, ones, dim / 2, number, 100);
			held.load();
			ASSERT_GT(held.both.cuda()->n_scaled_segments(), 0u);
			for (const size_t n : {5u, 40u, 256u, 300u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 10, 8));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(65, 40, 12, true, true));
			for (uint8_t &byte : dead)
				byte = static_cast<uint8_t>(held.rng());
			ASSERT_NO_FATAL_FAILURE(
				held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
			ASSERT_NO_FATAL_FAILURE(held.expect_batch(65, 10, 8));
		}
}

/// Whole numbers kept as float32: exact in binary16, with many rows at one distance.
TEST(RoundedLists, WholeNumbers)
{
	for (const Metric metric : kRoundedMetrics)
		for (const unsigned most : {1u, 255u, 2047u})
		{
			RoundedLists held({metric, ElementType::kFloat32, 48}, lists_engine(true, false));

			add_whole_numbers(&held.rows, 6000, most, held.rng, 1);
			add_whole_numbers(&held.queries, 60, most, held.rng, 0);
			held.load();
			for (const size_t n : {20u, 200u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, 15, 10));
		}
}

/// Rows that are one row, or few, once they are rounded: only their scores tell them apart.
TEST(RoundedLists, RowsThatBinary16DoesNotTellApart)
{
	for (const Metric metric : kRoundedMetrics)
		for (const float apart : {1e-6f, 1e-4f, 3e-3f})
		{
			RoundedLists held({metric, ElementType::kFloat32, 100});
			std::normal_distribution<float> normal;
			std::vector<float> around(100);

			for (float &element : around)
				element = 3 * normal(held.rng);
			for (RowId id = 0; id < 5060; id++)
			{
				std::vector<float> row = around;

				for (float &element : row)
					element += apart * normal(held.rng);
				(id < 5000 ? held.rows : held.queries).add(id, reinterpret_cast<const uint8_t *>(row.data()));
			}
			held.load();
			for (const size_t k : {1u, 10u})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(60, k, 8));
		}
}

// For the sanitizers: both forms, a tile that ends within 32 rows and one of several groups of queries.
TEST(RoundedLists, Reduced)
{
	for (const auto &[metric, dim, n_rows, cuda] : {std::tuple{Metric::kL2, 40u, 1500u, lists_engine(true)},
			 {Metric::kCosine, 100u, 1500u, lists_engine(true)}, {Metric::kInnerProduct, 33u, 17000u, scaled_engine()}})
	{
		RoundedLists held({metric, ElementType::kFloat32, dim}, cuda);

		held.rows.add_random(n_rows, Data::kGaussian, held.rng, 1);
		held.queries.add_random(40, Data::kGaussian, held.rng, 0);
		held.load(5);
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(40, 10, 4));
	}
}

/// Rows and queries with numbers that binary16 has no room for, infinities and NaN, and zeros.
TEST(RoundedLists, RowsAndQueriesBeyondTheBound)
{
	constexpr float kInfinity = std::numeric_limits<float>::infinity();
	constexpr float kNumbers[] = {
		kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 1e30f, -3e38f, 1e-38f};

	for (const Metric metric : kRoundedMetrics)
		for (const uint32_t dim : {5u, 33u, 128u})
		{
			RoundedLists held({metric, ElementType::kFloat32, dim});
			std::normal_distribution<float> normal;

			for (RowId id = 0; id < 5060; id++)
			{
				Rows &to = id < 5000 ? held.rows : held.queries;
				std::vector<float> row(dim);

				for (float &element : row)
					element = id % 40 == 7 ? 0.0f : normal(held.rng);
				if (id % 8 == 3)
					add_with(&to, row, id % dim, kNumbers[id / 8 % std::size(kNumbers)], id);
				else if (id >= 5000 && id % 8 == 5)
					add_with(&to, row, 0, 70000.0f, id); // the bound covers it, but not its binary16
				else
					to.add(id, reinterpret_cast<const uint8_t *>(row.data()));
			}
			held.load();
			for (const auto &[n, k] : {std::pair{60u, 10u}, {60u, 1u}, {200u, 15u}})
				ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, k, 9));
		}
}

TEST(RoundedLists, ExtremesInBinary16)
{
	for (const Metric metric : kRoundedMetrics)
	{
		RoundedLists held({metric, ElementType::kFloat16, 33});

		held.rows.add_random(6000, Data::kExtremes, held.rng, 1);
		held.queries.add_random(60, Data::kExtremes, held.rng, 0);
		held.load();
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(60, 10, 9));
	}
}

TEST(RoundedLists, DeadRows)
{
	for (const auto &[metric, element] : {std::pair{Metric::kL2, ElementType::kFloat32},
			 {Metric::kInnerProduct, ElementType::kFloat16}, {Metric::kCosine, ElementType::kFloat32}})
	{
		RoundedLists held({metric, element, 70});
		std::vector<uint8_t> dead(6000 / 8);

		held.rows.add_random(6000, Data::kGaussian, held.rng, 1);
		held.queries.add_random(60, Data::kGaussian, held.rng, 0);
		held.load();
		for (uint8_t &byte : dead)
			byte = static_cast<uint8_t>(held.rng() | held.rng());
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(60, 12, 8));
		std::fill(dead.begin(), dead.end(), 0xFF);
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(60, 12, 8));
	}
}

/// More rows at one distance than candidates have room for: those queries are answered again.
TEST(RoundedLists, MoreCandidatesThanThereIsRoomFor)
{
	RoundedLists held({Metric::kL2, ElementType::kFloat32, 40});
	const std::vector<uint8_t> same(40 * sizeof(float), 0);

	held.rows.add_random(3000, Data::kGaussian, held.rng, 1);
	for (RowId id = 10001; id < 22001; id++)
		held.rows.add(id, same.data());
	held.queries.add_random(40, Data::kGaussian, held.rng, 0);
	for (RowId id = 100; id < 120; id++)
		held.queries.add(id, same.data());
	held.load(12);
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(60, 15, 11));
}

TEST(RoundedLists, SegmentsAndDelta)
{
	RoundedLists held({Metric::kL2, ElementType::kFloat32, 96});
	Rows rows(held.rows.spec);
	Rows delta(held.rows.spec);
	const SegmentProbes probes[] = {{1, 7}, {2, 8}, {3, 9}};
	std::vector<SearchQuery> batch;

	held.rows.add_random(5000, Data::kGaussian, held.rng, 1);
	held.queries.add_random(50, Data::kGaussian, held.rng, 0);
	held.load();
	rows.add_random(3000, Data::kGaussian, held.rng, 50000);
	delta.add_random(40, Data::kGaussian, held.rng, 90000);

	const ListRows second(rows, 12, held.rng);

	rows = Rows(held.rows.spec);
	add_whole_numbers(&rows, 2000, 2, held.rng, 60000); // bytes: not this way, since the queries are none

	const ListRows third(rows, 11, held.rng);
	const uint64_t before = held.both.cuda()->n_rounded_lists();

	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); }));
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return third.load(&e, c, 3); }));
	ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
	for (size_t i = 0; i < 50; i++)
	{
		batch.push_back({held.queries.vector(i), 1 + i % 12, false, {}});
		batch.back().probes = probes;
	}
	ASSERT_NO_FATAL_FAILURE(held.both.expect_same_answers(batch));
	EXPECT_EQ(held.both.cuda()->n_rounded_lists() - before, 100u);
}

/// Not taken: L1, an engine without this way, results so numerous that most rows may pass, and single queries of few
/// rows.
TEST(RoundedLists, OtherWays)
{
	for (const auto &[metric, cuda, k, n] :
		{std::tuple{Metric::kL1, lists_engine(true), 10u, 60u}, {Metric::kL2, lists_engine(false), 10u, 60u},
			{Metric::kL2, lists_engine(true), 400u, 60u}, {Metric::kL2, lists_engine(true), 10u, 1u}})
	{
		RoundedLists held({metric, ElementType::kFloat32, 50}, cuda);

		held.rows.add_random(6000, Data::kGaussian, held.rng, 1);
		held.queries.add_random(60, Data::kGaussian, held.rng, 0);
		held.load();
		ASSERT_NO_FATAL_FAILURE(held.expect_batch(n, k, 8, false));
	}
}

/// One query over enough rows to go list by list, too: long rows are read in half of the bytes.
TEST(RoundedLists, OneQueryOverManyBytes)
{
	RoundedLists held({Metric::kCosine, ElementType::kFloat32, 1500});

	held.rows.add_random(14000, Data::kGaussian, held.rng, 1);
	held.queries.add_random(3, Data::kGaussian, held.rng, 0);
	held.load();
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(1, 10, 19));
	ASSERT_NO_FATAL_FAILURE(held.expect_batch(3, 10, 19));
}

} // namespace
} // namespace vectorgpu::cuda::test

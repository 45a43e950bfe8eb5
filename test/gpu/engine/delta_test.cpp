// The delta on the device: its pieces at the sizes where they grow, forms that change inside it, tombstones and trims
// across pieces, rows that the filter's bound does not cover, appends that must not wait, and searches right after an
// append.
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr uint32_t kWide = 2000; // dimensions: a piece of float32 rows begins with 1,040 rows (cuda/resident/delta.cpp:
								 // 8 MiB), of bytes with 4,161

Rows
make_rows(const DistanceSpec &spec, size_t n, unsigned most, std::mt19937 &rng, RowId first_id)
{
	Rows rows(spec);

	if (most == 0)
		rows.add_random(n, Data::kGaussian, rng, first_id);
	else
		add_whole_numbers(&rows, n, most, rng, first_id);
	return rows;
}

void
set_element(Rows *rows, size_t row, size_t element, float value)
{
	std::memcpy(rows->vectors.data() + row * rows->row_bytes + element * 4, &value, 4);
}

void
append(Both *both, const Rows &rows, size_t first, size_t n, uint64_t position)
{
	ASSERT_NO_FATAL_FAILURE(
		both->change([&](Engine &e, CopyId c) { return e.append_delta(c, position, rows.block(first, n)); }));
}

/// A few batches and ks, and searches that continue after a row.
void
expect_same_all(Both *both, const Rows &queries)
{
	for (size_t batch : {size_t{1}, queries.n()})
		for (size_t k : {1, 10, 200})
			ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, batch, k));

	std::vector<std::vector<Neighbor>> first;

	ASSERT_OK(
		cpu_engine()->search(both->cpu_copy(), std::vector<SearchQuery>{{queries.vector(0), 7, false, {}}}, &first));
	if (first[0].empty())
		return;
	ASSERT_NO_FATAL_FAILURE(
		both->expect_same_answers(std::vector<SearchQuery>{{queries.vector(0), 20, true, first[0].back()}}));
}

TEST(Delta, SizesAroundTheLimitsOfPieces)
{
	for (unsigned most : {0u, 255u})
		for (bool with_segment : {false, true})
		{
			std::mt19937 rng(most + with_segment);
			const Rows segment = make_rows({Metric::kL2, ElementType::kFloat32, kWide}, 5000, most, rng, 1);
			const Rows rows = make_rows(segment.spec, 4700, most, rng, 10000);
			const Rows queries = make_rows(segment.spec, 9, most, rng, 0);
			Both both(segment.spec);
			size_t held = 0;

			if (with_segment)
			{
				ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
			}
			for (size_t size : {1, 31, 128, 129, 1039, 1040, 1041, 4159, 4160, 4161, 4162, 4700})
			{
				SCOPED_TRACE(testing::Message()
					<< "values to " << most << ", segment " << with_segment << ", " << size << " rows");
				ASSERT_NO_FATAL_FAILURE(append(&both, rows, held, size - held, held));
				held = size;
				ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
			}
		}
}

TEST(Delta, EveryMetricAndElementType)
{
	for (Metric metric :
		{Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1, Metric::kHamming, Metric::kJaccard})
		for (ElementType element : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBit})
			for (uint32_t dim : {1u, 24u, 128u, 130u})
				for (unsigned most : {0u, 255u, 2000u})
				{
					if (!engine::metric_supports(metric, element) ||
						(element != ElementType::kFloat32 && most == 255) ||
						(element == ElementType::kBit && most != 0))
						continue;
					SCOPED_TRACE(testing::Message() << metric_name(metric) << " element " << static_cast<int>(element)
													<< " dim " << dim << " values " << most);

					std::mt19937 rng(dim);
					const Rows segment = make_rows({metric, element, dim}, 3000, most, rng, 1);
					const Rows rows = make_rows(segment.spec, 1500, most, rng, 10000);
					const Rows queries = make_rows(segment.spec, 9, most, rng, 0);
					Both both(segment.spec);

					ASSERT_NO_FATAL_FAILURE(append(&both, rows, 0, 700, 0)); // before the segment
					ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
					ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
					for (size_t at = 700; at < 1500; at += 200)
						ASSERT_NO_FATAL_FAILURE(append(&both, rows, at, 200, at));
					ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
				}
}

TEST(Delta, RowsThatDoNotFitTheEarlierForm)
{
	const float nan = std::numeric_limits<float>::quiet_NaN();

	for (float odd : {0.5f, 256.0f, 0.1f, -0.0f, -1.0f, nan, std::bit_cast<float>(0x7F800001u),
			 std::numeric_limits<float>::infinity(), 1e30f})
		for (size_t each : {1, 64}) // rows to an append
		{
			SCOPED_TRACE(testing::Message() << "element " << odd << ", " << each << " rows at a time");

			std::mt19937 rng(3);
			const Rows segment = make_rows({Metric::kL2, ElementType::kFloat32, 40}, 2000, 20, rng, 1);
			Rows rows = make_rows(segment.spec, 640, 20, rng, 10000);
			const Rows queries = make_rows(segment.spec, 5, 20, rng, 0);
			Both both(segment.spec);

			for (size_t row : {200, 201, 400})
				set_element(&rows, row, row % 40, odd);
			ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
			for (size_t at = 0; at < rows.n(); at += each)
				ASSERT_NO_FATAL_FAILURE(append(&both, rows, at, each, at));
			ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));

			std::vector<RowId> ids(rows.n());
			std::vector<uint8_t> vectors(rows.vectors.size());

			ASSERT_OK(cuda_engine()->read_rows(both.cuda_copy(), 0, 0, 190, ids.data(), vectors.data()));
			ASSERT_OK(cuda_engine()->read_rows(
				both.cuda_copy(), 0, 190, 450, ids.data() + 190, vectors.data() + 190 * rows.row_bytes));
			EXPECT_EQ(ids, rows.ids);
			EXPECT_EQ(vectors, rows.vectors); // the same bits
		}
}

TEST(Delta, ManyRowsBeyondTheBound)
{
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine})
	{
		std::mt19937 rng(4);
		const Rows segment = make_rows({metric, ElementType::kFloat32, 33}, 3000, 0, rng, 1);
		Rows rows = make_rows(segment.spec, 1000, 0, rng, 10000);
		const Rows queries = make_rows(segment.spec, 5, 0, rng, 0);
		Both both(segment.spec);

		for (size_t row = 0; row < rows.n(); row += row < 500 ? 100 : 3) // few at first, then many
			for (size_t e = 0; e < 33; e++)
				set_element(&rows, row, e, row % 2 == 0 ? 1e25f : 0.0f);
		ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
		ASSERT_NO_FATAL_FAILURE(append(&both, rows, 0, 500, 0));
		ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
		ASSERT_NO_FATAL_FAILURE(append(&both, rows, 500, 500, 500));
		ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	}
}

TEST(Delta, AllOfItsRowsAreNearerThanTheSegments)
{
	std::mt19937 rng(5);
	const Rows near = make_rows({Metric::kL2, ElementType::kFloat32, 32}, 6000, 9, rng, 100000);
	const Rows queries = make_rows(near.spec, 9, 9, rng, 0);
	Rows segment = make_rows(near.spec, 8000, 9, rng, 1);
	Both both(near.spec);

	for (size_t row = 0; row < segment.n(); row++)
		set_element(&segment, row, 0, 250);
	ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
	ASSERT_NO_FATAL_FAILURE(append(&both, near, 0, near.n(), 0));
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));

	const std::vector<uint8_t> dead(1000, 0xFF); // of the segment: there are no earlier results

	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
}

/// The segment gives a threshold far above all estimates of rows near the query: it must not hide the differences
/// between them.
TEST(Delta, SmallDifferencesBehindASegmentFarAway)
{
	for (uint32_t dim : {32u, 512u}) // by canonical scores, by the filter
		for (float away : {100.0f, 3000.0f, 1e6f})
		{
			SCOPED_TRACE(testing::Message() << "dim " << dim << ", segment at " << away);

			std::mt19937 rng(10);
			const Rows near = make_rows({Metric::kL2, ElementType::kFloat32, dim}, 7000, 0, rng, 100000);
			const Rows queries = make_rows(near.spec, 9, 0, rng, 0);
			Rows segment = make_rows(near.spec, 8000, 0, rng, 1);
			Both both(near.spec);

			for (size_t row = 0; row < segment.n(); row++)
				set_element(&segment, row, row % dim, away);
			ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
			ASSERT_NO_FATAL_FAILURE(append(&both, near, 0, near.n(), 0));
			ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
		}
}

TEST(Delta, TombstonesAndTrimsAcrossPieces)
{
	std::mt19937 rng(6);
	const Rows segment = make_rows({Metric::kL2, ElementType::kFloat32, kWide}, 3000, 255, rng, 1);
	Rows rows = make_rows(segment.spec, 6000, 255, rng, 10000);
	const Rows queries = make_rows(segment.spec, 5, 255, rng, 0);
	Both both(segment.spec);
	std::vector<uint8_t> dead(800); // positions 100 ... 6499: beyond the rows held

	for (size_t i = 0; i < dead.size(); i++)
		dead[i] = static_cast<uint8_t>(rng() & rng());
	for (size_t row : {1500, 3000}) // pieces: bytes, then float32
		set_element(&rows, row, 3, 0.1f);
	ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
	ASSERT_NO_FATAL_FAILURE(append(&both, rows, 0, 1400, 0));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 100, dead); }));
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	for (size_t at = 1400; at < 3400; at += 100)
		ASSERT_NO_FATAL_FAILURE(append(&both, rows, at, 100, at));
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	for (uint64_t position : {100, 1399, 1500, 1501, 3300})
	{
		SCOPED_TRACE(position);
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, position); }));
		ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	}
	for (size_t at = 3400; at < 5350; at += 650)
		ASSERT_NO_FATAL_FAILURE(append(&both, rows, at, 650, at));
	// More than half of the piece, whose block has room for 4,160 rows, is trimmed: the rest move.
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, 4000); }));
	ASSERT_NO_FATAL_FAILURE(append(&both, rows, 5350, 650, 5350));
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, 6000); })); // nothing is left
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	ASSERT_NO_FATAL_FAILURE(append(&both, rows, 0, 500, 6000));
	ASSERT_NO_FATAL_FAILURE(expect_same_all(&both, queries));
	for (auto [first, n] : {std::pair<uint64_t, size_t>{6000, 500}, {6123, 1}})
	{
		std::vector<RowId> ids(n);
		std::vector<uint8_t> vectors(n * rows.row_bytes);

		ASSERT_OK(cuda_engine()->read_rows(both.cuda_copy(), 0, first, n, ids.data(), vectors.data()));
		EXPECT_EQ(ids,
			std::vector<RowId>(rows.ids.begin() + static_cast<std::ptrdiff_t>(first - 6000),
				rows.ids.begin() + static_cast<std::ptrdiff_t>(first - 6000 + n)));
	}
}

TEST(Delta, AppendsAtOnceOrNotAtAll)
{
	std::mt19937 rng(7);
	CudaEngine *engine = cuda_engine();
	Rows rows = make_rows({Metric::kL2, ElementType::kFloat32, 32}, 2000, 9, rng, 100);
	CopyId copy = 0;
	Status status;
	std::vector<std::vector<Neighbor>> found;
	auto nearest = [&](size_t row)
	{
		const SearchQuery query = {rows.vector(row), 1, false, {}};

		EXPECT_TRUE(engine->search(copy, {&query, 1}, &found).is_ok());
		return found[0].empty() ? 0 : found[0][0].row;
	};

	for (size_t row = 0; row < rows.n(); row++) // all different
	{
		set_element(&rows, row, 0, static_cast<float>(row % 100));
		set_element(&rows, row, 1, static_cast<float>(row / 100));
	}
	ASSERT_OK(engine->create(rows.spec, &copy));
	EXPECT_FALSE(engine->try_append_delta(copy, 0, rows.block(0, 1), &status)); // needs room first
	EXPECT_EQ(nearest(0), 0u);
	ASSERT_OK(engine->append_delta(copy, 0, rows.block(0, 1)));
	for (size_t i = 1, refused = 0; i < 1000; i++)
	{
		if (!engine->try_append_delta(
				copy, i, rows.block(i, 1), &status)) // all slots on the way to the device are taken
		{
			ASSERT_LT(++refused, 999u);
			ASSERT_OK(engine->append_delta(copy, i, rows.block(i, 1)));
		}
		ASSERT_OK(status);
		ASSERT_EQ(nearest(i), rows.ids[i]);
	}
	EXPECT_TRUE(engine->try_append_delta(copy, 990, rows.block(990, 5), &status)); // already held
	ASSERT_OK(status);
	EXPECT_TRUE(engine->try_append_delta(copy, 1001, rows.block(1001, 1), &status));
	EXPECT_EQ(status.code, StatusCode::kInvalidArgument); // a gap
	EXPECT_TRUE(engine->try_append_delta(copy + 1000, 0, rows.block(0, 1), &status));
	EXPECT_EQ(status.code, StatusCode::kNotFound);
	set_element(&rows, 1000, 5, 0.1f); // another form: a new piece
	EXPECT_FALSE(engine->try_append_delta(copy, 1000, rows.block(1000, 1), &status));
	EXPECT_FALSE(engine->try_append_delta(copy, 1000, rows.block(1000, 1000), &status)); // too many
	ASSERT_OK(engine->append_delta(copy, 1000, rows.block(1000, 1)));
	EXPECT_EQ(nearest(1000), rows.ids[1000]);
	ASSERT_OK(engine->drop(copy));
}

TEST(Delta, SearchesSeeEarlierAppends)
{
	constexpr size_t kRows = 6000;
	CudaEngine *engine = cuda_engine();
	CopyId copy = 0;
	std::mt19937 rng(8);
	const Rows segment = make_rows({Metric::kL2, ElementType::kFloat32, 3}, 20000, 200, rng, 1000000);
	Rows rows(segment.spec);
	std::atomic<size_t> appended{0};
	std::atomic<bool> done{false};
	std::atomic<int> failures{0};
	std::vector<std::thread> searchers;

	for (size_t i = 0; i < kRows; i++)
	{
		const float row[3] = {
			static_cast<float>(i % 256), static_cast<float>(i / 256), 255}; // far from the segment, bytes

		rows.add(i, reinterpret_cast<const uint8_t *>(row));
	}
	ASSERT_OK(engine->create(rows.spec, &copy));
	ASSERT_OK(engine->load_segment(copy, 1, segment.block()));
	ASSERT_OK(engine->seal_segment(copy, 1));
	for (int t = 0; t < 3; t++)
		searchers.emplace_back(
			[&]
			{
				while (!done)
				{
					const size_t n = appended.load();
					std::vector<std::vector<Neighbor>> found;

					if (n == 0)
						continue;

					const SearchQuery queries[2] = {
						{rows.vector(n - 1), 1, false, {}}, {rows.vector(n / 2), 1, false, {}}};

					if (!engine->search(copy, queries, &found).is_ok() || found[0].size() != 1 ||
						found[0][0].row != n - 1 || found[0][0].score != 0 || found[1][0].row != n / 2)
						failures++;
				}
			});
	for (size_t i = 0; i < kRows; i += 1 + i % 3)
	{
		const size_t n = std::min<size_t>(1 + i % 3, kRows - i);

		if (!engine->append_delta(copy, i, rows.block(i, n)).is_ok())
			failures++;
		appended = i + n;
	}
	done = true;
	for (std::thread &searcher : searchers)
		searcher.join();
	EXPECT_EQ(failures, 0);
	ASSERT_OK(engine->drop(copy));
}

TEST(Delta, ASmallBudgetHoldsWhatFits)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;
	CopyId copy = 0;
	std::mt19937 rng(9);
	const Rows rows = make_rows({Metric::kL2, ElementType::kFloat32, 256}, 40000, 0, rng, 0);
	std::vector<std::vector<Neighbor>> found;
	size_t held = 0;
	StatusCode code = StatusCode::kOk;

	options.memory_bytes = size_t{20} << 20; // 20,164 of the rows, with ids and norms
	options.workspace_bytes = size_t{256} << 20;
	options.self_test = false;
	ASSERT_OK(make_cuda_engine(options, &engine));
	ASSERT_OK(engine->create(rows.spec, &copy));
	for (; code == StatusCode::kOk && held + 500 <= rows.n(); held += code == StatusCode::kOk ? 500 : 0)
		code = engine->append_delta(copy, held, rows.block(held, 500)).code;
	EXPECT_EQ(code, StatusCode::kOutOfMemory);
	EXPECT_LE(engine->stats().resident_bytes, options.memory_bytes);
	EXPECT_GE(held, 10000u);
	for (size_t row : {size_t{0}, held / 2, held - 1})
	{
		const SearchQuery query = {rows.vector(row), 1, false, {}};

		ASSERT_OK(engine->search(copy, {&query, 1}, &found));
		EXPECT_EQ(found[0][0].row, row);
	}
	ASSERT_OK(engine->drop(copy));
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
}

} // namespace
} // namespace vectorgpu::cuda::test

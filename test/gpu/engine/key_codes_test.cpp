// Predicate programs on the device: the rows that pass are the host's, bit for bit; searches of what was found.
#include <cstring>
#include <thread>

#include <cuda_runtime_api.h>

#include "key_areas.hpp"
#include "kernels/select/pass_rows.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

std::vector<Column>
random_columns(std::mt19937_64 &random, size_t n_rows)
{
	std::vector<Column> columns;

	for (size_t n = 1 + random() % 4; n > 0; n--)
		columns.push_back(
			vectorgpu::test::random_column(random, n_rows, random() % 10 == 0 ? 3 : static_cast<int>(random() % 3)));
	return columns;
}

/// What the host finds.
struct Expected
{
	std::vector<uint8_t> pass;
	std::vector<uint8_t> maybe;
	engine::predicate::PassCounts counts;

	Expected(const Opened &opened, const Area &area)
		: pass(engine::predicate::row_bits_bytes(area.n_rows)), maybe(pass.size()),
		  counts(engine::predicate::evaluate_rows(
			  opened.program, area.columns.data(), 0, area.n_rows, pass.data(), maybe.data()))
	{
	}

	std::vector<uint32_t> rows(uint64_t n_rows) const
	{
		std::vector<uint32_t> rows(counts.n_pass);

		(void) engine::predicate::list_rows(pass.data(), n_rows, rows.data(), rows.size());
		return rows;
	}
};

void
expect_found(const PassingSegment &found, const Opened &opened, const Area &area)
{
	const Expected expected(opened, area);

	ASSERT_EQ(found.n_rows, area.n_rows);
	ASSERT_EQ(found.n_pass, expected.counts.n_pass);
	ASSERT_EQ(found.listed, found.n_pass <= area.n_rows / engine::kFewOfRows);
	ASSERT_EQ(found.rows, found.listed ? expected.rows(area.n_rows) : std::vector<uint32_t>());
	ASSERT_EQ(found.bits, found.listed ? std::vector<uint8_t>() : expected.pass);
}

TEST(KeyCodes, RandomProgramsFindTheRowsOfTheHost)
{
	Copy copy(key_engine());
	std::mt19937_64 random(20261128);
	const uint64_t before = key_engine()->n_programs();
	uint64_t n_programs = 0;

	for (const size_t n_rows : {1, 7, 31, 32, 33, 63, 64, 65, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 9999, 70001})
		for (int round = 0; round < 8; round++)
		{
			const std::vector<Column> columns = random_columns(random, n_rows);
			const Area area(columns, n_rows);
			std::shared_ptr<KeyCodes> held;

			ASSERT_OK(key_engine()->hold_key_codes(copy.id, area.view(), &held));
			for (int program = 0; program < 25; program++)
			{
				SCOPED_TRACE(testing::Message() << n_rows << " rows, round " << round << ", program " << program);
				Tree tree;
				PassingSegment found;

				tree.root = vectorgpu::test::random_node(random, columns, static_cast<int>(random() % 5), &tree);

				const std::vector<uint8_t> bytes = vectorgpu::test::program_of(tree.root);
				const Opened opened(bytes);

				ASSERT_EQ(opened.fault, nullptr);
				ASSERT_OK(held->find_rows(opened.program, &found));
				ASSERT_NO_FATAL_FAILURE(expect_found(found, opened, area));
				n_programs++;
			}
		}
	EXPECT_EQ(key_engine()->n_programs() - before, n_programs);
}

/// Both bitmaps of the kernel, and both counts.
TEST(KeyCodes, RowsThatPassCertainlyAndNot)
{
	std::mt19937_64 random(7);
	const auto shared = [](const void *from, size_t bytes)
	{
		void *made = nullptr;

		EXPECT_EQ(cudaMallocManaged(&made, bytes + 1), cudaSuccess);
		if (from != nullptr)
			memcpy(made, from, bytes);
		return static_cast<uint8_t *>(made);
	};

	for (int round = 0; round < 60; round++)
	{
		const size_t n_rows = 1 + random() % 5000;
		const std::vector<Column> columns = random_columns(random, n_rows);
		const Area area(columns, n_rows);
		const bool with_zones = round % 2 == 0;
		Tree tree;

		tree.root = vectorgpu::test::random_node(random, columns, static_cast<int>(random() % 4), &tree);

		const std::vector<uint8_t> bytes = vectorgpu::test::program_of(tree.root);
		const Opened opened(bytes);
		const Expected expected(opened, area);
		const size_t n_words = (n_rows + 1023) / 1024 * 32;
		std::vector<uint8_t *> taken = {shared(bytes.data(), bytes.size()),
			shared(area.bytes.data(), area.bytes.size()), shared(nullptr, n_words * 4), shared(nullptr, n_words * 4),
			shared(nullptr, n_words * 4), shared(nullptr, sizeof(kernels::PassHead)), shared(nullptr, n_rows * 4)};
		std::vector<engine::predicate::Step> steps = opened.steps;
		std::vector<ColumnCodes> views = area.columns;

		for (engine::predicate::Step &step : steps)
			step.codes = taken[0] + (step.codes - bytes.data());
		for (ColumnCodes &column : views)
		{
			column.codes = taken[1] + (static_cast<const uint8_t *>(column.codes) - area.bytes.data());
			if (column.nulls != nullptr)
				column.nulls = taken[1] + (column.nulls - area.bytes.data());
			if (with_zones)
				taken.push_back(shared(column.zones, (n_rows + 1023) / 1024 * sizeof(Zone)));
			column.zones = with_zones ? reinterpret_cast<const Zone *>(taken.back()) : nullptr;
		}
		taken.push_back(shared(steps.data(), steps.size() * sizeof(steps[0])));
		taken.push_back(shared(views.data(), views.size() * sizeof(views[0])));

		kernels::PassRows args;

		args.steps = reinterpret_cast<const engine::predicate::Step *>(taken[taken.size() - 2]);
		args.columns = reinterpret_cast<const ColumnCodes *>(taken.back());
		args.n_steps = opened.program.n_steps;
		args.n_streams = opened.program.n_streams;
		args.n_rows = args.n_most = static_cast<uint32_t>(n_rows);
		args.pass = reinterpret_cast<uint32_t *>(taken[2]);
		args.maybe = reinterpret_cast<uint32_t *>(taken[3]);
		args.counts = reinterpret_cast<uint32_t *>(taken[4]);
		args.head = reinterpret_cast<kernels::PassHead *>(taken[5]);
		args.rows = reinterpret_cast<uint32_t *>(taken[6]);
		ASSERT_EQ(kernels::launch_pass_rows(args, nullptr), cudaSuccess);
		ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
		EXPECT_EQ(args.head->n_pass, expected.counts.n_pass);
		EXPECT_EQ(args.head->n_sure, expected.counts.n_sure);
		EXPECT_EQ(memcmp(args.pass, expected.pass.data(), expected.pass.size()), 0);
		EXPECT_EQ(memcmp(args.maybe, expected.maybe.data(), expected.maybe.size()), 0);
		EXPECT_EQ(std::vector<uint32_t>(args.rows, args.rows + args.head->n_pass), expected.rows(n_rows));
		for (uint8_t *one : taken)
			EXPECT_EQ(cudaFree(one), cudaSuccess);
		ASSERT_FALSE(HasFailure()) << "round " << round;
	}
}

/// Lists that do not come with the counts, and bitmaps, stay on the device: searches use them from there.
TEST(KeyCodes, SearchesOfRowsFoundOnTheDevice)
{
	constexpr size_t kRows = 400000;
	Rows rows(DistanceSpec{Metric::kL2, ElementType::kFloat32, 64});
	Copy copy(key_engine());
	std::mt19937 random(5);
	const std::vector<Column> columns = numbered(kRows);
	const Area area(columns, kRows);
	std::shared_ptr<KeyCodes> held;
	std::vector<uint8_t> bytes;

	rows.add_random(kRows, Data::kGaussian, random, 1);
	ASSERT_OK(key_engine()->load_segment(copy.id, 1, rows.block(0, kRows)));
	ASSERT_OK(key_engine()->seal_segment(copy.id, 1));
	ASSERT_OK(key_engine()->hold_key_codes(copy.id, area.view(), &held));
	for (const uint64_t n_pass : {200, 30000, 200000})
	{
		const Opened opened = range(&bytes, 1000, 999 + n_pass);
		const uint64_t before = key_engine()->stats().resident_bytes;
		auto found = std::make_shared<PassingSegment>();
		auto plain = std::make_shared<PassingSegment>();

		ASSERT_OK(held->find_rows(opened.program, found.get()));
		ASSERT_NO_FATAL_FAILURE(expect_found(*found, opened, area));
		EXPECT_EQ(found->on_device != nullptr, n_pass > 200);
		EXPECT_EQ(key_engine()->stats().resident_bytes - before,
			n_pass == 200       ? 0
				: found->listed ? n_pass * sizeof(uint32_t)
								: kRows / 8);
		found->segment = plain->segment = 1;
		plain->n_rows = found->n_rows;
		plain->n_pass = found->n_pass;
		plain->listed = found->listed;
		plain->rows = found->rows;
		plain->bits = found->bits;

		std::vector<std::vector<Neighbor>> results[2];

		for (const auto &[segment, to] : {std::pair{found, &results[0]}, std::pair{plain, &results[1]}})
		{
			engine::Passing passing;
			std::vector<SearchQuery> queries;

			passing.segments.push_back(segment);
			passing.n_rows = kRows;
			passing.n_pass = n_pass;
			for (size_t i = 0; i < 6; i++)
			{
				queries.push_back({rows.block(i, 1).vectors, 20, false, {}});
				queries.back().passing = &passing;
			}
			ASSERT_OK(key_engine()->search(copy.id, queries, to, nullptr));
		}
		for (size_t i = 0; i < results[0].size(); i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(results[0][i], results[1][i]));
		ASSERT_EQ(results[0].size(), 6u);
		EXPECT_EQ(results[0][0].size(), 20u);
	}
}

TEST(KeyCodes, ManyThreads)
{
	constexpr size_t kRows = 60000;
	Copy copy(key_engine());
	const std::vector<Column> columns = numbered(kRows);
	const Area area(columns, kRows);
	std::shared_ptr<KeyCodes> held;
	std::vector<std::thread> threads;

	ASSERT_OK(key_engine()->hold_key_codes(copy.id, area.view(), &held));
	for (uint64_t t = 0; t < 6; t++)
		threads.emplace_back(
			[&, t]
			{
				for (uint64_t i = 0; i < 50; i++)
				{
					std::vector<uint8_t> bytes;
					const Opened opened = range(&bytes, t * 1000, t * 1000 + i * 700);
					PassingSegment found;

					EXPECT_TRUE(held->find_rows(opened.program, &found).is_ok());
					EXPECT_EQ(found.n_pass, std::min<uint64_t>(i * 700 + 1, kRows - t * 1000));
					EXPECT_TRUE(!found.listed || found.rows.front() == t * 1000);
				}
			});
	for (std::thread &thread : threads)
		thread.join();
}

} // namespace
} // namespace vectorgpu::cuda::test

// Programs over random columns against the definition: bitmaps, counts, single rows; with zones and without; every
// instruction set.
#include <gtest/gtest.h>

#include "engine/distance/distance.hpp"
#include "engine/predicate/judge.hpp"
#include "predicate/random_programs.hpp"

namespace vectorgpu::test
{
namespace
{

constexpr engine::SimdLevel kLevels[] = {
	engine::SimdLevel::kScalar, engine::SimdLevel::kAvx2, engine::SimdLevel::kAvx512};

/// Restores the instruction set at the end.
struct LevelGuard
{
	~LevelGuard() { EXPECT_TRUE(engine::set_simd_level(engine::SimdLevel::kAuto)); }
};

void
expect_rows(const Opened &opened, const std::vector<Column> &columns, const std::vector<int> &verdicts, bool with_zones,
	size_t first, size_t n_rows)
{
	std::vector<ColumnCodes> views;
	std::vector<uint8_t> pass(row_bits_bytes(n_rows), 0xAA);
	std::vector<uint8_t> maybe(row_bits_bytes(n_rows), 0x55);
	std::vector<uint8_t> expected_pass(pass.size(), 0);
	std::vector<uint8_t> expected_maybe(pass.size(), 0);
	uint64_t n_pass = 0;
	uint64_t n_sure = 0;

	for (const Column &column : columns)
		views.push_back(column.view(with_zones));
	for (size_t i = 0; i < n_rows; i++)
	{
		const auto bit = static_cast<uint8_t>(1u << (i % 8));

		expected_pass[i / 8] |= verdicts[first + i] > 0 ? bit : 0;
		expected_maybe[i / 8] |= verdicts[first + i] == 1 ? bit : 0;
		n_pass += verdicts[first + i] > 0;
		n_sure += verdicts[first + i] == 2;
	}
	ASSERT_TRUE(program_fits(opened.program, views.data(), static_cast<uint32_t>(views.size())));

	const PassCounts counts = evaluate_rows(opened.program, views.data(), first, n_rows, pass.data(), maybe.data());

	EXPECT_EQ(counts.n_pass, n_pass);
	EXPECT_EQ(counts.n_sure, n_sure);
	EXPECT_EQ(pass, expected_pass);
	EXPECT_EQ(maybe, expected_maybe);

	const PassCounts alone = evaluate_rows(opened.program, views.data(), first, n_rows, nullptr, nullptr);

	EXPECT_EQ(alone.n_pass, n_pass);
	EXPECT_EQ(alone.n_sure, n_sure);
}

void
expect_single_rows(const Opened &opened, const std::vector<Column> &columns, const std::vector<int> &verdicts)
{
	for (size_t row = 0; row < verdicts.size(); row += 1 + row % 3)
	{
		std::vector<uint64_t> codes;
		uint64_t nulls = 0;

		for (size_t s = 0; s < columns.size(); s++)
		{
			codes.push_back(columns[s].values[row]);
			nulls |= uint64_t{columns[s].is_null[row]} << s;
		}
		EXPECT_EQ(static_cast<int>(evaluate_row(opened.program, codes.data(), nulls)), verdicts[row]) << row;
	}
}

/// Whether the flags of the program hold: exact, all_sure.
void
expect_flags(const Opened &opened, const std::vector<int> &verdicts)
{
	const bool any_maybe = std::count(verdicts.begin(), verdicts.end(), 1) > 0;

	EXPECT_FALSE(opened.program.exact && !opened.program.all_sure);
	EXPECT_FALSE(opened.program.all_sure && any_maybe);
}

TEST(Predicate, RandomProgramsGiveTheRowsOfTheDefinition)
{
	LevelGuard guard;
	std::mt19937_64 random(20261128);
	size_t n_selective = 0;

	for (int round = 0; round < 3000; round++)
	{
		const size_t n_rows = random() % 4 == 0 ? 1 + random() % 4000 : 1 + random() % 130;
		std::vector<Column> columns;
		Tree tree;
		std::vector<int> verdicts;

		for (size_t n = 1 + random() % 4; n > 0; n--)
			columns.push_back(random_column(random, n_rows, random() % 10 == 0 ? 3 : static_cast<int>(random() % 3)));
		tree.root = random_node(random, columns, static_cast<int>(random() % 5), &tree);
		for (size_t row = 0; row < n_rows; row++)
			verdicts.push_back(verdict_by_definition(tree.root, columns, row));

		const std::vector<uint8_t> bytes = program_of(tree.root);
		const Opened opened(bytes);

		ASSERT_FALSE(bytes.empty());
		ASSERT_EQ(opened.fault, nullptr) << "round " << round;
		expect_flags(opened, verdicts);
		expect_single_rows(opened, columns, verdicts);
		for (const engine::SimdLevel level : kLevels)
		{
			if (!engine::set_simd_level(level))
				continue;
			for (const bool with_zones : {false, true})
			{
				expect_rows(opened, columns, verdicts, with_zones, 0, n_rows);
				if (n_rows > kBlockRows)
					expect_rows(
						opened, columns, verdicts, with_zones, kBlockRows, 1 + random() % (n_rows - kBlockRows));
			}
		}
		n_selective += opened.program.n_steps > 2;
		ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
	}
	EXPECT_GT(n_selective, 1000u);
}

TEST(Predicate, EveryCodeOfAByteAndEveryTail)
{
	LevelGuard guard;
	std::mt19937_64 random(3);

	for (const engine::SimdLevel level : kLevels)
	{
		if (!engine::set_simd_level(level))
			continue;
		for (size_t n_rows = 1; n_rows <= 200; n_rows++)
		{
			std::vector<Column> columns = {random_column(random, n_rows, 0)};
			Tree tree;
			std::vector<int> verdicts;

			tree.root = tree.keep(exact_range(0, columns[0].values[random() % n_rows], UINT64_MAX - random() % 2));
			for (size_t row = 0; row < n_rows; row++)
				verdicts.push_back(verdict_by_definition(tree.root, columns, row));
			expect_rows(Opened(program_of(tree.root)), columns, verdicts, false, 0, n_rows);

			const uint64_t mask = greatest_code(columns[0].width) / (1 + random() % 3);

			*tree.root = exact_bits(0, mask, columns[0].values[random() % n_rows] & mask);
			for (size_t row = 0; row < n_rows; row++)
				verdicts[row] = verdict_by_definition(tree.root, columns, row);
			expect_rows(Opened(program_of(tree.root)), columns, verdicts, false, 0, n_rows);
		}
	}
}

TEST(Predicate, ZonesSkipBlocksWithoutReadingThem)
{
	const Zone low = {10, 20, kBlockRows, 0};
	const Zone high = {30, 40, kBlockRows, 0};
	const Zone zones[] = {low, high, {UINT64_MAX, 0, kBlockRows, kBlockRows}};
	const ColumnCodes column = {nullptr, nullptr, zones, 8}; // a read of the codes crashes
	uint8_t pass[3 * kBlockRows / 8];
	Tree tree;

	tree.root = tree.keep(joint(Op::kOr));
	add_operand(tree.root, tree.keep(exact_range(0, 5, 25)));
	add_operand(tree.root, tree.keep(equal(0, 99, false)));

	const Opened opened(program_of(tree.root));
	const PassCounts counts = evaluate_rows(opened.program, &column, 0, sizeof(pass) * 8, pass, nullptr);

	EXPECT_EQ(counts.n_pass, kBlockRows);
	EXPECT_EQ(count_rows(pass, 0, kBlockRows), kBlockRows);
	EXPECT_EQ(judge_block(opened.program, &column, 1).pass, Share::kNone);
}

TEST(Predicate, ProgramsNeedTheirStreams)
{
	const uint8_t codes[8] = {};
	ColumnCodes columns[] = {{codes, nullptr, nullptr, 1}, {codes, nullptr, nullptr, 8}};
	Tree tree;

	tree.root = tree.keep(not_null(1));

	const Opened opened(program_of(tree.root));

	EXPECT_EQ(opened.program.n_streams, 2u);
	EXPECT_TRUE(program_fits(opened.program, columns, 2));
	EXPECT_FALSE(program_fits(opened.program, columns, 1));
	columns[1].width = 3;
	EXPECT_FALSE(program_fits(opened.program, columns, 2));
}

TEST(RowBits, CountsListsAndExcludesAsBitByBit)
{
	std::mt19937_64 random(17);

	for (int round = 0; round < 500; round++)
	{
		const size_t n_rows = 1 + random() % 300;
		std::vector<uint8_t> bits(row_bits_bytes(n_rows), 0);
		std::vector<uint8_t> dead(bits.size(), 0);
		std::vector<uint8_t> expected_dead;
		std::vector<uint32_t> rows;
		const size_t first = random() % n_rows;
		const size_t n = random() % (n_rows - first + 1);
		uint64_t count = 0;

		for (size_t row = 0; row < n_rows; row++)
			if (random() % 3 == 0)
			{
				bits[row / 8] = static_cast<uint8_t>(bits[row / 8] | 1u << (row % 8));
				rows.push_back(static_cast<uint32_t>(row));
				count += row >= first && row < first + n;
			}
		dead[0] = 1;
		expected_dead = dead;
		for (size_t row = 0; row < n_rows; row++)
			if ((bits[row / 8] >> (row % 8) & 1) == 0)
				expected_dead[row / 8] = static_cast<uint8_t>(expected_dead[row / 8] | 1u << (row % 8));
		exclude_failing(bits.data(), n_rows, dead.data());
		EXPECT_EQ(dead, expected_dead);
		EXPECT_EQ(count_rows(bits.data(), first, n), count);

		std::vector<uint32_t> listed(rows.size() + 1);
		const size_t n_most = random() % (rows.size() + 2);

		listed.resize(list_rows(bits.data(), n_rows, listed.data(), n_most));
		rows.resize(std::min(rows.size(), n_most));
		EXPECT_EQ(listed, rows);
	}
}

} // namespace
} // namespace vectorgpu::test

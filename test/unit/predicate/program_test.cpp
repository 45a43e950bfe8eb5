// The bytes of programs: canonical form, limits, refusals.
#include <cstring>

#include <gtest/gtest.h>

#include "predicate/random_programs.hpp"

namespace vectorgpu::test
{
namespace
{

std::vector<Column>
some_columns(std::mt19937_64 &random)
{
	std::vector<Column> columns;

	for (int i = 0; i < 3; i++)
		columns.push_back(random_column(random, 40, 0));
	return columns;
}

/// A copy of a tree whose joints have their operands in another order, and now and then one twice or in a joint of its
/// own.
Node *
shuffled(std::mt19937_64 &random, const Node *node, Tree *tree)
{
	Node *copy = tree->keep(*node);
	std::vector<const Node *> operands;

	copy->first = copy->next = nullptr;
	for (const Node *operand = node->first; operand != nullptr; operand = operand->next)
	{
		operands.push_back(operand);
		if (random() % 4 == 0)
			operands.push_back(operand);
	}
	std::shuffle(operands.begin(), operands.end(), random);
	for (const Node *operand : operands)
	{
		Node *place = copy;

		if (random() % 4 == 0)
			add_operand(copy,
				place = tree->keep(joint(random() % 2 == 0 ? node->op
						: random() % 2 == 0                ? Op::kAnd
														   : Op::kOr)));
		add_operand(place, shuffled(random, operand, tree));
	}
	return copy;
}

TEST(Program, TheSameConditionsInAnyOrderAreTheSameBytes)
{
	std::mt19937_64 random(11);
	std::set<std::vector<uint8_t>> distinct;

	for (int round = 0; round < 3000; round++)
	{
		const std::vector<Column> columns = some_columns(random);
		Tree tree;
		Tree other;

		tree.root = random_node(random, columns, 3, &tree);
		other.root = shuffled(random, tree.root, &other);

		const std::vector<uint8_t> bytes = program_of(tree.root);

		ASSERT_EQ(bytes, program_of(other.root)) << "round " << round;
		distinct.insert(bytes);
	}
	EXPECT_GT(distinct.size(), 1000u);
}

TEST(Program, BoundsOfAColumnBecomeOneRange)
{
	Tree tree;

	tree.root = tree.keep(joint(Op::kAnd));
	add_operand(tree.root, tree.keep(exact_range(2, 10, UINT64_MAX)));
	add_operand(tree.root, tree.keep(not_null(2)));
	add_operand(tree.root, tree.keep(loose_range(2, 0, 20, 0, 19)));

	const Opened opened(program_of(tree.root));

	ASSERT_EQ(opened.fault, nullptr);
	ASSERT_EQ(opened.program.n_steps, 1u);
	EXPECT_EQ(opened.steps[0].op, Op::kRange);
	EXPECT_EQ(opened.steps[0].n_codes, 4u);
	EXPECT_EQ(opened.steps[0].code(0), 10u);
	EXPECT_EQ(opened.steps[0].code(1), 20u);
	EXPECT_EQ(opened.steps[0].code(2), 10u);
	EXPECT_EQ(opened.steps[0].code(3), 19u);
	EXPECT_FALSE(opened.program.exact);
	EXPECT_FALSE(opened.program.all_sure);
}

TEST(Program, MasksOfAColumnBecomeOneMask)
{
	Tree tree;

	tree.root = tree.keep(joint(Op::kAnd));
	add_operand(tree.root, tree.keep(loose_bits(1, 0x30, 0x10)));
	add_operand(tree.root, tree.keep(exact_bits(2, 1, 1)));
	add_operand(tree.root, tree.keep(exact_bits(1, 0x14, 0x14)));

	const std::vector<uint8_t> golden = {1, 0, 0, 0, 3, 0, 0, 0, // version, steps
		10, 3, 1, 0, 2, 0, 0, 0,                                 // bits of stream 1
		0x34, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0, 0,    //
		10, 0, 2, 0, 2, 0, 0, 0,                                 // of stream 2
		1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,          //
		8, 0, 0, 0, 0, 0, 0, 0};                                 // and

	EXPECT_EQ(program_of(tree.root), golden);

	const Opened opened(golden);

	ASSERT_EQ(opened.fault, nullptr);
	EXPECT_FALSE(opened.program.all_sure);
	EXPECT_FALSE(opened.program.exact);
	EXPECT_EQ(opened.program.n_streams, 3u);

	Tree none;

	none.root = none.keep(joint(Op::kAnd));
	add_operand(none.root, none.keep(exact_bits(1, 0x30, 0x10)));
	add_operand(none.root, none.keep(exact_bits(1, 0x10, 0)));
	EXPECT_EQ(program_of(none.root), program_of(none.keep(nothing())));
}

TEST(Program, LeavesComeBeforeJoints)
{
	Tree tree;
	Node *either = tree.keep(joint(Op::kOr));

	tree.root = tree.keep(joint(Op::kAnd));
	add_operand(either, tree.keep(is_null(0)));
	add_operand(either, tree.keep(equal(0, 7, false)));
	add_operand(tree.root, either);
	add_operand(tree.root, tree.keep(exact_bits(1, 3, 1)));

	const Opened opened(program_of(tree.root));

	ASSERT_EQ(opened.fault, nullptr);
	EXPECT_EQ(opened.steps[0].op, Op::kBits); // it costs less than a joint
}

TEST(Program, GoldenBytes)
{
	const std::vector<uint8_t> golden = {1, 0, 0, 0, 3, 0, 0, 0, // version, steps
		5, 0, 1, 0, 2, 0, 0, 0,                                  // range of stream 1
		2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,          //
		5, 1, 2, 0, 2, 0, 0, 0,                                  // equality of hashes of stream 2
		9, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,          //
		8, 0, 0, 0, 0, 0, 0, 0};                                 // and
	Tree tree;

	tree.root = tree.keep(joint(Op::kAnd));
	add_operand(tree.root, tree.keep(equal(2, 9, true)));
	add_operand(tree.root, tree.keep(exact_range(1, 2, 3)));
	EXPECT_EQ(program_of(tree.root), golden);

	const Opened opened(golden);

	ASSERT_EQ(opened.fault, nullptr);
	EXPECT_TRUE(opened.program.all_sure);
	EXPECT_FALSE(opened.program.exact);
}

TEST(Program, ConditionsBeyondTheLimitsAreNotWritten)
{
	Tree deep;
	Node *at = deep.root = deep.keep(joint(Op::kAnd));

	for (int i = 0; i < 100; i++)
	{
		Node *inner = deep.keep(joint(i % 2 == 0 ? Op::kOr : Op::kAnd));

		add_operand(at, deep.keep(equal(0, static_cast<uint64_t>(i), false)));
		add_operand(at, inner);
		at = inner;
	}
	EXPECT_FALSE(simplify(deep.root));

	Tree wide;
	std::vector<uint64_t> codes;

	wide.root = wide.keep(joint(Op::kOr));
	for (uint64_t i = 0; i < 9000; i++)
	{
		codes.push_back(i);
		if (i < 2000)
			add_operand(wide.root, wide.keep(equal(0, 2 * i, false)));
	}
	EXPECT_FALSE(program_of(wide.root).empty());
	EXPECT_EQ(Opened(program_of(wide.root)).fault, nullptr);

	Node list = in_list(0, codes.data(), 9000, false);

	EXPECT_TRUE(simplify(&list));
	EXPECT_EQ(program_bytes(&list), 0u);
	list.n_codes = 8000;
	EXPECT_EQ(Opened(program_of(&list)).fault, nullptr);
}

/// The bytes of one step, or of steps one behind the other.
std::vector<uint8_t>
raw_program(const std::vector<uint64_t> &words, uint32_t n_steps)
{
	std::vector<uint8_t> bytes(8 + words.size() * 8, 0);

	bytes[0] = kProgramVersion;
	memcpy(bytes.data() + 4, &n_steps, sizeof(n_steps));
	memcpy(bytes.data() + 8, words.data(), words.size() * 8);
	return bytes;
}

uint64_t
step_word(Op op, uint8_t flags, uint16_t stream, uint32_t n_codes)
{
	return static_cast<uint64_t>(op) | uint64_t{flags} << 8 | uint64_t{stream} << 16 | uint64_t{n_codes} << 32;
}

TEST(Program, EachRuleIsChecked)
{
	const uint64_t leaf = step_word(Op::kNotNull, 0, 0, 0);
	const std::vector<std::pair<std::vector<uint64_t>, uint32_t>> bad = {
		{{}, 0},
		{{leaf}, 2},
		{{leaf, leaf}, 2},
		{{leaf, leaf}, 1},
		{{step_word(Op::kAnd, 0, 0, 0)}, 1},
		{{leaf, step_word(Op::kOr, 0, 0, 0)}, 2},
		{{leaf, leaf, step_word(Op::kOr, 1, 0, 0)}, 3},
		{{leaf, leaf, step_word(Op::kOr, 0, 1, 0)}, 3},
		{{step_word(static_cast<Op>(11), 0, 0, 0)}, 1},
		{{step_word(Op::kNotNull, 1, 0, 0)}, 1},
		{{step_word(Op::kNotNull, 0, kMostStreams, 0)}, 1},
		{{step_word(Op::kNotNull, 0, 0, 1), 5}, 1},
		{{step_word(Op::kRange, 0, 0, 1), 5}, 1},
		{{step_word(Op::kRange, 0, 0, 2), 5}, 1},
		{{step_word(Op::kRange, 0, 0, 2), 5, 4}, 1},
		{{step_word(Op::kRange, 2, 0, 2), 4, 5}, 1},
		{{step_word(Op::kRange, 4, 0, 2), 4, 5}, 1},
		{{step_word(Op::kRange, 0, 0, 4), 1, 9, 2, 8}, 1},
		{{step_word(Op::kRange, 1, 0, 4), 1, 9, 0, 8}, 1},
		{{step_word(Op::kRange, 1, 0, 4), 1, 9, 2, 10}, 1},
		{{step_word(Op::kRange, 1, 0, 4), 1, 9, 8, 2}, 1},
		{{step_word(Op::kNotEqual, 0, 0, 2), 2, 1}, 1},
		{{step_word(Op::kNotEqual, 0, 0, 2), 1, 1}, 1},
		{{step_word(Op::kNotEqual, 0, 0, 0)}, 1},
		{{step_word(Op::kNotEqual, 3, 0, 1), 1}, 1},
		{{step_word(Op::kIn, 0, 0, 1), 1}, 1},
		{{step_word(Op::kIn, 0, 0, 2), 1, 1}, 1},
		{{step_word(Op::kIn, 0, 0, 2), 2, 1}, 1},
		{{step_word(Op::kIn, 0, 0, UINT32_MAX), 2, 1}, 1},
		{{step_word(Op::kBits, 0, 0, 1), 1}, 1},
		{{step_word(Op::kBits, 0, 0, 2), 0, 0}, 1},
		{{step_word(Op::kBits, 0, 0, 2), 6, 1}, 1},
		{{step_word(Op::kBits, 2, 0, 2), 6, 2}, 1},
		{{step_word(Op::kBits, 0, kMostStreams, 2), 6, 2}, 1},
		{std::vector<uint64_t>(kMostDepth + 1, leaf), kMostDepth + 1},
	};

	for (size_t i = 0; i < bad.size(); i++)
		EXPECT_NE(Opened(raw_program(bad[i].first, bad[i].second)).fault, nullptr) << i;
	EXPECT_EQ(Opened(raw_program({leaf}, 1)).fault, nullptr);
	EXPECT_EQ(Opened(raw_program({step_word(Op::kRange, 1, 0, 4), 1, 9, 2, 8}, 1)).fault, nullptr);
	EXPECT_EQ(Opened(raw_program({step_word(Op::kBits, 3, 0, 2), 6, 2}, 1)).fault, nullptr);
}

TEST(Program, DamagedBytesAreRefusedOrEvaluated)
{
	std::mt19937_64 random(23);
	size_t n_refused = 0;
	size_t n_accepted = 0;

	for (int round = 0; round < 20000; round++)
	{
		const std::vector<Column> columns = some_columns(random);
		Tree tree;

		tree.root = random_node(random, columns, 3, &tree);

		std::vector<uint8_t> bytes = program_of(tree.root);

		for (size_t n = 1 + random() % 3; n > 0; n--)
			bytes[random() % bytes.size()] = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 10);
		if (random() % 5 == 0)
			bytes.resize(random() % bytes.size());

		const Opened opened(bytes);

		n_refused += opened.fault != nullptr;
		n_accepted += opened.fault == nullptr;
		if (opened.fault != nullptr || opened.program.n_streams > columns.size())
			continue;

		std::vector<ColumnCodes> views;

		for (const Column &column : columns)
			views.push_back(column.view(true));
		(void) evaluate_rows(opened.program, views.data(), 0, 40, nullptr, nullptr);
	}
	EXPECT_GT(n_refused, 1000u);
	EXPECT_GT(n_accepted, 1000u);
}

} // namespace
} // namespace vectorgpu::test

// Random columns and conditions, and the oracle: what a tree says of a row, by definition.
#pragma once

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"
#include "engine/predicate/tree.hpp"

namespace vectorgpu::test
{

using namespace engine::predicate;

/// A stream of codes with everything that ColumnCodes refers to.
struct Column
{
	uint8_t width = 8;
	std::vector<uint64_t> values;
	std::vector<bool> is_null;
	std::vector<uint8_t> codes;
	std::vector<uint8_t> nulls;
	std::vector<Zone> zones;

	ColumnCodes view(bool with_zones) const
	{
		return {codes.data(), nulls.empty() ? nullptr : nulls.data(), with_zones ? zones.data() : nullptr, width};
	}
};

inline uint64_t
greatest_code(uint8_t width)
{
	return width == 8 ? UINT64_MAX : (uint64_t{1} << (8 * width)) - 1;
}

/// A code near others: few values, in the middle or at either end of the width.
inline uint64_t
random_code(std::mt19937_64 &random, uint8_t width)
{
	const uint64_t most = greatest_code(width);

	switch (random() % 4)
	{
		case 0:
			return random() % 5;
		case 1:
			return most - random() % 5;
		case 2:
			return most / 2 + random() % 9;
		default:
			return random() & most;
	}
}

/// kind 0: no order; 1: ascending, so that zones tell something; 2: one code; 3: all NULL.
inline Column
random_column(std::mt19937_64 &random, size_t n_rows, int kind)
{
	constexpr uint8_t kWidths[] = {1, 2, 4, 8};
	const bool with_nulls = kind == 3 || random() % 2 == 0;
	Column column;

	column.width = kWidths[random() % 4];
	for (size_t row = 0; row < n_rows; row++)
		column.values.push_back(kind == 2 ? 7 : random_code(random, column.width));
	if (kind == 1)
		std::sort(column.values.begin(), column.values.end());
	if (with_nulls)
		column.nulls.assign(row_bits_bytes(n_rows), 0);
	for (size_t row = 0; row < n_rows; row++)
	{
		const uint64_t value = column.values[row];
		const auto *bytes = reinterpret_cast<const uint8_t *>(&value);

		column.is_null.push_back(with_nulls && (kind == 3 || random() % 7 == 0));
		if (column.is_null.back())
			column.nulls[row / 8] = static_cast<uint8_t>(column.nulls[row / 8] | 1u << (row % 8));
		column.codes.insert(column.codes.end(), bytes, bytes + column.width);
	}
	column.zones.resize((n_rows + kBlockRows - 1) / kBlockRows);
	make_zones(column.view(false), n_rows, column.zones.data());
	return column;
}

/// A tree with all that its nodes refer to.
struct Tree
{
	std::deque<Node> nodes;
	std::deque<std::vector<uint64_t>> lists;
	Node *root = nullptr;

	Node *keep(const Node &node)
	{
		nodes.push_back(node);
		return &nodes.back();
	}
};

/// A condition on few bits, so that rows pass now and then; on no bit, or on one that its mask has not, rarely.
inline Node
random_bits(std::mt19937_64 &random, uint16_t stream, const uint64_t bounds[4])
{
	const uint64_t mask = random() % 16 == 0 ? 0 : bounds[0] & (random() % 3 == 0 ? UINT64_MAX : bounds[1]);
	const uint64_t value = random() % 4 == 0 ? mask : random() % 16 == 0 ? bounds[2] : bounds[2] & mask;
	Node bits = random() % 2 == 0 ? exact_bits(stream, mask, value) : loose_bits(stream, mask, value);

	if (bits.never_sure && random() % 2 == 0)
		bits.never_sure = false; // certain, but values are checked
	return bits;
}

inline Node *
random_leaf(std::mt19937_64 &random, const std::vector<Column> &columns, Tree *tree)
{
	const auto stream = static_cast<uint16_t>(random() % columns.size());
	const uint8_t width = columns[stream].width;
	const auto code = [&] { return random_code(random, random() % 20 == 0 ? 8 : width); };
	uint64_t bounds[4] = {code(), code(), code(), code()};

	switch (random() % 16)
	{
		case 0:
			return tree->keep(random() % 5 == 0 ? all() : random() % 4 == 0 ? nothing() : maybe());
		case 1:
		case 2:
			return tree->keep(is_null(stream));
		case 3:
			return tree->keep(not_null(stream));
		case 4:
			return tree->keep(equal(stream, bounds[0], random() % 2 == 0));
		case 5:
			return tree->keep(not_equal(stream, bounds[0], random() % 2 == 0));
		case 6:
		case 7:
		{
			std::set<uint64_t> codes;

			for (size_t n = random() % 5 == 0 ? random() % 2 : random() % 10 == 0 ? 1000 : random() % 40; n > 0; n--)
				codes.insert(code());
			tree->lists.emplace_back(codes.begin(), codes.end());

			const auto n_codes = static_cast<uint32_t>(tree->lists.back().size());

			if (random() % 3 == 0)
				return tree->keep(not_in_list(stream, tree->lists.back().data(), n_codes, random() % 2 == 0));

			Node *list = tree->keep(in_list(stream, tree->lists.back().data(), n_codes, random() % 2 == 0));

			list->never_sure = random() % 4 == 0;
			return list;
		}
		case 8:
		case 9:
			std::sort(bounds, bounds + 4);
			if (random() % 2 == 0)
				return tree->keep(loose_range(stream, bounds[0], bounds[3], bounds[1], bounds[2]));
			return tree->keep(loose_range(stream, bounds[0], bounds[1], bounds[3], bounds[2])); // often never sure
		case 10:
		case 11:
			return tree->keep(random_bits(random, stream, bounds));
		default:
			if (random() % 8 != 0) // else half of them are empty
				std::sort(bounds, bounds + 2);
			return tree->keep(exact_range(stream, bounds[0], bounds[1]));
	}
}

inline Node *
random_node(std::mt19937_64 &random, const std::vector<Column> &columns, int depth, Tree *tree)
{
	if (depth == 0 || random() % 4 == 0)
		return random_leaf(random, columns, tree);

	Node *node = tree->keep(joint(random() % 2 == 0 ? Op::kAnd : Op::kOr));

	for (size_t n = 1 + random() % 4; n > 0; n--)
		add_operand(node, random_node(random, columns, depth - 1, tree));
	return node;
}

/// 0: fails, 1: passes, 2: passes certainly.
inline int
verdict_by_definition(const Node *node, const std::vector<Column> &columns, size_t row)
{
	if (node->op == Op::kAnd || node->op == Op::kOr)
	{
		int verdict = node->op == Op::kAnd ? 2 : 0;

		for (const Node *operand = node->first; operand != nullptr; operand = operand->next)
		{
			const int one = verdict_by_definition(operand, columns, row);

			verdict = node->op == Op::kAnd ? std::min(verdict, one) : std::max(verdict, one);
		}
		return verdict;
	}
	if (node->op < Op::kIsNull)
		return node->op == Op::kNothing ? 0 : node->op == Op::kAll ? 2 : 1;

	const bool null = columns[node->stream].is_null[row];
	const uint64_t code = columns[node->stream].values[row];

	if (node->op == Op::kIsNull || null)
		return node->op == Op::kIsNull && null ? 2 : 0;
	switch (node->op)
	{
		case Op::kRange:
			if (code < node->low || code > node->high)
				return 0;
			return code >= node->sure_low && code <= node->sure_high ? 2 : 1;
		case Op::kNotEqual:
			if (node->codes == nullptr ? code != node->low
									   : !std::binary_search(node->codes, node->codes + node->n_codes, code))
				return 2;
			return node->recheck ? 1 : 0;
		case Op::kIn:
			if (!std::binary_search(node->codes, node->codes + node->n_codes, code))
				return 0;
			return node->never_sure ? 1 : 2;
		case Op::kBits:
			return (code & node->low) != node->high ? 0 : node->never_sure ? 1 : 2;
		default:
			return 2;
	}
}

/// The bytes of a tree that is simplified here; none if it breaks a limit.
inline std::vector<uint8_t>
program_of(Node *root)
{
	if (!simplify(root))
		return {};

	std::vector<uint8_t> bytes(program_bytes(root));

	if (!bytes.empty())
		write_program(root, bytes.data());
	return bytes;
}

/// An opened program with its steps.
struct Opened
{
	std::vector<Step> steps;
	Program program{};
	const char *fault;

	explicit Opened(const std::vector<uint8_t> &bytes) : steps(program_steps(bytes.data(), bytes.size()))
	{
		fault = program_open(bytes.data(), bytes.size(), steps.data(), static_cast<uint32_t>(steps.size()), &program);
	}
};

} // namespace vectorgpu::test

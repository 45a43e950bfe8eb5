// See value_condition.hpp.
#include "am/keys/value_condition.hpp"

#include "am/keys/array_condition.hpp"
#include "am/keys/enum_condition.hpp"
#include "am/keys/exact_condition.hpp"
#include "am/keys/key_node.hpp"
#include "am/keys/value_code.hpp"

namespace vectorgpu::am
{

namespace
{

using namespace engine::predicate;

/// What the order stream says of values whose code equals the constant's.
enum class Tie
{
	kEqual,   // they equal it
	kNotLess, // they are equal or greater
	kUnknown,
};

/// Rows that have a value, none certainly: a condition that codes cannot decide.
Node
undecided(uint16 stream)
{
	return loose_range(stream, 0, PG_UINT64_MAX, 1, 0);
}

/// An order by codes that tell up to equality: `code` is the constant's.
Node
approximate_order(uint16 stream, StrategyNumber strategy, uint64 code, Tie tie)
{
	const bool less = strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber;
	const bool or_equal = strategy == BTLessEqualStrategyNumber || strategy == BTGreaterEqualStrategyNumber;
	const bool tie_passes =
		tie == Tie::kEqual ? or_equal : tie == Tie::kNotLess && strategy == BTGreaterEqualStrategyNumber;
	const bool tie_fails = tie == Tie::kEqual ? !or_equal : tie == Tie::kNotLess && strategy == BTLessStrategyNumber;

	if (less && tie_passes)
		return exact_range(stream, 0, code);
	if (less && tie_fails)
		return code == 0 ? nothing() : exact_range(stream, 0, code - 1);
	if (less)
		return loose_range(stream, 0, code, code == 0 ? 1 : 0, code == 0 ? 0 : code - 1);
	if (tie_passes)
		return exact_range(stream, code, PG_UINT64_MAX);
	if (code == PG_UINT64_MAX)
		return tie_fails ? nothing() : loose_range(stream, code, code, 1, 0);
	return tie_fails ? exact_range(stream, code + 1, PG_UINT64_MAX)
					 : loose_range(stream, code, PG_UINT64_MAX, code + 1, PG_UINT64_MAX);
}

/// Equality by a code. proves: equal codes mean equal values; if not, a row with the code may meet it.
Node
equality(uint16 stream, StrategyNumber strategy, uint64 code, bool proves)
{
	return strategy == BTEqualStrategyNumber ? equal(stream, code, !proves) : not_equal(stream, code, !proves);
}

bool
is_equality(StrategyNumber strategy)
{
	return strategy == BTEqualStrategyNumber || strategy == kNotEqualStrategy;
}

/// Values with the code of an exact constant equal it; those with the code behind it are near. See numeric_code.
void
numeric_condition(const ValueCondition &condition, Node *node)
{
	const StrategyNumber strategy = condition.strategy;
	const uint16 stream = condition.stream;
	const uint64 code = numeric_code(condition.constant);
	const uint64 even = code & ~UINT64CONST(1);

	if (strategy == BTEqualStrategyNumber && !is_exact_numeric(code)) // unequal values with this code are not rare
		*node = loose_range(stream, code, code, 1, 0);
	else if (is_equality(strategy))
		*node = equality(stream, strategy, code, is_exact_numeric(code));
	else if (!is_exact_numeric(code)) // all values near it may lie on either side
	{
		const bool less = strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber;

		*node = less ? loose_range(stream, 0, code, 0, even - 1)
					 : loose_range(stream, even, PG_UINT64_MAX, even + 2, PG_UINT64_MAX);
	}
	else if (strategy == BTLessEqualStrategyNumber)
		*node = loose_range(stream, 0, even + 1, 0, even);
	else if (strategy == BTGreaterStrategyNumber)
		*node = loose_range(stream, even + 1, PG_UINT64_MAX, even + 2, PG_UINT64_MAX);
	else
	{
		*node = joint(Op::kOr);
		add_operand(node, key_node(loose_range(stream, even + 1, even + 1, 1, 0)));
		add_operand(node,
			key_node(strategy == BTLessStrategyNumber ? exact_range(stream, 0, even - 1)
													  : exact_range(stream, even + 2, PG_UINT64_MAX)));
		if (strategy == BTGreaterEqualStrategyNumber)
			add_operand(node, key_node(equal(stream, even, false)));
	}
}

/// How values of a byte string's prefix relate to the whole string.
Tie
tie_of(KeyKind kind, const char *bytes, size_t size)
{
	if (size > sizeof(uint64))
		return Tie::kUnknown;
	// A text has no zero bytes, so that the zeros behind a shorter one are its end.
	if (kind == KeyKind::kText)
		return size < sizeof(uint64) ? Tie::kEqual : Tie::kNotLess;
	return size > 0 && bytes[size - 1] == '\0' ? Tie::kUnknown : Tie::kNotLess;
}

void
bytes_condition(const ValueCondition &condition, Node *node)
{
	struct varlena *constant = PG_DETOAST_DATUM_PACKED(condition.constant);
	const char *bytes = VARDATA_ANY(constant);
	const size_t size = VARSIZE_ANY_EXHDR(constant);
	uint64 codes[kMostKeyStreams];

	key_encode(condition.column, PointerGetDatum(constant), codes);
	if (is_equality(condition.strategy))
		*node = equality(condition.stream, condition.strategy, codes[0], is_whole_value(codes[0]));
	else if (condition.column->in_order)
		*node = approximate_order(static_cast<uint16>(condition.stream + 1), condition.strategy, codes[1],
			tie_of(condition.column->kind, bytes, size));
	else
		*node = undecided(condition.stream);
}

void
inet_condition(const ValueCondition &condition, Node *node)
{
	uint64 code;

	key_encode(condition.column, condition.constant, &code);
	*node = is_equality(condition.strategy) ? equality(condition.stream, condition.strategy, code, is_whole_value(code))
											: undecided(condition.stream);
}

/// Both words for equality; for an order the first, or its equality and the second.
void
uuid_condition(const ValueCondition &condition, Node *node)
{
	const StrategyNumber strategy = condition.strategy;
	const auto first = condition.stream;
	const auto second = static_cast<uint16>(first + 1);
	uint64 codes[kMostKeyStreams];

	key_encode(condition.column, condition.constant, codes);
	if (is_equality(strategy))
	{
		*node = joint(strategy == BTEqualStrategyNumber ? Op::kAnd : Op::kOr);
		add_operand(node, key_node(equality(first, strategy, codes[0], true)));
		add_operand(node, key_node(equality(second, strategy, codes[1], true)));
		return;
	}

	const bool less = strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber;
	Node *tied = key_node(joint(Op::kAnd));

	add_operand(tied, key_node(equal(first, codes[0], false)));
	add_operand(tied, key_node(approximate_order(second, strategy, codes[1], Tie::kEqual)));
	*node = joint(Op::kOr);
	add_operand(node, tied);
	add_operand(node,
		key_node(
			approximate_order(first, less ? BTLessStrategyNumber : BTGreaterStrategyNumber, codes[0], Tie::kEqual)));
}

} // namespace

void
value_condition(const ValueCondition &condition, Node *node)
{
	switch (condition.column->kind)
	{
		case KeyKind::kNumeric:
			return numeric_condition(condition, node);
		case KeyKind::kUuid:
			return uuid_condition(condition, node);
		case KeyKind::kText:
		case KeyKind::kBytea:
			return bytes_condition(condition, node);
		case KeyKind::kInet:
			return inet_condition(condition, node);
		case KeyKind::kEnum:
			return enum_condition(condition.column, condition.stream, condition.strategy, condition.constant, node);
		case KeyKind::kArray:
			return array_column_condition(
				condition.column, condition.stream, condition.strategy, condition.constant, node);
		default:
			return exact_condition(condition.column, condition.stream, condition.strategy, condition.constant,
				condition.constant_type, node);
	}
}

} // namespace vectorgpu::am

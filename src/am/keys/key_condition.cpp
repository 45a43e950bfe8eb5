// See key_condition.hpp.
#include "am/keys/key_condition.hpp"

#include "am/keys/array_condition.hpp"
#include "am/keys/enum_condition.hpp"
#include "am/keys/exact_code.hpp"
#include "am/keys/exact_condition.hpp"
#include "am/keys/key_node.hpp"
#include "am/keys/value_code.hpp"
#include "engine/predicate/tree.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
}

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

using namespace engine::predicate;

/// A condition on one column.
struct Condition
{
	const KeyColumn *column;
	uint16 stream; // the column's first
	StrategyNumber strategy;
	Datum constant;
	Oid constant_type; // 0: the column's
};

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
numeric_condition(const Condition &condition, Node *node)
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
bytes_condition(const Condition &condition, Node *node)
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
inet_condition(const Condition &condition, Node *node)
{
	uint64 code;

	key_encode(condition.column, condition.constant, &code);
	*node = is_equality(condition.strategy) ? equality(condition.stream, condition.strategy, code, is_whole_value(code))
											: undecided(condition.stream);
}

/// Both words for equality; for an order the first, or its equality and the second.
void
uuid_condition(const Condition &condition, Node *node)
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

void
write_condition(const Condition &condition, Node *node)
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

/// Equalities with one code each, to become a list.
struct CodeList
{
	uint64 *codes;
	uint32 n;
};

Node *
list_node(uint16 stream, CodeList *list, bool recheck)
{
	std::sort(list->codes, list->codes + list->n);
	list->n = static_cast<uint32>(std::unique(list->codes, list->codes + list->n) - list->codes);
	return key_node(in_list(stream, list->codes, list->n, recheck));
}

/// Read the elements of an array; *nulls [n]. Return n.
int
elements_of(ArrayType *array, Datum **elements, bool **nulls)
{
	const Oid type = ARR_ELEMTYPE(array);
	int16 length;
	bool by_value;
	char align;
	int n;

	get_typlenbyvalalign(type, &length, &by_value, &align);
	deconstruct_array(array, type, length, by_value, align, elements, nulls, &n);
	return n;
}

/// A condition with any element of an array, NULLs among them, which nothing equals.
void
any_condition(Condition condition, ArrayType *array, Node *node)
{
	CodeList lists[2] = {}; // by recheck
	Datum *elements;
	bool *nulls;
	const int n = elements_of(array, &elements, &nulls);

	for (CodeList &list : lists)
		list.codes = static_cast<uint64 *>(palloc((static_cast<size_t>(n) + 1) * sizeof(uint64)));
	*node = joint(Op::kOr);
	for (int i = 0; i < n; i++)
	{
		Node one;

		if (nulls[i])
			continue;
		condition.constant = elements[i];
		write_condition(condition, &one);
		if (one.op == Op::kRange && one.stream == condition.stream && one.low == one.high && one.sure_low == one.low &&
			one.sure_high == one.high)
		{
			CodeList *list = &lists[one.recheck ? 1 : 0];

			list->codes[list->n++] = one.low;
		}
		else
			add_operand(node, key_node(one));
	}
	for (int recheck = 0; recheck < 2; recheck++)
		add_operand(node, list_node(condition.stream, &lists[recheck], recheck != 0));
}

/// A condition with all elements of an array. Without elements every row passes, also one with NULL.
void
all_condition(Condition condition, ArrayType *array, Node *node)
{
	Datum *elements;
	bool *nulls;
	const int n = elements_of(array, &elements, &nulls);

	*node = joint(Op::kAnd);
	for (int i = 0; i < n; i++)
	{
		Node *one = key_node(nothing());

		condition.constant = elements[i];
		if (!nulls[i])
			write_condition(condition, one);
		add_operand(node, one);
	}
}

/// all_of: the argument is an array, and the condition has to hold for all its elements.
void
write_key(const KeyColumn *column, uint16 stream, const ScanKeyData *key, bool all_of, Node *node)
{
	if ((key->sk_flags & SK_SEARCHNULL) != 0)
		*node = is_null(stream);
	else if ((key->sk_flags & SK_SEARCHNOTNULL) != 0)
		*node = not_null(stream);
	else if ((key->sk_flags & SK_ISNULL) != 0)
		*node = nothing(); // the operators are strict
	else if ((key->sk_flags & SK_ROW_HEADER) != 0 || key->sk_strategy < 1 || key->sk_strategy > kLastStrategy)
		elog(ERROR, "unexpected scan key of a key column: flags %x, strategy %d", key->sk_flags, key->sk_strategy);
	else
	{
		const Condition condition = {column, stream, key->sk_strategy, key->sk_argument, key->sk_subtype};

		if (all_of)
			all_condition(condition, DatumGetArrayTypeP(key->sk_argument), node);
		else if ((key->sk_flags & SK_SEARCHARRAY) != 0)
			any_condition(condition, DatumGetArrayTypeP(key->sk_argument), node);
		else
			write_condition(condition, node);
	}
}

/// The key columns of an index.
struct Columns
{
	const KeyColumn *columns; // [n]
	int n;
};

Node *
node_of_key(const Columns &columns, const ScanKeyData *key, bool all_of)
{
	const int i = key->sk_attno - 2;
	Node *node = key_node(nothing());

	if (i < 0 || i >= columns.n)
		elog(ERROR, "scan key of attribute %d of an index with %d key columns", key->sk_attno, columns.n + 1);
	write_key(&columns.columns[i], static_cast<uint16>(first_stream(columns.columns, i)), key, all_of, node);
	return node;
}

Node *
node_of_tree(const Columns &columns, const KeyTree *tree)
{
	Node *node;

	check_stack_depth();
	if (tree->op == KeyTreeOp::kKey || tree->op == KeyTreeOp::kAllOf)
		return node_of_key(columns, &tree->key, tree->op == KeyTreeOp::kAllOf);
	if (tree->op == KeyTreeOp::kMaybe)
		return key_node(maybe());
	node = key_node(joint(tree->op == KeyTreeOp::kAnd ? Op::kAnd : Op::kOr));
	for (int i = 0; i < tree->n_operands; i++)
		add_operand(node, node_of_tree(columns, tree->operands[i]));
	return node;
}

/// Write the program of a tree; kMaybe if it would break a limit.
void
finish(Node *root, KeyProgram *result)
{
	Node everything = maybe();
	Node *written = simplify(root) && program_bytes(root) > 0 ? root : &everything;
	uint32 n_steps;
	Step *steps;
	const char *fault;

	result->n_bytes = program_bytes(written);
	result->bytes = static_cast<uint8 *>(palloc(result->n_bytes));
	write_program(written, result->bytes);
	n_steps = program_steps(result->bytes, result->n_bytes);
	steps = static_cast<Step *>(palloc(n_steps * sizeof(Step)));
	fault = program_open(result->bytes, result->n_bytes, steps, n_steps, &result->program);
	if (fault != nullptr)
		elog(ERROR, "invalid predicate program: %s", fault);
}

} // namespace

uint32
first_stream(const KeyColumn *columns, int i)
{
	uint32 n = 0;

	for (int c = 0; c < i; c++)
		n += columns[c].n_streams;
	return n;
}

void
make_key_program(const KeyColumn *columns, int n_columns, const ScanKeyData *keys, int n_keys, const KeyTree *tree,
	KeyProgram *result)
{
	Node *root = key_node(joint(Op::kAnd));

	for (int k = 0; k < n_keys; k++)
		if (keys[k].sk_attno > 1)
			add_operand(root, node_of_key({columns, n_columns}, &keys[k], false));
	if (tree != nullptr)
		add_operand(root, node_of_tree({columns, n_columns}, tree));
	finish(root, result);
}

} // namespace vectorgpu::am

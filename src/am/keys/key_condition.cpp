// See key_condition.hpp.
#include "am/keys/key_condition.hpp"

#include "am/keys/key_node.hpp"
#include "am/keys/value_condition.hpp"

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

/// Equalities with one code each, or their negations, to become a step with a list.
struct CodeLists
{
	struct
	{
		uint64 *codes;
		uint32 n;
	} lists[2]; // by recheck
};

CodeLists
new_lists(int n)
{
	CodeLists made = {};

	for (auto &list : made.lists)
		list.codes = static_cast<uint64 *>(palloc((static_cast<Size>(n) + 1) * sizeof(uint64)));
	return made;
}

/// Add a condition to those that it is joined with: its code to a list, if it has only one.
void
add_to_lists(const Node &condition, uint16 stream, CodeLists *lists, Node *joint)
{
	const bool one_code = condition.op == Op::kRange ? condition.low == condition.high &&
			condition.sure_low == condition.low && condition.sure_high == condition.high
													 : condition.op == Op::kNotEqual;
	const Op joined = condition.op == Op::kRange ? Op::kOr : Op::kAnd;

	if (one_code && condition.stream == stream && joint->op == joined)
	{
		auto &list = lists->lists[condition.recheck ? 1 : 0];

		list.codes[list.n++] = condition.low;
	}
	else
		add_operand(joint, key_node(condition));
}

/// Add the lists to the conditions that they are joined with.
void
finish_lists(uint16 stream, CodeLists *lists, Node *joint)
{
	for (int recheck = 0; recheck < 2; recheck++)
	{
		auto &list = lists->lists[recheck];

		if (list.n == 0)
			continue;
		std::sort(list.codes, list.codes + list.n);
		list.n = static_cast<uint32>(std::unique(list.codes, list.codes + list.n) - list.codes);
		add_operand(joint,
			key_node(joint->op == Op::kOr ? in_list(stream, list.codes, list.n, recheck != 0)
										  : not_in_list(stream, list.codes, list.n, recheck != 0)));
	}
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

constexpr int kManyUuids = 16; // more become lists of words, which are one step each, instead of a pair of steps each

/// uuid = ANY (…): rows whose words are both listed. They may be those of two values, which is rare enough to count as
/// certain, but values are checked.
void
uuid_list_condition(const ValueCondition &condition, const Datum *elements, const bool *nulls, int n, Node *node)
{
	*node = joint(Op::kAnd);
	for (int word = 0; word < kMostKeyStreams; word++)
	{
		CodeLists lists = new_lists(n);
		Node *any = key_node(joint(Op::kOr));
		const auto stream = static_cast<uint16>(condition.stream + word);

		for (int i = 0; i < n; i++)
		{
			uint64 codes[kMostKeyStreams];

			if (nulls[i])
				continue;
			key_encode(condition.column, elements[i], codes);
			add_to_lists(equal(stream, codes[word], true), stream, &lists, any);
		}
		finish_lists(stream, &lists, any);
		add_operand(node, any);
	}
}

/// A condition with any element of an array, or with all. NULL among them equals nothing, nor does it differ from
/// anything. All of none: every row passes, also one with NULL.
void
array_condition(ValueCondition condition, ArrayType *array, bool all_of, Node *node)
{
	Datum *elements;
	bool *nulls;
	const int n = elements_of(array, &elements, &nulls);
	CodeLists lists;

	if (condition.column->kind == KeyKind::kUuid && condition.strategy == BTEqualStrategyNumber && !all_of &&
		n > kManyUuids)
		return uuid_list_condition(condition, elements, nulls, n, node);
	lists = new_lists(n);
	*node = joint(all_of ? Op::kAnd : Op::kOr);
	for (int i = 0; i < n; i++)
	{
		Node one = nothing();

		condition.constant = elements[i];
		if (!nulls[i])
			value_condition(condition, &one);
		if (!nulls[i] || all_of)
			add_to_lists(one, condition.stream, &lists, node);
	}
	finish_lists(condition.stream, &lists, node);
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
		const ValueCondition condition = {column, stream, key->sk_strategy, key->sk_argument, key->sk_subtype};

		if (all_of || (key->sk_flags & SK_SEARCHARRAY) != 0)
			array_condition(condition, DatumGetArrayTypeP(key->sk_argument), all_of, node);
		else
			value_condition(condition, node);
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

/// Add a condition to those that all have to hold. Where it would break a limit by itself, it says nothing, so that the
/// others still do.
void
add_clause(Node *root, Node *clause)
{
	add_operand(root, simplify(clause) && program_bytes(clause) > 0 ? clause : key_node(maybe()));
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
			add_clause(root, node_of_key({columns, n_columns}, &keys[k], false));
	if (tree != nullptr && tree->op == KeyTreeOp::kAnd)
		for (int i = 0; i < tree->n_operands; i++)
			add_clause(root, node_of_tree({columns, n_columns}, tree->operands[i]));
	else if (tree != nullptr)
		add_clause(root, node_of_tree({columns, n_columns}, tree));
	finish(root, result);
}

} // namespace vectorgpu::am

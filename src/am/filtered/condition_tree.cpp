// See condition_tree.hpp.
#include "am/filtered/condition_tree.hpp"

#include "am/filtered/clause.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "executor/executor.h"
}

namespace vectorgpu::am
{

namespace
{

/// A place in the numbers of a plan.
struct Cursor
{
	const FilteredScanState *state;
	int at;
};

struct Leaf
{
	AttrNumber attribute;
	StrategyNumber strategy;
	Oid type;
	Oid collation;
	int other;
};

int
next(Cursor *cursor)
{
	return list_nth_int(cursor->state->numbers, cursor->at++);
}

Leaf
read_leaf(Cursor *cursor)
{
	Leaf leaf;

	leaf.attribute = static_cast<AttrNumber>(next(cursor));
	leaf.strategy = static_cast<StrategyNumber>(next(cursor));
	leaf.type = static_cast<Oid>(next(cursor));
	leaf.collation = static_cast<Oid>(next(cursor));
	leaf.other = next(cursor);
	return leaf;
}

KeyTree *
new_tree(KeyTreeOp op, int n_operands)
{
	KeyTree *tree = static_cast<KeyTree *>(palloc0(sizeof(KeyTree)));

	tree->op = op;
	tree->n_operands = n_operands;
	if (n_operands > 0)
		tree->operands = static_cast<const KeyTree **>(palloc0(static_cast<Size>(n_operands) * sizeof(KeyTree *)));
	return tree;
}

/// All rows pass, or none does.
bool
is_constant(const KeyTree *tree, bool passes)
{
	return tree->op == (passes ? KeyTreeOp::kAnd : KeyTreeOp::kOr) && tree->n_operands == 0;
}

KeyTree *
constant(bool passes)
{
	return new_tree(passes ? KeyTreeOp::kAnd : KeyTreeOp::kOr, 0);
}

KeyTree *
key_tree(KeyTreeOp op, const Leaf &leaf, int flags, Datum argument)
{
	KeyTree *tree = new_tree(op, 0);
	ScanKey key = &tree->key;

	key->sk_flags = flags;
	key->sk_attno = leaf.attribute;
	key->sk_strategy = leaf.strategy;
	key->sk_subtype = leaf.type;
	key->sk_collation = leaf.collation;
	key->sk_argument = argument;
	return tree;
}

KeyTree *
null_test(const Leaf &leaf, bool is_null)
{
	return key_tree(KeyTreeOp::kKey, leaf, SK_ISNULL | (is_null ? SK_SEARCHNULL : SK_SEARCHNOTNULL), 0);
}

/// The strategy is <> for IS DISTINCT FROM, = for its negation.
KeyTree *
distinct(const Leaf &leaf, Datum value, bool value_is_null)
{
	const bool is_not = leaf.strategy == BTEqualStrategyNumber;
	KeyTree *tree;

	if (value_is_null)
		return null_test(leaf, is_not);
	if (is_not)
		return key_tree(KeyTreeOp::kKey, leaf, 0, value);
	tree = new_tree(KeyTreeOp::kOr, 2);
	tree->operands[0] = null_test(leaf, true);
	tree->operands[1] = key_tree(KeyTreeOp::kKey, leaf, 0, value);
	return tree;
}

KeyTree *
leaf_tree(Cursor *cursor, ClauseOp op)
{
	const FilteredScanState *state = cursor->state;
	const Leaf leaf = read_leaf(cursor);
	bool is_null = false;
	Datum value = 0;

	if (op == ClauseOp::kIsNull || op == ClauseOp::kNotNull)
		return null_test(leaf, op == ClauseOp::kIsNull);
	value = ExecEvalExpr(state->others[leaf.other], state->context, &is_null);
	if (op == ClauseOp::kTest)
		return constant(!is_null && DatumGetBool(value));
	if (op == ClauseOp::kDistinct)
		return distinct(leaf, value, is_null);
	if (is_null)
		return constant(false); // the operators are strict, and so are lists of values
	return key_tree(op == ClauseOp::kAllOf ? KeyTreeOp::kAllOf : KeyTreeOp::kKey, leaf,
		op == ClauseOp::kAnyOf ? SK_SEARCHARRAY : 0, value);
}

/// Pass by a condition without computing it.
void
skip(Cursor *cursor)
{
	const ClauseOp op = static_cast<ClauseOp>(next(cursor));

	if (op == ClauseOp::kAnd || op == ClauseOp::kOr)
		for (int i = next(cursor); i > 0; i--)
			skip(cursor);
	else if (op != ClauseOp::kMaybe)
		cursor->at += kLeafNumbers;
}

KeyTree *
read_tree(Cursor *cursor)
{
	const ClauseOp op = static_cast<ClauseOp>(next(cursor));
	const bool is_or = op == ClauseOp::kOr;
	KeyTree *decided = nullptr;
	KeyTree *tree;

	check_stack_depth();
	if (op == ClauseOp::kMaybe)
		return new_tree(KeyTreeOp::kMaybe, 0);
	if (op != ClauseOp::kAnd && !is_or)
		return leaf_tree(cursor, op);
	tree = new_tree(is_or ? KeyTreeOp::kOr : KeyTreeOp::kAnd, next(cursor));
	for (int i = 0; i < tree->n_operands; i++)
		if (decided != nullptr)
			skip(cursor);
		else
		{
			KeyTree *operand = read_tree(cursor);

			tree->operands[i] = operand;
			if (is_constant(operand, is_or))
				decided = operand;
		}
	return decided != nullptr ? decided : tree;
}

} // namespace

const KeyTree *
condition_tree(const FilteredScanState *state)
{
	const MemoryContext before = MemoryContextSwitchTo(state->context->ecxt_per_tuple_memory);
	Cursor cursor = {state, 1};
	const KeyTree *tree = read_tree(&cursor);

	MemoryContextSwitchTo(before);
	return is_constant(tree, true) ? nullptr : tree;
}

} // namespace vectorgpu::am

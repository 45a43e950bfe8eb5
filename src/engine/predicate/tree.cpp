// See tree.hpp.
#include "engine/predicate/tree.hpp"

namespace vectorgpu::engine::predicate
{

namespace
{

Node
leaf(Op op, uint16_t stream)
{
	Node node = {};

	node.op = op;
	node.stream = stream;
	return node;
}

/// Make *node another one, at the same place among its parent's operands.
void
become(Node *node, const Node &other)
{
	Node *next = node->next;

	*node = other;
	node->next = next;
}

/// A range in its one form: sure bounds within the others, (1, 0) for none; recheck set if they differ.
void
simplify_range(Node *node)
{
	if (node->low > node->high)
	{
		become(node, nothing());
		return;
	}
	if (node->sure_low < node->low)
		node->sure_low = node->low;
	if (node->sure_high > node->high)
		node->sure_high = node->high;
	if (range_is_never_sure(node))
	{
		node->sure_low = 1;
		node->sure_high = 0;
	}
	if (node->sure_low != node->low || node->sure_high != node->high)
		node->recheck = true;
}

void
simplify_in(Node *node)
{
	if (node->n_codes == 0)
		become(node, nothing());
	else if (node->n_codes == 1 && node->never_sure)
		become(node, loose_range(node->stream, node->codes[0], node->codes[0], 1, 0));
	else if (node->n_codes == 1)
		become(node, equal(node->stream, node->codes[0], node->recheck));
	else
		node->recheck |= node->never_sure;
}

/// A list of codes that do not pass in its one form; of a single code it is in `low`.
void
simplify_not_equal(Node *node)
{
	if (node->codes == nullptr)
		return;
	if (node->n_codes == 0)
		become(node, not_null(node->stream));
	else if (node->n_codes == 1)
		become(node, not_equal(node->stream, node->codes[0], node->recheck));
}

/// Bits in their one form: kNothing if the value has bits beyond the mask, a range of all codes if the mask is empty.
void
simplify_bits(Node *node)
{
	node->recheck |= node->never_sure;
	if ((node->high & ~node->low) != 0)
		become(node, nothing());
	else if (node->low == 0)
	{
		Node every = exact_range(node->stream, 0, UINT64_MAX);

		every.recheck = node->recheck;
		if (node->never_sure)
		{
			every.sure_low = 1;
			every.sure_high = 0;
		}
		become(node, every);
	}
}

template <class T>
int
order_of(const T &a, const T &b)
{
	return a < b ? -1 : a > b;
}

int
compare_codes(const Node *a, const Node *b)
{
	int order = order_of(a->n_codes, b->n_codes);

	for (uint32_t i = 0; order == 0 && i < a->n_codes; i++)
		order = order_of(a->codes[i], b->codes[i]);
	return order;
}

/// The order of operands: leaves first, since they cost less. Of simplified nodes.
int
compare_nodes(const Node *a, const Node *b)
{
	int order;

	if ((order = order_of(is_joint(a->op), is_joint(b->op))) != 0 || (order = order_of(a->op, b->op)) != 0 ||
		(order = order_of(a->stream, b->stream)) != 0 || (order = order_of(a->low, b->low)) != 0 ||
		(order = order_of(a->high, b->high)) != 0 || (order = order_of(a->sure_low, b->sure_low)) != 0 ||
		(order = order_of(a->sure_high, b->sure_high)) != 0 || (order = order_of(a->recheck, b->recheck)) != 0 ||
		(order = order_of(a->never_sure, b->never_sure)) != 0 || (order = compare_codes(a, b)) != 0)
		return order;

	const Node *in_a = a->first;
	const Node *in_b = b->first;

	for (; order == 0 && in_a != nullptr && in_b != nullptr; in_a = in_a->next, in_b = in_b->next)
		order = compare_nodes(in_a, in_b);
	return order != 0 ? order : order_of(in_a != nullptr, in_b != nullptr);
}

/// Merge two sorted lists of operands.
Node *
merge(Node *a, Node *b)
{
	Node *merged = nullptr;
	Node **end = &merged;

	while (a != nullptr && b != nullptr)
	{
		Node *&taken = compare_nodes(a, b) <= 0 ? a : b;

		*end = taken;
		end = &taken->next;
		taken = *end;
	}
	*end = a != nullptr ? a : b;
	return merged;
}

/// Sort a list of n operands; *behind: the first one that does not belong to it.
Node *
sort(Node *list, uint32_t n, Node **behind)
{
	if (n == 0)
	{
		*behind = list;
		return nullptr;
	}
	if (n == 1)
	{
		*behind = list->next;
		list->next = nullptr;
		return list;
	}

	Node *rest;
	Node *left = sort(list, n / 2, &rest);
	Node *right = sort(rest, n - n / 2, behind);

	return merge(left, right);
}

/// Put operands of the same kind in the places of their operands, and leave out those that say nothing. True if one
/// decides alone.
bool
flatten(Node *node)
{
	const Op neutral = node->op == Op::kAnd ? Op::kAll : Op::kNothing;
	const Op deciding = node->op == Op::kAnd ? Op::kNothing : Op::kAll;
	Node **at = &node->first;

	while (*at != nullptr)
	{
		Node *operand = *at;

		if (operand->op == deciding)
			return true;
		if (operand->op == neutral)
			*at = operand->next;
		else if (operand->op == node->op)
		{
			Node **end = at;

			for (*at = operand->first; *end != nullptr;)
				end = &(*end)->next;
			*end = operand->next;
			at = end;
		}
		else
			at = &operand->next;
	}
	return false;
}

void
sort_operands(Node *node)
{
	uint32_t n = 0;
	Node *behind;

	for (const Node *operand = node->first; operand != nullptr; operand = operand->next)
		n++;
	node->first = sort(node->first, n, &behind);
}

/// Of kAnd, sorted: make ranges of one stream one range. True if a stream's ranges have no code in common.
bool
intersect_ranges(Node *node)
{
	for (Node *operand = node->first; operand != nullptr; operand = operand->next)
	{
		if (operand->op != Op::kRange)
			continue;
		for (Node *other = operand->next;
			other != nullptr && other->op == Op::kRange && other->stream == operand->stream; other = operand->next)
		{
			operand->low = other->low > operand->low ? other->low : operand->low;
			operand->high = other->high < operand->high ? other->high : operand->high;
			operand->sure_low = other->sure_low > operand->sure_low ? other->sure_low : operand->sure_low;
			operand->sure_high = other->sure_high < operand->sure_high ? other->sure_high : operand->sure_high;
			operand->recheck |= other->recheck;
			operand->next = other->next;
		}
		simplify_range(operand);
		if (operand->op == Op::kNothing)
			return true;
	}
	return false;
}

/// Make the masks of one stream under a sorted kAnd one mask. True if they want a bit to be both 0 and 1.
bool
intersect_bits(Node *node)
{
	for (Node *operand = node->first; operand != nullptr; operand = operand->next)
		while (operand->op == Op::kBits && operand->next != nullptr && operand->next->op == Op::kBits &&
			operand->next->stream == operand->stream)
		{
			const Node *other = operand->next;

			if (((operand->high ^ other->high) & operand->low & other->low) != 0)
				return true;
			operand->low |= other->low;
			operand->high |= other->high;
			operand->recheck |= other->recheck;
			operand->never_sure |= other->never_sure;
			operand->next = other->next;
		}
	return false;
}

/// Whether a row that passes the operand has a code in the stream.
bool
implies_not_null(const Node *operand, uint16_t stream)
{
	return operand->op > Op::kNotNull && operand->op <= Op::kIn && operand->stream == stream;
}

/// Of kAnd, sorted: drop kNotNull of streams that another operand asks for a code.
void
drop_not_null(Node *node)
{
	for (Node **at = &node->first; *at != nullptr;)
	{
		bool implied = false;

		if ((*at)->op == Op::kNotNull)
			for (const Node *other = node->first; other != nullptr; other = other->next)
				implied |= implies_not_null(other, (*at)->stream);
		if (implied)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
}

void
drop_repetitions(Node *node)
{
	for (Node *operand = node->first; operand != nullptr; operand = operand->next)
		while (operand->next != nullptr && compare_nodes(operand, operand->next) == 0)
			operand->next = operand->next->next;
}

bool simplify_at(Node *node, uint32_t depth);

bool
simplify_joint(Node *node, uint32_t depth)
{
	for (Node *operand = node->first; operand != nullptr; operand = operand->next)
		if (!simplify_at(operand, depth + 1))
			return false;

	const Op deciding = node->op == Op::kAnd ? Op::kNothing : Op::kAll;
	bool decided = flatten(node);

	if (!decided)
	{
		sort_operands(node);
		if (node->op == Op::kAnd)
		{
			decided = intersect_ranges(node) || intersect_bits(node);
			drop_not_null(node);
		}
		drop_repetitions(node);
	}
	if (decided)
		become(node, leaf(deciding, 0));
	else if (node->first == nullptr)
		become(node, leaf(node->op == Op::kAnd ? Op::kAll : Op::kNothing, 0));
	else if (node->first->next == nullptr)
		become(node, Node(*node->first));
	return true;
}

bool
simplify_at(Node *node, uint32_t depth)
{
	if (depth > kMostDepth)
		return false;
	if (is_joint(node->op))
		return simplify_joint(node, depth);
	if (node->op == Op::kRange)
		simplify_range(node);
	else if (node->op == Op::kIn)
		simplify_in(node);
	else if (node->op == Op::kNotEqual)
		simplify_not_equal(node);
	else if (node->op == Op::kBits)
		simplify_bits(node);
	return true;
}

} // namespace

Node
nothing()
{
	return leaf(Op::kNothing, 0);
}

Node
all()
{
	return leaf(Op::kAll, 0);
}

Node
maybe()
{
	return leaf(Op::kMaybe, 0);
}

Node
is_null(uint16_t stream)
{
	return leaf(Op::kIsNull, stream);
}

Node
not_null(uint16_t stream)
{
	return leaf(Op::kNotNull, stream);
}

Node
exact_range(uint16_t stream, uint64_t low, uint64_t high)
{
	Node node = leaf(Op::kRange, stream);

	node.low = node.sure_low = low;
	node.high = node.sure_high = high;
	return node;
}

Node
loose_range(uint16_t stream, uint64_t low, uint64_t high, uint64_t sure_low, uint64_t sure_high)
{
	Node node = leaf(Op::kRange, stream);

	node.recheck = true;
	node.low = low;
	node.high = high;
	node.sure_low = sure_low;
	node.sure_high = sure_high;
	return node;
}

Node
equal(uint16_t stream, uint64_t code, bool recheck)
{
	Node node = exact_range(stream, code, code);

	node.recheck = recheck;
	return node;
}

Node
not_equal(uint16_t stream, uint64_t code, bool recheck)
{
	Node node = leaf(Op::kNotEqual, stream);

	node.low = code;
	node.recheck = recheck;
	return node;
}

Node
in_list(uint16_t stream, const uint64_t *codes, uint32_t n_codes, bool recheck)
{
	Node node = leaf(Op::kIn, stream);

	node.codes = codes;
	node.n_codes = n_codes;
	node.recheck = recheck;
	return node;
}

Node
not_in_list(uint16_t stream, const uint64_t *codes, uint32_t n_codes, bool recheck)
{
	Node node = in_list(stream, codes, n_codes, recheck);

	node.op = Op::kNotEqual;
	return node;
}

Node
exact_bits(uint16_t stream, uint64_t mask, uint64_t value)
{
	Node node = leaf(Op::kBits, stream);

	node.low = mask;
	node.high = value;
	return node;
}

Node
loose_bits(uint16_t stream, uint64_t mask, uint64_t value)
{
	Node node = exact_bits(stream, mask, value);

	node.recheck = node.never_sure = true;
	return node;
}

Node
joint(Op op)
{
	return leaf(op, 0);
}

void
add_operand(Node *joint, Node *operand)
{
	operand->next = joint->first;
	joint->first = operand;
}

bool
simplify(Node *root)
{
	return simplify_at(root, 1);
}

} // namespace vectorgpu::engine::predicate

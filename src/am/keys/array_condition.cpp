// See array_condition.hpp.
#include "am/keys/array_condition.hpp"

#include "am/keys/array_code.hpp"
#include "am/keys/key_node.hpp"

extern "C"
{
#include "access/stratnum.h"
}

#include <algorithm>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

using namespace engine::predicate;

bool
is_before(const ArrayBits &a, const ArrayBits &b)
{
	return memcmp(&a, &b, sizeof(a)) < 0;
}

bool
is_same(const ArrayBits &a, const ArrayBits &b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/// Rows with an element that has the bits of one of the constant's. Only one stream has bits of an element.
void
write_overlap(uint16 stream, ArrayElements *elements, Node *node)
{
	ArrayBits *end = elements->elements + elements->n;

	std::sort(elements->elements, end, is_before); // a constant may repeat its elements
	end = std::unique(elements->elements, end, is_same);
	*node = joint(Op::kOr);
	for (const ArrayBits *element = elements->elements; element < end; element++)
	{
		const int which = element->bits[0] != 0 ? 0 : 1;

		add_operand(node,
			key_node(loose_bits(static_cast<uint16>(stream + which), element->bits[which], element->bits[which])));
	}
}

/// Rows that have all bits of the constant's elements. NULL equals no element, not even NULL.
void
write_contains(uint16 stream, const ArrayElements &elements, Node *node)
{
	const ArrayBits wanted = array_signature(elements);

	if (elements.has_null)
	{
		*node = nothing();
		return;
	}
	*node = joint(Op::kAnd);
	for (int i = 0; i < kMostKeyStreams; i++)
		if (wanted.bits[i] != 0)
			add_operand(node, key_node(loose_bits(static_cast<uint16>(stream + i), wanted.bits[i], wanted.bits[i])));
}

/// Rows that have none of the other bits.
void
write_contained(uint16 stream, const ArrayElements &elements, Node *node)
{
	const ArrayBits allowed = array_signature(elements);

	*node = joint(Op::kAnd);
	for (int i = 0; i < kMostKeyStreams; i++)
		add_operand(node, key_node(loose_bits(static_cast<uint16>(stream + i), ~allowed.bits[i], 0)));
}

/// Rows with the signature. Others have it, too, in which the order of elements is another.
void
write_equal(uint16 stream, const ArrayElements &elements, Node *node)
{
	const ArrayBits signature = array_signature(elements);

	*node = joint(Op::kAnd);
	for (int i = 0; i < kMostKeyStreams; i++)
		add_operand(
			node, key_node(loose_range(static_cast<uint16>(stream + i), signature.bits[i], signature.bits[i], 1, 0)));
}

} // namespace

void
array_column_condition(const KeyColumn *column, uint16 stream, StrategyNumber strategy, Datum constant, Node *node)
{
	Node *condition = key_node(nothing());
	ArrayElements elements;

	array_elements(column, constant, &elements);
	switch (strategy)
	{
		case kOverlapStrategy:
			write_overlap(stream, &elements, condition);
			break;
		case kContainsStrategy:
			write_contains(stream, elements, condition);
			break;
		case kContainedStrategy:
			write_contained(stream, elements, condition);
			break;
		default:
			write_equal(stream, elements, condition);
	}
	// NULL fails `@> '{}'`, too.
	*node = joint(Op::kAnd);
	for (int i = 0; i < kMostKeyStreams; i++)
		add_operand(node, key_node(not_null(static_cast<uint16>(stream + i))));
	add_operand(node, condition);
}

} // namespace vectorgpu::am

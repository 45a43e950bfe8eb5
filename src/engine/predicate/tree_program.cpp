// From a tree to the bytes of its program. See tree.hpp.
#include "engine/predicate/tree.hpp"

#include <cstring>

namespace vectorgpu::engine::predicate
{

namespace
{

constexpr size_t kHeadBytes = 8;

/// A step's codes in bytes and number.
uint32_t
codes_of(const Node *node)
{
	switch (node->op)
	{
		case Op::kRange:
			return node->recheck && !range_is_never_sure(node) &&
					(node->sure_low != node->low || node->sure_high != node->high)
				? 4
				: 2;
		case Op::kBits:
			return 2;
		case Op::kNotEqual:
			return node->codes == nullptr ? 1 : node->n_codes;
		case Op::kIn:
			return node->n_codes;
		default:
			return 0;
	}
}

/// The steps, bytes and waiting results of a program.
struct Size
{
	uint64_t n_steps;
	uint64_t n_bytes;
	uint32_t depth;
};

void
measure(const Node *node, uint32_t waiting, Size *size)
{
	if (is_joint(node->op))
	{
		for (const Node *operand = node->first; operand != nullptr; operand = operand->next)
			measure(operand, operand == node->first ? waiting : waiting + 1, size);
		for (const Node *operand = node->first->next; operand != nullptr; operand = operand->next)
		{
			size->n_steps++;
			size->n_bytes += kHeadBytes;
		}
		return;
	}
	size->n_steps++;
	size->n_bytes += kHeadBytes + codes_of(node) * sizeof(uint64_t);
	if (size->depth < waiting + 1)
		size->depth = waiting + 1;
}

/// Writes little-endian numbers one behind the other.
struct Writer
{
	uint8_t *at;

	template <class T>
	void put(T value)
	{
		memcpy(at, &value, sizeof(value));
		at += sizeof(value);
	}

	void head(Op op, uint8_t flags, uint16_t stream, uint32_t n_codes)
	{
		put(static_cast<uint8_t>(op));
		put(flags);
		put(stream);
		put(n_codes);
	}
};

void
write_leaf(const Node *node, Writer *writer)
{
	const uint32_t n_codes = codes_of(node);
	const bool unsure = node->op == Op::kRange ? range_is_never_sure(node) : node->never_sure;

	writer->head(node->op, static_cast<uint8_t>((node->recheck ? kRecheck : 0) | (unsure ? kNeverSure : 0)),
		node->stream, n_codes);
	if (node->codes != nullptr)
	{
		memcpy(writer->at, node->codes, n_codes * sizeof(uint64_t));
		writer->at += n_codes * sizeof(uint64_t);
		return;
	}
	const uint64_t codes[4] = {node->low, node->high, node->sure_low, node->sure_high};

	for (uint32_t i = 0; i < n_codes; i++)
		writer->put(codes[i]);
}

void
write_node(const Node *node, Writer *writer)
{
	if (!is_joint(node->op))
	{
		write_leaf(node, writer);
		return;
	}
	for (const Node *operand = node->first; operand != nullptr; operand = operand->next)
	{
		write_node(operand, writer);
		if (operand != node->first)
			writer->head(node->op, 0, 0, 0);
	}
}

} // namespace

size_t
program_bytes(const Node *root)
{
	Size size = {0, kHeadBytes, 0};

	measure(root, 0, &size);
	return size.n_bytes <= kMostProgramBytes && size.depth <= kMostDepth ? static_cast<size_t>(size.n_bytes) : 0;
}

void
write_program(const Node *root, uint8_t *out)
{
	Size size = {0, kHeadBytes, 0};
	Writer writer = {out};

	measure(root, 0, &size);
	writer.put(kProgramVersion);
	for (int i = 0; i < 3; i++)
		writer.put(uint8_t{0});
	writer.put(static_cast<uint32_t>(size.n_steps));
	write_node(root, &writer);
}

} // namespace vectorgpu::engine::predicate

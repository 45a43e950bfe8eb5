// Conditions as a tree, and the program that they make. A backend builds the nodes in memory of its own, one for each
// clause; simplify() brings them into the canonical form, so that equal conditions become equal bytes, whatever the
// order of their clauses. No allocation, no exception.
#pragma once

#include "engine/predicate/program.hpp"

namespace vectorgpu::engine::predicate
{

/// A clause. A node belongs to one parent.
struct Node
{
	Op op;
	bool recheck;    // kRange, kNotEqual, kIn, kBits: see kRecheck
	bool never_sure; // kIn, kBits: see kNeverSure
	uint16_t stream;
	uint64_t low;      // kRange: codes in [low, high] pass, nothing if low > high; kBits: the mask
	uint64_t high;     // kBits: the value
	uint64_t sure_low; // kRange: codes in [sure_low, sure_high] do so certainly, none if sure_low > sure_high
	uint64_t sure_high;
	const uint64_t *codes; // kIn, kNotEqual: ascending, distinct, any number; a single one is in low
	uint32_t n_codes;
	Node *first; // kAnd, kOr: operands, any number
	Node *next;  // the operand behind this one
};

/// Whether no row passes a range certainly.
inline bool
range_is_never_sure(const Node *range)
{
	return range->sure_low > range->sure_high;
}

/// Leaves.
Node nothing();
Node all();
Node maybe();
Node is_null(uint16_t stream);
Node not_null(uint16_t stream);
/// Codes decide: those in [low, high] pass.
Node exact_range(uint16_t stream, uint64_t low, uint64_t high);
/// Codes in [low, high] pass, those in [sure_low, sure_high] certainly; values are checked.
Node loose_range(uint16_t stream, uint64_t low, uint64_t high, uint64_t sure_low, uint64_t sure_high);
/// Rows with the code pass. recheck: values are checked.
Node equal(uint16_t stream, uint64_t code, bool recheck);
/// Rows with another code pass certainly; with recheck those with the code may.
Node not_equal(uint16_t stream, uint64_t code, bool recheck);
/// codes [n_codes] ascending, distinct.
Node in_list(uint16_t stream, const uint64_t *codes, uint32_t n_codes, bool recheck);
/// As not_equal, of none of the codes.
Node not_in_list(uint16_t stream, const uint64_t *codes, uint32_t n_codes, bool recheck);

/// Codes whose bits of the mask are those of the value pass: certainly, or never so and values are checked.
Node exact_bits(uint16_t stream, uint64_t mask, uint64_t value);
Node loose_bits(uint16_t stream, uint64_t mask, uint64_t value);

/// kAnd or kOr without operands yet: kAll or kNothing as long as it stays so.
Node joint(Op op);
/// Make `operand` an operand of `joint`.
void add_operand(Node *joint, Node *operand);

/// Bring the tree into its canonical form, in place: joints flat, sorted, without repetitions and without operands that
/// say nothing; ranges and masks of a stream under kAnd intersected. False if it is deeper than kMostDepth: say kMaybe
/// instead.
bool simplify(Node *root);

/// Bytes of the program of a simplified tree; 0 if it would break a limit: say kMaybe instead.
size_t program_bytes(const Node *root);

/// Write the program of a simplified tree. out [program_bytes(root) > 0].
void write_program(const Node *root, uint8_t *out);

} // namespace vectorgpu::engine::predicate

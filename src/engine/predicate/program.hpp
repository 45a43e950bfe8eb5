// A predicate program: conditions on the key columns of an index, over codes. Backends write it (tree.hpp), requests
// carry it, engines and backends evaluate it (evaluate.hpp). Plain structs over the caller's bytes, no allocation, no
// exception.
//
// Bytes, little-endian, every part a multiple of 8:
//   header   u8 version | 3 zero bytes | u32 n_steps
//   step     u8 op | u8 flags | u16 stream | u32 n_codes | n_codes x u64
// Steps are in postfix order: kAnd and kOr take the two results before them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.hpp"

namespace vectorgpu::engine::predicate
{

constexpr uint8_t kProgramVersion = 1;
constexpr size_t kMostProgramBytes = 65536;
constexpr uint32_t kMostDepth = 32;   // results that wait at a time
constexpr uint32_t kMostStreams = 64; // two for each of 31 key columns, and two to spare

/// What a step says of a row: it fails, it passes, or it passes certainly. NULL passes kAll, kMaybe and kIsNull only.
/// The values are sent over the wire and order the leaves of canonical programs: never renumber. 16 and more are for
/// streams of varying width.
enum class Op : uint8_t
{
	kNothing = 0, // no row passes
	kAll = 1,     // every row passes certainly
	kMaybe = 2,   // every row passes, none certainly: a clause that codes cannot decide
	kIsNull = 3,
	kNotNull = 4,
	kRange = 5,    // codes: low, high [, sure low, sure high]
	kNotEqual = 6, // codes: one or more, ascending: those that do not pass
	kIn = 7,       // codes: two or more, ascending
	kAnd = 8,
	kOr = 9,
	kBits = 10, // codes: mask, value. The code's bits of the mask are those of the value
};

/// Whether a step of this kind joins the two results before it.
VECTORGPU_HOST_DEVICE constexpr bool
is_joint(Op op)
{
	return op == Op::kAnd || op == Op::kOr;
}

/// Whether a step of this kind names a stream.
VECTORGPU_HOST_DEVICE constexpr bool
has_stream(Op op)
{
	return op >= Op::kIsNull && !is_joint(op);
}

/// The row's value decides, not its code. kRange, kIn, kBits: rows that pass count as certain, but their values must be
/// checked (equal codes nearly always are equal values), unless kNeverSure or the sure bounds say less. kNotEqual: rows
/// with the code pass, not certainly.
constexpr uint8_t kRecheck = 1;
/// kRange, kIn, kBits, with kRecheck: no row passes certainly.
constexpr uint8_t kNeverSure = 2;

/// One step, opened. codes lie in the program's bytes.
struct Step
{
	Op op;
	uint8_t flags;
	uint16_t stream;
	uint32_t n_codes;
	uint32_t joined_at; // the step whose left operand ends here; 0: none
	const uint8_t *codes;

	/// Code i of n_codes. On a device, codes have to be aligned to 8 bytes.
	VECTORGPU_HOST_DEVICE uint64_t code(uint32_t i) const
	{
#ifdef __CUDA_ARCH__
		return reinterpret_cast<const uint64_t *>(codes)[i]; // a copy of bytes would be loaded byte by byte
#else
		uint64_t code;

		__builtin_memcpy(&code, codes + size_t{i} * sizeof(code), sizeof(code));
		return code;
#endif
	}
};

/// A program, opened: it refers to the bytes and the steps that it was opened with.
struct Program
{
	const Step *steps;
	uint32_t n_steps;
	uint32_t n_streams; // the greatest stream's number + 1; 0: none is used
	bool exact;         // codes decide: no row that passes needs a check of its values
	bool all_sure;      // every row that passes does so certainly
};

/// The number of steps that the header announces, which program_open needs memory for; 0 if the bytes are no program.
uint32_t program_steps(const void *bytes, size_t n_bytes);

/// Open and check a program of any origin. steps [n_steps = program_steps()]. Return null, or what is wrong with it.
const char *program_open(const void *bytes, size_t n_bytes, Step *steps, uint32_t n_steps, Program *program);

} // namespace vectorgpu::engine::predicate

// See program.hpp.
#include "engine/predicate/program.hpp"

#include <cstring>

namespace vectorgpu::engine::predicate
{

namespace
{

constexpr size_t kHeadBytes = 8;

struct Head
{
	uint8_t version;
	uint8_t zero[3];
	uint32_t n_steps;
};
static_assert(sizeof(Head) == kHeadBytes);

struct StepHead
{
	uint8_t op;
	uint8_t flags;
	uint16_t stream;
	uint32_t n_codes;
};
static_assert(sizeof(StepHead) == kHeadBytes);

const char *
fault_of_range(const Step &step)
{
	if (step.n_codes != 2 && step.n_codes != 4)
		return "a range has neither two nor four codes";
	if (step.code(0) > step.code(1))
		return "a range is empty";
	if (step.n_codes == 2)
		return nullptr;
	if (step.flags != kRecheck)
		return "a range with bounds of certainty has other flags";
	if (step.code(2) > step.code(3) || step.code(2) < step.code(0) || step.code(3) > step.code(1))
		return "the bounds of certainty do not lie in their range";
	return nullptr;
}

const char *
fault_of_in(const Step &step)
{
	if (step.n_codes < 2)
		return "a list has fewer than two codes";
	for (uint32_t i = 1; i < step.n_codes; i++)
		if (step.code(i - 1) >= step.code(i))
			return "the codes of a list do not ascend";
	return nullptr;
}

const char *
fault_of_bits(const Step &step)
{
	if (step.n_codes != 2)
		return "a step has a wrong number of codes";
	if (step.code(0) == 0)
		return "a mask has no bits";
	return (step.code(1) & ~step.code(0)) == 0 ? nullptr : "a value has bits beyond its mask";
}

/// The fault of a step by itself.
const char *
fault_of_step(const Step &step)
{
	const bool may_recheck =
		step.op == Op::kRange || step.op == Op::kNotEqual || step.op == Op::kIn || step.op == Op::kBits;

	if (step.op > Op::kBits)
		return "a step is of an unknown kind";
	if (has_stream(step.op) ? step.stream >= kMostStreams : step.stream != 0)
		return "a step names a stream that cannot be";
	if (step.flags != 0 && (!may_recheck || (step.flags & ~(kRecheck | kNeverSure)) != 0))
		return "a step has unknown flags";
	if ((step.flags & kNeverSure) != 0 && ((step.flags & kRecheck) == 0 || step.op == Op::kNotEqual))
		return "a step has flags that exclude each other";
	switch (step.op)
	{
		case Op::kRange:
			return fault_of_range(step);
		case Op::kNotEqual:
			return step.n_codes == 1 ? nullptr : fault_of_in(step);
		case Op::kIn:
			return fault_of_in(step);
		case Op::kBits:
			return fault_of_bits(step);
		default:
			return step.n_codes == 0 ? nullptr : "a step has a wrong number of codes";
	}
}

/// Whether rows may pass the step without certainty.
bool
may_doubt(const Step &step)
{
	return step.op == Op::kMaybe || (step.flags & kNeverSure) != 0 ||
		(step.op == Op::kNotEqual && (step.flags & kRecheck) != 0) || (step.op == Op::kRange && step.n_codes == 4);
}

} // namespace

uint32_t
program_steps(const void *bytes, size_t n_bytes)
{
	Head head;

	if (n_bytes < kHeadBytes || n_bytes > kMostProgramBytes || n_bytes % kHeadBytes != 0)
		return 0;
	memcpy(&head, bytes, sizeof(head));
	if (head.version != kProgramVersion || head.zero[0] != 0 || head.zero[1] != 0 || head.zero[2] != 0 ||
		head.n_steps > n_bytes / kHeadBytes - 1)
		return 0;
	return head.n_steps;
}

const char *
program_open(const void *bytes, size_t n_bytes, Step *steps, uint32_t n_steps, Program *program)
{
	uint32_t waiting[kMostDepth]; // the steps that made the results
	uint32_t depth = 0;

	if (n_steps == 0 || program_steps(bytes, n_bytes) != n_steps)
		return "it does not begin as a program of this version";

	const uint8_t *at = static_cast<const uint8_t *>(bytes) + kHeadBytes;
	const uint8_t *end = static_cast<const uint8_t *>(bytes) + n_bytes;

	*program = {steps, n_steps, 0, true, true};
	for (uint32_t i = 0; i < n_steps; i++)
	{
		StepHead head;
		Step &step = steps[i];

		if (static_cast<size_t>(end - at) < sizeof(head))
			return "it ends before its last step";
		memcpy(&head, at, sizeof(head));
		at += sizeof(head);
		if (head.n_codes > static_cast<size_t>(end - at) / sizeof(uint64_t))
			return "it ends before the codes of a step";
		step = {static_cast<Op>(head.op), head.flags, head.stream, head.n_codes, 0, at};
		at += size_t{head.n_codes} * sizeof(uint64_t);
		if (const char *fault = fault_of_step(step))
			return fault;
		if (has_stream(step.op) && step.stream >= program->n_streams)
			program->n_streams = uint32_t{step.stream} + 1;
		program->exact &= step.flags == 0 && step.op != Op::kMaybe;
		program->all_sure &= !may_doubt(step);
		if (is_joint(step.op))
		{
			if (depth < 2)
				return "a step lacks an operand";
			depth -= 2;
			steps[waiting[depth]].joined_at = i;
		}
		else if (depth == kMostDepth)
			return "it is too deep";
		waiting[depth++] = i;
	}
	if (depth != 1)
		return "it has more than one result";
	return at == end ? nullptr : "bytes follow its last step";
}

} // namespace vectorgpu::engine::predicate

// What a program says of the rows of a zone, and so of one row, whose zone has one code: the definition of every step.
// Shared by the host and the kernels of gpu/kernels/select, whose results are the same for that. Plain functions, no
// allocation.
#pragma once

#include "common/host_device.hpp"
#include "engine/predicate/program.hpp"
#include "engine/predicate/zone.hpp"

namespace vectorgpu::engine::predicate
{

/// How many rows of a zone meet a condition.
enum class Share : uint8_t
{
	kNone,
	kSome, // or unknown; never of a single row
	kEvery,
};

struct Verdict
{
	Share pass;
	Share sure; // pass certainly
};

VECTORGPU_HOST_DEVICE inline Share
smaller_share(Share a, Share b)
{
	return a < b ? a : b;
}

VECTORGPU_HOST_DEVICE inline Share
greater_share(Share a, Share b)
{
	return a < b ? b : a;
}

/// The zone of one row.
VECTORGPU_HOST_DEVICE inline Zone
row_zone(bool is_null, uint64_t code)
{
	return is_null ? Zone{UINT64_MAX, 0, 1, 1} : Zone{code, code, 1, 0};
}

/// How many rows of the zone have codes in [low, high].
VECTORGPU_HOST_DEVICE inline Share
share_in(const Zone &zone, uint64_t low, uint64_t high)
{
	if (zone.least > zone.greatest || zone.greatest < low || zone.least > high)
		return Share::kNone;
	return zone.n_nulls == 0 && zone.least >= low && zone.greatest <= high ? Share::kEvery : Share::kSome;
}

VECTORGPU_HOST_DEVICE inline Share
share_not_null(const Zone &zone)
{
	return zone.n_nulls == 0 ? Share::kEvery : zone.n_nulls == zone.n_rows ? Share::kNone : Share::kSome;
}

VECTORGPU_HOST_DEVICE inline Verdict
judge_range(const Step &step, const Zone &zone)
{
	const Share pass = share_in(zone, step.code(0), step.code(1));

	if ((step.flags & kNeverSure) != 0)
		return {pass, Share::kNone};
	return {pass, step.n_codes == 4 ? share_in(zone, step.code(2), step.code(3)) : pass};
}

/// Whether the step's list has a code between the zone's least and greatest.
VECTORGPU_HOST_DEVICE inline bool
lists_code_of(const Step &step, const Zone &zone)
{
	uint32_t at = 0;

	for (uint32_t rest = step.n_codes; rest > 0;) // the first code of the list that is not below the zone
	{
		const uint32_t half = rest / 2;

		if (step.code(at + half) < zone.least)
		{
			at += half + 1;
			rest -= half + 1;
		}
		else
			rest = half;
	}
	return zone.least <= zone.greatest && at < step.n_codes && step.code(at) <= zone.greatest;
}

VECTORGPU_HOST_DEVICE inline Verdict
judge_not_equal(const Step &step, const Zone &zone, bool listed)
{
	const Share not_null = share_not_null(zone);
	Share differ = not_null;

	if (listed)
		differ = zone.least == zone.greatest ? Share::kNone : smaller_share(not_null, Share::kSome);
	return {(step.flags & kRecheck) != 0 ? not_null : differ, differ};
}

VECTORGPU_HOST_DEVICE inline Verdict
judge_in(const Step &step, const Zone &zone, bool listed)
{
	Share pass = Share::kNone;

	if (listed)
		pass = zone.n_nulls == 0 && zone.least == zone.greatest ? Share::kEvery : Share::kSome;
	return {pass, (step.flags & kNeverSure) != 0 ? Share::kNone : pass};
}

/// Bits tell nothing of an order: only a zone of one code is judged.
VECTORGPU_HOST_DEVICE inline Verdict
judge_bits(const Step &step, const Zone &zone)
{
	Share pass = Share::kSome;

	if (zone.least > zone.greatest)
		pass = Share::kNone;
	else if (zone.least == zone.greatest)
		pass = (zone.least & step.code(0)) == step.code(1) ? share_not_null(zone) : Share::kNone;
	return {pass, (step.flags & kNeverSure) != 0 ? Share::kNone : pass};
}

/// Judge a zone by one step, which is no joint.
VECTORGPU_HOST_DEVICE inline Verdict
judge_zone(const Step &step, const Zone &zone)
{
	const Share not_null = share_not_null(zone);

	switch (step.op)
	{
		case Op::kNothing:
			return {Share::kNone, Share::kNone};
		case Op::kAll:
			return {Share::kEvery, Share::kEvery};
		case Op::kMaybe:
			return {Share::kEvery, Share::kNone};
		case Op::kIsNull:
		{
			const Share share =
				static_cast<Share>(static_cast<uint8_t>(Share::kEvery) - static_cast<uint8_t>(not_null));

			return {share, share};
		}
		case Op::kNotNull:
			return {not_null, not_null};
		case Op::kRange:
			return judge_range(step, zone);
		case Op::kNotEqual:
		case Op::kIn:
		{
			const bool listed = lists_code_of(step, zone);

			return step.op == Op::kIn ? judge_in(step, zone, listed) : judge_not_equal(step, zone, listed);
		}
		case Op::kBits:
			return judge_bits(step, zone);
		default:
			return {Share::kSome, Share::kSome};
	}
}

/// Join the verdicts of two operands of kAnd or kOr.
VECTORGPU_HOST_DEVICE inline Verdict
join_verdicts(Op op, const Verdict &left, const Verdict &right)
{
	return op == Op::kAnd ? Verdict{smaller_share(left.pass, right.pass), smaller_share(left.sure, right.sure)}
						  : Verdict{greater_share(left.pass, right.pass), greater_share(left.sure, right.sure)};
}

/// Judge by the whole program. zone_of(step) returns the zone of the step's stream, or null if that has none, which
/// counts as kSome. It is not asked about steps without a stream.
template <class ZoneOf>
VECTORGPU_HOST_DEVICE Verdict
judge_program(const Program &program, const ZoneOf &zone_of)
{
	Verdict results[kMostDepth];
	uint32_t depth = 0;

	results[0] = {Share::kSome, Share::kSome}; // a program has a step, which compilers cannot know
	for (uint32_t i = 0; i < program.n_steps; i++)
	{
		const Step &step = program.steps[i];

		if (is_joint(step.op))
		{
			depth--;
			results[depth - 1] = join_verdicts(step.op, results[depth - 1], results[depth]);
			continue;
		}

		const Zone any = row_zone(false, 0);
		const Zone *zone = has_stream(step.op) ? zone_of(step) : &any;

		results[depth++] = zone == nullptr ? Verdict{Share::kSome, Share::kSome} : judge_zone(step, *zone);
	}
	return results[0];
}

/// Judge block `block` from the zones of the program's streams.
VECTORGPU_HOST_DEVICE inline Verdict
judge_block(const Program &program, const ColumnCodes *columns, uint64_t block)
{
	return judge_program(program,
		[columns, block](const Step &step) -> const Zone *
		{
			const Zone *zones = columns[step.stream].zones;

			return zones == nullptr ? nullptr : zones + block;
		});
}

} // namespace vectorgpu::engine::predicate

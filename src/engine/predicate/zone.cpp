// See zone.hpp.
#include "engine/predicate/zone.hpp"

#include <cstring>

namespace vectorgpu::engine::predicate
{

namespace
{

constexpr Verdict kUnknown = {Share::kSome, Share::kSome};

Share
smaller(Share a, Share b)
{
	return a < b ? a : b;
}

Share
greater(Share a, Share b)
{
	return a < b ? b : a;
}

/// How many rows of the zone have codes in [low, high].
Share
share_in(const Zone &zone, uint64_t low, uint64_t high)
{
	if (zone.least > zone.greatest || zone.greatest < low || zone.least > high)
		return Share::kNone;
	return zone.n_nulls == 0 && zone.least >= low && zone.greatest <= high ? Share::kEvery : Share::kSome;
}

Share
share_not_null(const Zone &zone)
{
	return zone.n_nulls == 0 ? Share::kEvery : zone.n_nulls == zone.n_rows ? Share::kNone : Share::kSome;
}

Verdict
judge_range(const Step &step, const Zone &zone)
{
	const Share pass = share_in(zone, step.code(0), step.code(1));

	if ((step.flags & kNeverSure) != 0)
		return {pass, Share::kNone};
	return {pass, step.n_codes == 4 ? share_in(zone, step.code(2), step.code(3)) : pass};
}

Verdict
judge_not_equal(const Step &step, const Zone &zone)
{
	const uint64_t code = step.code(0);
	const Share not_null = share_not_null(zone);
	Share differ = not_null;

	if (zone.least == code && zone.greatest == code)
		differ = Share::kNone;
	else if (zone.least <= code && code <= zone.greatest)
		differ = smaller(not_null, Share::kSome);
	return {(step.flags & kRecheck) != 0 ? not_null : differ, differ};
}

Verdict
judge_in(const Step &step, const Zone &zone)
{
	uint32_t at = 0;
	Share pass = Share::kNone;

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
	if (zone.least <= zone.greatest && at < step.n_codes && step.code(at) <= zone.greatest)
		pass = zone.n_nulls == 0 && zone.least == zone.greatest ? Share::kEvery : Share::kSome;
	return {pass, (step.flags & kNeverSure) != 0 ? Share::kNone : pass};
}

/// Bits tell nothing of an order: only a zone of one code is judged.
Verdict
judge_bits(const Step &step, const Zone &zone)
{
	Share pass = Share::kSome;

	if (zone.least > zone.greatest)
		pass = Share::kNone;
	else if (zone.least == zone.greatest)
		pass = (zone.least & step.code(0)) == step.code(1) ? share_not_null(zone) : Share::kNone;
	return {pass, (step.flags & kNeverSure) != 0 ? Share::kNone : pass};
}

template <class Code>
void
add_codes(const ColumnCodes &column, uint64_t first, uint64_t end, Zone *zone)
{
	const uint8_t *codes = static_cast<const uint8_t *>(column.codes);

	for (uint64_t row = first; row < end; row++)
	{
		Code code;

		memcpy(&code, codes + row * sizeof(code), sizeof(code));
		zone_add(zone, column.nulls != nullptr && (column.nulls[row / 8] >> (row % 8) & 1) != 0, code);
	}
}

} // namespace

uint64_t
code_at(const void *codes, uint8_t width, uint64_t row)
{
	uint64_t code = 0;

	memcpy(&code, static_cast<const uint8_t *>(codes) + row * width, width);
	return code;
}

void
make_zones(const ColumnCodes &column, uint64_t n_rows, Zone *zones)
{
	for (uint64_t first = 0; first < n_rows; first += kBlockRows, zones++)
	{
		const uint64_t end = n_rows - first < kBlockRows ? n_rows : first + kBlockRows;

		*zones = kNoRows;
		switch (column.width)
		{
			case 1:
				add_codes<uint8_t>(column, first, end, zones);
				break;
			case 2:
				add_codes<uint16_t>(column, first, end, zones);
				break;
			case 4:
				add_codes<uint32_t>(column, first, end, zones);
				break;
			default:
				add_codes<uint64_t>(column, first, end, zones);
				break;
		}
	}
}

Verdict
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
			return judge_not_equal(step, zone);
		case Op::kIn:
			return judge_in(step, zone);
		case Op::kBits:
			return judge_bits(step, zone);
		default:
			return kUnknown;
	}
}

Verdict
join_verdicts(Op op, const Verdict &left, const Verdict &right)
{
	const auto join = op == Op::kAnd ? smaller : greater;

	return {join(left.pass, right.pass), join(left.sure, right.sure)};
}

Verdict
judge_block(const Program &program, const ColumnCodes *columns, uint64_t block)
{
	return judge_program(program,
		[columns, block](const Step &step)
		{
			if (!has_stream(step.op))
				return judge_zone(step, kNoRows);

			const Zone *zones = columns[step.stream].zones;

			return zones == nullptr ? kUnknown : judge_zone(step, zones[block]);
		});
}

} // namespace vectorgpu::engine::predicate

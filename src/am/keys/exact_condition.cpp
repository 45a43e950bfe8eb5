// See exact_condition.hpp.
#include "am/keys/exact_condition.hpp"

#include "am/keys/exact_code.hpp"
#include "am/keys/key_node.hpp"

extern "C"
{
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "utils/lsyscache.h"
}

namespace vectorgpu::am
{

namespace
{

using namespace engine::predicate;

/// A timestamp without time zone becomes an instant by the session's zone. Instants go back where a clock is put
/// forward, at most a day (Samoa in 2011 left one out), so that those comparisons are sure only this far from the
/// place where the order turns.
constexpr uint64 kClockChange = UINT64CONST(50) * USECS_PER_HOUR;

/// A place in the order of codes: between two of them.
struct Place
{
	bool at_end; // behind all codes
	uint64 code; // the first one behind it
	uint64 near; // codes so near may lie on the other side
};

/// How a constant compares with values of a column.
struct Comparison
{
	KeyKind kind;
	FmgrInfo function;
	Datum constant;
};

/// Whether the value of a code is at least the constant; with `beyond`, greater.
bool
reaches(Comparison *comparison, uint64 code, bool beyond)
{
	const int32 order = DatumGetInt32(FunctionCall2Coll(
		&comparison->function, InvalidOid, exact_value(comparison->kind, code), comparison->constant));

	return beyond ? order > 0 : order >= 0;
}

/// The place before the first code that reaches the constant.
Place
search_place(Comparison *comparison, bool beyond)
{
	const ExactKind *codes = exact_kind(comparison->kind);
	uint64 low = codes->first;
	uint64 high = codes->last;

	if (codes->has_ends && reaches(comparison, codes->lower_end, beyond))
		return {false, codes->lower_end, 0};
	if (!reaches(comparison, high, beyond))
	{
		if (codes->has_ends && reaches(comparison, codes->upper_end, beyond))
			return {false, codes->upper_end, 0};
		return {true, 0, 0};
	}
	while (low < high)
	{
		const uint64 middle = low + (high - low) / 2;

		if (reaches(comparison, middle, beyond))
			high = middle;
		else
			low = middle + 1;
	}
	return {false, low, 0};
}

uint64
minus(uint64 code, uint64 n)
{
	return code > n ? code - n : 0;
}

uint64
plus(uint64 code, uint64 n)
{
	return code < PG_UINT64_MAX - n ? code + n : PG_UINT64_MAX;
}

/// Codes before a place.
Node
before(uint16 stream, const Place &place)
{
	if (place.at_end)
		return not_null(stream);
	if (place.near == 0)
		return place.code == 0 ? nothing() : exact_range(stream, 0, place.code - 1);

	const uint64 n_sure = minus(place.code, place.near); // codes

	return loose_range(stream, 0, plus(place.code, place.near), n_sure == 0 ? 1 : 0, n_sure == 0 ? 0 : n_sure - 1);
}

/// Codes behind a place.
Node
behind(uint16 stream, const Place &place)
{
	if (place.at_end)
		return nothing();
	if (place.near == 0)
		return exact_range(stream, place.code, PG_UINT64_MAX);
	return loose_range(
		stream, minus(place.code, place.near), PG_UINT64_MAX, plus(place.code, place.near), PG_UINT64_MAX);
}

/// The first code from which on values reach the constant (low), and are greater (high).
void
find_places(const KeyColumn *column, Datum constant, Oid constant_type, Place *low, Place *high)
{
	Comparison comparison = {column->kind, {}, constant};

	if (!OidIsValid(constant_type) || constant_type == column->class_type)
	{
		const uint64 code = exact_code(column->kind, constant);

		*low = {false, code, 0};
		*high = {code == PG_UINT64_MAX, code + 1, 0};
		return;
	}

	const Oid function = get_opfamily_proc(column->family, column->class_type, constant_type, kCompareSupport);

	if (!OidIsValid(function))
		elog(ERROR, "missing support function %d(%u,%u) in operator family %u", kCompareSupport, column->class_type,
			constant_type, column->family);
	fmgr_info(function, &comparison.function);
	*low = search_place(&comparison, false);
	*high = search_place(&comparison, true);
	if (column->kind == KeyKind::kTimestamp && constant_type == TIMESTAMPTZOID)
		low->near = high->near = kClockChange;
}

/// Codes in [low, high).
Node
between(uint16 stream, const Place &low, const Place &high)
{
	const bool one_code = !low.at_end && !high.at_end && high.code == low.code + 1;

	if (low.at_end || (low.near == 0 && !high.at_end && low.code >= high.code))
		return nothing();
	if (low.near == 0)
		return exact_range(stream, low.code, high.at_end ? PG_UINT64_MAX : high.code - 1);
	return loose_range(stream, minus(low.code, low.near), high.at_end ? PG_UINT64_MAX : plus(high.code, high.near),
		one_code ? low.code : 1, one_code ? low.code : 0);
}

} // namespace

void
exact_condition(
	const KeyColumn *column, uint16 stream, StrategyNumber strategy, Datum constant, Oid constant_type, Node *node)
{
	Place low;
	Place high;

	find_places(column, constant, constant_type, &low, &high);
	switch (strategy)
	{
		case BTLessStrategyNumber:
			*node = before(stream, low);
			break;
		case BTLessEqualStrategyNumber:
			*node = before(stream, high);
			break;
		case BTEqualStrategyNumber:
			*node = between(stream, low, high);
			break;
		case BTGreaterEqualStrategyNumber:
			*node = behind(stream, low);
			break;
		case BTGreaterStrategyNumber:
			*node = behind(stream, high);
			break;
		default: // kNotEqualStrategy
			if (low.near == 0 && !low.at_end && !high.at_end && high.code == low.code + 1)
			{
				*node = not_equal(stream, low.code, false);
				break;
			}
			*node = joint(Op::kOr);
			add_operand(node, key_node(before(stream, low)));
			add_operand(node, key_node(behind(stream, high)));
	}
}

} // namespace vectorgpu::am

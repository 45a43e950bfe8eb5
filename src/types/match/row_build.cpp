// matchrow(VARIADIC "any") and matchquery(VARIADIC "any"): SQL values to keys and slices. PG dialect.
//
// Immutable: the result depends only on the values and their types. Values are read in their binary form, never through
// output functions, so no setting has an effect.
#include "types/match/scalar_key.hpp"
#include "types/match/row_value.hpp"
#include "types/sql_function.hpp"

extern "C"
{
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"
}

namespace vectorgpu::types
{
namespace
{

enum class Shape
{
	kScalar,
	kArray,
	kRange,
	kMultirange,
};

/// How to read the values of one argument; resolved once per type.
struct ArgumentType
{
	Oid type; // the declared type
	Shape shape;
	Oid scalar; // the scalar type: a base type, or ANYENUMOID for every enum
	ValueKind kind;
	Shape element;         // of an array: the shape of its elements
	int16 length;          // of an array's elements: pg_type
	bool by_value;         // ...
	char align;            // ...
	TypeCacheEntry *range; // of ranges and multiranges, also as elements of an array
};

/// All argument types of one call site, in fn_extra.
struct CallTypes
{
	int32 n;
	ArgumentType types[FLEXIBLE_ARRAY_MEMBER];
};

[[noreturn]] void refuse_type(Oid type, int argument, const char *function, const char *hint);

void
refuse_type(Oid type, int argument, const char *function, const char *hint)
{
	ereport(ERROR,
		(errcode(ERRCODE_DATATYPE_MISMATCH),
			errmsg("%s does not take values of type %s", function, format_type_be(type)),
			errdetail("This is argument %d.", argument), errhint("%s", hint)));
}

constexpr const char *kCastHint =
	"Cast it to an integer or floating-point type, numeric, text, boolean, date, timestamp, timestamp "
	"with time zone, time or uuid.";
constexpr const char *kRangeHint =
	"Ranges of strings and enum values are not searched. Give the wanted values as an array, or filter with "
	"BETWEEN in WHERE.";

/// Resolve the scalar type of a range type.
void
resolve_range(ArgumentType *resolved, Oid range_type, int argument, const char *function)
{
	TypeCacheEntry *range = lookup_type_cache(range_type, TYPECACHE_RANGE_INFO);
	const Oid subtype = range->rngelemtype->type_id;
	const TypeCacheEntry *order;

	resolved->range = range;
	resolved->scalar = scalar_type(subtype);
	if (!kind_of_type(resolved->scalar, &resolved->kind))
		refuse_type(resolved->type, argument, function, kCastHint);
	if (resolved->kind == ValueKind::kString)
		refuse_type(resolved->type, argument, function, kRangeHint);
	order = lookup_type_cache(getBaseType(subtype), TYPECACHE_CMP_PROC);
	if (range->rng_cmp_proc_finfo.fn_oid != order->cmp_proc)
		refuse_type(resolved->type, argument, function,
			"The range type has its own order. Use one with the default operator class.");
}

bool
resolve_shape(ArgumentType *resolved, Shape *shape, Oid type, int argument, const char *function)
{
	const Oid base = getBaseType(type);

	if (type_is_range(base))
	{
		*shape = Shape::kRange;
		resolve_range(resolved, base, argument, function);
		return true;
	}
	if (type_is_multirange(base))
	{
		*shape = Shape::kMultirange;
		resolve_range(resolved, get_multirange_range(base), argument, function);
		return true;
	}
	*shape = Shape::kScalar;
	resolved->scalar = scalar_type(base);
	return kind_of_type(resolved->scalar, &resolved->kind);
}

void
resolve_type(ArgumentType *resolved, Oid type, int argument, const char *function)
{
	const Oid element = get_base_element_type(type);

	resolved->type = type;
	if (OidIsValid(element))
	{
		resolved->shape = Shape::kArray;
		if (!resolve_shape(resolved, &resolved->element, element, argument, function))
			refuse_type(type, argument, function, kCastHint);
		get_typlenbyvalalign(element, &resolved->length, &resolved->by_value, &resolved->align);
	}
	else if (!resolve_shape(resolved, &resolved->shape, type, argument, function))
		refuse_type(type, argument, function, kCastHint);
}

// --- queries -----------------------------------------------------------------

void
add_range_value(SliceSet *set, const ArgumentType &type, const RangeType *range)
{
	RangeBound low;
	RangeBound high;
	bool empty;

	range_deserialize(type.range, range, &low, &high, &empty);
	if (empty)
		return;
	add_range(set, type.kind, low.infinite ? ElementKey{nullptr, 0} : scalar_key(type.scalar, low.val), low.inclusive,
		high.infinite ? ElementKey{nullptr, 0} : scalar_key(type.scalar, high.val), high.inclusive);
}

/// Add the slices of one value that is not NULL.
void
add_value(SliceSet *set, const ArgumentType &type, Shape shape, Datum datum)
{
	switch (shape)
	{
		case Shape::kScalar:
			add_point(set, scalar_key(type.scalar, datum));
			break;
		case Shape::kRange:
			add_range_value(set, type, DatumGetRangeTypeP(datum));
			break;
		case Shape::kMultirange:
		{
			int32 n;
			RangeType **ranges;

			multirange_deserialize(type.range, DatumGetMultirangeTypeP(datum), &n, &ranges);
			for (int32 i = 0; i < n; i++)
				add_range_value(set, type, ranges[i]);
			break;
		}
		case Shape::kArray:
		{
			ArrayType *array = DatumGetArrayTypeP(datum);
			Datum *elements;
			bool *nulls;
			int n;

			deconstruct_array(
				array, ARR_ELEMTYPE(array), type.length, type.by_value, type.align, &elements, &nulls, &n);
			for (int i = 0; i < n; i++)
			{
				CHECK_FOR_INTERRUPTS();
				if (!nulls[i])
					add_value(set, type, type.element, elements[i]);
			}
			break;
		}
	}
}

// --- arguments ---------------------------------------------------------------

/// The arguments of a call, given one by one or as one VARIADIC array. n is -1 if that array is NULL.
struct Arguments
{
	int32 n;
	Datum *values;
	bool *nulls;
	const ArgumentType *types; // [n], or [1] for an array
	bool one_type;
};

CallTypes *
call_types(FunctionCallInfo fcinfo, int32 n, bool variadic, const char *function)
{
	CallTypes *types = static_cast<CallTypes *>(fcinfo->flinfo->fn_extra);

	if (types != nullptr)
		return types;
	types = static_cast<CallTypes *>(
		MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, offsetof(CallTypes, types) + n * sizeof(ArgumentType)));
	for (int32 i = 0; i < n; i++)
	{
		Oid type = get_fn_expr_argtype(fcinfo->flinfo, i);

		if (variadic)
			type = get_base_element_type(type);
		if (!OidIsValid(type))
			elog(ERROR, "could not determine the type of argument %d", i + 1);
		resolve_type(&types->types[i], type, i + 1, function);
	}
	types->n = n;
	fcinfo->flinfo->fn_extra = types;
	return types;
}

Arguments
arguments_of(FunctionCallInfo fcinfo, const char *function)
{
	const bool variadic = get_fn_expr_variadic(fcinfo->flinfo);
	const CallTypes *types = call_types(fcinfo, variadic ? 1 : PG_NARGS(), variadic, function);
	Arguments arguments = {PG_NARGS(), nullptr, nullptr, types->types, false};

	if (variadic)
	{
		arguments.one_type = true;
		if (PG_ARGISNULL(0))
		{
			arguments.n = -1;
			return arguments;
		}

		ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
		int16 length;
		bool by_value;
		char align;

		get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
		deconstruct_array(
			array, ARR_ELEMTYPE(array), length, by_value, align, &arguments.values, &arguments.nulls, &arguments.n);
	}
	else
	{
		arguments.values = static_cast<Datum *>(palloc(arguments.n * sizeof(Datum)));
		arguments.nulls = static_cast<bool *>(palloc(arguments.n * sizeof(bool)));
		for (int32 i = 0; i < arguments.n; i++)
		{
			arguments.values[i] = PG_GETARG_DATUM(i);
			arguments.nulls[i] = PG_ARGISNULL(i);
		}
	}
	check_attributes(arguments.n, function);
	return arguments;
}

Datum
make_row(FunctionCallInfo fcinfo)
{
	const Arguments arguments = arguments_of(fcinfo, "matchrow");
	StringInfoData value;

	if (arguments.n < 0)
		PG_RETURN_NULL();
	begin_value(&value, arguments.n);
	for (int32 i = 0; i < arguments.n; i++)
	{
		const ArgumentType &type = arguments.types[arguments.one_type ? 0 : i];

		if (type.shape != Shape::kScalar)
			refuse_type(type.type, i + 1, "matchrow",
				"An attribute of a row is a single value; arrays and ranges belong in matchquery. To count common "
				"elements of two "
				"arrays use match_count or <#> on the arrays.");
		if (arguments.nulls[i])
			append_varint(&value, 0);
		else
			append_key(&value, scalar_key(type.scalar, arguments.values[i]));
	}
	return finish_value(&value);
}

Datum
make_query(FunctionCallInfo fcinfo)
{
	const Arguments arguments = arguments_of(fcinfo, "matchquery");
	StringInfoData value;

	if (arguments.n < 0)
		PG_RETURN_NULL();
	begin_value(&value, arguments.n);
	for (int32 i = 0; i < arguments.n; i++)
	{
		const ArgumentType &type = arguments.types[arguments.one_type ? 0 : i];
		SliceSet set = {arguments.nulls[i], nullptr, 0, 0};

		if (!set.is_null)
			add_value(&set, type, type.shape, arguments.values[i]);
		append_item(&value, &set);
	}
	return finish_value(&value);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(matchrow, vectorgpu::types::make_row(fcinfo))
VG_SQL_FUNCTION(matchquery, vectorgpu::types::make_query(fcinfo))

// matchrow(VARIADIC "any") and matchquery(VARIADIC "any"): values of SQL types to keys and slices. PG dialect.
//
// Immutable: what a value becomes depends on it and its type only. Values are read in their binary form, never through
// output functions, so that no setting has a say.
#include "types/match/row_value.hpp"
#include "types/sql_function.hpp"

#include <limits>

extern "C"
{
#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/multirangetypes.h"
#include "utils/numeric.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
}

#include "types/match/number_key.hpp"

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

/// How the values of one argument are read; worked out once for each type.
struct ArgumentType
{
	Oid type; // as declared: what this was worked out for
	Shape shape;
	Oid scalar; // what it consists of: a base type, ANYENUMOID for all enums
	ValueKind kind;
	Shape element;         // of an array: what its elements are
	int16 length;          // of an array's elements: pg_type
	bool by_value;         // ...
	char align;            // ...
	TypeCacheEntry *range; // of ranges and multiranges, or of an array's
};

/// All argument types of one call site, in fn_extra.
struct CallTypes
{
	int32 n;
	ArgumentType types[FLEXIBLE_ARRAY_MEMBER];
};

void refuse_type(Oid type, int argument, const char *function, const char *hint) pg_attribute_noreturn();

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

/// The kind of a base type; false if it has none.
bool
kind_of_type(Oid type, ValueKind *kind)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			*kind = ValueKind::kNumber;
			return true;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case CHAROID:
		case UNKNOWNOID:
		case ANYENUMOID:
			*kind = ValueKind::kString;
			return true;
		case BOOLOID:
			*kind = ValueKind::kBoolean;
			return true;
		case DATEOID:
			*kind = ValueKind::kDate;
			return true;
		case TIMESTAMPOID:
			*kind = ValueKind::kTimestamp;
			return true;
		case TIMESTAMPTZOID:
			*kind = ValueKind::kTimestamptz;
			return true;
		case TIMEOID:
			*kind = ValueKind::kTime;
			return true;
		case UUIDOID:
			*kind = ValueKind::kUuid;
			return true;
		default:
			return false;
	}
}

Oid
scalar_type(Oid type)
{
	const Oid base = getBaseType(type);

	return type_is_enum(base) ? ANYENUMOID : base;
}

/// Fills in what a range consists of.
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
			"The range type has an order of its own. Use one with the default operator class.");
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

// --- scalars -----------------------------------------------------------------

uint8 *
new_key(ValueKind kind, Size length)
{
	uint8 *key = new_bytes(static_cast<int64>(length + 1));

	key[0] = static_cast<uint8>(kind);
	return key;
}

constexpr Size kShortNumberKey = 32; // holds every 64-bit integer's

ElementKey
integer_key(int64 value)
{
	uint8 *key = new_key(ValueKind::kNumber, kShortNumberKey);

	return {key, 1 + static_cast<uint32>(number_key(value, key + 1))};
}

ElementKey
float_key(double value)
{
	uint8 *key = new_key(ValueKind::kNumber, kNumberKeyHead);

	return {key, 1 + static_cast<uint32>(number_key(value, key + 1))};
}

/// Through numeric_send, whose format is numeric's public one: digits in base 10000.
ElementKey
numeric_key(Datum datum)
{
	const bytea *sent = DatumGetByteaP(DirectFunctionCall1(numeric_send, datum));
	const uint8 *bytes = reinterpret_cast<const uint8 *>(VARDATA(sent));
	auto word = [&](Size i) { return static_cast<int16>(bytes[2 * i] << 8 | bytes[2 * i + 1]); };
	const int n_words = word(0);
	const uint16 sign = static_cast<uint16>(word(2));
	char *digits = static_cast<char *>(palloc(4 * n_words + 1));
	Decimal value = {sign == 0x4000, digits, 4 * n_words, 4 * (word(1) + 1)};
	uint8 *key = new_key(ValueKind::kNumber, Min(kMaxNumberKey, kShortNumberKey + 2 * static_cast<Size>(n_words)));
	int length;

	if (sign == 0xC000)
		return float_key(std::numeric_limits<double>::quiet_NaN());
	if (sign == 0xD000 || sign == 0xF000)
		return float_key(
			sign == 0xD000 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
	for (int i = 0; i < n_words; i++)
	{
		int digit = word(4 + i);

		for (int j = 3; j >= 0; j--, digit /= 10)
			digits[4 * i + j] = static_cast<char>('0' + digit % 10);
	}
	while (value.n_digits > 0 && value.digits[value.n_digits - 1] == '0')
		value.n_digits--;
	while (value.n_digits > 0 && value.digits[0] == '0')
	{
		value.digits++;
		value.n_digits--;
		value.exponent--;
	}
	length = number_key(value, key + 1);
	if (length == 0)
		number_too_long();
	return {key, 1 + static_cast<uint32>(length)};
}

ElementKey
bytes_key(ValueKind kind, const void *bytes, Size length)
{
	uint8 *key = new_key(kind, length);

	memcpy(key + 1, bytes, length);
	return {key, 1 + static_cast<uint32>(length)};
}

ElementKey
int64_key(ValueKind kind, int64 value)
{
	uint8 *key = new_key(kind, 8);

	put_int64(key + 1, value);
	return {key, 9};
}

ElementKey
enum_key(Datum datum)
{
	const Oid oid = DatumGetObjectId(datum);
	HeapTuple tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(oid));
	ElementKey key;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid internal value for enum: %u", oid)));

	const char *label = NameStr(reinterpret_cast<Form_pg_enum>(GETSTRUCT(tuple))->enumlabel);

	key = bytes_key(ValueKind::kString, label, strlen(label));
	ReleaseSysCache(tuple);
	return key;
}

/// The key of a value that is not NULL.
ElementKey
scalar_key(Oid type, Datum datum)
{
	switch (type)
	{
		case INT2OID:
			return integer_key(DatumGetInt16(datum));
		case INT4OID:
			return integer_key(DatumGetInt32(datum));
		case INT8OID:
			return integer_key(DatumGetInt64(datum));
		case FLOAT4OID:
			return float_key(DatumGetFloat4(datum));
		case FLOAT8OID:
			return float_key(DatumGetFloat8(datum));
		case NUMERICOID:
			return numeric_key(datum);
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		{
			const text *value = DatumGetTextPP(datum);
			Size length = VARSIZE_ANY_EXHDR(value);

			if (type == BPCHAROID)
				length = bpchartruelen(VARDATA_ANY(value), static_cast<int>(length));
			return bytes_key(ValueKind::kString, VARDATA_ANY(value), length);
		}
		case NAMEOID:
			return bytes_key(ValueKind::kString, NameStr(*DatumGetName(datum)), strlen(NameStr(*DatumGetName(datum))));
		case CHAROID:
		{
			const char value = DatumGetChar(datum);

			if (IS_HIGHBIT_SET(value))
				ereport(ERROR,
					(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE), errmsg("value of type \"char\" is not a character"),
						errdetail("It is the byte 0x%02x.", static_cast<unsigned char>(value)),
						errhint("Cast it to integer.")));
			return bytes_key(ValueKind::kString, &value, value != '\0');
		}
		case UNKNOWNOID:
			return bytes_key(ValueKind::kString, DatumGetCString(datum), strlen(DatumGetCString(datum)));
		case ANYENUMOID:
			return enum_key(datum);
		case BOOLOID:
		{
			const uint8 value = DatumGetBool(datum);

			return bytes_key(ValueKind::kBoolean, &value, 1);
		}
		case DATEOID:
		{
			uint8 *key = new_key(ValueKind::kDate, 4);

			put_int32(key + 1, DatumGetDateADT(datum));
			return {key, 5};
		}
		case TIMESTAMPOID:
			return int64_key(ValueKind::kTimestamp, DatumGetTimestamp(datum));
		case TIMESTAMPTZOID:
			return int64_key(ValueKind::kTimestamptz, DatumGetTimestampTz(datum));
		case TIMEOID:
			return int64_key(ValueKind::kTime, DatumGetTimeADT(datum));
		case UUIDOID:
			return bytes_key(ValueKind::kUuid, DatumGetUUIDP(datum)->data, UUID_LEN);
		default:
			elog(ERROR, "unexpected type %u", type);
	}
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

/// What one value that is not NULL asks for.
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
				"An attribute of a row is a single value; arrays and ranges belong into matchquery. To count common "
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

// match_at_least(value, query, n) as an index condition. Its support function turns it into `value @# c`, where c, of
// type bytea, holds query and n: the n as 4 bytes, most significant first, then the query in the form of
// engine/match/element_set.hpp. The operator is for index conditions; called directly it counts one value. PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "types/sql_function.hpp"

extern "C"
{
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

	PG_FUNCTION_INFO_V1(vectorgpu_match_at_least_support);
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kLeastBytes = 4;
constexpr double kSelectivity = 0.01; // the counts are unknown

/// The operator class's support function for conditions.
bytea *
make_condition(types::ElementSource source, Datum query, int32 least)
{
	MatchOptions options;
	const MatchSearch *search;
	Size head;
	bytea *result;
	uint8 *out;

	memset(static_cast<void *>(&options), 0, sizeof(options));
	options.source = source;
	options.elements = types::ElementOptions();
	search = match_make_query(options, types::slices_of_query(source, options.elements, query));
	head = engine::match::head_bytes(search->max_count, search->parts.body_bytes);
	result = static_cast<bytea *>(
		palloc_extended(VARHDRSZ + kLeastBytes + head + search->parts.body_bytes, MCXT_ALLOC_HUGE));
	if (VARHDRSZ + kLeastBytes + head + search->parts.body_bytes > MaxAllocSize)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("query is too large for an index condition")));
	SET_VARSIZE(result, VARHDRSZ + kLeastBytes + head + search->parts.body_bytes);
	out = reinterpret_cast<uint8 *>(VARDATA(result));
	for (int i = 0; i < 4; i++)
		*out++ = static_cast<uint8>(static_cast<uint32>(least) >> (24 - 8 * i));
	out = engine::match::put_head(out, search->max_count, search->parts.body_bytes);
	memcpy(out, search->parts.body, search->parts.body_bytes);
	return result;
}

/// The parts of a condition. Any user may call the operator with any bytes: raises 22023 for malformed ones. The
/// query's size is its greatest count here.
void
open_condition(const bytea *condition, engine::match::Parts *parts, int32 *least, uint64 *n_items)
{
	const uint8 *bytes = reinterpret_cast<const uint8 *>(VARDATA_ANY(condition));
	const Size n_bytes = VARSIZE_ANY_EXHDR(condition);
	uint32 value = 0;
	uint64_t n = 0;

	if (n_bytes < kLeastBytes || !engine::match::open_parts(bytes + kLeastBytes, n_bytes - kLeastBytes, parts) ||
		parts->payload_bytes != 0 || !engine::match::items_valid(*parts, &n))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid match condition"),
				errhint("Use the function match_at_least.")));
	for (Size i = 0; i < kLeastBytes; i++)
		value = value << 8 | bytes[i];
	*least = static_cast<int32>(value);
	*n_items = n;
}

/// `value @# condition`, computed.
bool
satisfies(types::ElementSource source, Datum value, const bytea *condition)
{
	MatchOptions options;
	engine::match::Parts query;
	engine::match::Parts parts;
	uint64 n_items;
	int32 least;
	char *stored;

	memset(static_cast<void *>(&options), 0, sizeof(options));
	options.source = source;
	options.elements = types::ElementOptions();
	open_condition(condition, &query, &least, &n_items);
	stored = match_make_value(options, value);
	if (!engine::match::open_parts(stored + sizeof(uint32), stored_bytes(stored) - sizeof(uint32), &parts))
		elog(ERROR, "a value has no elements");
	return least <= 0 || engine::match::count_matches(query, parts) >= static_cast<uint64>(least);
}

/// The clause `value @# condition` for match_at_least(value, query, n), or null if the index does not support it.
List *
index_condition(const SupportRequestIndexCondition *request)
{
	const FuncExpr *call = reinterpret_cast<const FuncExpr *>(request->node);
	Node *value;
	Node *query;
	Node *least;
	Oid type;
	Oid op;
	Oid make;
	Node *argument;
	Expr *clause;

	if (!IsA(request->node, FuncExpr) || list_length(call->args) != 3 || request->indexarg != 0)
		return NIL;
	value = static_cast<Node *>(linitial(call->args));
	query = static_cast<Node *>(lsecond(call->args));
	least = static_cast<Node *>(lthird(call->args));
	if (!is_pseudo_constant_for_index(request->root, query, request->index) ||
		!is_pseudo_constant_for_index(request->root, least, request->index))
		return NIL;
	type = exprType(value);
	op = get_opfamily_member(request->opfamily, type, BYTEAOID, kConditionStrategy);
	make = get_opfamily_proc(request->opfamily, type, type, kConditionSupport);
	if (!OidIsValid(op) || !OidIsValid(make))
		return NIL;
	argument = eval_const_expressions(request->root,
		reinterpret_cast<Node *>(
			makeFuncExpr(make, BYTEAOID, list_make2(query, least), InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL)));
	clause = make_opclause(op, BOOLOID, false, reinterpret_cast<Expr *>(value), reinterpret_cast<Expr *>(argument),
		InvalidOid, InvalidOid);
	return list_make1(clause);
}

} // namespace

void *
match_condition(const IndexShape *shape, Datum argument, double *worst)
{
	MatchSearch *search = static_cast<MatchSearch *>(palloc0(sizeof(MatchSearch)));
	// Copied: the scan goes on after the argument's memory is gone.
	const bytea *condition = DatumGetByteaPCopy(argument);
	int32 least;

	search->options = match_options(shape->am_options);
	if (shape->metric != Metric::kMatchCount)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the index does not answer match conditions")));
	open_condition(condition, &search->parts, &least, &search->n_items);
	search->max_count = search->parts.size;
	*worst = least > 0 ? -static_cast<double>(least) : 0;
	return search;
}

} // namespace vectorgpu::am

Datum
vectorgpu_match_at_least_support(PG_FUNCTION_ARGS)
{
	Node *request = reinterpret_cast<Node *>(PG_GETARG_POINTER(0));

	if (IsA(request, SupportRequestSelectivity))
	{
		reinterpret_cast<SupportRequestSelectivity *>(request)->selectivity = vectorgpu::am::kSelectivity;
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestIndexCondition))
	{
		SupportRequestIndexCondition *condition = reinterpret_cast<SupportRequestIndexCondition *>(request);
		List *clauses = vectorgpu::am::index_condition(condition);

		condition->lossy = false;
		PG_RETURN_POINTER(clauses);
	}
	PG_RETURN_POINTER(nullptr);
}

#define VG_MATCH_CONDITION(name, source)                                                                               \
	VG_SQL_FUNCTION(name##_match_condition,                                                                            \
		PointerGetDatum(vectorgpu::am::make_condition(                                                                 \
			vectorgpu::types::ElementSource::source, PG_GETARG_DATUM(0), PG_GETARG_INT32(1))))                         \
	VG_SQL_FUNCTION(name##_match_satisfies,                                                                            \
		BoolGetDatum(vectorgpu::am::satisfies(                                                                         \
			vectorgpu::types::ElementSource::source, PG_GETARG_DATUM(0), PG_GETARG_BYTEA_PP(1))))

VG_MATCH_CONDITION(int4_array, kInt4Array)
VG_MATCH_CONDITION(int8_array, kInt8Array)
VG_MATCH_CONDITION(text_array, kTextArray)
VG_MATCH_CONDITION(uuid_array, kUuidArray)
VG_MATCH_CONDITION(tsvector, kTsvector)
VG_MATCH_CONDITION(matchrow, kMatchrow)

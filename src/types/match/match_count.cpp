// match_count and the functions based on it: the operator <#>, match_at_least. PG dialect.
#include "types/match/element.hpp"
#include "types/sql_function.hpp"

namespace vectorgpu::types
{
namespace
{

/// The slices of the last query, kept between the calls of one function in one statement. A sequential scan evaluates
/// the same query for each row, and a long query takes longer to sort than to match.
struct QueryCache
{
	MemoryContext context;
	struct varlena *query; // detoasted
	SliceList slices;
};

SliceList
cached_slices(FunctionCallInfo fcinfo, ElementSource source, struct varlena *query)
{
	QueryCache *cache;
	MemoryContext caller;

	if (fcinfo->flinfo == nullptr)
		return slices_of_query(source, {}, PointerGetDatum(query));
	cache = static_cast<QueryCache *>(fcinfo->flinfo->fn_extra);
	if (cache == nullptr)
	{
		cache = static_cast<QueryCache *>(MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(QueryCache)));
		cache->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "vectorgpu match query", ALLOCSET_SMALL_SIZES);
		fcinfo->flinfo->fn_extra = cache;
	}
	if (cache->query != nullptr && VARSIZE_ANY(cache->query) == VARSIZE_ANY(query) &&
		memcmp(cache->query, query, VARSIZE_ANY(query)) == 0)
		return cache->slices;

	cache->query = nullptr; // in case of an error below
	MemoryContextReset(cache->context);
	caller = MemoryContextSwitchTo(cache->context);

	struct varlena *copy = static_cast<struct varlena *>(palloc_extended(VARSIZE_ANY(query), MCXT_ALLOC_HUGE));

	memcpy(copy, query, VARSIZE_ANY(query));
	cache->slices = slices_of_query(source, {}, PointerGetDatum(copy));
	cache->query = copy;
	MemoryContextSwitchTo(caller);
	return cache->slices;
}

int32
count(FunctionCallInfo fcinfo, ElementSource source)
{
	// An external value is only a pointer: two equal pointers are one value within a statement, but a copy must not
	// outlive the statement's snapshot. So the value is fetched here and compared by content.
	struct varlena *query = PG_GETARG_VARLENA_PP(1);

	return count_matches(elements_of_value(source, {}, PG_GETARG_DATUM(0)), cached_slices(fcinfo, source, query));
}

Datum
minus_count(FunctionCallInfo fcinfo, ElementSource source)
{
	PG_RETURN_FLOAT8(-count(fcinfo, source)); // negated as an integer, so never -0
}

} // namespace
} // namespace vectorgpu::types

#define VG_MATCH_FUNCTIONS(name, source)                                                                               \
	VG_SQL_FUNCTION(name##_match_count, Int32GetDatum(vectorgpu::types::count(fcinfo, source)))                        \
	VG_SQL_FUNCTION(name##_match_distance, vectorgpu::types::minus_count(fcinfo, source))                              \
	VG_SQL_FUNCTION(name##_match_at_least, BoolGetDatum(vectorgpu::types::count(fcinfo, source) >= PG_GETARG_INT32(2)))

VG_MATCH_FUNCTIONS(int4_array, vectorgpu::types::ElementSource::kInt4Array)
VG_MATCH_FUNCTIONS(int8_array, vectorgpu::types::ElementSource::kInt8Array)
VG_MATCH_FUNCTIONS(text_array, vectorgpu::types::ElementSource::kTextArray)
VG_MATCH_FUNCTIONS(uuid_array, vectorgpu::types::ElementSource::kUuidArray)
VG_MATCH_FUNCTIONS(tsvector, vectorgpu::types::ElementSource::kTsvector)
VG_MATCH_FUNCTIONS(matchrow, vectorgpu::types::ElementSource::kMatchrow)

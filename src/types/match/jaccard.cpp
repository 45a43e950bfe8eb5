// Jaccard distance of arrays as sets, exactly: operator <%>. PG dialect.
#include "types/match/element.hpp"
#include "types/sql_function.hpp"

namespace vectorgpu::types
{
namespace
{

/// Return 1 - |common| / |all|; 1 if there is no common element, also for two empty sets, as for bit strings.
Datum
jaccard(FunctionCallInfo fcinfo, ElementSource source)
{
	const ElementList a = elements_of_value(source, {}, PG_GETARG_DATUM(0));
	const SliceList b = slices_of_query(source, {}, PG_GETARG_DATUM(1));
	const int64 common = count_matches(a, b);
	const int64 all = static_cast<int64>(a.n) + b.n - common;

	PG_RETURN_FLOAT8(common == 0 ? 1.0 : 1.0 - static_cast<float8>(common) / static_cast<float8>(all));
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(int4_array_jaccard, vectorgpu::types::jaccard(fcinfo, vectorgpu::types::ElementSource::kInt4Array))
VG_SQL_FUNCTION(int8_array_jaccard, vectorgpu::types::jaccard(fcinfo, vectorgpu::types::ElementSource::kInt8Array))
VG_SQL_FUNCTION(text_array_jaccard, vectorgpu::types::jaccard(fcinfo, vectorgpu::types::ElementSource::kTextArray))
VG_SQL_FUNCTION(uuid_array_jaccard, vectorgpu::types::jaccard(fcinfo, vectorgpu::types::ElementSource::kUuidArray))

// Hamming and Jaccard distance of core's bit and varbit. PG dialect.
#include "types/sql_function.hpp"

extern "C"
{
#include "utils/varbit.h"
}

#include "engine/distance/distance.hpp"

namespace vectorgpu::types
{
namespace
{

Datum
bit_distance(FunctionCallInfo fcinfo, Metric metric)
{
	const VarBit *a = PG_GETARG_VARBIT_P(0);
	const VarBit *b = PG_GETARG_VARBIT_P(1);

	if (VARBITLEN(a) != VARBITLEN(b))
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION), errmsg("different bit lengths %u and %u", VARBITLEN(a), VARBITLEN(b))));

	const engine::DistanceSpec spec = {metric, ElementType::kBit, static_cast<uint32_t>(VARBITLEN(a))};

	PG_RETURN_FLOAT8(engine::distance(spec, VARBITS(a), VARBITS(b)));
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(hamming_distance, vectorgpu::types::bit_distance(fcinfo, vectorgpu::Metric::kHamming))
VG_SQL_FUNCTION(jaccard_distance, vectorgpu::types::bit_distance(fcinfo, vectorgpu::Metric::kJaccard))

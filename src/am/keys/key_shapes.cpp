// Support function 1 of the filter classes: kFilterClass and the kind. They take no argument and return a constant, so
// that calling one from SQL does no harm. PG dialect.
#include "am/keys/key_kind.hpp"

#define VG_FILTER_FUNCTION(name, kind)                                                                                 \
	extern "C"                                                                                                         \
	{                                                                                                                  \
		PG_FUNCTION_INFO_V1(vectorgpu_shape_filter_##name);                                                            \
		Datum vectorgpu_shape_filter_##name(PG_FUNCTION_ARGS)                                                          \
		{                                                                                                              \
			PG_RETURN_INT32(vectorgpu::am::kFilterClass | static_cast<int32>(vectorgpu::am::KeyKind::kind));           \
		}                                                                                                              \
	}

VG_FILTER_FUNCTION(bool, kBool)
VG_FILTER_FUNCTION(char, kChar)
VG_FILTER_FUNCTION(int2, kInt2)
VG_FILTER_FUNCTION(int4, kInt4)
VG_FILTER_FUNCTION(int8, kInt8)
VG_FILTER_FUNCTION(oid, kOid)
VG_FILTER_FUNCTION(float4, kFloat4)
VG_FILTER_FUNCTION(float8, kFloat8)
VG_FILTER_FUNCTION(date, kDate)
VG_FILTER_FUNCTION(time, kTime)
VG_FILTER_FUNCTION(timestamp, kTimestamp)
VG_FILTER_FUNCTION(timestamptz, kTimestampTz)
VG_FILTER_FUNCTION(numeric, kNumeric)
VG_FILTER_FUNCTION(uuid, kUuid)
VG_FILTER_FUNCTION(text, kText)
VG_FILTER_FUNCTION(bytea, kBytea)
VG_FILTER_FUNCTION(inet, kInet)
VG_FILTER_FUNCTION(enum, kEnum)
VG_FILTER_FUNCTION(array, kArray)

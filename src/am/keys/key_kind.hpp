// Filter classes: operator classes of further key columns, on which conditions are decided inside the index. Their
// numbers in the catalogs, and what codes are made of. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// What the codes of a key column are. The values are stored in index pages: never renumber.
enum class KeyKind : uint8
{
	kBool = 1,
	kChar = 2, // "char"
	kInt2 = 3,
	kInt4 = 4,
	kInt8 = 5,
	kOid = 6,
	kFloat4 = 7,
	kFloat8 = 8,
	kDate = 9,
	kTime = 10,
	kTimestamp = 11,
	kTimestampTz = 12,
	kNumeric = 13,
	kUuid = 14,
	kText = 15,
	kBytea = 16,
	kInet = 17,
	kEnum = 18,
	kArray = 19,
};
constexpr int kLastKeyKind = 19;

/// In the code that support function 1 returns (kShapeSupport): the class is a filter class; the low byte is the kind.
constexpr int32 kFilterClass = 1 << 25;

inline bool
is_filter_class(int32 shape_code)
{
	return (shape_code & kFilterClass) != 0;
}

/// Support functions of filter classes besides number 1; 2 and 3 are gpumatch's own.
constexpr int16 kCompareSupport = 4; // (left, right) → int4, as of btree; of types that are compared with another
constexpr int16 kHashSupport = 5;    // (value, seed bigint) → bigint, as of hash
constexpr int16 kLastSupport = 5;

/// Strategies of filter classes: 1 to 5 as of btree (BTLessStrategyNumber …), and <>.
constexpr int16 kNotEqualStrategy = 6;
/// Those of arrays, beside 3.
constexpr int16 kOverlapStrategy = 7;   // &&
constexpr int16 kContainsStrategy = 8;  // @>
constexpr int16 kContainedStrategy = 9; // <@
constexpr int16 kLastStrategy = 9;

} // namespace vectorgpu::am

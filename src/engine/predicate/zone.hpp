// Codes of a key column in memory, and their zone maps: the least and the greatest code of each block of rows. What a
// program says of a zone: judge.hpp. Plain structs, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/predicate/program.hpp"

namespace vectorgpu::engine::predicate
{

/// Rows of a block. Each column has one zone for each block.
constexpr uint32_t kBlockRows = 1024;

struct Zone
{
	uint64_t least; // of the rows that are not NULL; least > greatest if all are NULL
	uint64_t greatest;
	uint32_t n_rows;
	uint32_t n_nulls;
};
static_assert(sizeof(Zone) == 24);

/// One stream of codes: unsigned little-endian numbers in the order of rows, any alignment. The bytes of a NULL row's
/// code are arbitrary.
struct ColumnCodes
{
	const void *codes;
	const uint8_t *nulls; // a bit a row as in row_bits.hpp, 1: NULL; null: no row is NULL
	const Zone *zones;    // [ceil(rows / kBlockRows)]; null: the column has no zones
	uint8_t width;        // 1, 2, 4 or 8 bytes a code
};

/// Code `row` of a stream.
uint64_t code_at(const void *codes, uint8_t width, uint64_t row);

/// A zone without rows, for zone_add.
constexpr Zone kNoRows = {UINT64_MAX, 0, 0, 0};

/// Add one row to a zone.
inline void
zone_add(Zone *zone, bool is_null, uint64_t code)
{
	zone->n_rows++;
	if (is_null)
		zone->n_nulls++;
	else
	{
		zone->least = code < zone->least ? code : zone->least;
		zone->greatest = code > zone->greatest ? code : zone->greatest;
	}
}

/// Set the zones of n_rows rows, beginning with a block's first row. zones [ceil(n_rows / kBlockRows)].
void make_zones(const ColumnCodes &column, uint64_t n_rows, Zone *zones);

} // namespace vectorgpu::engine::predicate

// Codes of a key column in memory, and their zone maps: the least and the greatest code of each block of rows, so that
// blocks are skipped where no row, or every row, passes. Plain structs, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/predicate/program.hpp"

namespace vectorgpu::engine::predicate
{

/// Rows of a block, of which each column has one zone.
constexpr uint32_t kBlockRows = 1024;

struct Zone
{
	uint64_t least; // of the rows that are not NULL; least > greatest if there are none
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
	const Zone *zones;    // [ceil(rows / kBlockRows)]; null: there are none
	uint8_t width;        // 1, 2, 4 or 8 bytes a code
};

/// Code `row` of a stream.
uint64_t code_at(const void *codes, uint8_t width, uint64_t row);

/// The zone of no rows, for zone_add.
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

/// Set the zones of n_rows rows, from the first of a block on. zones [ceil(n_rows / kBlockRows)].
void make_zones(const ColumnCodes &column, uint64_t n_rows, Zone *zones);

/// How many rows of a block something holds for.
enum class Share : uint8_t
{
	kNone,
	kSome, // or not known
	kEvery,
};

struct Verdict
{
	Share pass;
	Share sure; // pass certainly
};

/// What one step says of a zone. Not kAnd, kOr.
Verdict judge_zone(const Step &step, const Zone &zone);

/// What the program says of block `block`, from the zones of its streams; kSome where there are none.
Verdict judge_block(const Program &program, const ColumnCodes *columns, uint64_t block);

} // namespace vectorgpu::engine::predicate

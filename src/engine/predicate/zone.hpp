// Codes of a key column in memory, and their zone maps: the least and the greatest code of each block of rows.
// Evaluation skips a block where no row, or every row, passes. Plain structs, no allocation.
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

/// How many rows of a block meet a condition.
enum class Share : uint8_t
{
	kNone,
	kSome, // or unknown
	kEvery,
};

struct Verdict
{
	Share pass;
	Share sure; // pass certainly
};

/// Judge a zone by one step, which is no joint.
Verdict judge_zone(const Step &step, const Zone &zone);

/// Join the verdicts of two operands of kAnd or kOr.
Verdict join_verdicts(Op op, const Verdict &left, const Verdict &right);

/// Judge by the whole program. judge(step) returns the verdict of a step that is no joint.
template <class Judge>
Verdict
judge_program(const Program &program, const Judge &judge)
{
	Verdict results[kMostDepth];
	uint32_t depth = 0;

	for (uint32_t i = 0; i < program.n_steps; i++)
	{
		const Step &step = program.steps[i];

		if (is_joint(step.op))
		{
			depth--;
			results[depth - 1] = join_verdicts(step.op, results[depth - 1], results[depth]);
		}
		else
			results[depth++] = judge(step);
	}
	return results[0];
}

/// Judge block `block` from the zones of the program's streams. A stream without zones counts as kSome.
Verdict judge_block(const Program &program, const ColumnCodes *columns, uint64_t block);

} // namespace vectorgpu::engine::predicate

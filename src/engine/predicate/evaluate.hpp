// Evaluates a predicate program over codes: blocks of rows to bitmaps, or one row. Plain functions, thread-safe, no
// allocation, no exception.
#pragma once

#include "engine/predicate/program.hpp"
#include "engine/predicate/zone.hpp"

namespace vectorgpu::engine::predicate
{

/// Whether every stream of the program is there, with a width that exists. Evaluation requires it.
bool program_fits(const Program &program, const ColumnCodes *columns, uint32_t n_columns);

struct PassCounts
{
	uint64_t n_pass;
	uint64_t n_sure; // of these, those that pass certainly
};

/// Evaluate the program for rows [first_row, first_row + n_rows). first_row: a multiple of kBlockRows. columns: from
/// row 0 on, as program_fits wants them. pass, maybe [ceil(n_rows / 8)], of row first_row on, laid out as in
/// row_bits.hpp: the rows that pass, and of these those that do not certainly. Each may be null: only counted.
PassCounts evaluate_rows(const Program &program, const ColumnCodes *columns, uint64_t first_row, uint64_t n_rows,
	uint8_t *pass, uint8_t *maybe);

/// What the program says of one row.
enum class RowVerdict : uint8_t
{
	kFails,
	kMaybe,
	kPasses, // certainly
};

/// A row by itself: codes [n_streams]; bit s of nulls: stream s is NULL. n_streams: at least program.n_streams.
RowVerdict evaluate_row(const Program &program, const uint64_t *codes, uint64_t nulls);

} // namespace vectorgpu::engine::predicate

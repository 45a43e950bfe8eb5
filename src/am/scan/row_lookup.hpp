// Where rows lie in a segment, by their ids. PG dialect.
#pragma once

#include "storage/stream.hpp"

namespace vectorgpu::am
{

constexpr uint64 kNoRowNumber = ~UINT64CONST(0);

/// numbers[i]: the number of rows[i] in the segment, or kNoRowNumber if it has no such row with a value, or a tombstone
/// of it. rows [n] ascend. Row ids follow the table, so that a page is guessed by interpolation: mostly one page is
/// read for each that has rows. Holds no content lock when it returns. False if a page was foreign.
bool find_rows(Relation index, const MetaData *meta, const SegmentEntry *segment, const RowId *rows, uint64 n,
	uint64 *numbers, BufferAccessStrategy strategy);

} // namespace vectorgpu::am

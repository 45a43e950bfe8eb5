// Stored rows of a segment, one by one. PG dialect.
#pragma once

#include "am/gpuivf/storage.hpp"

namespace vectorgpu::am
{

/// The code [code_bytes] at a place. False if a page was foreign.
bool ivf_read_code(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfLayout *layout,
	uint64 place, uint8 *code, BufferAccessStrategy strategy);

/// The vector at a place of a segment without full vectors, as the column has them: dest [vector_bytes], aligned to 4
/// bytes. False if a page was foreign.
bool ivf_read_stored(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfLayout *layout,
	uint64 place, char *dest, BufferAccessStrategy strategy);

/// table_values.cpp. Values of the index's column for rows [n], without tombstones, from the table: dest [n,
/// vector_bytes]; found [n]: false where the value is not at hand (index on an expression, value stored out of line,
/// row gone). Values are right only if the caller holds a lock on the table that keeps VACUUM away.
void ivf_read_table(Relation index, const MetaData *meta, const RowId *rows, uint64 n, char *dest, bool *found);

/// SegmentFormat::matches.
bool ivf_matches(const MetaData *meta, const char *vector, const char *stored);

} // namespace vectorgpu::am

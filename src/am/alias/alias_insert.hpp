// Inserting a row that shares the entry of the row version that it replaces. PG dialect. Called by shared_insert, and
// by vectorgpu_check for the comparison of values.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

/// Append an alias for a row with this vector if the UPDATE that runs has left the vector as it was. False: the row
/// needs an entry of its own.
bool share_entry(const AccessMethod *am, Relation index, Relation heap, RowId row, const char *vector);

/// True if a live entry of row `key`, in a segment or before delta_end, has the value of the vector, for an index whose
/// segments keep full vectors. Of a large delta only the newest rows are looked at, unless whole_delta. Pages that are
/// foreign count as no entry.
bool entry_equals(const AccessMethod *am, Relation index, const MetaData *meta, uint64 delta_end, RowId key,
	const char *vector, bool whole_delta);

} // namespace vectorgpu::am

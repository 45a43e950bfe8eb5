// Appending a stored value to the delta. PG dialect.
#pragma once

#include "storage/delta.hpp"

namespace vectorgpu::am
{

/// Append a row that holds a stored value (value_format.hpp); value is null for NULL. keys: as for delta_append, which
/// calls it.
void delta_append_value(Relation index, Relation heap, RowId row, const char *value, const char *keys);

} // namespace vectorgpu::am

// Inserting a row that shares the entry of the row version that it replaces. PG dialect. Called by shared_insert.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

/// Append an alias for a row with this vector if the UPDATE that runs has left the vector as it was. False: the row
/// needs an entry of its own.
bool share_entry(const AccessMethod *am, Relation index, Relation heap, RowId row, const char *vector);

} // namespace vectorgpu::am

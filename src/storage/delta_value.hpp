// Stored values in the delta: reading them and counting rows. See delta.hpp for their layout in slots. PG dialect.
#pragma once

#include "storage/delta.hpp"
#include "storage/value_format.hpp"

namespace vectorgpu::am
{

/// Return the number of slots that a stored value needs; 1 for NULL (null).
uint64 delta_slots(const MetaData *meta, const char *value);

/// Count the rows before number `end`. A row with several slots counts once.
uint64 delta_count_rows(Relation index, const MetaData *meta, uint64 end);

/// Read the stored value whose first slot is `first` into dest, which grows as needed. Returns false if a page was
/// foreign.
bool delta_read_value(Relation index, const MetaData *meta, uint64 first, ValueBuffer *dest);

/// Return the end of the last complete row before `visible_end`, the end of the visible slots. Sets *foreign as
/// page_read does.
uint64 delta_whole_end(Relation index, const MetaData *meta, uint64 visible_end, bool *foreign);

} // namespace vectorgpu::am

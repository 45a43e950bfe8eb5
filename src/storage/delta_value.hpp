// Stored values in the delta: reading them and counting rows. See delta.hpp for their layout in slots. PG dialect.
#pragma once

#include "storage/delta.hpp"
#include "storage/value_format.hpp"

namespace vectorgpu::am
{

/// Return the number of slots that a row with this stored value needs; null: NULL.
uint64 delta_slots(const MetaData *meta, const char *value);

/// The same by the row's first slot. first: at least the value's length.
uint64 delta_slots_of(const MetaData *meta, uint64 header, const char *first);

/// Bytes in the slots of a row, from which on they are zero. Arguments as for delta_slots_of.
Size delta_used_bytes(const MetaData *meta, uint64 header, const char *first);

/// Count the rows before number `end`. A row with several slots counts once.
uint64 delta_count_rows(Relation index, const MetaData *meta, uint64 end);

/// Read the slots of the row whose first slot is `first` into dest, which grows as needed: its stored value, then the
/// image of its key columns. Returns false if a page was foreign.
bool delta_read_value(Relation index, const MetaData *meta, uint64 first, ValueBuffer *dest);

/// Read the image of the key columns of the row whose first slot is `first`. Returns false if a page was foreign.
bool delta_read_keys(Relation index, const MetaData *meta, uint64 first, char *image);

/// Return the end of the last complete row before `visible_end`, the end of the visible slots. Sets *foreign as
/// page_read does.
uint64 delta_whole_end(Relation index, const MetaData *meta, uint64 visible_end, bool *foreign);

} // namespace vectorgpu::am

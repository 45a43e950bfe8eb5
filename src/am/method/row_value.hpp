// From a Datum of an index column or a query to the plain vector that streams, deltas and the engine work on.
// PG dialect. Called by build, insert and scan.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

/// A detoasted value. `vector` points to vector_bytes() bytes, at any alignment, inside the Datum or a copy of it.
struct RowValue
{
	const char *vector;
	uint32 dim;
	void *copy; // palloc'd by detoasting, or null
};

/// Detoasts. Raises 22000 if the value's length does not fit its own header.
RowValue row_value_open(ElementType element, Datum datum);

/// Frees what detoasting allocated.
void row_value_close(RowValue *value);

/// row_value_open for a value to be indexed: raises 22000 unless it has the index's dimensions.
RowValue row_value_for_index(ElementType element, uint32 dim, Datum datum);

/// row_value_open for a query: raises the distance operator's error unless it has the index's dimensions.
RowValue row_value_for_query(ElementType element, uint32 dim, Datum datum);

} // namespace vectorgpu::am

// aminsert: append one row to the delta, or let it share the entry of the version that it replaces. PG dialect.
#include "am/alias/alias_insert.hpp"
#include "am/method/callbacks.hpp"
#include "am/method/row_value.hpp"
#include "storage/delta_append.hpp"
#include "storage/value_format.hpp"

namespace vectorgpu::am
{

namespace
{

/// Return the shape, usually without reading the metapage. A column that loses its type modifier (ALTER COLUMN TYPE
/// vector) keeps its index, which keeps the dimensions with which it was built.
IndexShape
shape_of_built_index(const AccessMethod *am, Relation index)
{
	MetaData meta;

	if (am->values == nullptr && TupleDescAttr(RelationGetDescr(index), 0)->atttypmod >= 1)
		return index_shape(am, index);
	meta_read(index, nullptr, &meta);
	return shape_of_meta(&meta);
}

/// Append the stored value of a datum. Making it takes several times its memory, which core would free only at the end
/// of the statement.
void
insert_value(const ValueFormat *values, const IndexShape *shape, Relation index, Relation heap, RowId row, Datum datum)
{
	const MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu value", ALLOCSET_DEFAULT_SIZES);
	const MemoryContext outer = MemoryContextSwitchTo(scratch);
	const char *value = values->store(shape, datum);

	MemoryContextSwitchTo(outer);
	delta_append(index, heap, row, value);
	MemoryContextDelete(scratch);
}

} // namespace

bool
shared_insert(
	const AccessMethod *am, Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap, bool unchanged)
{
	const RowId row = make_row_id(ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	const IndexShape shape = shape_of_built_index(am, index);
	RowValue vector;

	if (isnull[0])
	{
		delta_append(index, heap, row, nullptr);
		return false;
	}
	if (am->values != nullptr)
	{
		insert_value(am->values, &shape, index, heap, row, values[0]);
		return false;
	}
	vector = row_value_for_index(shape.element, shape.dim, values[0]);
	if (!unchanged || !share_entry(am, index, heap, row, vector.vector))
		delta_append(index, heap, row, vector.vector);
	row_value_close(&vector);
	return false;
}

} // namespace vectorgpu::am

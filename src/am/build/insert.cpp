// aminsert: append one row to the delta, or let it share the entry of the version that it replaces. PG dialect.
#include "am/alias/alias_insert.hpp"
#include "am/keys/key_coder.hpp"
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
insert_value(const ValueFormat *values, const IndexShape *shape, Relation index, Relation heap, RowId row, Datum datum,
	const char *keys)
{
	const MemoryContext scratch =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu value", ALLOCSET_DEFAULT_SIZES);
	const MemoryContext outer = MemoryContextSwitchTo(scratch);
	const char *value = values->store(shape, datum);

	MemoryContextSwitchTo(outer);
	delta_append(index, heap, row, value, keys);
	MemoryContextDelete(scratch);
}

/// The coder, opened once for a statement.
const KeyCoder *
coder_of_statement(Relation index, IndexInfo *info)
{
	if (IndexRelationGetNumberOfKeyAttributes(index) == 1)
		return nullptr;
	if (info->ii_AmCache == nullptr)
	{
		const MemoryContext old = MemoryContextSwitchTo(info->ii_Context);
		MetaData meta;

		info->ii_AmCache = index_key_coder(index);
		MemoryContextSwitchTo(old);
		meta_read(index, nullptr, &meta);
		key_coder_check(index, static_cast<const KeyCoder *>(info->ii_AmCache), &meta.keys);
	}
	return static_cast<const KeyCoder *>(info->ii_AmCache);
}

} // namespace

bool
shared_insert(const AccessMethod *am, Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
	bool unchanged, IndexInfo *info)
{
	const RowId row = make_row_id(ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	const IndexShape shape = shape_of_built_index(am, index);
	const KeyCoder *coder = coder_of_statement(index, info);
	char *keys = nullptr;
	RowValue vector;

	if (coder != nullptr)
	{
		keys = static_cast<char *>(palloc(key_image_bytes(&coder->layout)));
		key_image(coder, values + 1, isnull + 1, keys);
	}
	if (isnull[0])
	{
		delta_append(index, heap, row, nullptr, keys);
		return false;
	}
	if (am->values != nullptr)
	{
		insert_value(am->values, &shape, index, heap, row, values[0], keys);
		return false;
	}
	vector = row_value_for_index(shape.element, shape.dim, values[0]);
	// What shares an entry would share its codes, too.
	if (!unchanged || coder != nullptr || !share_entry(am, index, heap, row, vector.vector))
		delta_append(index, heap, row, vector.vector, keys);
	row_value_close(&vector);
	return false;
}

} // namespace vectorgpu::am

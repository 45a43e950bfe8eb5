// The function behind the columns of the view vectorgpu_indexes that tell of key columns. It waits for no lock, and
// raises no error for an index that is damaged or of another release. PG dialect.
#include "am/functions/peek.hpp"
#include "storage/delta.hpp"

extern "C"
{
#include "fmgr.h"

	PG_FUNCTION_INFO_V1(vectorgpu_index_keys);
}

namespace vectorgpu::am
{

namespace
{

constexpr int kTries = 4; // the first, and three more if a standby finds pages recycled

enum KeysColumn
{
	kKeyColumns,
	kKeyBytes,
	kKeysColumns,
};

/// Bytes of the codes of key columns in segments and delta.
uint64
code_bytes(const MetaData *meta, uint64 end)
{
	uint64 bytes = 0;

	if (meta->keys.n_columns == 0)
		return 0;
	for (uint32 i = 0; i < meta->n_segments; i++)
		bytes += key_area_bytes(&meta->keys, meta->segments[i].n_rows) +
			key_area_bytes(&meta->keys, meta->segments[i].n_null_rows);
	return bytes + (end - meta->delta_first_row) * key_image_bytes(&meta->keys);
}

/// peek_pages' function; state is a PeekedRow.
void
fill_keys(Relation index, void *state)
{
	PeekedRow *row = static_cast<PeekedRow *>(state);
	MetaData *meta;
	uint64 end = 0;
	uint32 version;
	bool foreign = true;

	if (!peek_metapage(index, &version))
		return;
	meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	for (int i = 0; i < kTries && foreign; i++)
	{
		foreign = false;
		meta_read(index, nullptr, meta);
		end = delta_end(index, meta, &foreign);
	}
	if (foreign)
		page_recycled(index, 0);
	row->values[kKeyColumns] = Int32GetDatum(meta->keys.n_columns);
	row->values[kKeyBytes] = Int64GetDatum(static_cast<int64>(code_bytes(meta, end)));
	row->nulls[kKeyColumns] = row->nulls[kKeyBytes] = false;
	pfree(meta);
}

} // namespace
} // namespace vectorgpu::am

/// vectorgpu_index_keys(index): one row; NULLs where there is nothing to tell, or the caller may not see it.
Datum
vectorgpu_index_keys(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	return peek_row(fcinfo, kKeysColumns, fill_keys);
}

// See delta_rows.hpp.
#include "am/feed/delta_rows.hpp"

#include "storage/delta_value.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

/// Read the codes of rows with stored values, whose place depends on the value; zeros for slots that begin no row.
bool
read_value_codes(
	Relation index, const MetaData *meta, Size key_bytes, uint64 first, uint64 n, const uint64 *headers, char *codes)
{
	memset(codes, 0, n * key_bytes);
	for (uint64 i = 0; i < n; i++)
		if ((headers[i] & (kDeltaContinued | kDeltaPart)) == 0 &&
			!delta_read_keys(index, meta, first + i, codes + i * key_bytes))
			return false;
	return true;
}

} // namespace

Size
copy_key_bytes(const WorkerStructure *structure, const MetaData *meta)
{
	// Copies that name candidates are finished by the pages.
	if (meta->keys.n_columns == 0 || !copy_takes_conditions(structure, meta) ||
		(structure != nullptr && structure->finds_candidates != nullptr && structure->finds_candidates(meta)))
		return 0;
	return meta_key_bytes(meta);
}

bool
copy_takes_conditions(const WorkerStructure *structure, const MetaData *meta)
{
	return structure == nullptr || structure->kind(meta) != wire::CopyKind::kMatch;
}

void
copy_key_columns(const MetaData *meta, wire::KeyColumns *keys)
{
	static_assert(kMaxKeyColumns <= wire::kMostKeyColumns && kMaxKeyStreams <= wire::kMostKeyStreams);
	memset(keys, 0, sizeof(*keys));
	keys->n_columns = meta->keys.n_columns;
	keys->n_streams = meta->keys.n_streams;
	memcpy(keys->widths, meta->keys.widths, meta->keys.n_streams);
	memcpy(keys->columns, meta->keys.columns, meta->keys.n_streams);
}

bool
delta_rows_read(Relation index, const MetaData *meta, Size key_bytes, uint64 first, uint64 n, char *rows)
{
	const Size vector_bytes = meta_vector_bytes(meta);
	const Size stride = MAXALIGN(vector_bytes + key_bytes);
	uint64 *headers = reinterpret_cast<uint64 *>(rows);
	char *vectors = rows + n * sizeof(uint64);
	char *codes = vectors + n * vector_bytes;
	char *bodies;
	bool intact;

	if (key_bytes == 0 || meta->element == ElementType::kSet)
	{
		// NULL rows do not write their place; zeros there are finite values.
		memset(vectors, 0, n * vector_bytes);
		return delta_read(index, meta, first, n, headers, vectors, vector_bytes) &&
			(key_bytes == 0 || read_value_codes(index, meta, key_bytes, first, n, headers, codes));
	}
	bodies = static_cast<char *>(palloc_extended(n * stride, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	intact = delta_read_bodies(index, meta, first, n, headers, bodies, stride);
	for (uint64 i = 0; i < n && intact; i++)
	{
		memcpy(vectors + i * vector_bytes, bodies + i * stride, vector_bytes);
		memcpy(codes + i * key_bytes, bodies + i * stride + vector_bytes, key_bytes);
	}
	pfree(bodies);
	return intact;
}

} // namespace vectorgpu::am

// See delta_rows.hpp.
#include "am/feed/delta_rows.hpp"

#include "storage/delta.hpp"

#include <cstring>

namespace vectorgpu::am
{

Size
copy_key_bytes(const WorkerStructure *structure, const MetaData *meta)
{
	// Values of a match index have no fixed place for codes; copies that name candidates are finished by the pages.
	if (meta->keys.n_columns == 0 || meta->element == ElementType::kSet ||
		(structure != nullptr && structure->finds_candidates != nullptr && structure->finds_candidates(meta)))
		return 0;
	return meta_key_bytes(meta);
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

	if (key_bytes == 0)
	{
		// NULL rows do not write their place; zeros there are finite values.
		memset(vectors, 0, n * vector_bytes);
		return delta_read(index, meta, first, n, headers, vectors, vector_bytes);
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

// See dead_rows.hpp. Rows that meet the conditions have no tombstone (key_filter.hpp).
#include "am/method/dead_rows.hpp"

#include "storage/stream.hpp"

#include <cstring>

namespace vectorgpu::am
{

bool
search_read_dead(const SegmentSearch *search, uint64 first, uint64 n, uint8 *dead)
{
	const uint64 first_byte = first / 8;
	const uint64 n_bytes = (first + n + 7) / 8 - first_byte;

	if (search->passing == nullptr)
		return stream_read(search->index, search->meta, search->segment, StreamKind::kTombstones, first_byte, n_bytes,
			dead, search->strategy);
	for (uint64 i = 0; i < n_bytes; i++)
		dead[i] = static_cast<uint8>(~search->passing[first_byte + i]);
	return true;
}

bool
search_gather_dead(const SegmentSearch *search, const uint32 *rows, uint64 n, uint64 *items, uint8 *dead)
{
	if (search->passing == nullptr)
	{
		for (uint64 i = 0; i < n; i++)
			items[i] = rows[i] / 8;
		if (!stream_gather(search->index, search->meta, search->segment, StreamKind::kTombstones, 1, items, n, dead,
				search->strategy))
			return false;
		for (uint64 i = 0; i < n; i++)
			dead[i] = (dead[i] >> (rows[i] % 8)) & 1;
		return true;
	}
	for (uint64 i = 0; i < n; i++)
		dead[i] = (search->passing[rows[i] / 8] >> (rows[i] % 8) & 1) ^ 1;
	return true;
}

} // namespace vectorgpu::am

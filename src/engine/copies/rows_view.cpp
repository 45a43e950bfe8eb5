// See rows_view.hpp.
#include "engine/copies/rows_view.hpp"

#include <algorithm>

namespace vectorgpu::engine
{

void
copy_bits(const Bitmap *bitmap, uint64_t bitmap_first, uint64_t first, size_t n, uint8_t *bits)
{
	const uint64_t end = bitmap == nullptr ? bitmap_first : bitmap_first + uint64_t{bitmap->size()} * 8;

	std::fill_n(bits, (n + 7) / 8, uint8_t{0});
	for (uint64_t row = std::max(first, bitmap_first); row < std::min(end, first + n); row++)
	{
		const uint64_t from = row - bitmap_first;
		const uint64_t to = row - first;

		bits[to / 8] = static_cast<uint8_t>(bits[to / 8] | ((*bitmap)[from / 8] >> (from % 8) & 1) << (to % 8));
	}
}

} // namespace vectorgpu::engine

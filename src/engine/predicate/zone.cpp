// See zone.hpp.
#include "engine/predicate/zone.hpp"

#include <cstring>

namespace vectorgpu::engine::predicate
{

namespace
{

template <class Code>
void
add_codes(const ColumnCodes &column, uint64_t first, uint64_t end, Zone *zone)
{
	const uint8_t *codes = static_cast<const uint8_t *>(column.codes);

	for (uint64_t row = first; row < end; row++)
	{
		Code code;

		memcpy(&code, codes + row * sizeof(code), sizeof(code));
		zone_add(zone, column.nulls != nullptr && (column.nulls[row / 8] >> (row % 8) & 1) != 0, code);
	}
}

} // namespace

uint64_t
code_at(const void *codes, uint8_t width, uint64_t row)
{
	uint64_t code = 0;

	memcpy(&code, static_cast<const uint8_t *>(codes) + row * width, width);
	return code;
}

void
make_zones(const ColumnCodes &column, uint64_t n_rows, Zone *zones)
{
	for (uint64_t first = 0; first < n_rows; first += kBlockRows, zones++)
	{
		const uint64_t end = n_rows - first < kBlockRows ? n_rows : first + kBlockRows;

		*zones = kNoRows;
		switch (column.width)
		{
			case 1:
				add_codes<uint8_t>(column, first, end, zones);
				break;
			case 2:
				add_codes<uint16_t>(column, first, end, zones);
				break;
			case 4:
				add_codes<uint32_t>(column, first, end, zones);
				break;
			default:
				add_codes<uint64_t>(column, first, end, zones);
				break;
		}
	}
}

} // namespace vectorgpu::engine::predicate

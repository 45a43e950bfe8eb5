// Inverted lists of a segment, as handed to an engine (Johnson, Douze, Jégou, section 2: IVF). Rows have two orders: by
// *number*, that of their ids (row ids and tombstones), and by *place*, list by list (vectors). A permutation maps
// places to numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

constexpr uint32_t kMostLists = 65536;

/// Layout of the description of a segment's lists, little endian, one part behind the other:
///   offsets    uint64 [n_lists + 1]: list l has the places [offset l, offset l + 1)
///   centroids  float32 [n_lists, dim], finite
///   numbers    uint32 [n_rows] by place: number of the row, a permutation
struct ListsLayout
{
	uint32_t n_lists = 0;
	uint32_t dim = 0;
	uint64_t n_rows = 0;

	uint64_t centroids_at() const { return (uint64_t{n_lists} + 1) * sizeof(uint64_t); }
	uint64_t numbers_at() const { return centroids_at() + uint64_t{n_lists} * dim * sizeof(float); }
	uint64_t bytes() const { return numbers_at() + n_rows * sizeof(uint32_t); }
};

/// The rows that a query has looked at. Ascending.
enum class Coverage : uint8_t
{
	kPart,   // a part of the rows
	kScored, // all rows but those whose score is NaN
	kAll,
};

} // namespace vectorgpu::engine

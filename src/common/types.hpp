// Names that every part of vectorgpu shares: element types, metrics, row ids.
// The numeric values are stored in index pages and sent over the wire: never renumber.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu
{

enum class ElementType : uint8_t
{
	kFloat32 = 0,
	kFloat16 = 1, // IEEE 754 binary16
	kBit = 2,     // packed, most significant bit first, pad bits zero
	kSet = 3, // a stored value of any size (engine/match): no vector; `dim` is what its places in pages are cut into
};

enum class Metric : uint8_t
{
	kL2 = 0,           // <->  Euclidean distance
	kInnerProduct = 1, // <#>  minus the inner product
	kCosine = 2,       // <=>  1 - cosine similarity; NaN if a vector is zero
	kL1 = 3,           // <+>  sum of absolute differences
	kHamming = 4,      // <~>  number of differing bits
	kJaccard = 5,      // <%>  1 - |a and b| / |a or b|
	kMatchCount = 6,   // <#>  minus the match count
	kEdit = 7,         // <~>  Levenshtein distance of texts
};

/// A heap TID as one integer that sorts as TIDs do: block number << 16 | offset number.
using RowId = uint64_t;

constexpr RowId
make_row_id(uint32_t block, uint16_t offset)
{
	return (static_cast<RowId>(block) << 16) | offset;
}

constexpr uint32_t
row_id_block(RowId id)
{
	return static_cast<uint32_t>(id >> 16);
}

constexpr uint16_t
row_id_offset(RowId id)
{
	return static_cast<uint16_t>(id & 0xFFFF);
}

/// Bytes of one vector of `dim` elements (bits for kBit) as stored in streams: no padding but to a whole byte.
constexpr size_t
vector_bytes(ElementType element, size_t dim)
{
	switch (element)
	{
		case ElementType::kFloat32:
			return dim * 4;
		case ElementType::kFloat16:
			return dim * 2;
		case ElementType::kBit:
			return (dim + 7) / 8;
		case ElementType::kSet:
			return dim;
	}
	return 0;
}

} // namespace vectorgpu

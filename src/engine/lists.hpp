// Inverted lists of a segment in host memory. See lists_layout.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/lists_layout.hpp"

namespace vectorgpu::engine
{

/// A segment's lists in host memory. Immutable once checked.
class Lists
{
public:
	/// Appends. kInvalidArgument if n_lists is not that of before. Throws bad_alloc, and then nothing has changed.
	Status append(uint32_t n_lists, std::span<const uint8_t> bytes);

	/// After the last append: kInvalidArgument if the description is not one of n_rows rows.
	Status check(uint32_t dim, uint64_t n_rows);

	const ListsLayout &
	layout() const
	{
		return layout_;
	}
	uint32_t
	n_lists() const
	{
		return layout_.n_lists;
	}
	std::span<const uint8_t>
	bytes() const
	{
		return bytes_;
	}

	// After check().
	const uint64_t *
	offsets() const
	{
		return reinterpret_cast<const uint64_t *>(bytes_.data());
	}
	const float *
	centroids() const
	{
		return reinterpret_cast<const float *>(bytes_.data() + layout_.centroids_at());
	}
	const uint32_t *
	numbers() const
	{
		return reinterpret_cast<const uint32_t *>(bytes_.data() + layout_.numbers_at());
	}

private:
	ListsLayout layout_; // dim and n_rows from check() on
	std::vector<uint8_t> bytes_;
};

struct SegmentProbes;

/// The lists of segment `segment`, of n_lists, that a query with these probes looks at.
uint32_t probes_of(std::span<const SegmentProbes> probes, uint32_t segment, uint32_t n_lists);

} // namespace vectorgpu::engine

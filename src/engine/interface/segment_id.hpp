// The number of a segment.
#pragma once

#include <cstdint>

namespace vectorgpu::engine
{

/// Identifies a segment inside a copy, as in the index's manifest: from 1.
using SegmentId = uint32_t;
constexpr SegmentId kDeltaSegment = 0; // for read_rows

} // namespace vectorgpu::engine

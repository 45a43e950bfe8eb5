// Reading back a copy that is on several devices, for checks and moves. The caller holds the copy's write mutex.
#pragma once

#include "worker/devices/spread_copy.hpp"

namespace vectorgpu::worker
{

// As the calls of Engine. Of replicas the first is read; check_spread compares the others with it.
Status read_spread_rows(DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows,
	RowId *row_ids, void *vectors);
Status read_spread_structure(
	DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes);
Status read_spread_tombstones(
	DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits);

/// As Engine::check_derived, on every device that has the rows. Rows, tombstones and (with the first row) bytes of the
/// structure that differ between replicas count as well. Throws bad_alloc.
Status check_spread(DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows,
	uint64_t *n_different);

} // namespace vectorgpu::worker

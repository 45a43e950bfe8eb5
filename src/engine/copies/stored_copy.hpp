// What an engine stores of one index: segments, delta, tombstones; writing, reading back, checking. Searches are not
// part of it: each engine has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// Any thread may call any function. Functions that Engine has under the same name do what is said there; after a
/// failure, a thrown bad_alloc included, the copy is unchanged.
class StoredCopy
{
public:
	virtual ~StoredCopy() = default;

	virtual const DistanceSpec &spec() const = 0;

	/// Bytes of host memory that the copy takes.
	virtual uint64_t host_bytes() const = 0;

	virtual Status load_segment(SegmentId segment, const RowBlock &rows) = 0;
	virtual Status load_structure(SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) = 0;
	virtual Status prepare_segment(SegmentId segment) = 0;
	virtual Status seal_segment(SegmentId segment) = 0;
	virtual Status drop_segment(SegmentId segment) = 0;
	virtual Status append_delta(uint64_t position, const RowBlock &rows) = 0;

	/// append_delta(), unless it would have to wait: then return false and change nothing.
	virtual bool try_append_delta(uint64_t position, const RowBlock &rows, Status *status) = 0;
	virtual Status trim_delta(uint64_t position) = 0;
	virtual Status set_tombstones(SegmentId segment, std::span<const uint8_t> bits) = 0;
	virtual Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits) = 0;
	virtual Status read_rows(SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const = 0;
	virtual Status read_structure(SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const = 0;
	virtual Status read_tombstones(SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const = 0;
	virtual Status check_derived(SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const = 0;
};

} // namespace vectorgpu::engine

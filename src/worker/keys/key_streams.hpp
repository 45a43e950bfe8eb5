// The codes of a copy's key columns in the worker's memory: those of a segment as one area, those of the delta by
// stream. See wire::KeyColumns for both layouts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/predicate/zone.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::worker
{

/// The streams of all rows, for engine::predicate.
using KeyColumnCodes = std::array<engine::predicate::ColumnCodes, wire::kMostKeyStreams>;

/// Bytes of the codes of one row in the delta.
size_t key_image_bytes(const wire::KeyColumns &keys);

/// Bytes of the codes of a segment of n_rows rows.
uint64_t key_area_bytes(const wire::KeyColumns &keys, uint64_t n_rows);

/// Point columns into the area of n_rows rows, and at their zones, or at none.
void key_area_columns(const wire::KeyColumns &keys, const uint8_t *area, uint64_t n_rows,
	const std::vector<std::vector<engine::predicate::Zone>> &zones, KeyColumnCodes *columns);

/// The codes of the delta, appended and dropped from the front. Not thread-safe. Functions that allocate throw
/// bad_alloc and then leave it as it was.
class DeltaKeys
{
public:
	explicit DeltaKeys(const wire::KeyColumns &keys);

	/// Append the codes of rows [position, position + n_rows) that are not held. images: [n_rows, key_image_bytes]. A
	/// gap is the caller's mistake.
	void append(uint64_t position, const uint8_t *images, uint64_t n_rows);

	/// Forget the rows before `position`; beyond the last row the delta becomes empty and continues there.
	void trim(uint64_t position);

	/// The position of the first code that is held, a multiple of engine::predicate::kBlockRows.
	uint64_t base() const { return base_; }
	uint64_t first() const { return first_; }
	uint64_t end() const { return end_; }
	uint64_t bytes() const;

	/// The streams from base() on. Valid until the next change.
	void columns(KeyColumnCodes *columns) const;

	/// Write the codes of rows [first, first + n_rows), which are held, to images [n_rows, key_image_bytes].
	void read(uint64_t first, uint64_t n_rows, uint8_t *images) const;

private:
	void reserve(uint64_t n_rows);

	const wire::KeyColumns &keys_;
	const size_t image_bytes_;
	std::vector<std::vector<uint8_t>> codes_; // by stream
	std::vector<std::vector<uint8_t>> nulls_; // by column, bits
	uint64_t base_ = 0;
	uint64_t first_ = 0;
	uint64_t end_ = 0;
};

} // namespace vectorgpu::worker

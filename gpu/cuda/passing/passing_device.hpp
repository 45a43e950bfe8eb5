// What the engine keeps on the device of a segment's rows that pass (engine::PassingSegment::device), so that the
// searches that share the conditions send it once. It counts against the budget, and is freed with the PassingSegment,
// which must not outlive the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda/device/budget.hpp"
#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Inverted lists of a segment, as searches with conditions see them.
struct PassingLists
{
	Held n_pass; // kernels::IvfCut

	/// Queries that do not try lists, since the rows that pass lay away from queries before them, and how many of them
	/// there will be the next time that few did (passing_probes.cpp).
	mutable std::atomic<uint32_t> n_resting{0};
	mutable std::atomic<uint32_t> next_rest{0};
};

class PackedSlot; // packed_rows.hpp

/// Null: not yet needed.
struct DevicePassing
{
	std::shared_ptr<const Held> rows;          // [n_pass] uint32: the numbers of the rows
	std::shared_ptr<const Held> dead;          // a bitmap of the rows that fail or are dead, as Source::dead
	std::shared_ptr<const PassingLists> lists; // with `dead`, of a segment with lists
	std::shared_ptr<PackedSlot> packed;        // with `dead`
};

/// What stays on the device of rows that were found there (engine::PassingSegment::on_device). Null: found on the host,
/// so few rows that they travel with each batch, or no room.
struct PassingOnDevice
{
	std::shared_ptr<const Held> rows; // as DevicePassing::rows
	std::shared_ptr<const Held> bits; // as engine::PassingSegment::bits
};

inline PassingOnDevice
found_on_device(const engine::PassingSegment &segment)
{
	return segment.on_device == nullptr ? PassingOnDevice{}
										: *static_cast<const PassingOnDevice *>(segment.on_device.get());
}

/// What is kept on the device of the segment for this source, as `dead` is now; nothing if that has changed.
DevicePassing kept_of(const Device *device, const engine::PassingSegment &segment, const Source &source);

/// Keep it, beside the other parts that are kept.
void keep(const Device *device, const engine::PassingSegment &segment, const Source &source, DevicePassing made);

/// True if the segment's rows are those of the source.
inline bool
fits(const engine::PassingSegment &segment, const Source &source)
{
	return segment.n_rows == source.n_rows &&
		(!segment.listed || segment.rows.empty() || segment.rows.back() < source.n_rows) &&
		(segment.listed || segment.bits.size() >= (source.n_rows + 7) / 8);
}

/// Set *rows to the list of a segment's rows that pass, of any share of them, which is made and kept if it was not.
/// Null: it has no room. Uses context->pinned_in.
Status list_on_device(const SearchCall &call, Budget *budget, const engine::PassingSegment &segment,
	const Source &source, std::shared_ptr<const Held> *rows);

/// Copy bytes to the device through context->pinned_in, which is free before a search begins. Waits for the stream.
Status send_through(const SearchCall &call, uint8_t *to, std::span<const uint8_t> bytes);

} // namespace vectorgpu::cuda

// A resident copy of kind kMatch in host memory: of each segment the row ids and the inverted index that its
// description brings, of the delta the stored values in slots (match_delta.hpp). It is the CPU engine's copy; the CUDA
// engine holds one, too, and counts its segments on the device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/copies/host_copy.hpp"
#include "engine/interface/engine.hpp"
#include "engine/match/match_index.hpp"

namespace vectorgpu::engine
{

/// A sealed segment. Never changes.
struct MatchSegment
{
	match::MatchIndex index;
	std::vector<uint8_t> description; // as it came, of a segment without rows; others are read back from the index
};

/// One as a search sees it.
struct MatchSegmentView
{
	SegmentId id = 0;
	std::shared_ptr<const MatchSegment> segment;
	std::shared_ptr<const Bitmap> dead; // null: none
};

struct MatchSnapshot
{
	std::vector<MatchSegmentView> segments;
	RowsView delta;
	uint64_t n_rows = 0; // dead ones and slots included
};

/// A segment of a MatchCopy, loaded or being loaded.
struct LoadedMatchSegment
{
	std::vector<RowId> row_ids; // until it is sealed
	std::vector<uint8_t> description;
	std::shared_ptr<const MatchSegment> opened; // made of the two above
	MatchSegmentView sealed;

	bool is_sealed() const { return sealed.segment != nullptr; }
	std::span<const RowId> ids() const { return is_sealed() ? sealed.segment->index.row_ids() : row_ids; }
};

/// Functions throw bad_alloc; the copy is unchanged then.
class MatchCopy final : public HostCopy<MatchSnapshot, LoadedMatchSegment>
{
public:
	/// Called with the copy's mutex held before a segment can be searched, perhaps again if more of it comes; its
	/// failure fails the seal.
	using OpenedHook = std::function<Status(SegmentId, const std::shared_ptr<const MatchSegment> &)>;

	/// Called with the copy's mutex held after a segment was dropped.
	using DroppedHook = std::function<void(SegmentId)>;

	explicit MatchCopy(const CopySpec &spec, OpenedHook opened = nullptr, DroppedHook dropped = nullptr);

	Status load_segment(SegmentId segment, const RowBlock &rows) override;
	Status load_structure(SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override;
	Status prepare_segment(SegmentId segment) override;
	Status seal_segment(SegmentId segment) override;
	Status drop_segment(SegmentId segment) override;
	Status set_tombstones(SegmentId segment, std::span<const uint8_t> bits) override;

	/// The rows of segments have no vectors: only row ids are read.
	Status read_rows(SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const override;
	Status read_structure(SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const override;
	Status read_tombstones(SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const override;
	Status check_derived(SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const override;

private:
	Status open(SegmentId id, LoadedMatchSegment *segment);
	std::shared_ptr<const MatchSnapshot> make_snapshot() const override;
	uint64_t bytes_of(const LoadedMatchSegment &segment) const override;

	const OpenedHook opened_;
	const DroppedHook dropped_;
};

} // namespace vectorgpu::engine

// One resident copy of an index on the device: segments, delta, tombstones. Writers take the copy's mutex and publish a
// new immutable snapshot; searches take the snapshot, keep it until their stream is idle, and need no lock from then
// on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/resident/append_lane.hpp"
#include "cuda/device/block.hpp"
#include "cuda/resident/delta.hpp"
#include "cuda/device/device.hpp"
#include "engine/interface/engine.hpp"
#include "engine/copies/lists.hpp"
#include "engine/copies/segment_graph.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

struct DeviceLists; // ivf_lists.hpp
struct DeviceGraph; // device_graph.hpp

/// Part of a snapshot: rows [first, first + n_rows) of a block.
struct Source
{
	std::shared_ptr<const Block> block;
	uint32_t first = 0;
	uint32_t n_rows = 0;
	std::shared_ptr<const Held> dead;
	uint64_t dead_bits = 0;
	int64_t dead_start = 0; // bit of row `first`
	bool rows_ascending = false;
	engine::SegmentId segment = engine::kDeltaSegment;
	std::shared_ptr<const DeviceLists> lists; // of a copy of lists: the block's rows and `dead` are by place
	std::shared_ptr<const DeviceGraph> graph; // of a copy of graphs
	double max_norm = 0;                      // this and the next two: of the block, as Filled has them
	uint32_t n_untrusted = 0;
	bool filterable = false;
	AppendLane::Ticket ticket =
		0; // of the delta: new rows that a stream must wait for (NewRows) before it looks at any row of this

	kernels::Rows rows() const;
};

/// What one search works on.
struct Snapshot
{
	std::vector<Source> sources; // segments, then the delta
	uint64_t n_rows = 0;         // dead ones included
};

/// kInvalidArgument if the parts of a block of rows do not fit each other. with_vectors: false where there are row ids
/// alone.
Status check_rows(const engine::RowBlock &rows, bool with_vectors = true);

class Copy
{
public:
	/// upload_stream: of the engine, used under upload_mutex only.
	struct Uploader
	{
		std::mutex mutex;
		Stream stream;
		PinnedBuffer pinned;
		DeviceBuffer staging; // as large as pinned
		DeviceBuffer scratch; // flags and stats
	};

	Copy(const engine::CopySpec &spec, Budget *budget, Uploader *uploader, AppendLane *lane, bool narrow);
	~Copy();
	Copy(const Copy &) = delete;
	Copy &operator=(const Copy &) = delete;

	const engine::DistanceSpec &spec() const { return spec_; }
	engine::CopyKind kind() const { return kind_; }
	const Shape &shape() const { return shape_; }
	std::shared_ptr<const Snapshot> snapshot() const;

	// As Engine's functions of these names. After a failure the copy is as before.
	Status load_segment(engine::SegmentId segment, const engine::RowBlock &rows);
	Status load_structure(engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes);
	Status prepare_segment(engine::SegmentId segment);
	Status seal_segment(engine::SegmentId segment);
	Status drop_segment(engine::SegmentId segment);
	Status append_delta(uint64_t position, const engine::RowBlock &rows);
	bool append_at_once(uint64_t position, const engine::RowBlock &rows, Status *status);
	Status trim_delta(uint64_t position);
	Status set_tombstones(engine::SegmentId segment, std::span<const uint8_t> bits);
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits);
	Status read_rows(engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const;
	Status read_structure(engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const;
	Status read_tombstones(engine::SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const;
	Status check_derived(engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const;

private:
	struct Segment
	{
		std::vector<Filled> parts; // while loading: in the element's own form
		Filled sealed;             // no block while loading
		bool searched = false;     // it is part of snapshots
		uint64_t n_rows = 0;
		uint32_t narrow_flags = 0;              // what launch_narrow_check has found
		std::shared_ptr<engine::Lists> loading; // while loading, of a copy of lists
		std::shared_ptr<const DeviceLists> lists;
		std::shared_ptr<engine::SegmentGraph> loading_graph; // the same of a copy of graphs
		std::shared_ptr<const DeviceGraph> graph;
		std::shared_ptr<const Held> dead;
		uint64_t dead_bits = 0;
	};

	/// The delta's tombstones: bit 0 is of the row at `first`.
	struct DeltaDead
	{
		std::shared_ptr<const Held> bits;
		uint64_t n_bits = 0;
		uint64_t first = 0;
	};

	uint32_t least_block_rows() const;
	static Status load_graph(Segment *segment, uint32_t degree, std::span<const uint8_t> bytes);
	Status read_segment_graph(engine::SegmentId segment, uint64_t first, size_t n_bytes, uint8_t *bytes) const;
	Status append(std::vector<Filled> *parts, const engine::RowBlock &rows, uint32_t *narrow_flags);
	Status fill(const Block &block, uint32_t first, const RowId *row_ids, const uint8_t *vectors, uint32_t n,
		uint32_t *narrow_flags);
	Status merge_parts(const Segment &segment, Filled *sealed) const;
	Status prepare(Segment *segment);
	Status upload_bits(std::span<const uint8_t> bits, std::shared_ptr<const Held> *held) const;
	Delta::Place delta_place() const { return {spec_, budget_, lane_, narrow_}; }
	kernels::Form widest_form() const;
	Status append_rows(uint64_t position, const engine::RowBlock &rows, bool may_wait, bool *waits);
	std::shared_ptr<const Snapshot> make_snapshot(const Delta &delta, const DeltaDead &dead) const;
	void publish(std::shared_ptr<const Snapshot> snapshot);
	void publish() { publish(make_snapshot(delta_, delta_dead_)); }

	const engine::DistanceSpec spec_;
	const engine::CopyKind kind_;
	const bool with_vectors_; // in segments
	const Shape shape_;
	Budget *const budget_;
	Uploader *const uploader_;
	AppendLane *const lane_;
	const bool narrow_;
	mutable std::mutex mutex_; // the writers'; the next three
	std::map<engine::SegmentId, Segment> segments_;
	Delta delta_;
	DeltaDead delta_dead_;
	mutable std::mutex snapshot_mutex_; // held for a moment only, so that no search waits for a writer
	std::shared_ptr<const Snapshot> snapshot_;
};

} // namespace vectorgpu::cuda

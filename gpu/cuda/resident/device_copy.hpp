// A resident copy in device memory: segments, delta, tombstones. Segments being loaded: device_copy_load.cpp; rows in
// host memory: device_copy_host.cpp; structures: device_structure.cpp; reading back and checks: device_copy_check.cpp;
// searches: device_copy_search.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/device/block.hpp"
#include "cuda/device/uploader.hpp"
#include "cuda/resident/append_lane.hpp"
#include "cuda/resident/delta.hpp"
#include "cuda/resident/resident_copy.hpp"
#include "cuda/resident/snapshot.hpp"
#include "engine/copies/lists.hpp"
#include "engine/copies/published_copy.hpp"
#include "engine/copies/segment_graph.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// A segment of a DeviceCopy.
struct DeviceSegment
{
	std::vector<Filled> parts;       // while loading: in the element's own form
	Filled sealed;                   // no block while loading
	bool searched = false;           // part of snapshots
	bool rows_lost = false;          // they found no room again: see device_copy_join.cpp
	bool on_host = false;            // all parts, or the sealed block, are in host memory
	std::shared_ptr<Block> gathered; // while loading on the host: the only part, joined
	uint64_t n_rows = 0;
	uint32_t narrow_flags = 0;              // found by launch_narrow_check
	std::shared_ptr<engine::Lists> loading; // while loading; of a copy of lists
	std::shared_ptr<const DeviceLists> lists;
	std::shared_ptr<engine::SegmentGraph> loading_graph; // while loading; of a copy of graphs
	std::shared_ptr<const DeviceGraph> graph;
	std::shared_ptr<const Held> dead;
	uint64_t dead_bits = 0;
	std::shared_ptr<const void> alive; // Source::alive: another object after every change of `dead`
};

/// Rows of a part of a segment, in host memory while the parts are joined.
struct HostRows
{
	size_t part; // its number
	std::vector<RowId> row_ids;
	std::vector<uint8_t> vectors;
};

/// How rows are kept; all but the last: of float32.
struct RowForms
{
	bool narrow = true;              // in a narrower form where that is exact
	bool rounded = true;             // elsewhere also rounded, for the filter of exact searches, if there is room
	bool scaled = true;              // rounded to signed bytes where these serve, not to binary16 alone
	bool both_roundings = true;      // to binary16 beside these
	uint64_t scaled_least_bytes = 0; // of a segment's
	bool on_host = false;            // rows that codes choose: always in host memory
};

class DeviceCopy final : public engine::PublishedCopy<ResidentCopy, Snapshot, DeviceSegment>
{
public:
	/// The pointers outlive the copy.
	DeviceCopy(
		const engine::CopySpec &spec, Budget *budget, Uploader *uploader, AppendLane *lane, const RowForms &forms);
	~DeviceCopy() override;
	DeviceCopy(const DeviceCopy &) = delete;
	DeviceCopy &operator=(const DeviceCopy &) = delete;

	/// See engine::Engine; of graphs alone. The filter's rounded rows come and go with the memory.
	static size_t rounded_row_bytes(const engine::CopySpec &spec);

	const engine::DistanceSpec &spec() const override { return spec_; }
	uint64_t host_bytes() const override;

	Status load_segment(engine::SegmentId segment, const engine::RowBlock &rows) override;
	Status load_structure(engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override;
	Status prepare_segment(engine::SegmentId segment) override;
	Status prepare_through_host(engine::SegmentId segment) override;
	Status seal_segment(engine::SegmentId segment) override;
	Status append_delta(uint64_t position, const engine::RowBlock &rows) override;

	/// False if it would have to wait, or to allocate on the device.
	bool try_append_delta(uint64_t position, const engine::RowBlock &rows, Status *status) override;
	Status trim_delta(uint64_t position) override;
	Status set_tombstones(engine::SegmentId segment, std::span<const uint8_t> bits) override;
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits) override;
	Status read_rows(
		engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const override;
	Status read_structure(engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const override;
	Status read_tombstones(engine::SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const override;
	bool drop_rounded(bool all) override;
	Status set_graph(engine::SegmentId segment, const engine::graph::GivenGraph &given) override;
	Status sealed_rows(engine::SegmentId segment, std::shared_ptr<const Block> *block, uint32_t *n_rows) const override;
	Status attach() override;
	Status move_rows_to_host(uint64_t most_bytes) override;
	uint64_t n_scaled_segments() const override;
	bool takes_passing() const override { return kind_ != engine::CopyKind::kCodes; }
	Status check_derived(
		engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const override;
	Status search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts,
		engine::SearchControl *control) override;

private:
	/// The delta's tombstones: bit 0 is of the row at `first`.
	struct DeltaDead
	{
		std::shared_ptr<const Held> bits;
		uint64_t n_bits = 0;
		uint64_t first = 0;
	};

	uint32_t least_block_rows() const;
	Status read_segment_graph(engine::SegmentId segment, uint64_t first, size_t n_bytes, uint8_t *bytes) const;
	Status append(std::vector<Filled> *parts, bool on_host, const engine::RowBlock &rows, uint32_t *narrow_flags);
	Status add_part(bool on_host, uint32_t capacity, std::vector<Filled> *parts) const;
	Status fill(const Block &block, uint32_t first, const RowId *row_ids, const uint8_t *vectors, uint32_t n,
		uint32_t *narrow_flags);
	void fill_on_host(const Block &block, uint32_t first, const RowId *row_ids, const uint8_t *vectors, uint32_t n,
		uint32_t *narrow_flags) const;
	kernels::Form joined_form(const DeviceSegment &segment) const;
	Status gather(DeviceSegment *segment, kernels::Form form);
	Status merge_on_host(DeviceSegment *segment, Filled *sealed);
	Status move_parts(DeviceSegment *segment);
	Status replace_rows(DeviceSegment *segment, Filled next);
	Status move_sealed(DeviceSegment *segment, std::weak_ptr<const Block> *block);
	Status bring_rows(DeviceSegment *segment);

	/// True if segments have rows that few of are read in a search, since codes choose them.
	bool may_read_host_rows() const { return with_vectors_ && engine::has_codes(kind_); }
	Status merge_parts(DeviceSegment *segment, bool through_host, Filled *sealed);
	Status make_joined(const DeviceSegment &segment, kernels::Form form, bool filter, Filled *made) const;
	Status make_room(DeviceSegment *segment, kernels::Form form, bool filter, std::vector<HostRows> *moved) const;
	Status move_to_host(const Filled &part, size_t number, HostRows *rows) const;
	Status bring_back(DeviceSegment *segment, const std::vector<HostRows> &moved);
	Status join_blocks(const DeviceSegment &segment, Filled *made) const;
	Status find_values(Filled *made) const;
	Status make_rounded(Filled *sealed) const;
	Status prepare(DeviceSegment *segment, bool through_host = false);
	Status upload_bits(std::span<const uint8_t> bits, std::shared_ptr<const Held> *held) const;
	Delta::Place delta_place() const { return {spec_, budget_, lane_, forms_.narrow}; }
	kernels::Form widest_form() const;
	Status append_rows(uint64_t position, const engine::RowBlock &rows, bool may_wait, bool *waits);
	std::shared_ptr<const Snapshot> make_snapshot(const Delta &delta, const DeltaDead &dead) const;
	std::shared_ptr<const Snapshot> make_snapshot() const override { return make_snapshot(delta_, delta_dead_); }

	const engine::DistanceSpec spec_;
	const engine::CopyKind kind_;
	const bool with_vectors_; // in segments
	const bool rounded_;      // graphs have rounded rows
	const Shape shape_;
	Budget *const budget_;
	Uploader *const uploader_;
	AppendLane *const lane_;
	const RowForms forms_;
	Delta delta_; // under mutex_, as the next two
	DeltaDead delta_dead_;
	bool begins_on_host_; // rows of new segments
};

/// kInvalidArgument if the parts of a block of rows do not fit each other. with_vectors: false for row ids alone.
Status check_rows(const engine::RowBlock &rows, bool with_vectors = true);

} // namespace vectorgpu::cuda

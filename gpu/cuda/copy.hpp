// One resident copy of an index on the device: segments, delta, tombstones. Writers take the copy's mutex and publish a new
// immutable snapshot; searches take the snapshot, keep it until their stream is idle, and need no lock from then on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/device.hpp"
#include "engine/engine.hpp"
#include "engine/lists.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Device memory for copies, counted against a budget.
class Budget
{
public:
	Budget(const Device *device, uint64_t most) : device_(device), most_(most) {}

	const Device *device() const { return device_; }
	uint64_t most() const { return most_; }
	uint64_t used() const { return used_.load(std::memory_order_relaxed); }
	Status take(uint64_t bytes);
	void give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

private:
	const Device *device_;
	const uint64_t most_; // 0: no limit but the device's
	std::atomic<uint64_t> used_{0};
};

/// A device buffer that the budget knows of.
class Held
{
public:
	Held() = default;
	~Held();
	Held(const Held &) = delete;
	Held &operator=(const Held &) = delete;

	Status allocate(Budget *budget, size_t bytes, const char *purpose);
	size_t bytes() const { return buffer_.bytes(); }

	template <class T>
	T *
	as() const
	{
		return buffer_.as<T>();
	}

private:
	Budget *budget_ = nullptr;
	DeviceBuffer buffer_;
};

struct DeviceLists; // ivf_lists.hpp

/// Rows in one piece of device memory, padded. A writer fills it from the front; readers look at rows they were told of.
struct Block
{
	kernels::Form form = kernels::Form::kFloat32;
	uint32_t pitch_bytes = 0;
	uint32_t capacity = 0;
	uint32_t n_rows = 0;     // filled; writer's
	Held vectors;            // [capacity, pitch_bytes]
	Held row_ids;            // [capacity]
	Held values;             // [capacity] float, for the filter; sealed segments only
	double max_norm = 0;     // of trusted rows
	uint32_t n_untrusted = 0;
	bool filterable = false; // values and max_norm hold
};

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

	kernels::Rows rows() const;
};

/// What one search works on.
struct Snapshot
{
	std::vector<Source> sources;
	uint64_t n_rows = 0; // dead ones included
};

/// Elements of a row as queries and rows share them.
struct Shape
{
	explicit Shape(const engine::DistanceSpec &spec);

	uint32_t row_bytes;   // as the caller has them
	uint32_t dim_pad;     // elements; bits: bytes
	uint32_t query_bytes; // of a query on the device: float32 padded, or bits padded
};

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

	Copy(const engine::CopySpec &spec, Budget *budget, Uploader *uploader, bool narrow);

	const engine::DistanceSpec &spec() const { return spec_; }
	engine::CopyKind kind() const { return kind_; }
	const Shape &shape() const { return shape_; }
	std::shared_ptr<const Snapshot> snapshot() const;

	// As Engine's functions of these names. After a failure the copy is as before.
	Status load_segment(engine::SegmentId segment, const engine::RowBlock &rows);
	Status load_structure(engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes);
	Status seal_segment(engine::SegmentId segment);
	Status drop_segment(engine::SegmentId segment);
	Status append_delta(uint64_t position, const engine::RowBlock &rows);
	Status trim_delta(uint64_t position);
	Status set_tombstones(engine::SegmentId segment, std::span<const uint8_t> bits);
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits);
	Status read_rows(engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const;
	Status read_structure(engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const;

private:
	using BlockList = std::vector<std::shared_ptr<Block>>;

	struct Segment
	{
		BlockList parts;              // while loading: in the element's own form
		std::shared_ptr<const Block> sealed;
		uint64_t n_rows = 0;
		uint32_t narrow_flags = 0;    // what launch_narrow_check has found
		std::shared_ptr<engine::Lists> loading; // while loading, of a copy of lists
		std::shared_ptr<const DeviceLists> lists;
		std::shared_ptr<const Held> dead;
		uint64_t dead_bits = 0;
	};

	Status make_block(kernels::Form form, uint32_t capacity, bool with_values, std::shared_ptr<Block> *block) const;
	uint32_t least_block_rows() const;
	Status append(BlockList *blocks, uint32_t least_rows, const RowId *row_ids, const uint8_t *vectors, size_t n,
		uint32_t *narrow_flags);
	Status fill(Block *block, const RowId *row_ids, const uint8_t *vectors, uint32_t n, uint32_t *narrow_flags);
	Status merge_parts(Segment *segment, std::shared_ptr<Block> *sealed);
	Status upload_bits(std::span<const uint8_t> bits, std::shared_ptr<const Held> *held) const;
	Status read_block(const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors) const;
	void publish();

	const engine::DistanceSpec spec_;
	const engine::CopyKind kind_;
	const Shape shape_;
	Budget *const budget_;
	Uploader *const uploader_;
	const bool narrow_;
	mutable std::mutex mutex_; // all below
	std::map<engine::SegmentId, Segment> segments_;
	BlockList delta_;
	uint64_t delta_start_ = 0;  // position of the first block's first row
	uint64_t delta_first_ = 0;  // first position held
	uint64_t delta_last_ = 0;
	std::shared_ptr<const Held> delta_dead_;
	uint64_t delta_dead_bits_ = 0;
	uint64_t delta_dead_first_ = 0;
	std::shared_ptr<const Snapshot> snapshot_;
};

} // namespace vectorgpu::cuda

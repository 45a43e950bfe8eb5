// One resident copy of an index in the CPU engine: segments, delta, tombstones. Writers take the copy's mutex and
// publish a new immutable snapshot; searches take the snapshot, which no writer keeps from them, and need no lock from
// then on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/cpu/cpu_engine_rows.hpp"
#include "engine/copies/published.hpp"
#include "engine/interface/engine.hpp"
#include "engine/copies/lists.hpp"
#include "engine/copies/segment_graph.hpp"

namespace vectorgpu::engine
{

using Bitmap = std::vector<uint8_t>; // bit i of byte i / 8 is 1 << (i % 8)

/// bits [ceil(n / 8)] = bits [first, first + n) of a bitmap whose first bit has the number bitmap_first; 0 where it has
/// none. bitmap: null: none.
void copy_bits(const Bitmap *bitmap, uint64_t bitmap_first, uint64_t first, size_t n, uint8_t *bits);

/// A list of rows as one search sees it.
struct RowsView
{
	RowListView rows;
	std::shared_ptr<const Bitmap> dead; // null: none
	uint64_t dead_first = 0;            // position of the bitmap's first bit; rows outside it are alive
	SegmentId segment = kDeltaSegment;
	std::shared_ptr<const Lists>
		lists; // of a segment of kind kLists, kCodedLists or kCodes: vectors lie by place, row ids and bitmap by number
	std::shared_ptr<const SegmentGraph> graph; // of a segment of kind kGraph or kHashedGraph
};

/// What one search works on.
struct Snapshot
{
	std::vector<std::shared_ptr<const RowsView>> segments; // sealed ones
	RowsView delta;
	uint64_t n_rows = 0; // dead ones included
};

class CpuEngineCopy
{
public:
	/// populator: outlives the copy; null: nobody makes memory ahead.
	explicit CpuEngineCopy(const CopySpec &spec, Populator *populator = nullptr);

	const DistanceSpec &spec() const { return spec_; }
	CopyKind kind() const { return kind_; }
	std::shared_ptr<const Snapshot> snapshot() const { return snapshot_.get(); }
	uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

	// As Engine's functions of these names. They throw bad_alloc, and then the copy is as before.
	Status load_segment(SegmentId segment, const RowBlock &rows);
	Status load_structure(SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes);
	Status prepare_segment(SegmentId segment);
	Status seal_segment(SegmentId segment);
	Status drop_segment(SegmentId segment);
	Status append_delta(uint64_t position, const RowBlock &rows);

	/// append_delta, unless another writer is at work, perhaps for long: then false, and nothing has happened.
	bool try_append_delta(uint64_t position, const RowBlock &rows, Status *status);
	Status trim_delta(uint64_t position);
	Status set_tombstones(SegmentId segment, std::span<const uint8_t> bits);
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits);
	Status read_rows(SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const;
	Status read_structure(SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const;
	Status read_tombstones(SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const;
	Status check_derived(SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const;

	/// The graph of a segment that is prepared; null: it has none, or is not.
	std::shared_ptr<const SegmentGraph> prepared_graph(SegmentId segment) const;

	/// Keeps writers out as a segment does that is being prepared; for tests.
	std::unique_lock<std::mutex> hold_writers() const { return std::unique_lock(mutex_); }

private:
	struct Segment
	{
		Segment(const DistanceSpec &spec, Populator *populator, bool with_vectors)
			: rows(spec, RowList::Kind::kSegment, populator, with_vectors)
		{
		}

		RowList rows;
		std::shared_ptr<Lists> lists;           // null: none came
		std::shared_ptr<SegmentGraph> graph;    // the same
		bool prepared = false;                  // its structure is good, and nothing comes any more
		std::shared_ptr<const RowsView> sealed; // null: not yet searched
	};

	Status append_structure(Segment *segment, uint32_t parameter, std::span<const uint8_t> bytes) const;
	Status check_structure(Segment *segment) const;
	Status prepare(Segment *segment);
	Status find_rows(SegmentId segment, uint64_t first, size_t n_rows, RowsView *view) const;
	Status append(uint64_t position, const RowBlock &rows);
	void publish();
	void account();

	const DistanceSpec spec_;
	const CopyKind kind_;
	const bool with_vectors_; // in segments
	Populator *const populator_;
	mutable std::mutex mutex_; // writers; all below but the snapshot
	std::map<SegmentId, Segment> segments_;
	RowList delta_;
	std::shared_ptr<const Bitmap> delta_dead_;
	uint64_t delta_dead_first_ = 0;
	Published<Snapshot> snapshot_;
	std::atomic<uint64_t> memory_bytes_{0};
};

} // namespace vectorgpu::engine

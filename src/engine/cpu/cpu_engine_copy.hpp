// One resident copy of an index in the CPU engine: segments, delta, tombstones. The CUDA engine holds such a copy for
// graphs with codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/copies/host_copy.hpp"
#include "engine/copies/lists.hpp"
#include "engine/copies/segment_graph.hpp"
#include "engine/copies/sparse_rows.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// What one search works on.
struct Snapshot
{
	std::vector<std::shared_ptr<const RowsView>> segments; // sealed ones
	RowsView delta;
	uint64_t n_rows = 0; // dead ones included
};

/// A segment of a CpuCopy.
struct CpuSegment
{
	CpuSegment(const DistanceSpec &spec, Populator *populator, bool with_vectors, bool rounded)
		: rows(spec, RowList::Kind::kSegment, populator, with_vectors, rounded)
	{
	}

	RowList rows;
	std::shared_ptr<Lists> lists;        // null: none came
	std::shared_ptr<SegmentGraph> graph; // null: none came
	std::shared_ptr<SparseRows> sparse;  // null: none came

	/// What load_structure was given.
	std::span<const uint8_t> structure() const
	{
		return lists != nullptr ? lists->bytes()
			: graph != nullptr  ? graph->bytes()
			: sparse != nullptr ? sparse->bytes()
								: std::span<const uint8_t>{};
	}

	bool prepared = false;                  // its structure is checked and complete
	bool rounded_lead = false;              // from then on; see RowsView
	std::shared_ptr<const RowsView> sealed; // null: searches do not see it
};

/// Functions throw bad_alloc; the copy is unchanged then.
class CpuCopy final : public HostCopy<Snapshot, CpuSegment>
{
public:
	/// populator: makes memory ahead; outlives the copy; null: none.
	explicit CpuCopy(const CopySpec &spec, Populator *populator = nullptr);

	CopyKind kind() const { return kind_; }

	/// Bytes of a rounded row and what belongs to it, if copies of the specification have such; else 0.
	static size_t rounded_row_bytes(const CopySpec &spec);

	Status load_segment(SegmentId segment, const RowBlock &rows) override;
	Status load_structure(SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override;
	Status prepare_segment(SegmentId segment) override;
	Status seal_segment(SegmentId segment) override;
	Status set_tombstones(SegmentId segment, std::span<const uint8_t> bits) override;
	Status read_rows(SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const override;
	Status read_structure(SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const override;
	Status read_tombstones(SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const override;
	Status check_derived(SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const override;

	/// Return the graph of a prepared segment; null if it has none or is not prepared.
	std::shared_ptr<const SegmentGraph> prepared_graph(SegmentId segment) const;

	/// The same of its sparse vectors.
	std::shared_ptr<const SparseRows> prepared_sparse(SegmentId segment) const;

	/// Count the bytes held anew, after a search that has derived something. Does not wait.
	void recount();

	/// For tests: block writers, as a segment does that is being prepared.
	std::unique_lock<std::mutex> hold_writers() const { return std::unique_lock(mutex_); }

private:
	template <class Change>
	Status change_segment(SegmentId id, Change change);
	Status append_structure(CpuSegment *segment, uint32_t parameter, std::span<const uint8_t> bytes) const;
	Status check_structure(const CpuSegment &segment) const;
	Status prepare(CpuSegment *segment) const;
	Status find_rows(SegmentId segment, uint64_t first, size_t n_rows, RowsView *view) const;
	std::shared_ptr<const Snapshot> make_snapshot() const override;
	uint64_t bytes_of(const CpuSegment &segment) const override;

	const CopyKind kind_;
	const bool with_vectors_; // in segments
	const bool rounded_;      // likewise
	Populator *const populator_;
};

} // namespace vectorgpu::engine

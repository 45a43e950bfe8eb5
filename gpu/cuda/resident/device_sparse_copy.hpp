// A resident copy of kind kSparse. All of it is in host memory; the vectors of its segments are on the device as well,
// which bounds the distances of all rows. The host computes those of the few rows that no bound rules out, and compares
// the delta.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/device/uploader.hpp"
#include "cuda/resident/host_backed_copy.hpp"
#include "engine/copies/sparse_rows.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/selection.hpp"
#include "engine/cpu/thread_pool.hpp"
#include "kernels/sparse/sparse.hpp"

namespace vectorgpu::cuda
{

/// The device's part of a segment. Immutable.
struct SparsePart
{
	std::shared_ptr<const engine::SparseRows> rows; // what it was made of
	Held bytes;                                     // its description
};

class DeviceSparseCopy final : public HostBackedCopy<engine::CpuCopy, engine::SparseRows, const SparsePart>
{
public:
	/// pool: of the host's threads. The pointers outlive the copy.
	DeviceSparseCopy(const engine::CopySpec &spec, Budget *budget, Uploader *uploader, engine::ThreadPool *pool);

	Status prepare_segment(engine::SegmentId segment) override;
	Status seal_segment(engine::SegmentId segment) override;
	Status drop_segment(engine::SegmentId segment) override;

	/// Also compares the device's part with the host's.
	Status check_derived(
		engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const override;
	Status search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts,
		engine::SearchControl *control) override;

private:
	/// Queries that have the same rows to look at, on their way.
	struct Call;

	/// Some of them, in the context's buffers.
	struct Chunk;

	Status prepare(engine::SegmentId segment);
	Status upload(engine::SegmentId id, const std::shared_ptr<const engine::SparseRows> &rows) override;
	std::shared_ptr<const SparsePart> find(const engine::RowsView &view) const;
	Status search_group(const engine::Snapshot &snapshot, Call *call) const;
	static Status send_chunk(const Call &call, size_t first, Chunk *chunk);
	Status search_segment(const engine::RowsView &view, const SparsePart &part, const Chunk &chunk, Call *call) const;

	Budget *const budget_;
	Uploader *const uploader_;
	engine::ThreadPool *const pool_;
};

} // namespace vectorgpu::cuda

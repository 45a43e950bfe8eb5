// A resident copy of kind kSparse. All of it is in host memory; the vectors of its segments are on the device as well,
// which bounds the distances of all rows. The host computes those of the few rows that no bound rules out, and compares
// the delta.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/resident/cpu_backed_copy.hpp"
#include "engine/copies/sparse_rows.hpp"
#include "engine/cpu/selection.hpp"
#include "kernels/sparse/sparse.hpp"

namespace vectorgpu::cuda
{

/// The device's part of a segment. Immutable.
struct SparsePart
{
	std::shared_ptr<const engine::SparseRows> made;
	Held bytes; // its description
};

class DeviceSparseCopy final : public CpuBackedCopy<engine::SparseRows, SparsePart>
{
public:
	using CpuBackedCopy::CpuBackedCopy;

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

	std::shared_ptr<const engine::SparseRows> made_of(engine::SegmentId segment) const override;
	Status upload(engine::SegmentId id, const std::shared_ptr<const engine::SparseRows> &rows) override;
	std::shared_ptr<const SparsePart> find(const engine::RowsView &view) const;
	Status search_group(const engine::Snapshot &snapshot, Call *call) const;
	static bool holds_tables(const Call &call);
	static Status send_chunk(const Call &call, size_t first, Chunk *chunk);
	Status search_segment(const engine::RowsView &view, const SparsePart &part, const Chunk &chunk, Call *call) const;
};

} // namespace vectorgpu::cuda

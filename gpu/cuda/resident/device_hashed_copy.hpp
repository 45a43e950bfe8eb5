// A resident copy of kind kHashedGraph. All of it is in host memory, where rows are judged; edges and codes of its
// segments are on the device as well, which finds nodes by them. So an index may be as large as the host's memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/resident/cpu_backed_copy.hpp"
#include "engine/copies/segment_graph.hpp"
#include "engine/cpu/cpu_engine_hashed.hpp"

namespace vectorgpu::cuda
{

/// The device's part of a segment. Immutable.
struct HashedPart
{
	std::shared_ptr<const engine::SegmentGraph> made;
	bool unsupported = false; // the device never holds any of it
	Held edges;               // [n_rows, degree] uint32
	Held codes;               // [n_rows, code_bytes]
	Held entry_nodes;         // [n_entries] uint32
	Held entry_codes;         // [n_entries, code_bytes]
};

class DeviceHashedCopy final : public CpuBackedCopy<engine::SegmentGraph, HashedPart>
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
	/// A batch on its way.
	struct Batch
	{
		const SearchMeans &means;
		std::span<const engine::SearchQuery> queries;
		std::vector<std::unique_ptr<engine::HashedAnswer>> answers; // of the queries with probes
		engine::SearchControl *control;
	};

	struct Wave;

	std::shared_ptr<const engine::SegmentGraph> made_of(engine::SegmentId segment) const override;
	Status upload(engine::SegmentId id, const std::shared_ptr<const engine::SegmentGraph> &graph) override;
	Status send_part(const engine::SegmentGraph &graph, HashedPart *part);
	std::shared_ptr<const HashedPart> find(const engine::RowsView &view) const;
	Status search_device(
		Batch *batch, const engine::RowsView &view, const HashedPart &part, std::span<const uint32_t> numbers);
	static size_t wave_size(
		const Batch &batch, const engine::RowsView &view, std::span<const uint32_t> numbers, size_t query_bytes);
	static Status make_wave(const Batch &batch, const engine::RowsView &view, const HashedPart &part,
		std::span<const uint32_t> numbers, Wave *wave);
	void hash_queries(const Batch &batch, const engine::RowsView &view, const HashedPart &part, const Wave &wave) const;
	Status search_exact(const engine::Snapshot &snapshot, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *found, BatchCounts *counts, engine::SearchControl *control) const;
	Status search_wave(Batch *batch, const engine::RowsView &view, const HashedPart &part, Wave *wave);
};

} // namespace vectorgpu::cuda

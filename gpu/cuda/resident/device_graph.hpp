// The graph of a sealed segment on the device. Made once, never changed; freed with the last holder.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device/block.hpp"
#include "cuda/device/uploader.hpp"
#include "cuda/resident/snapshot.hpp"
#include "engine/copies/segment_graph.hpp"
#include "engine/graph/helper.hpp"
#include "kernels/graph/graph.hpp"

namespace vectorgpu::cuda
{

struct DeviceGraph
{
	engine::GraphLayout layout;
	std::vector<engine::GraphPartLayout> parts;
	std::shared_ptr<const Held> edges; // [n_rows, degree] uint32; of graphs with other entry points too
	Held entry_nodes;                  // [n_entries] uint32
	Held entry_vectors;                // [n_entries, pitch_bytes], in the block's form
	Held narrow_rows;                  // kernels::GraphNarrowRows, where rounded rows lead searches; else empty
	Held narrow_values;

	kernels::GraphNarrowRows narrow(uint32_t dim_pad) const;

	/// The entry points of a part as rows; they have no ids.
	kernels::Rows rows_of_entries(const Block &block, const engine::GraphPartLayout &part) const;
};

/// Return the width with which a query that has probes searches the source's graph.
uint32_t width_of(const engine::SearchQuery &query, const Source &source);

/// Make the graph of a sealed block from a checked description. Waits for the upload.
/// rounded: the specification of rows that are rounded; null: none are. Without room for these the graph goes without,
/// and where they would lead astray (engine/copies/rounded_trial.hpp). Throws bad_alloc.
Status make_graph(Budget *budget, Uploader *uploader, const engine::SegmentGraph &graph, const Block &block,
	const engine::DistanceSpec *rounded, uint32_t dim_pad, std::shared_ptr<const DeviceGraph> *made);

/// Make a graph of a block's rows for a build. before: the graph so far, or null; its edges stay where none are given.
/// kInvalidArgument if degree or entry points are out of range. Edges out of the block lead nowhere.
Status make_given_graph(Budget *budget, Uploader *uploader, const engine::graph::GivenGraph &given, const Block &block,
	uint64_t n_rows, const DeviceGraph *before, std::shared_ptr<const DeviceGraph> *made);

/// Read bytes [first, first + n_bytes) of the description.
Status read_graph(
	const Device *device, Uploader *uploader, const DeviceGraph &graph, uint64_t first, size_t n_bytes, uint8_t *bytes);

} // namespace vectorgpu::cuda

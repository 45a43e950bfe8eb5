// The graph of a segment in host memory. See graph_layout.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/graph/hash.hpp"
#include "engine/interface/graph_layout.hpp"

namespace vectorgpu::engine
{

struct SegmentProbes;

/// A segment's graph in host memory. Immutable once checked.
class SegmentGraph
{
public:
	/// Appends. kInvalidArgument if degree is not that of before. Throws bad_alloc, and then nothing has changed.
	Status append(uint32_t degree, std::span<const uint8_t> bytes);

	/// After the last append: kInvalidArgument if the description is not one of n_rows rows, with codes if `hashed` and
	/// only then. Afterwards no number leads out of the segment.
	Status check(uint64_t n_rows, bool hashed = false);

	std::span<const uint8_t> bytes() const { return bytes_; }

	// After check().
	const GraphLayout &layout() const { return layout_; }
	uint32_t degree() const { return layout_.header.degree; }
	std::span<const GraphPartLayout> parts() const
	{
		return {
			reinterpret_cast<const GraphPartLayout *>(bytes_.data() + GraphLayout::parts_at()), layout_.header.n_parts};
	}
	const uint32_t *entries() const { return reinterpret_cast<const uint32_t *>(bytes_.data() + layout_.entries_at()); }
	const uint32_t *edges() const { return reinterpret_cast<const uint32_t *>(bytes_.data() + layout_.edges_at()); }

	/// Of a hashed graph: what codes of rows like these are made with; the graph has to live as long.
	graph::HashModel hash_model(const DistanceSpec &rows) const;

	/// The same: [n_rows, hash_bits / 8].
	const uint8_t *codes() const { return bytes_.data() + layout_.codes_at(); }

private:
	uint32_t degree_ = 0;
	GraphLayout layout_; // from check() on
	std::vector<uint8_t> bytes_;
};

/// The width of a search of segment `segment` by a query with these probes, of which there is one at least.
uint32_t width_of(std::span<const SegmentProbes> probes, uint32_t segment);

} // namespace vectorgpu::engine

// The graph of a segment in host memory. See graph_layout.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/graph/codes/codes.hpp"
#include "engine/interface/graph_layout.hpp"

namespace vectorgpu::engine
{

struct SearchQuery;

/// A segment's graph in host memory. Immutable once checked.
class SegmentGraph
{
public:
	/// Append. kInvalidArgument if degree differs from the first call's. Throws bad_alloc and changes nothing then.
	Status append(uint32_t degree, std::span<const uint8_t> bytes);

	/// Check the description after the last append. kInvalidArgument if it is not one of n_rows rows, with codes of
	/// dim dimensions if and only if `hashed`. Afterwards no number leads out of the segment.
	Status check(uint64_t n_rows, uint32_t dim = 0, bool hashed = false);

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

	/// The model of the codes of a graph with codes; the graph outlives it.
	graph::CodeModel code_model(const DistanceSpec &rows) const;

	/// [n_rows, code_bytes], of a graph with codes.
	const uint8_t *codes() const { return bytes_.data() + layout_.codes_at(); }

private:
	uint32_t degree_ = 0;
	GraphLayout layout_; // from check() on
	std::vector<uint8_t> bytes_;
};

/// Return the width with which a query that has probes searches a segment. by_rounded: its way is chosen by rounded
/// rows, of which some of the nearest are not: then it is at least k + k / 2 + 8, but at most k + 64, up to 1,024.
uint32_t width_of(const SearchQuery &query, uint32_t segment, bool by_rounded = false);

} // namespace vectorgpu::engine

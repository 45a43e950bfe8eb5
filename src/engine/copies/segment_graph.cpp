// See segment_graph.hpp.
#include "engine/copies/segment_graph.hpp"

#include <algorithm>
#include <cstring>

#include "engine/interface/engine.hpp"
#include "engine/graph/graph.hpp"

namespace vectorgpu::engine
{
namespace
{

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

} // namespace

Status
SegmentGraph::append(uint32_t degree, std::span<const uint8_t> bytes)
{
	if (degree < graph::kMinDegree || degree > graph::kMaxDegree || (degree_ != 0 && degree_ != degree))
		return invalid("the number of edges of a row is out of range, or another than before");
	bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
	degree_ = degree;
	return Status::ok();
}

Status
SegmentGraph::check(uint64_t n_rows, uint32_t dim, bool hashed)
{
	GraphLayout layout;
	uint64_t row = 0;
	uint64_t entry = 0;

	if (n_rows == 0 || n_rows >= graph::kNoNode || bytes_.size() < sizeof(GraphHeader))
		return invalid("the segment's graph is incomplete");
	memcpy(&layout.header, bytes_.data(), sizeof(layout.header));
	layout.n_rows = n_rows;
	layout.dim = dim;
	if (hashed != (layout.header.code_bits != 0) || (hashed && !graph::code_bits_valid(layout.header.code_bits)))
		return invalid("the codes of the segment's graph are not those of the copy's kind");
	if (layout.header.degree != degree_ || layout.header.n_parts > n_rows || layout.header.n_entries > n_rows ||
		bytes_.size() != layout.bytes())
		return invalid("the segment's graph is not one of its rows");
	layout_ = layout;
	for (const GraphPartLayout &part : parts())
	{
		if (part.first_row != row || part.first_entry != entry || part.n_rows == 0 || part.n_entries == 0 ||
			part.n_rows > n_rows - row || part.n_entries > layout.header.n_entries - entry)
			return invalid("the parts of the graph do not follow each other");
		row += part.n_rows;
		// Parts are searched one by one: through an edge out of its part a row would be found twice.
		if (!std::all_of(edges() + uint64_t{part.first_row} * degree_, edges() + row * degree_,
				[&](uint32_t node) { return (node >= part.first_row && node < row) || node == graph::kNoNode; }))
			return invalid("an edge leads out of its part of the graph");
		for (; entry < uint64_t{part.first_entry} + part.n_entries; entry++)
			if (entries()[entry] < part.first_row || entries()[entry] >= row)
				return invalid("an entry point is not in its part of the graph");
	}
	if (row != n_rows || entry != layout.header.n_entries)
		return invalid("the parts of the graph do not end with the last row");
	return Status::ok();
}

graph::CodeModel
SegmentGraph::code_model(const DistanceSpec &rows) const
{
	const uint8_t *at = bytes_.data() + layout_.hash_at();
	GraphHashHead head;

	memcpy(&head, at, sizeof(head));
	return {
		{rows, layout_.header.code_bits, head.seed}, head.bound, reinterpret_cast<const float *>(at + sizeof(head))};
}

uint32_t
width_of(const SearchQuery &query, uint32_t segment, bool by_rounded)
{
	constexpr size_t kMostBeside = 64;
	constexpr size_t kMostRaised = 1024; // a GPU scores all rows instead of wider searches
	uint32_t width = 1;

	for (const SegmentProbes &named : query.probes)
	{
		if (named.segment == segment)
		{
			width = std::max(named.probes, 1u);
			break;
		}
		width = std::max(width, named.probes);
	}
	if (!by_rounded)
		return width;

	const size_t k = std::min(query.k, kMostRaised);

	return std::max(width, static_cast<uint32_t>(std::min(k + std::min(k / 2 + 8, kMostBeside), kMostRaised)));
}

} // namespace vectorgpu::engine

// Whether rounded rows (common/narrow.hpp) can lead searches of a graph: recall targets are measured by the rows, and
// of rows that bytes do not distinguish the rounded ones would lead astray. Both engines ask before searches see a
// segment, and get the same answer. Throws bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/copies/row_list.hpp"
#include "engine/copies/segment_graph.hpp"

namespace vectorgpu::engine
{

class RoundedTrial
{
public:
	/// Chooses rows spread at random over a checked graph, to be searched for among those that their edges lead to.
	explicit RoundedTrial(const SegmentGraph &graph);

	/// The rows that the trial needs, ascending: at most some 12,000.
	std::span<const uint32_t> nodes() const { return nodes_; }

	/// True if nearly all of the nearest rows are also among the nearest by their rounded rows, and there are rows to
	/// tell apart. rows: with rounded rows; places [nodes().size()]: where each of nodes() is in them.
	bool passes(const DistanceSpec &spec, const RowListView &rows, std::span<const uint32_t> places) const;

private:
	struct Search
	{
		uint32_t sought;              // these are numbers within nodes_
		std::vector<uint32_t> others; // ascending
	};

	std::vector<uint32_t> nodes_;
	std::vector<Search> searches_;
};

} // namespace vectorgpu::engine

// The possible sizes of the description of a segment's structure, for those who receive one in parts and check it when
// it is complete.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/distance/sparse.hpp"
#include "engine/interface/codes_layout.hpp"
#include "engine/interface/engine.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/match/match_layout.hpp"

namespace vectorgpu::engine
{

constexpr uint64_t kMostSparseRows = uint64_t{1} << 40; // for which the greatest size is a number of 64 bits

/// Bytes of a complete description. The engine checks whether a size in between is right.
struct StructureSize
{
	uint64_t least_bytes = 0;
	uint64_t most_bytes = 0;
};

/// The sizes for a segment of n_rows rows (below 2^48) in such a copy; `parameter` as for Engine::load_structure, 0 if
/// none came.
inline StructureSize
structure_size(const CopySpec &spec, uint32_t parameter, uint64_t n_rows)
{
	switch (spec.kind)
	{
		case CopyKind::kLists:
		{
			const uint64_t bytes = ListsLayout{parameter, spec.distance.dim, n_rows}.bytes();

			return {bytes, bytes};
		}
		case CopyKind::kMatch:
			return {sizeof(match::MatchHead), match::kMostMatchBytes};
		case CopyKind::kSparse:
		{
			const uint64_t n = n_rows < kMostSparseRows ? n_rows : kMostSparseRows;

			return {n_rows * sizeof(uint64_t), n * (sizeof(uint64_t) + kMostSparseBytes)};
		}
		case CopyKind::kGraph:
		{
			// At least one part and one entry point, and at most as many of each as rows.
			const GraphLayout least = {{parameter, 1, 1, 0}, n_rows};
			const uint64_t others = n_rows > 0 ? (n_rows - 1) * (sizeof(GraphPartLayout) + sizeof(uint32_t)) : 0;

			return {least.bytes(), least.bytes() + others};
		}
		case CopyKind::kHashedGraph:
		{
			const auto bytes = [&](uint32_t bits)
			{ return GraphLayout{{parameter, 1, 1, bits}, n_rows, spec.distance.dim}.bytes(); };
			const uint64_t others = n_rows > 0 ? (n_rows - 1) * (sizeof(GraphPartLayout) + sizeof(uint32_t)) : 0;

			return {std::min(bytes(graph::kMinHashBits), bytes(1)),
				std::max(bytes(graph::kMaxHashBits), bytes(graph::kMaxRabitqCodeBits)) + others};
		}
		case CopyKind::kCodedLists:
		case CopyKind::kCodes:
		{
			// Between codes of one byte a row, and two bytes for each element or one and a row's factors; codebooks pad
			// dimensions to less than twice as many.
			const uint64_t lists = ListsLayout{parameter, spec.distance.dim, n_rows}.bytes() + sizeof(CodesHead);
			const uint64_t dim = spec.distance.dim;
			const uint64_t rotation = dim <= ivf::kMaxOpqDimensions ? dim * (dim + 15) : 0;
			const uint64_t most_model = (uint64_t{256} * 2 * dim + rotation) * sizeof(float);

			const uint64_t most_code = 2 * dim + 8 + ivf::kMaxRabitqFactors * sizeof(float);

			return {lists + n_rows,
				lists + most_model + n_rows * sizeof(float) + (n_rows + ivf::kCodeBlockRows) * most_code};
		}
		case CopyKind::kRows:
			break;
	}
	return {};
}

} // namespace vectorgpu::engine

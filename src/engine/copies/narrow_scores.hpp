// Scores of a segment's rounded rows for one query (common/narrow.hpp). Internal to the copies and the CPU engine.
#pragma once

#include <algorithm>

#include "engine/copies/row_list.hpp"
#include "common/narrow.hpp"

namespace vectorgpu::engine
{

class NarrowScores
{
public:
	/// Throws bad_alloc.
	NarrowScores(const DistanceSpec &spec, const void *query)
		: metric_(spec.metric), query_(spec, query), weight_(narrow_weight(spec.metric, query_.scale()))
	{
	}

	/// True if the rows of a segment may be searched so: they have rounded rows, and are not exact in a narrower form,
	/// which a GPU keeps instead.
	static bool serve(const DistanceSpec &spec, const RowListView &rows)
	{
		const auto all = [&](auto is) { return std::all_of(rows.chunks.begin(), rows.chunks.end(), is); };

		return spec.dim <= kNarrowMostDims && all([](const auto &chunk) { return chunk->roundings() != nullptr; }) &&
			!all([](const auto &chunk) { return chunk->all_bytes(); }) &&
			!all([](const auto &chunk) { return chunk->all_halves(); });
	}

	/// Scores of rows nodes [n].
	void score(const RowListView &rows, const uint32_t *nodes, size_t n, double *scores) const
	{
		constexpr size_t kMost = 64; // at a time

		for (size_t first = 0; first < n; first += kMost)
			score_some(rows, nodes + first, std::min(kMost, n - first), scores + first);
	}

private:
	template <size_t most = 64>
	void score_some(const RowListView &rows, const uint32_t *nodes, size_t n, double *scores) const
	{
		const int8_t *narrow[most] = {};
		const Rounding *roundings[most] = {};
		int32_t products[most] = {};

		for (size_t i = 0; i < n; i++)
		{
			const uint64_t slot = nodes[i] - rows.chunk_start;
			const RowChunk &chunk = *rows.chunks[slot / rows.chunk_rows];

			narrow[i] = chunk.rounded(slot % rows.chunk_rows);
			roundings[i] = &chunk.roundings()[slot % rows.chunk_rows];
			__builtin_prefetch(roundings[i]);
		}
		query_.products(narrow, n, products);
		for (size_t i = 0; i < n; i++)
			scores[i] = narrow_score(products[i], row_of(*roundings[i]), weight_);
	}

	NarrowRow row_of(const Rounding &rounding) const
	{
		return std::isinf(rounding.error) ? narrow_nowhere() : narrow_row(metric_, rounding.scale, rounding.squares);
	}

	const Metric metric_;
	const RoundedQuery query_;
	const float weight_;
};

} // namespace vectorgpu::engine

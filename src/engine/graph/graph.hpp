// Shared by all files of this folder: a graph of fixed degree over the rows of a segment, as a search reads it and as
// it lies in memory. See README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/distance/distance.hpp"
#include "engine/graph/codes/code_scores.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::graph
{

using ivf::Call;
using ivf::Outcome;

/// No node: the end of an absent edge. Nodes are row numbers, from 0.
constexpr uint32_t kNoNode = UINT32_MAX;

constexpr uint32_t kMinDegree = 2; // a chain needs one edge to go on and one to come back
constexpr uint32_t kMaxDegree = 256;

/// A node and its score.
struct Candidate
{
	double score;
	uint32_t node;
};

/// The total order of candidates. Scores are not NaN here: searches turn NaN into infinity.
inline bool
before(const Candidate &a, const Candidate &b)
{
	return a.score != b.score ? a.score < b.score : a.node < b.node;
}

/// A graph as a search of one query reads it: from memory, or from pages. The functions return false to end the search
/// (kCancelled), and may leave by longjmp.
struct GraphView
{
	uint32_t n_nodes = 0;
	uint32_t degree = 0;
	/// neighbors [degree]: the ends of the edges of `node`, kNoNode behind the last.
	bool (*neighbors)(void *context, uint32_t node, uint32_t *neighbors) = nullptr;
	/// scores [n] of nodes [n] to the query. NaN counts as infinite.
	bool (*scores)(void *context, const uint32_t *nodes, size_t n, double *scores) = nullptr;
	void *context = nullptr;
	/// If not null: the neighbours of `node` may be asked for soon.
	void (*expect)(void *context, uint32_t node) = nullptr;
};

/// Ask for memory that is read soon.
inline void
prefetch(const void *memory, size_t n_bytes)
{
	constexpr size_t kLine = 64;

	for (size_t line = 0; line < n_bytes; line += kLine)
		__builtin_prefetch(static_cast<const char *>(memory) + line);
}

/// Rows in memory: n_rows vectors, row_stride bytes apart, compared as spec says; or their codes, of spec.dim
/// dimensions.
struct GraphRows
{
	DistanceSpec spec;
	const void *rows = nullptr;
	size_t row_stride = 0;
	uint32_t n_rows = 0;
	uint32_t code_bits = 0; // not 0: codes of this kind (code_scores.hpp)

	const unsigned char *row(uint32_t i) const { return static_cast<const unsigned char *>(rows) + i * row_stride; }
};

/// Compute scores [n] of rows anywhere in memory, prefetching them.
inline void
score_rows(const GraphRows &rows, const void *query, const uint32_t *nodes, size_t n, double *scores)
{
	constexpr size_t kAhead = 4; // rows prefetched at a time
	constexpr size_t kLine = 64;
	const auto ask = [&rows](uint32_t node)
	{
		for (size_t line = 0; line < rows.row_stride && line < 1024; line += kLine)
			__builtin_prefetch(rows.row(node) + line);
	};

	for (size_t i = 0; i < n && i < kAhead; i++)
		ask(nodes[i]);
	for (size_t i = 0; i < n; i++)
	{
		if (i + kAhead < n)
			ask(nodes[i + kAhead]);
		if (rows.code_bits != 0)
			compute_code_scores(
				rows.code_bits, rows.spec.dim, query, rows.row(nodes[i]), rows.row_stride, 1, scores + i);
		else
			compute_scores(rows.spec, query, rows.row(nodes[i]), rows.row_stride, 1, scores + i, 0);
	}
}

/// A graph in memory and the query that it is searched for: the context of memory_view.
struct MemoryGraph
{
	GraphRows rows;
	const uint32_t *edges = nullptr; // [n_rows, degree]
	uint32_t degree = 0;
	const void *query = nullptr; // one vector of the rows' type
};

/// `memory` has to live as long as the view.
GraphView memory_view(MemoryGraph *memory);

} // namespace vectorgpu::engine::graph

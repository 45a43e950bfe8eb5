// The graph of a segment, as handed to an engine (Zhao, Tan, Li: SONG, section 3: a graph of fixed degree). Nodes are
// the segment's rows by number, in the order of their ids.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/graph/codes/code_scores.hpp"

namespace vectorgpu::engine
{

/// The beginning of a description.
struct GraphHeader
{
	uint32_t degree = 0;
	uint32_t n_parts = 0;
	uint32_t n_entries = 0;
	uint32_t code_bits = 0; // kind of codes (graph/codes/code_scores.hpp), with CopyKind::kHashedGraph, else 0
};
static_assert(sizeof(GraphHeader) == 16);

/// Rows [first_row, first_row + n_rows) have a graph of their own, with the entry points [first_entry, first_entry +
/// n_entries).
struct GraphPartLayout
{
	uint32_t first_row = 0;
	uint32_t n_rows = 0;
	uint32_t first_entry = 0;
	uint32_t n_entries = 0;
};
static_assert(sizeof(GraphPartLayout) == 16);

/// The parameters of a graph's codes (graph/codes/codes.hpp), beside their floats.
struct GraphHashHead
{
	uint64_t seed = 0;
	float bound = 0;
	uint32_t zero = 0;
};
static_assert(sizeof(GraphHashHead) == 16);

/// Layout of the description of a segment's graph, little endian, one part behind the other:
///   header   GraphHeader
///   parts    GraphPartLayout [n_parts]: rows and entries in order, without gaps
///   entries  uint32 [n_entries]: entry points, nodes of their part
///   edges    uint32 [n_rows, degree]: the ends of edges; UINT32_MAX: none
/// and for a graph with codes:
///   hash     GraphHashHead, then float32 [code_model_floats]: thresholds, or RaBitQ's centre
///   codes    [n_rows, code_bytes]
struct GraphLayout
{
	GraphHeader header;
	uint64_t n_rows = 0;
	uint32_t dim = 0; // of the rows; matters with codes only

	static constexpr uint64_t parts_at() { return sizeof(GraphHeader); }
	uint64_t entries_at() const { return parts_at() + uint64_t{header.n_parts} * sizeof(GraphPartLayout); }
	uint64_t edges_at() const { return entries_at() + uint64_t{header.n_entries} * sizeof(uint32_t); }
	uint64_t edge_bytes() const { return n_rows * header.degree * sizeof(uint32_t); }
	uint64_t hash_at() const { return edges_at() + edge_bytes(); }
	uint64_t codes_at() const
	{
		return hash_at() +
			(header.code_bits == 0
					? 0
					: sizeof(GraphHashHead) + graph::code_model_floats(header.code_bits, dim) * sizeof(float));
	}
	uint64_t bytes() const { return codes_at() + n_rows * graph::code_bytes(header.code_bits, dim); }
};

} // namespace vectorgpu::engine

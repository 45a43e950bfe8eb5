// Internal to the searches of gpugraph: a query's state of a segment, and the segment's graph in pages. PG dialect; one
// content lock at a time.
#pragma once

#include "am/gpugraph/graph.hpp"
#include "engine/graph/search.hpp"

namespace vectorgpu::am
{

/// A query's state of one segment, for all its rounds.
struct KnownGraph
{
	uint32 segment; // id
	GraphModel model;
	GraphPart *parts;                  // [model.n_parts]
	engine::graph::Candidate *entries; // [model.n_entries], with their scores; within a part the first ones in order
	uint8 *code;                       // of the query, if the segment has codes
};

/// GraphView::context: items of a stream, one for each row, and the query that they are compared with.
struct PageGraph
{
	const SegmentSearch *search;
	uint32 degree;
	StreamKind items; // vectors, or codes
	Size item_bytes;
	engine::DistanceSpec spec;
	const void *query;
	char *scratch;    // an item that crosses pages
	uint32 code_bits; // not 0: items are codes of this kind, of spec.dim dimensions
};

/// graph_search.cpp. A graph of vectors, by the index's metric. scratch is palloc'd.
PageGraph graph_of_vectors(const SegmentSearch *search, const KnownGraph *known);

/// graph_search.cpp. GraphView::neighbors, scores of a PageGraph. False if a page was foreign.
bool graph_read_neighbors(void *context, uint32_t node, uint32_t *neighbors);
bool graph_score_nodes(void *context, const uint32_t *nodes, size_t n, double *scores);

/// hashed.cpp. Sets the query's code and the scores of all entry points, by their codes. False if a page was foreign.
bool graph_score_entry_codes(const SegmentSearch *search, const uint32 *numbers, KnownGraph *known);

/// hashed.cpp. A graph of codes, compared with the query's code.
PageGraph graph_of_codes(const SegmentSearch *search, const KnownGraph *known);

/// hashed.cpp. Scores found [n_found] by their vectors, and puts them in order. False if a page was foreign.
bool graph_judge_found(
	const SegmentSearch *search, const KnownGraph *known, engine::graph::Candidate *found, uint32 n_found);

} // namespace vectorgpu::am

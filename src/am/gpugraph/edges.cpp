// The edges of a graph that is built, until they are written: in memory or in a temporary file. PG dialect.
#include "am/gpugraph/writer.hpp"

namespace vectorgpu::am
{

namespace
{

uint64
edge_bytes(const GraphWriter *writer)
{
	return writer->n_rows * writer->model.degree * sizeof(uint32);
}

} // namespace

void
graph_take_edges(GraphWriter *writer, const GraphPart *part, uint32 *edges)
{
	const uint64 n = uint64{part->n_rows} * writer->model.degree;

	if (writer->model.n_parts == 1)
	{
		writer->edges.held = edges;
		return;
	}
	if (writer->edges.file == nullptr)
		writer->edges.file = BufFileCreateTemp(false);
	for (uint64 i = 0; i < n; i++)
		if (edges[i] != engine::graph::kNoNode)
			edges[i] += part->first_row;
	BufFileWrite(writer->edges.file, edges, n * sizeof(uint32));
}

void
graph_spill_edges(GraphWriter *writer)
{
	GraphEdges *edges = &writer->edges;

	if (edges->held == nullptr)
		return;
	edges->file = BufFileCreateTemp(false);
	BufFileWrite(edges->file, edges->held, edge_bytes(writer));
	pfree(edges->held);
	edges->held = nullptr;
}

bool
graph_write_edges(const GraphWriter *writer, StreamRun *run)
{
	const GraphEdges &edges = writer->edges;

	return edges.held != nullptr ? stream_run_write_large(run, kEdgeStream, edges.held, edge_bytes(writer))
								 : stream_run_copy(run, kEdgeStream, edges.file, edge_bytes(writer), true);
}

void
graph_free_edges(GraphEdges *edges)
{
	spool_close(&edges->file);
	if (edges->held != nullptr)
		pfree(edges->held);
	edges->held = nullptr;
}

} // namespace vectorgpu::am

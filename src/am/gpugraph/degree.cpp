// The degree of a segment's graph where the storage parameter leaves it open (degree = 0). PG dialect.
#include "am/gpugraph/writer.hpp"

#include "pg/fault.hpp"

extern "C"
{
#include "utils/rel.h"
}

namespace vectorgpu::am
{

namespace
{

/// What graph_build_parts makes, with one degree.
struct Built
{
	GraphModel model;
	GraphPart *parts;
	uint32 *entries;
	char *entry_vectors;
	GraphEdges edges;
};

Built
take_built(GraphWriter *writer)
{
	const Built built = {writer->model, writer->parts, writer->entries, writer->entry_vectors, writer->edges};

	writer->edges = {};
	return built;
}

void
put_built(GraphWriter *writer, const Built &built)
{
	writer->model = built.model;
	writer->parts = built.parts;
	writer->entries = built.entries;
	writer->entry_vectors = built.entry_vectors;
	writer->edges = built.edges;
}

void
free_built(Built built)
{
	graph_free_edges(&built.edges);
	pfree(built.parts);
	pfree(built.entries);
	pfree(built.entry_vectors);
}

/// The merged segment that has the most rows; null: none has rows.
const SegmentEntry *
largest_source(const SegmentPlan *plan)
{
	const SegmentEntry *largest = nullptr;

	for (uint32 i = 0; i < plan->n_sources; i++)
	{
		const SegmentEntry *segment = &plan->meta->segments[plan->sources[i]];

		if (segment->n_rows > 0 && (largest == nullptr || segment->n_rows > largest->n_rows))
			largest = segment;
	}
	return largest;
}

/// True if searches by the graph reach the default target faster than a look at all rows.
bool
serves(const GraphWriter *writer)
{
	const GraphModel *model = &writer->model;

	return model->calibration.n_queries == 0 ||
		(graph_reaches(model, kDefaultRecallTarget) &&
			!graph_looks_at_all(engine::ivf::fractional_probes_for(model->calibration, kDefaultRecallTarget),
				static_cast<double>(writer->n_rows), graph_rows_per_width(writer->meta, model), model->n_entries));
}

/// Build a second graph with more edges. It stays if it serves.
bool
try_more_edges(GraphWriter *writer)
{
	graph_spill_edges(writer);

	const Built few = take_built(writer);

	graph_base_forget(&writer->base); // a graph of other degree has nothing to take from it
	if (!graph_build_parts(writer, kMostAutomaticDegree))
	{
		graph_free_edges(&writer->edges);
		writer->edges = few.edges; // format_end frees them
		return false;
	}
	if (serves(writer) && !VG_FAULT("graph_many_edges"))
		free_built(few);
	else
	{
		free_built(take_built(writer));
		put_built(writer, few);
	}
	return true;
}

} // namespace

uint32
graph_segment_degree(const SegmentEntry *segment)
{
	return segment->n_rows == 0 ? 0
								: static_cast<uint32>(segment->streams[static_cast<int>(kEdgeStream)].n_bytes /
									  (segment->n_rows * sizeof(uint32)));
}

bool
graph_build(GraphWriter *writer)
{
	const uint32 wanted = graph_options(writer->meta)->degree;
	const SegmentEntry *source = largest_source(&writer->plan);
	const uint32 degree = wanted != 0 ? wanted : source != nullptr ? graph_segment_degree(source) : kDefaultDegree;

	if (!graph_build_parts(writer, degree))
		return false;
	// A merge that adds little keeps the degree that was chosen before. Codes lose recall that edges do not give back.
	if (wanted == 0 && degree < kMostAutomaticDegree && writer->model.code_bits == 0 && writer->model.n_parts == 1 &&
		(source == nullptr || source->n_rows < writer->n_rows / 2) &&
		(VG_FAULT("graph_few_edges") || !serves(writer)) && !try_more_edges(writer))
		return false;
	ereport(DEBUG1,
		(errmsg_internal("index \"%s\": graph of %u edges a row", RelationGetRelationName(writer->plan.index),
			writer->model.degree)));
	graph_tell(writer);
	return true;
}

} // namespace vectorgpu::am

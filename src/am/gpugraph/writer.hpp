// The state of a segment being written: rows wait in a temporary file until all are there. PG dialect. Used by format.cpp (the
// callbacks, the streams), parts.cpp (the graphs) and calibrate.cpp.
#pragma once

#include "am/gpugraph/build_phases.hpp"
#include "am/gpugraph/graph.hpp"

extern "C"
{
#include "storage/buffile.h"
}

namespace vectorgpu::am
{

struct GraphWriter
{
	SegmentPlan plan;
	const MetaData *meta;
	bool report;       // to pg_stat_progress_create_index
	Size vector_bytes; // of one row
	Size memory;       // bytes: maintenance_work_mem
	uint64 n_rows;
	BufFile *vectors; // as stored, in TID order
	BufFile *edges;   // kEdgeStream; null before the graph is built
	GraphModel model;
	GraphPart *parts;     // [model.n_parts]
	uint32 *entries;      // [model.n_entries]
	char *entry_vectors;  // [model.n_entries, vector_bytes]
};

/// A part in memory.
struct HeldPart
{
	engine::graph::GraphRows rows; // compared as the index compares
	const uint32 *edges;           // [n_rows, degree], numbers within the part
	const uint32 *entries;         // [n_entries], numbers within the part
	uint32 n_entries;
};

/// parts.cpp. Builds the graphs of all parts: edges, parts, entries, entry_vectors, calibration. False: it gave way.
bool graph_build_parts(GraphWriter *writer);

/// calibrate.cpp. Measures on some of its rows what recall how wide a search has. False: it gave way.
bool graph_calibrate(GraphWriter *writer, const HeldPart *part);

/// parts.cpp. The engine's Call that looks at interrupts, reports and gives way.
engine::graph::Call graph_call(GraphWriter *writer);

/// parts.cpp. Raises the error that an outcome stands for; false if the operation was stopped to give way.
bool graph_check_outcome(const engine::graph::Outcome &outcome);

/// parts.cpp. For pg_stat_progress_create_index.
void graph_start_phase(const GraphWriter *writer, GraphBuildPhase phase);

/// format.cpp. Temporary files: an item that is missing is an error.
void graph_seek_spool(BufFile *file, uint64 byte);
void graph_read_spool(BufFile *file, void *data, Size n_bytes);

} // namespace vectorgpu::am

// The state of a segment being written: rows wait in a temporary file until all have come. PG dialect. Used by
// graph_format.cpp (the callbacks, the streams), parts.cpp and degree.cpp (the graphs), edges.cpp, codes.cpp,
// progress.cpp and worker_build.cpp.
#pragma once

#include "am/gpugraph/base.hpp"
#include "am/gpugraph/build_phases.hpp"
#include "am/gpugraph/graph.hpp"
#include "am/method/engine_call.hpp"
#include "storage/spool.hpp"
#include "storage/stream_run.hpp"

namespace vectorgpu::am
{

/// The edges of all rows: kEdgeStream.
struct GraphEdges
{
	uint32 *held;  // [n_rows, degree] of the only part, in the memory in which they were made; null: in the file
	BufFile *file; // of several parts, or spilled; null before the graph is built
};

struct GraphWriter
{
	SegmentPlan plan;
	const MetaData *meta;
	Watch watch;
	bool has_waited;    // the build has waited for a starting worker: once
	bool worker_silent; // a request of this part timed out: the part does without the worker
	Size vector_bytes;  // of one row
	Size memory;        // bytes: maintenance_work_mem
	uint64 n_rows;
	GraphBase *base;     // of a merge: the graph that it may insert into; null: none
	BufFile *vectors;    // as stored, in TID order; null: in the index already
	SegmentEntry placed; // with the stream of these
	GraphEdges edges;
	GraphModel model;
	GraphPart *parts;              // [model.n_parts]
	uint32 *entries;               // [model.n_entries]
	char *entry_vectors;           // [model.n_entries, vector_bytes]
	engine::graph::CodeModel hash; // with codes, from the first part on
	float *code_floats;            // [code_model_floats], hash's
	BufFile *codes;                // kCodeStream; null without codes
	uint8 *entry_codes;            // [model.n_entries, code bytes]
};

/// The rows of a part in memory, read as far as they are wanted.
struct PartRows
{
	const GraphWriter *writer;
	uint64 first_row; // of the part
	uint64 n_read;    // in `vectors`
	char *vectors;    // [rows of the part, vector_bytes]
};

/// parts.cpp. Reads the part's rows up to number `end`.
void graph_read_rows(PartRows *rows, uint64 end);

/// Reads n rows of the part, from its row `first` on.
void graph_read_some(const PartRows *rows, uint64 first, uint64 n, char *to);

/// degree.cpp. Chooses the degree, if the storage parameter is 0, and builds. False: it gave way.
bool graph_build(GraphWriter *writer);

/// parts.cpp. Builds the graphs of all parts: edges, parts, entries, entry_vectors, calibration. False: it gave way.
bool graph_build_parts(GraphWriter *writer, uint32 degree);

/// edges.cpp. Takes the edges of a part [part->n_rows, degree]: those of the only part as they are, in allocated memory
/// that is the writer's from then on; else their numbers, within the part, become those of the segment.
void graph_take_edges(GraphWriter *writer, const GraphPart *part, uint32 *edges);

/// edges.cpp. Moves edges in memory to a file: another graph needs the memory.
void graph_spill_edges(GraphWriter *writer);

/// edges.cpp. Writes kEdgeStream. False: it gave way.
bool graph_write_edges(const GraphWriter *writer, StreamRun *run);

/// edges.cpp. Frees the edges, if there are any.
void graph_free_edges(GraphEdges *edges);

/// parts.cpp. Tells of a graph in parts.
void graph_tell(const GraphWriter *writer);

/// codes.cpp. Makes codes of a part's rows in memory [rows->n_rows, code bytes]; for the first part also the code
/// functions. False: it gave way.
bool graph_make_codes(GraphWriter *writer, const engine::graph::GraphRows *rows, bool first_part, uint8 *codes);

/// parts.cpp. The most entry points of a part of n_rows rows.
uint32 graph_entry_count(const GraphWriter *writer, uint32 n_rows);

/// progress.cpp. The engine's Call that looks at interrupts, reports and gives way.
engine::graph::Call graph_call(GraphWriter *writer);

/// progress.cpp. Raises the error that an outcome stands for; false if the operation was stopped to give way.
bool graph_check_outcome(const engine::graph::Outcome &outcome);

/// progress.cpp. BuildHooks::on_stage, with the writer as the Call's context.
void graph_on_stage(void *context, engine::graph::BuildStage stage);

/// progress.cpp. For pg_stat_progress_create_index.
void graph_start_phase(const GraphWriter *writer, GraphBuildPhase phase);

} // namespace vectorgpu::am

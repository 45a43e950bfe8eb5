// The graphs of a segment: as few parts of its rows, in TID order, as memory allows, and the graph of each. PG dialect;
// the algorithms are in engine/graph.
#include "am/gpugraph/worker_build.hpp"
#include "am/gpugraph/writer.hpp"

#include "common/huge_pages.hpp"
#include "engine/graph/calibrate/measure.hpp"
#include "pg/fault.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

using engine::graph::BaseGraph;
using engine::graph::BuildReport;
using engine::graph::BuildSpec;
using engine::graph::GraphRows;

constexpr uint64 kLeastRows = 1024; // of a part, whatever the memory

BuildSpec
build_spec(const GraphWriter *writer)
{
	const GraphOptions *options = graph_options(writer->meta);
	BuildSpec spec;

	spec.degree = writer->model.degree;
	spec.prune = static_cast<engine::graph::PruneKind>(options->prune);
	spec.knn.k = 0;
	return spec;
}

/// The BuildSpec of a part that is measured: its rows that are queries are held out.
BuildSpec
measured_spec(const BuildSpec *spec, uint64 n_rows)
{
	BuildSpec measured = *spec;

	if (spec->prune == engine::graph::PruneKind::kRank) // other kinds can hold out no rows
		measured.knn.n_aside = engine::graph::query_rows(static_cast<uint32>(n_rows));
	return measured;
}

GraphRows
rows_of_part(const GraphWriter *writer, const char *vectors, uint64 n)
{
	GraphRows rows;

	rows.spec = {engine::graph::build_metric(writer->meta->metric), writer->meta->element, writer->meta->dim};
	rows.rows = vectors;
	rows.row_stride = writer->vector_bytes;
	rows.n_rows = static_cast<uint32>(n);
	return rows;
}

/// Memory of a part of n rows: rows, edges, and the engine's work memory.
uint64
part_bytes(const GraphWriter *writer, const BuildSpec *spec, uint64 n)
{
	return n *
		(writer->vector_bytes + spec->degree * sizeof(uint32) +
			engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim)) +
		engine::graph::graph_build_bytes(rows_of_part(writer, nullptr, n), measured_spec(spec, n));
}

/// Memory beside the work memory for a segment of one part: rows, edges, the base's edges and the numbers of its rows.
uint64
insert_bytes(const GraphWriter *writer, const BuildSpec *spec)
{
	const uint64 n_base = writer->base->segment->n_rows;

	return writer->n_rows * (writer->vector_bytes + spec->degree * sizeof(uint32)) +
		n_base * (spec->degree + 1) * sizeof(uint32);
}

/// Work memory of an insertion.
Size
insert_work_bytes(const GraphWriter *writer, const BuildSpec *spec)
{
	const uint64 n_base = writer->base->segment->n_rows;

	return engine::graph::graph_insert_bytes(rows_of_part(writer, nullptr, writer->n_rows), *spec,
		{static_cast<uint32>(n_base), static_cast<uint32>(n_base - writer->base->n_kept)});
}

/// True if the rows are to be inserted into the graph of a merged segment.
bool
inserts(const GraphWriter *writer, const BuildSpec *spec)
{
	return writer->base != nullptr &&
		engine::graph::graph_insert_serves(graph_base_changed(writer->base, writer->n_rows), writer->n_rows) &&
		insert_bytes(writer, spec) + insert_work_bytes(writer, spec) <= writer->memory;
}

/// Rows of a part: all, or the number that memory allows, about the same in each part.
uint64
rows_per_part(const GraphWriter *writer, const BuildSpec *spec)
{
	uint64 n_parts = 1;
	uint64 rows = writer->n_rows;

	while (rows > kLeastRows && part_bytes(writer, spec, rows) > writer->memory)
	{
		// Each step takes the number that would fit if memory were proportional to rows.
		n_parts = Max(n_parts + 1, n_parts * part_bytes(writer, spec, rows) / writer->memory);
		rows = Max(kLeastRows, (writer->n_rows + n_parts - 1) / n_parts);
	}
	return rows;
}

/// The memory of building the parts, shared by all of them.
struct PartMemory
{
	char *vectors;   // [rows_per_part, vector_bytes]
	uint32 *edges;   // [rows_per_part, degree]
	uint32 *entries; // [kMaxEntries] within the part
	uint8 *codes;    // [rows_per_part, code bytes], with codes
	void *work;
	Size work_bytes;
};

PartMemory
take_memory(const GraphWriter *writer, const BuildSpec *spec, uint64 rows, Size work_bytes)
{
	PartMemory memory;

	memory.vectors = static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, rows * writer->vector_bytes));
	ask_for_huge_pages(memory.vectors, rows * writer->vector_bytes);
	memory.edges =
		static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, rows * spec->degree * sizeof(uint32)));
	ask_for_huge_pages(memory.edges, rows * spec->degree * sizeof(uint32));
	memory.entries = static_cast<uint32 *>(palloc(engine::graph::kMaxEntries * sizeof(uint32)));
	memory.codes = nullptr;
	if (writer->model.code_bits > 0)
		memory.codes = static_cast<uint8 *>(MemoryContextAllocHuge(
			CurrentMemoryContext, rows * engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim)));
	memory.work_bytes = work_bytes;
	memory.work = MemoryContextAllocHuge(CurrentMemoryContext, memory.work_bytes);
	return memory;
}

/// Adds the entry points of a part to those of the segment.
void
add_entries(GraphWriter *writer, GraphPart *part, const PartMemory *memory)
{
	const Size code_bytes = engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim);
	const Size n_entries = Size{writer->model.n_entries} + part->n_entries;

	part->first_entry = writer->model.n_entries;
	writer->entries = static_cast<uint32 *>(repalloc_huge(writer->entries, Max(n_entries, 1) * sizeof(uint32)));
	writer->entry_vectors =
		static_cast<char *>(repalloc_huge(writer->entry_vectors, Max(n_entries, 1) * writer->vector_bytes));
	if (code_bytes > 0)
		writer->entry_codes = static_cast<uint8 *>(repalloc_huge(writer->entry_codes, Max(n_entries, 1) * code_bytes));
	for (uint32 i = 0; i < part->n_entries; i++)
	{
		const uint32 entry = memory->entries[i];

		writer->entries[part->first_entry + i] = part->first_row + entry;
		memcpy(writer->entry_vectors + (part->first_entry + Size{i}) * writer->vector_bytes,
			memory->vectors + entry * writer->vector_bytes, writer->vector_bytes);
		if (code_bytes > 0)
			memcpy(writer->entry_codes + (part->first_entry + Size{i}) * code_bytes, memory->codes + entry * code_bytes,
				code_bytes);
	}
	writer->model.n_entries += part->n_entries;
}

/// Calibrates the graph by this process. built: its build, which has left the work memory as it is; null: an insertion.
/// False: it gave way.
bool
measure_here(GraphWriter *writer, const GraphRows *rows, const BuildSpec *built, const PartMemory *memory,
	const BuildReport *report)
{
	const uint32 n_queries = built != nullptr ? built->knn.n_aside : 0;
	uint32 *queries = static_cast<uint32 *>(palloc(Max(n_queries, 1) * sizeof(uint32)));
	engine::graph::MeasuredGraph measured;

	measured.rows = *rows;
	measured.rows.spec.metric = writer->meta->metric;
	measured.edges = memory->edges;
	measured.degree = writer->model.degree;
	measured.entries = memory->entries;
	measured.n_entries = report->n_entries;
	measured.hash = memory->codes != nullptr ? &writer->hash : nullptr;
	measured.codes = memory->codes;
	graph_start_phase(writer, kPhaseMeasure);

	if (built != nullptr &&
		!graph_check_outcome(engine::graph::measure_without(
			*rows, *built, queries, n_queries, &measured, memory->work, memory->work_bytes, graph_call(writer))))
		return false;

	const Size work_bytes = engine::graph::calibrate_bytes(measured, 1);
	void *work = palloc(work_bytes);
	const bool done = graph_check_outcome(engine::graph::calibrate(
		measured, &writer->model.calibration, work, work_bytes, graph_call(writer), &writer->model.depths));

	pfree(work);
	pfree(queries);
	return done;
}

/// Makes graph and calibration by this process, by insertion into the base's graph. False: it gave way.
bool
insert_here(GraphWriter *writer, const BuildSpec *spec, const GraphRows *rows, const BaseGraph &base,
	const PartMemory *memory, BuildReport *report)
{
	if (!graph_check_outcome(engine::graph::graph_insert(*rows, *spec, base, memory->edges, memory->entries, report,
			memory->work, memory->work_bytes, graph_call(writer), {graph_on_stage, nullptr})))
		return false;
	return measure_here(writer, rows, nullptr, memory, report);
}

/// Makes graph and calibration by this process. False: it gave way.
bool
build_here(GraphWriter *writer, const BuildSpec *spec, const GraphRows *rows, bool measure, const PartMemory *memory,
	BuildReport *report)
{
	const engine::graph::Call call = graph_call(writer);
	const BuildSpec with_queries = measure ? measured_spec(spec, rows->n_rows) : *spec;

	if (!graph_check_outcome(engine::graph::graph_build(*rows, with_queries, memory->edges, memory->entries, report,
			memory->work, memory->work_bytes, call, {graph_on_stage, nullptr})))
		return false;
	if (memory->codes != nullptr && !graph_make_codes(writer, rows, measure, memory->codes))
		return false;
	return !measure || measure_here(writer, rows, &with_queries, memory, report);
}

void
read_vectors(const GraphWriter *writer, uint64 first_row, uint64 n, char *vectors)
{
	if (writer->vectors == nullptr)
	{
		stream_read_written(writer->plan.index, writer->meta, &writer->placed, StreamKind::kVectors,
			first_row * writer->vector_bytes, n * writer->vector_bytes, vectors);
		return;
	}
	spool_seek(writer->vectors, first_row * writer->vector_bytes);
	spool_read(writer->vectors, vectors, n * writer->vector_bytes);
}

/// True if the base has the same rows, and its graph serves. That of an older release is measured again, for more
/// depths.
bool
keeps_graph(const GraphWriter *writer)
{
	return graph_base_is_whole(writer->base, writer->n_rows) && writer->base->model.depths.n_depths > 0;
}

/// Takes graph and calibration of a base that has the same rows. Reads no other vectors than those of the entry points.
void
renumber(GraphWriter *writer, const BaseGraph &base, const PartMemory *memory, BuildReport *report)
{
	graph_base_renumber(writer->base, base, memory->edges, memory->entries);
	for (uint32 i = 0; i < base.n_entries; i++)
		read_vectors(writer, memory->entries[i], 1, memory->vectors + memory->entries[i] * writer->vector_bytes);
	*report = BuildReport();
	report->n_entries = base.n_entries;
	writer->model.calibration = writer->base->model.calibration;
	writer->model.depths = writer->base->model.depths;
}

/// Notes the changed rows for the next merge.
void
inserted(GraphWriter *writer, BaseGraph *base)
{
	graph_set_changed_rows(&writer->model, static_cast<uint32>(graph_base_changed(writer->base, writer->n_rows)));
	ereport(DEBUG1,
		(errmsg_internal("the graph of " UINT64_FORMAT " rows was made from one of %u, of which " UINT64_FORMAT
						 " are left",
			writer->n_rows, base->n_rows, writer->base->n_kept)));
	pfree(const_cast<uint32 *>(base->edges));
}

/// True if the worker builds anew although an insertion is possible: that is faster.
bool
rather_anew(GraphWriter *writer, const GraphRows *rows)
{
	return !engine::graph::graph_insert_serves_beside_gpu(
			   graph_base_changes(writer->base, writer->n_rows), writer->n_rows) &&
		graph_worker_is_exact(writer, rows);
}

/// False: it gave way.
bool
build_part(GraphWriter *writer, const BuildSpec *spec, bool insert, GraphPart *part, const PartMemory *memory)
{
	const GraphRows rows = rows_of_part(writer, memory->vectors, part->n_rows);
	const bool measure = part->first_row == 0;
	const bool kept = insert && keeps_graph(writer);
	const PartGraph graph = {memory->edges, memory->entries, memory->codes};
	engine::graph::Found found = engine::graph::Found::kNo;
	PartRows read = {writer, part->first_row, 0, memory->vectors};
	BaseGraph base;
	BuildReport report;

	(void) VG_FAULT("graph_build_part");
	writer->worker_silent = false; // it may be back after the part before
	if (insert && !kept && rather_anew(writer, &rows))
	{
		found = graph_worker_build(writer, &read, &rows, nullptr, measure, graph, &report);
		insert = found == engine::graph::Found::kNo;
	}
	if (insert)
	{
		(void) VG_FAULT("graph_insert");
		base = graph_base_read(&writer->plan, writer->base);
		if (kept)
		{
			renumber(writer, base, memory, &report);
			found = engine::graph::Found::kYes;
		}
	}
	if (found == engine::graph::Found::kNo)
		found = graph_worker_build(writer, &read, &rows, insert ? &base : nullptr, measure, graph, &report);
	if (found == engine::graph::Found::kYes && !kept && (memory->codes == nullptr || measure))
		for (uint32 i = 0; i < report.n_entries; i++) // no others are needed
			graph_read_some(&read, memory->entries[i], 1, memory->vectors + memory->entries[i] * writer->vector_bytes);
	else if (!kept && found != engine::graph::Found::kCancelled)
		graph_read_rows(&read, part->n_rows);
	switch (found)
	{
		case engine::graph::Found::kYes:
			if (memory->codes != nullptr && !measure && !graph_make_codes(writer, &rows, false, memory->codes))
				return false;
			break;
		case engine::graph::Found::kCancelled:
			return false;
		case engine::graph::Found::kNo:
			if (!(insert ? insert_here(writer, spec, &rows, base, memory, &report)
						 : build_here(writer, spec, &rows, measure, memory, &report)))
				return false;
	}
	if (insert)
		inserted(writer, &base);
	part->n_entries = report.n_entries;
	add_entries(writer, part, memory);
	graph_take_edges(writer, part, memory->edges);
	if (memory->codes != nullptr)
		BufFileWrite(writer->codes, memory->codes,
			part->n_rows * engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim));
	return true;
}

} // namespace

void
graph_read_rows(PartRows *rows, uint64 end)
{
	const Size row_bytes = rows->writer->vector_bytes;

	if (end <= rows->n_read)
		return;
	read_vectors(
		rows->writer, rows->first_row + rows->n_read, end - rows->n_read, rows->vectors + rows->n_read * row_bytes);
	rows->n_read = end;
}

void
graph_read_some(const PartRows *rows, uint64 first, uint64 n, char *to)
{
	if (n > 0)
		read_vectors(rows->writer, rows->first_row + first, n, to);
}

uint32
graph_entry_count(const GraphWriter *writer, uint32 n_rows)
{
	return engine::graph::entry_count(n_rows, build_spec(writer));
}

void
graph_tell(const GraphWriter *writer)
{
	const BuildSpec spec = build_spec(writer);

	if (writer->model.n_parts == 1 || !writer->watch.report)
		return;
	ereport(NOTICE,
		(errmsg("index \"%s\" has %u graphs, because maintenance_work_mem has no room for one of all rows",
			 RelationGetRelationName(writer->plan.index), writer->model.n_parts),
			errdetail("Searches look at one after the other and take longer."),
			errhint("Set maintenance_work_mem to '" UINT64_FORMAT "MB', and rebuild the index.",
				part_bytes(writer, &spec, writer->n_rows) / (1024 * 1024) + 1)));
}

bool
graph_build_parts(GraphWriter *writer, uint32 degree)
{
	const uint32 code_bits = graph_options(writer->meta)->code_bits;
	BuildSpec spec;
	uint64 rows;
	uint64 n_parts;
	PartMemory memory;
	bool insert;

	writer->model = GraphModel();
	writer->model.code_bits = code_bits;
	writer->model.degree = degree;
	spec = build_spec(writer);
	if (writer->base != nullptr)
		graph_base_match(&writer->plan, writer->base, writer->vectors);
	insert = inserts(writer, &spec);
	if (!insert)
		graph_base_forget(&writer->base);
	rows = insert ? writer->n_rows : rows_per_part(writer, &spec);
	n_parts = (writer->n_rows + rows - 1) / rows;
	memory = take_memory(writer, &spec, rows,
		insert ? insert_work_bytes(writer, &spec)
			   : engine::graph::graph_build_bytes(rows_of_part(writer, nullptr, rows), measured_spec(&spec, rows)));
	writer->model.n_parts = static_cast<uint32>(n_parts);
	writer->parts = static_cast<GraphPart *>(MemoryContextAllocHuge(CurrentMemoryContext, n_parts * sizeof(GraphPart)));
	writer->entries = static_cast<uint32 *>(palloc(sizeof(uint32))); // these grow part by part
	writer->entry_vectors = static_cast<char *>(palloc(writer->vector_bytes));
	if (code_bits > 0)
	{
		writer->codes = BufFileCreateTemp(false);
		writer->code_floats = static_cast<float *>(
			palloc0(engine::graph::code_model_floats(code_bits, writer->meta->dim) * sizeof(float)));
		writer->entry_codes = static_cast<uint8 *>(palloc(engine::graph::code_bytes(code_bits, writer->meta->dim)));
	}
	for (uint64 i = 0; i < n_parts; i++)
	{
		GraphPart *part = &writer->parts[i];

		part->first_row = static_cast<uint32>(i * rows);
		part->n_rows = static_cast<uint32>(Min(rows, writer->n_rows - i * rows));
		if (!build_part(writer, &spec, insert, part, &memory))
			return false;
	}
	pfree(memory.vectors);
	if (writer->edges.held == nullptr)
		pfree(memory.edges);
	pfree(memory.work);
	if (memory.codes != nullptr)
		pfree(memory.codes);
	return true;
}

} // namespace vectorgpu::am

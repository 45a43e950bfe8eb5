// SegmentFormat of gpugraph: rows wait in a temporary file; when all have come, their graph is built and everything is
// written. Vectors are in TID order, as in plain segments. PG dialect.
#include "am/gpugraph/writer.hpp"

#include "pg/fault.hpp"
#include "storage/stream_run.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kMaxSegmentRows = engine::graph::kNoNode; // numbers of rows are stored in 32 bits

void *
format_begin(const SegmentPlan *plan)
{
	GraphWriter *writer = static_cast<GraphWriter *>(palloc0(sizeof(GraphWriter)));

	writer->plan = *plan;
	writer->meta = plan->meta;
	writer->watch = {plan->give_way, plan->give_way_state, plan->mode == WriteMode::kBulk};
	writer->vector_bytes = meta_vector_bytes(plan->meta);
	writer->memory = static_cast<Size>(maintenance_work_mem) * 1024;
	writer->vectors = BufFileCreateTemp(false);
	writer->base = graph_base_begin(&writer->plan);
	return writer;
}

[[noreturn]] void
too_many_rows(const GraphWriter *writer)
{
	ereport(ERROR,
		(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			errmsg("index \"%s\" cannot have more than " UINT64_FORMAT " rows in one segment",
				RelationGetRelationName(writer->plan.index), kMaxSegmentRows),
			errhint("Partition the table.")));
	pg_unreachable();
}

void
format_put(void *state, [[maybe_unused]] RowId row, const void *vector, const RowOrigin &origin)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);

	if (writer->n_rows == kMaxSegmentRows)
		too_many_rows(writer);
	BufFileWrite(writer->vectors, const_cast<void *>(vector), writer->vector_bytes);
	if (writer->base != nullptr)
		graph_base_row(writer->base, origin, writer->n_rows, vector, writer->vector_bytes);
	writer->n_rows++;
}

/// SegmentFormat::placed.
void
format_placed(void *state, const SegmentEntry *entry)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);

	if (entry->n_rows > kMaxSegmentRows)
		too_many_rows(writer);
	spool_close(&writer->vectors);
	writer->placed = *entry;
	writer->n_rows = entry->n_rows;
}

bool
format_prepare(void *state, SegmentEntry *entry)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);
	const auto set = [entry](StreamKind kind, uint64 n_bytes)
	{ entry->streams[static_cast<int>(kind)].n_bytes = n_bytes; };

	if (writer->n_rows == 0)
		return true;
	(void) VG_FAULT("graph_build");
	if (!graph_build(writer))
		return false;
	set(kGraphStream, sizeof(GraphModel));
	set(kPartStream, writer->model.n_parts * sizeof(GraphPart));
	set(kEntryStream, writer->model.n_entries * sizeof(uint32));
	set(kEntryVectorStream, writer->model.n_entries * writer->vector_bytes);
	set(kEdgeStream, writer->n_rows * writer->model.degree * sizeof(uint32));
	if (writer->model.code_bits > 0)
	{
		const Size code_bytes = engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim);

		set(kHashStream,
			graph_code_model_bytes(writer->model.code_bits, writer->meta->dim) + writer->model.n_entries * code_bytes);
		set(kCodeStream, writer->n_rows * code_bytes);
	}
	set(StreamKind::kVectors, writer->n_rows * writer->vector_bytes);
	return true;
}

/// kHashStream.
void
write_hash(StreamRun *run, const GraphWriter *writer)
{
	engine::GraphHashHead head;

	head.seed = writer->hash.spec.seed;
	head.bound = writer->hash.bound;
	stream_run_open(run, kHashStream);
	stream_write(&run->stream, &head, sizeof(head));
	stream_write(&run->stream, writer->code_floats,
		engine::graph::code_model_floats(writer->model.code_bits, writer->meta->dim) * sizeof(float));
	stream_write(&run->stream, writer->entry_codes,
		writer->model.n_entries * engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim));
	stream_run_close(run);
}

BlockNumber
format_write(void *state, SegmentEntry *entry, BlockNumber start)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);
	const GraphModel *model = &writer->model;
	StreamRun *run;

	if (writer->n_rows == 0)
		return start;
	run = static_cast<StreamRun *>(palloc0(sizeof(StreamRun)));
	stream_run_begin(run, &writer->plan, entry, start);
	graph_start_phase(writer, kPhaseWriteGraph);
	stream_run_write(run, kGraphStream, model, sizeof(*model));
	stream_run_write(run, kPartStream, writer->parts, model->n_parts * sizeof(GraphPart));
	stream_run_write(run, kEntryStream, writer->entries, model->n_entries * sizeof(uint32));
	stream_run_write(run, kEntryVectorStream, writer->entry_vectors, model->n_entries * writer->vector_bytes);
	(void) VG_FAULT("graph_write");
	if (model->code_bits > 0)
	{
		write_hash(run, writer);
		if (!stream_run_copy(run, kCodeStream, writer->codes,
				writer->n_rows * engine::graph::code_bytes(model->code_bits, writer->meta->dim), true))
			return InvalidBlockNumber;
	}
	if (!graph_write_edges(writer, run))
		return InvalidBlockNumber;
	if (writer->vectors != nullptr &&
		!stream_run_copy(run, StreamKind::kVectors, writer->vectors, writer->n_rows * writer->vector_bytes, true))
		return InvalidBlockNumber;
	return run->block;
}

void
format_end(void *state)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);

	spool_close(&writer->vectors);
	graph_free_edges(&writer->edges);
	spool_close(&writer->codes);
}

/// SegmentFormat::may_be_older: release 0.2 chose no degrees, had no RaBitQ here, and its models end
/// before the depths.
bool
may_be_older(const MetaData *meta, const SegmentEntry *segment)
{
	return graph_options(meta)->degree != 0 && !engine::graph::codes_are_rabitq(graph_options(meta)->code_bits) &&
		(segment == nullptr || segment->streams[static_cast<int>(kGraphStream)].n_bytes < sizeof(GraphModel));
}

} // namespace

const SegmentFormat kGraphFormat = {
	.begin = format_begin,
	.put = format_put,
	.placed = format_placed,
	.share = nullptr,
	.prepare = format_prepare,
	.write = format_write,
	.end = format_end,
	.read_vectors = nullptr,
	.matches = nullptr,
	.reads_back = nullptr,
	.check_entry = graph_check_entry,
	.check = graph_check,
	.version = kSegmentVersion, // release 0.2 would take the longer GraphModel for damage
	.may_be_older = may_be_older,
};

} // namespace vectorgpu::am

// SegmentFormat of gpugraph: rows wait in a temporary file; when all are there, their graph is built and everything is
// written. Vectors are in TID order, as in plain segments. PG dialect.
#include "am/gpugraph/writer.hpp"

#include "pg/fault.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kMaxSegmentRows = engine::graph::kNoNode; // numbers of rows are stored in 32 bits

[[noreturn]] void
spool_failed()
{
	ereport(ERROR, (errcode_for_file_access(), errmsg("could not read a temporary file of the index build")));
	pg_unreachable();
}

void
close_spool(BufFile **file)
{
	if (*file != nullptr)
		BufFileClose(*file);
	*file = nullptr;
}

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

void
format_put(void *state, [[maybe_unused]] RowId row, const void *vector, const RowOrigin &origin)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);

	if (writer->n_rows == kMaxSegmentRows)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("index \"%s\" cannot have more than " UINT64_FORMAT " rows in one segment",
					RelationGetRelationName(writer->plan.index), kMaxSegmentRows),
				errhint("Partition the table.")));
	BufFileWrite(writer->vectors, const_cast<void *>(vector), writer->vector_bytes);
	if (writer->base != nullptr)
		graph_base_row(writer->base, origin, writer->n_rows);
	writer->n_rows++;
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
	if (!graph_build_parts(writer))
		return false;
	set(kGraphStream, sizeof(GraphModel));
	set(kPartStream, writer->model.n_parts * sizeof(GraphPart));
	set(kEntryStream, writer->model.n_entries * sizeof(uint32));
	set(kEntryVectorStream, writer->model.n_entries * writer->vector_bytes);
	set(kEdgeStream, writer->n_rows * writer->model.degree * sizeof(uint32));
	if (writer->model.hash_bits > 0)
	{
		const Size code_bytes = engine::graph::hash_code_bytes(writer->model.hash_bits);

		set(kHashStream, graph_hash_bytes(writer->model.hash_bits) + writer->model.n_entries * code_bytes);
		set(kCodeStream, writer->n_rows * code_bytes);
	}
	set(StreamKind::kVectors, writer->n_rows * writer->vector_bytes);
	return true;
}

/// The streams of a segment, one behind the other.
struct StreamRun
{
	GraphWriter *writer;
	SegmentEntry *entry;
	BlockNumber block; // where the next stream begins
	StreamWriter stream;
	StreamKind kind;
};

void
begin_stream(StreamRun *run, StreamKind kind)
{
	const SegmentPlan *plan = &run->writer->plan;

	run->kind = kind;
	stream_write_begin(&run->stream, plan->index, plan->mode, plan->meta->uuid, run->entry->id, kind, run->block);
}

void
end_stream(StreamRun *run)
{
	StreamEntry *entry = &run->entry->streams[static_cast<int>(run->kind)];

	stream_write_end(&run->stream, entry);
	run->block += static_cast<BlockNumber>(stream_blocks(entry->n_bytes));
}

void
write_whole(StreamRun *run, StreamKind kind, const void *data, Size n_bytes)
{
	begin_stream(run, kind);
	stream_write(&run->stream, data, n_bytes);
	end_stream(run);
}

/// False: it gave way.
bool
write_spooled(StreamRun *run, StreamKind kind, BufFile *file, uint64 n_bytes)
{
	const SegmentPlan *plan = &run->writer->plan;
	char *chunk = static_cast<char *>(palloc(kPayloadBytes));

	graph_seek_spool(file, 0);
	begin_stream(run, kind);
	for (uint64 done = 0; done < n_bytes; done += kPayloadBytes)
	{
		const Size part = Min(kPayloadBytes, n_bytes - done);

		CHECK_FOR_INTERRUPTS();
		if (plan->give_way != nullptr && plan->give_way(plan->give_way_state))
			return false;
		graph_read_spool(file, chunk, part);
		stream_write(&run->stream, chunk, part);
	}
	end_stream(run);
	pfree(chunk);
	return true;
}

/// kHashStream.
void
write_hash(StreamRun *run)
{
	const GraphWriter *writer = run->writer;
	engine::GraphHashHead head;

	head.seed = writer->hash.spec.seed;
	head.bound = writer->hash.bound;
	begin_stream(run, kHashStream);
	stream_write(&run->stream, &head, sizeof(head));
	stream_write(&run->stream, writer->thresholds, writer->model.hash_bits * sizeof(float));
	stream_write(&run->stream, writer->entry_codes,
		writer->model.n_entries * engine::graph::hash_code_bytes(writer->model.hash_bits));
	end_stream(run);
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
	run->writer = writer;
	run->entry = entry;
	run->block = start;
	graph_start_phase(writer, kPhaseWriteGraph);
	write_whole(run, kGraphStream, model, sizeof(*model));
	write_whole(run, kPartStream, writer->parts, model->n_parts * sizeof(GraphPart));
	write_whole(run, kEntryStream, writer->entries, model->n_entries * sizeof(uint32));
	write_whole(run, kEntryVectorStream, writer->entry_vectors, model->n_entries * writer->vector_bytes);
	(void) VG_FAULT("graph_write");
	if (model->hash_bits > 0)
	{
		write_hash(run);
		if (!write_spooled(
				run, kCodeStream, writer->codes, writer->n_rows * engine::graph::hash_code_bytes(model->hash_bits)))
			return InvalidBlockNumber;
	}
	if (!write_spooled(run, kEdgeStream, writer->edges, writer->n_rows * model->degree * sizeof(uint32)) ||
		!write_spooled(run, StreamKind::kVectors, writer->vectors, writer->n_rows * writer->vector_bytes))
		return InvalidBlockNumber;
	return run->block;
}

void
format_end(void *state)
{
	GraphWriter *writer = static_cast<GraphWriter *>(state);

	close_spool(&writer->vectors);
	close_spool(&writer->edges);
	close_spool(&writer->codes);
}

} // namespace

void
graph_seek_spool(BufFile *file, uint64 byte)
{
	if (BufFileSeek(file, 0, static_cast<off_t>(byte), SEEK_SET) != 0)
		spool_failed();
}

void
graph_read_spool(BufFile *file, void *data, Size n_bytes)
{
	if (BufFileRead(file, data, n_bytes) != n_bytes)
		spool_failed();
}

const SegmentFormat kGraphFormat = {
	.begin = format_begin,
	.put = format_put,
	.prepare = format_prepare,
	.write = format_write,
	.end = format_end,
	.read_vectors = nullptr,
	.matches = nullptr,
	.check_entry = graph_check_entry,
	.check = graph_check,
};

} // namespace vectorgpu::am

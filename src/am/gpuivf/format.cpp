// SegmentFormat of gpuivf. Rows wait in a temporary file; when all are there, each is assigned to a list (with the model of
// the segment that the rows come from, or a new one), and the vectors are written list by list. What lies in a file is
// larger than memory may be: rows are first parted by ranges of lists that fit. PG dialect.
#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/writer.hpp"
#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kDrift = 1.2;  // a model is trained anew when rows lie so much further from the centroids than its own did
constexpr uint64 kMaxSegmentRows = PG_UINT32_MAX; // numbers of rows are stored in 32 bits
constexpr uint64 kLabelsPerRead = 2048;
constexpr Size kMinPartBytes = 1024 * 1024;
constexpr uint32 kMaxParts = 512; // each has a file with a buffer of a block

[[noreturn]] void
spool_failed()
{
	ereport(ERROR, (errcode_for_file_access(), errmsg("could not read a temporary file of the index build")));
	pg_unreachable();
}

void
read_spool(BufFile *file, void *data, Size n_bytes)
{
	if (BufFileRead(file, data, n_bytes) != n_bytes)
		spool_failed();
}

void
rewind_spool(BufFile *file)
{
	if (BufFileSeek(file, 0, 0, SEEK_SET) != 0)
		spool_failed();
}

void
close_spool(BufFile **file)
{
	if (*file != nullptr)
		BufFileClose(*file);
	*file = nullptr;
}

bool
gives_way(const IvfWriter *writer)
{
	CHECK_FOR_INTERRUPTS();
	return writer->watch.give_way != nullptr && writer->watch.give_way(writer->watch.give_way_state);
}

void
start_phase(const IvfWriter *writer, IvfBuildPhase phase)
{
	if (!writer->watch.report)
		return;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, phase);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(writer->n_rows));
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, 0);
}

void
report_rows(const IvfWriter *writer, uint64 n_done)
{
	if (writer->watch.report)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, static_cast<int64>(n_done));
}

void *
format_begin(const SegmentPlan *plan)
{
	IvfWriter *writer = static_cast<IvfWriter *>(palloc0(sizeof(IvfWriter)));

	writer->plan = *plan;
	writer->meta = plan->meta;
	writer->watch = {plan->give_way, plan->give_way_state, plan->mode == WriteMode::kBulk};
	writer->vector_bytes = meta_vector_bytes(plan->meta);
	writer->memory = static_cast<Size>(maintenance_work_mem) * 1024;
	writer->vectors = BufFileCreateTemp(false);
	return writer;
}

void
format_put(void *state, RowId row, const void *vector)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	if (writer->n_rows == kMaxSegmentRows)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("index \"%s\" cannot have more than " UINT64_FORMAT " rows in one segment",
					RelationGetRelationName(writer->plan.index), kMaxSegmentRows),
				errhint("Partition the table.")));
	BufFileWrite(writer->vectors, const_cast<void *>(vector), writer->vector_bytes);
	writer->n_rows++;
}

/// Assigns all rows: labels, offsets, mean_error. False: it gave way.
bool
assign_rows(IvfWriter *writer)
{
	uint64 *offsets = static_cast<uint64 *>(
		MemoryContextAllocExtended(CurrentMemoryContext, (writer->model.n_lists + Size{1}) * sizeof(uint64),
			MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	Assigner assigner;
	double error = 0;
	bool done = true;

	start_phase(writer, kPhaseAssign);
	close_spool(&writer->labels);
	writer->labels = BufFileCreateTemp(false);
	writer->offsets = offsets;
	assigner_begin(&assigner, writer->meta, writer->centroids, writer->model.n_lists);
	rewind_spool(writer->vectors);
	for (uint64 first = 0; done && first < writer->n_rows; first += assigner.batch_rows)
	{
		const uint64 n = Min(static_cast<uint64>(assigner.batch_rows), writer->n_rows - first);

		(void) VG_FAULT("ivf_assign");
		read_spool(writer->vectors, assigner.vectors, n * writer->vector_bytes);
		done = !gives_way(writer) && assigner_run(&assigner, n, writer->watch.give_way, writer->watch.give_way_state);
		for (uint64 i = 0; done && i < n; i++)
		{
			offsets[assigner.labels[i] + 1]++;
			error += assigner.scores[i];
		}
		BufFileWrite(writer->labels, assigner.labels, n * sizeof(uint32));
		report_rows(writer, first + n);
	}
	assigner_end(&assigner);
	for (uint32 i = 0; i < writer->model.n_lists; i++)
		offsets[i + 1] += offsets[i];
	writer->mean_error = error / static_cast<double>(writer->n_rows);
	return done;
}

bool
train_and_assign(IvfWriter *writer)
{
	(void) VG_FAULT("ivf_train");
	if (!ivf_train(writer) || !assign_rows(writer))
		return false;
	writer->model.mean_error = writer->mean_error;
	return ivf_calibrate(writer);
}

bool
format_prepare(void *state, SegmentEntry *entry)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);
	const uint32 dim = writer->meta->dim;
	bool done;

	if (writer->n_rows == 0)
		return true;
	if (ivf_take_model(writer))
	{
		done = assign_rows(writer);
		if (done && writer->mean_error > kDrift * writer->model.mean_error)
			done = train_and_assign(writer);
	}
	else
		done = train_and_assign(writer);
	if (!done)
		return false;
	entry->streams[static_cast<int>(kModelStream)].n_bytes = sizeof(IvfModel);
	entry->streams[static_cast<int>(kCentroidStream)].n_bytes =
		static_cast<uint64>(writer->model.n_lists) * dim * sizeof(float);
	entry->streams[static_cast<int>(kOffsetStream)].n_bytes = (writer->model.n_lists + UINT64CONST(1)) * sizeof(uint64);
	entry->streams[static_cast<int>(StreamKind::kVectors)].n_bytes = writer->n_rows * writer->vector_bytes;
	entry->streams[static_cast<int>(kListRowStream)].n_bytes = writer->n_rows * sizeof(uint32);
	entry->streams[static_cast<int>(kPlaceStream)].n_bytes = writer->n_rows * sizeof(uint32);
	return true;
}

/// The stream writer of a segment, stream after stream.
struct StreamRun
{
	IvfWriter *writer;
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
	run->block += stream_blocks(entry->n_bytes);
}

void
write_whole(StreamRun *run, StreamKind kind, const void *data, Size n_bytes)
{
	begin_stream(run, kind);
	stream_write(&run->stream, data, n_bytes);
	end_stream(run);
}

/// A range of lists that is put in order in memory. One list that is larger than that needs no order: it comes in it.
struct Part
{
	uint32 first_list;
	uint32 end_list;
	BufFile *file; // records: number of the row, its list, its vector; null: there is but one part
};

struct Parts
{
	uint32 n;
	Part *parts;
	uint32 *part_of_list;
};

/// Cuts the lists into ranges that fit half of the memory.
void
plan_parts(const IvfWriter *writer, Parts *parts)
{
	const Size limit = Max(Max(writer->memory / 2, kMinPartBytes), writer->n_rows * writer->vector_bytes / kMaxParts);
	const uint64 rows_per_part = Max(limit / (writer->vector_bytes + sizeof(uint32)), UINT64CONST(1));
	uint32 capacity = kMaxParts * 2 + 2; // two parts in a row hold more than rows_per_part
	uint64 part_rows = 0;

	parts->n = 0;
	parts->parts = static_cast<Part *>(palloc0(capacity * sizeof(Part)));
	parts->part_of_list = static_cast<uint32 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, writer->model.n_lists * sizeof(uint32)));
	for (uint32 list = 0; list < writer->model.n_lists; list++)
	{
		const uint64 rows = writer->offsets[list + 1] - writer->offsets[list];

		if (list == 0 || part_rows + rows > rows_per_part)
		{
			Assert(parts->n < capacity);
			parts->parts[parts->n++].first_list = list;
			part_rows = 0;
		}
		part_rows += rows;
		parts->parts[parts->n - 1].end_list = list + 1;
		parts->part_of_list[list] = parts->n - 1;
	}
}

/// One pass over the rows that puts each into the file of its part. False: it gave way.
bool
distribute(IvfWriter *writer, Parts *parts)
{
	uint32 labels[kLabelsPerRead];
	char *vector = static_cast<char *>(palloc(writer->vector_bytes));

	for (uint32 i = 0; i < parts->n; i++)
		parts->parts[i].file = BufFileCreateTemp(false);
	rewind_spool(writer->vectors);
	rewind_spool(writer->labels);
	for (uint64 first = 0; first < writer->n_rows; first += kLabelsPerRead)
	{
		const uint64 n = Min(kLabelsPerRead, writer->n_rows - first);

		if (gives_way(writer))
			return false;
		read_spool(writer->labels, labels, n * sizeof(uint32));
		for (uint64 i = 0; i < n; i++)
		{
			BufFile *file = parts->parts[parts->part_of_list[labels[i]]].file;
			uint32 head[2] = {static_cast<uint32>(first + i), labels[i]};

			read_spool(writer->vectors, vector, writer->vector_bytes);
			BufFileWrite(file, head, sizeof(head));
			BufFileWrite(file, vector, writer->vector_bytes);
		}
	}
	pfree(vector);
	return true;
}

/// The next row of a part, in TID order.
void
next_of_part(IvfWriter *writer, const Part *part, uint64 i, uint32 *number, uint32 *label, char *vector)
{
	uint32 head[2];

	if (part->file == nullptr)
	{
		*number = static_cast<uint32>(i);
		read_spool(writer->labels, label, sizeof(*label));
		read_spool(writer->vectors, vector, writer->vector_bytes);
		return;
	}
	read_spool(part->file, head, sizeof(head));
	*number = head[0];
	*label = head[1];
	read_spool(part->file, vector, writer->vector_bytes);
}

/// Writes the vectors of a part, list by list, and notes the rows' numbers in the same order. False: it gave way.
bool
write_part(StreamRun *run, const Part *part)
{
	IvfWriter *writer = run->writer;
	const uint64 base = writer->offsets[part->first_list];
	const uint64 n = writer->offsets[part->end_list] - base;
	const bool in_order = part->end_list == part->first_list + 1;
	const uint64 n_held = in_order ? 1 : n;
	uint64 *next = static_cast<uint64 *>(MemoryContextAllocHuge(
		CurrentMemoryContext, (part->end_list - part->first_list) * sizeof(uint64)));
	char *vectors =
		static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, Max(n_held, 1) * writer->vector_bytes));
	uint32 *numbers =
		static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, Max(n_held, 1) * sizeof(uint32)));
	char *vector = static_cast<char *>(palloc(writer->vector_bytes));

	for (uint32 list = part->first_list; list < part->end_list; list++)
		next[list - part->first_list] = writer->offsets[list] - base;
	for (uint64 i = 0; i < n; i++)
	{
		uint32 number;
		uint32 label;
		uint64 place;

		if (i % kLabelsPerRead == 0 && gives_way(writer))
			return false;
		next_of_part(writer, part, i, &number, &label, vector);
		place = in_order ? 0 : next[label - part->first_list]++;
		numbers[place] = number;
		memcpy(vectors + place * writer->vector_bytes, vector, writer->vector_bytes);
		if (in_order)
		{
			stream_write(&run->stream, vectors, writer->vector_bytes);
			BufFileWrite(writer->list_rows, numbers, sizeof(uint32));
		}
	}
	if (!in_order)
	{
		stream_write(&run->stream, vectors, n * writer->vector_bytes);
		BufFileWrite(writer->list_rows, numbers, n * sizeof(uint32));
	}
	report_rows(writer, base + n);
	pfree(next);
	pfree(vectors);
	pfree(numbers);
	pfree(vector);
	return true;
}

/// kVectors, and list_rows filled. False: it gave way.
bool
write_vectors(StreamRun *run)
{
	IvfWriter *writer = run->writer;
	Parts parts;
	bool done = true;

	start_phase(writer, kPhaseWriteLists);
	writer->list_rows = BufFileCreateTemp(false);
	plan_parts(writer, &parts);
	if (parts.n > 1)
		done = distribute(writer, &parts);
	else
	{
		rewind_spool(writer->vectors);
		rewind_spool(writer->labels);
	}
	begin_stream(run, StreamKind::kVectors);
	for (uint32 i = 0; i < parts.n; i++)
	{
		(void) VG_FAULT("ivf_write_part");
		if (done && parts.parts[i].file != nullptr)
			rewind_spool(parts.parts[i].file);
		done = done && write_part(run, &parts.parts[i]);
		close_spool(&parts.parts[i].file);
	}
	if (done)
		end_stream(run);
	return done;
}

void
write_spooled(StreamRun *run, StreamKind kind, BufFile *file, uint64 n_bytes)
{
	char *chunk = static_cast<char *>(palloc(kPayloadBytes));

	rewind_spool(file);
	begin_stream(run, kind);
	for (uint64 done = 0; done < n_bytes; done += kPayloadBytes)
	{
		const Size part = Min(kPayloadBytes, n_bytes - done);

		read_spool(file, chunk, part);
		stream_write(&run->stream, chunk, part);
	}
	end_stream(run);
	pfree(chunk);
}

/// Within a list rows are in TID order, so that one pass over the labels in that order gives each row its place.
void
write_places(StreamRun *run)
{
	IvfWriter *writer = run->writer;
	const Size n_bytes = writer->model.n_lists * sizeof(uint64);
	uint64 *next = static_cast<uint64 *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	uint32 labels[kLabelsPerRead];

	memcpy(next, writer->offsets, n_bytes);
	rewind_spool(writer->labels);
	begin_stream(run, kPlaceStream);
	for (uint64 first = 0; first < writer->n_rows; first += kLabelsPerRead)
	{
		const uint64 n = Min(kLabelsPerRead, writer->n_rows - first);

		read_spool(writer->labels, labels, n * sizeof(uint32));
		for (uint64 i = 0; i < n; i++)
			labels[i] = static_cast<uint32>(next[labels[i]]++);
		stream_write(&run->stream, labels, n * sizeof(uint32));
	}
	end_stream(run);
	pfree(next);
}

BlockNumber
format_write(void *state, SegmentEntry *entry, BlockNumber start)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);
	StreamRun *run = static_cast<StreamRun *>(palloc0(sizeof(StreamRun)));

	if (writer->n_rows == 0)
		return start;
	run->writer = writer;
	run->entry = entry;
	run->block = start;
	write_whole(run, kModelStream, &writer->model, sizeof(writer->model));
	write_whole(run, kCentroidStream, writer->centroids,
		static_cast<Size>(writer->model.n_lists) * writer->meta->dim * sizeof(float));
	write_whole(run, kOffsetStream, writer->offsets, (writer->model.n_lists + Size{1}) * sizeof(uint64));
	if (!write_vectors(run))
		return InvalidBlockNumber;
	write_spooled(run, kListRowStream, writer->list_rows, writer->n_rows * sizeof(uint32));
	write_places(run);
	return run->block;
}

void
format_end(void *state)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	close_spool(&writer->vectors);
	close_spool(&writer->labels);
	close_spool(&writer->list_rows);
}

} // namespace

void
ivf_read_spooled(IvfWriter *writer, uint64 first, uint64 n, char *vectors)
{
	if (BufFileSeek(writer->vectors, 0, static_cast<off_t>(first * writer->vector_bytes), SEEK_SET) != 0)
		spool_failed();
	read_spool(writer->vectors, vectors, n * writer->vector_bytes);
}

const char *
ivf_phase_name(int64 phase)
{
	switch (phase)
	{
		case kPhaseTrain:
			return "training lists";
		case kPhaseAssign:
			return "assigning rows to lists";
		case kPhaseCalibrate:
			return "measuring recall";
		case kPhaseWriteLists:
			return "writing lists";
		default:
			return nullptr;
	}
}

const SegmentFormat kIvfFormat = {
	.begin = format_begin,
	.put = format_put,
	.prepare = format_prepare,
	.write = format_write,
	.end = format_end,
	.read_vectors = ivf_read_vectors,
	.check_entry = ivf_check_entry,
	.check = ivf_check,
};

} // namespace vectorgpu::am

// Writing a segment of gpuivf: rows are put in the order of their lists, and their data goes to its streams: from
// memory, if all rows are there. Files may be larger than memory: rows are first parted by ranges of lists that fit. PG
// dialect.
#include "am/gpuivf/list_writers.hpp"
#include "pg/fault.hpp"
#include "storage/stream_run.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kLabelsPerRead = 2048;
constexpr Size kMinPartBytes = 1024 * 1024;
constexpr uint32 kMaxParts = 512; // each has a file with a buffer of a block
constexpr uint64 kBlockRows = engine::ivf::kCodeBlockRows;

/// The streams of a segment, and the writer that they come from.
struct ListRun
{
	IvfWriter *writer;
	StreamRun streams;
	uint32 *order; // [n_rows] numbers of the rows by place, if rows and codes are in memory; else null
	ListWriters writers;
};

/// A range of lists that is put in order in memory. A single list that is larger needs no sort: its rows come in order.
struct Part
{
	uint32 first_list;
	uint32 end_list;
	BufFile *file; // records: number of the row, its list, its stored data; null: there is only one part
};

struct Parts
{
	uint32 n;
	Part *parts;
	uint32 *part_of_list;
};

/// Bytes of a row's stored data: its vector, if vectors are kept, its code, its term.
Size
stored_bytes(const IvfWriter *writer)
{
	return writer->layout.kept_bytes + writer->coded_bytes;
}

/// Reads the stored data of the next row, in TID order. Rows and codes are in files.
void
read_row(IvfWriter *writer, char *row)
{
	if (writer->layout.kept_bytes > 0)
		spool_read(writer->vectors.file, row, writer->vector_bytes);
	if (writer->coded_bytes > 0)
		spool_read(writer->codes.file, row + writer->layout.kept_bytes, writer->coded_bytes);
}

void
rewind_rows(IvfWriter *writer)
{
	spool_seek(writer->vectors.file, 0);
	spool_seek(writer->labels, 0);
	if (writer->coded_bytes > 0)
		spool_seek(writer->codes.file, 0);
}

/// Cuts the lists into ranges that fit half of the memory.
void
plan_parts(const IvfWriter *writer, Parts *parts)
{
	const Size row_bytes = stored_bytes(writer) + sizeof(uint32);
	const Size limit = Max(Max(writer->memory / 2, kMinPartBytes), writer->n_rows * row_bytes / kMaxParts);
	const uint64 rows_per_part = Max(limit / row_bytes, UINT64CONST(1));
	uint32 capacity = kMaxParts * 2 + 2; // two parts in a row hold more than rows_per_part
	uint64 part_rows = 0;

	parts->n = 0;
	parts->parts = static_cast<Part *>(palloc0(capacity * sizeof(Part)));
	parts->part_of_list =
		static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, writer->model.n_lists * sizeof(uint32)));
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
	const Size row_bytes = stored_bytes(writer);
	uint32 labels[kLabelsPerRead];
	char *row = static_cast<char *>(palloc(row_bytes));

	for (uint32 i = 0; i < parts->n; i++)
		parts->parts[i].file = BufFileCreateTemp(false);
	rewind_rows(writer);
	for (uint64 first = 0; first < writer->n_rows; first += kLabelsPerRead)
	{
		const uint64 n = Min(kLabelsPerRead, writer->n_rows - first);

		if (ivf_gives_way(writer))
			return false;
		spool_read(writer->labels, labels, n * sizeof(uint32));
		for (uint64 i = 0; i < n; i++)
		{
			BufFile *file = parts->parts[parts->part_of_list[labels[i]]].file;
			uint32 head[2] = {static_cast<uint32>(first + i), labels[i]};

			read_row(writer, row);
			BufFileWrite(file, head, sizeof(head));
			BufFileWrite(file, row, row_bytes);
		}
	}
	pfree(row);
	return true;
}

/// Reads the next row of a part, in TID order.
void
next_of_part(IvfWriter *writer, const Part *part, uint64 i, uint32 *number, uint32 *label, char *row)
{
	uint32 head[2];

	if (part->file == nullptr)
	{
		*number = static_cast<uint32>(i);
		spool_read(writer->labels, label, sizeof(*label));
		read_row(writer, row);
		return;
	}
	spool_read(part->file, head, sizeof(head));
	*number = head[0];
	*label = head[1];
	spool_read(part->file, row, stored_bytes(writer));
}

/// Writes ordered rows [n]: vectors to their stream, codes and numbers to files.
void
put_rows(ListRun *run, const char *rows, const uint32 *numbers, uint64 n)
{
	IvfWriter *writer = run->writer;
	const Size row_bytes = stored_bytes(writer);
	const Size kept_bytes = writer->layout.kept_bytes;

	BufFileWrite(writer->list_rows, const_cast<uint32 *>(numbers), n * sizeof(uint32));
	if (writer->coded_bytes == 0)
	{
		stream_write(&run->streams.stream, rows, n * row_bytes);
		return;
	}
	for (uint64 i = 0; i < n; i++)
	{
		if (kept_bytes > 0)
			stream_write(&run->streams.stream, rows + i * row_bytes, kept_bytes);
		BufFileWrite(writer->ordered_codes, const_cast<char *>(rows) + i * row_bytes + kept_bytes, writer->coded_bytes);
	}
}

/// Writes the rows of a part, list by list. False: it gave way.
bool
write_part(ListRun *run, const Part *part)
{
	IvfWriter *writer = run->writer;
	const Size row_bytes = stored_bytes(writer);
	const uint64 base = writer->offsets[part->first_list];
	const uint64 n = writer->offsets[part->end_list] - base;
	const bool in_order = part->end_list == part->first_list + 1;
	const uint64 n_held = Max(in_order ? 1 : n, 1);
	uint64 *next = static_cast<uint64 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (part->end_list - part->first_list) * sizeof(uint64)));
	char *rows = static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, n_held * row_bytes));
	uint32 *numbers = static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, n_held * sizeof(uint32)));
	char *row = static_cast<char *>(palloc(row_bytes));

	for (uint32 list = part->first_list; list < part->end_list; list++)
		next[list - part->first_list] = writer->offsets[list] - base;
	for (uint64 i = 0; i < n; i++)
	{
		uint32 number;
		uint32 label;
		uint64 place;

		if (i % kLabelsPerRead == 0 && ivf_gives_way(writer))
			return false;
		next_of_part(writer, part, i, &number, &label, row);
		place = in_order ? 0 : next[label - part->first_list]++;
		numbers[place] = number;
		memcpy(rows + place * row_bytes, row, row_bytes);
		if (in_order)
			put_rows(run, rows, numbers, 1);
	}
	if (!in_order)
		put_rows(run, rows, numbers, n);
	ivf_report_rows(writer, base + n);
	pfree(next);
	pfree(rows);
	pfree(numbers);
	pfree(row);
	return true;
}

/// The same as all parts, of rows in memory. False: it gave way.
bool
write_from_memory(ListRun *run)
{
	IvfWriter *writer = run->writer;
	const Size kept_bytes = writer->layout.kept_bytes;

	for (uint64 i = 0; i < writer->n_rows; i++)
	{
		if (i % kLabelsPerRead == 0)
		{
			if (ivf_gives_way(writer))
				return false;
			ivf_report_rows(writer, i);
		}
		if (kept_bytes > 0)
			stream_write(&run->streams.stream, row_store_row(&writer->vectors, run->order[i]), kept_bytes);
	}
	return true;
}

/// The rows of files, part by part. False: it gave way.
bool
write_parts(ListRun *run)
{
	IvfWriter *writer = run->writer;
	Parts parts;
	bool done = true;

	writer->list_rows = BufFileCreateTemp(false);
	if (writer->coded_bytes > 0)
		writer->ordered_codes = BufFileCreateTemp(false);
	row_store_spill(&writer->vectors);
	if (writer->coded_bytes > 0)
		row_store_spill(&writer->codes);
	plan_parts(writer, &parts);
	if (parts.n > 1)
		done = distribute(writer, &parts);
	else
		rewind_rows(writer);
	for (uint32 i = 0; i < parts.n; i++)
	{
		(void) VG_FAULT("ivf_write_part");
		if (done && parts.parts[i].file != nullptr)
			spool_seek(parts.parts[i].file, 0);
		done = done && write_part(run, &parts.parts[i]);
		spool_close(&parts.parts[i].file);
	}
	return done;
}

/// Writes kVectors, if vectors are kept, or has workers begin with it; fills list_rows and ordered_codes. False: it
/// gave way.
bool
write_rows(ListRun *run)
{
	IvfWriter *writer = run->writer;
	bool done;

	ivf_start_phase(writer, kPhaseWriteLists);
	if (ivf_are_in_memory(writer, 0))
		run->order = ivf_order_rows(writer);
	if (run->order != nullptr && ivf_begin_list_writers(&run->writers, writer, &run->streams, run->order))
		return true;
	if (writer->layout.kept_bytes > 0)
		stream_run_open(&run->streams, StreamKind::kVectors);
	done = run->order != nullptr ? write_from_memory(run) : write_parts(run);
	if (done && writer->layout.kept_bytes > 0)
		stream_run_close(&run->streams);
	return done;
}

/// Reads the codes of the next n places into rows [n, coded_bytes], from place `first` on.
void
next_codes(ListRun *run, uint64 first, uint64 n, char *rows)
{
	const Size coded_bytes = run->writer->coded_bytes;

	if (run->order == nullptr)
	{
		spool_read(run->writer->ordered_codes, rows, n * coded_bytes);
		return;
	}
	for (uint64 i = 0; i < n; i++)
		memcpy(rows + i * coded_bytes, row_store_row(&run->writer->codes, run->order[first + i]), coded_bytes);
}

/// kCodeStream of codes that lie row by row.
void
write_plain_codes(ListRun *run)
{
	const IvfWriter *writer = run->writer;

	if (run->order == nullptr)
	{
		(void) stream_run_copy(
			&run->streams, kCodeStream, writer->ordered_codes, writer->n_rows * writer->coded_bytes, false);
		return;
	}
	stream_run_open(&run->streams, kCodeStream);
	for (uint64 i = 0; i < writer->n_rows; i++)
		stream_write(&run->streams.stream, row_store_row(&writer->codes, run->order[i]), writer->coded_bytes);
	stream_run_close(&run->streams);
}

/// kCodeStream of codes that lie in blocks, and kRowTermStream.
void
write_code_blocks(ListRun *run)
{
	IvfWriter *writer = run->writer;
	const Size code_bytes = writer->layout.code_bytes;
	const Size coded_bytes = writer->coded_bytes;
	BufFile *terms = writer->layout.row_terms ? BufFileCreateTemp(false) : nullptr;
	char *rows = static_cast<char *>(palloc(kBlockRows * coded_bytes));
	uint8 *codes = static_cast<uint8 *>(palloc(kBlockRows * code_bytes));
	uint8 *block = static_cast<uint8 *>(palloc(kBlockRows * code_bytes));

	if (run->order == nullptr)
		spool_seek(writer->ordered_codes, 0);
	stream_run_open(&run->streams, kCodeStream);
	for (uint64 first = 0; first < writer->n_rows; first += kBlockRows)
	{
		const uint64 n = Min(kBlockRows, writer->n_rows - first);

		next_codes(run, first, n, rows);
		for (uint64 i = 0; i < n; i++)
		{
			memcpy(codes + i * code_bytes, rows + i * coded_bytes, code_bytes);
			if (terms != nullptr)
				BufFileWrite(terms, rows + i * coded_bytes + code_bytes, sizeof(float));
		}
		engine::ivf::code_make_blocks(writer->layout.codes, codes, n, block);
		stream_write(&run->streams.stream, block, kBlockRows * code_bytes);
	}
	stream_run_close(&run->streams);
	if (terms != nullptr)
		(void) stream_run_copy(&run->streams, kRowTermStream, terms, writer->n_rows * sizeof(float), false);
	spool_close(&terms);
	pfree(rows);
	pfree(codes);
	pfree(block);
}

/// kRowTermStream of codes that workers write.
void
write_terms(ListRun *run)
{
	const IvfWriter *writer = run->writer;

	stream_run_open(&run->streams, kRowTermStream);
	for (uint64 i = 0; i < writer->n_rows; i++)
		stream_write(&run->streams.stream, row_store_row(&writer->codes, run->order[i]) + writer->layout.code_bytes,
			sizeof(float));
	stream_run_close(&run->streams);
}

/// kCodeStream, if there are codes, and kRowTermStream.
void
write_codes(ListRun *run)
{
	const IvfLayout *layout = &run->writer->layout;

	if (run->writers.shared != nullptr && ivf_shares_codes(run->writer))
	{
		if (layout->row_terms)
			write_terms(run);
	}
	else if (engine::ivf::code_unit_rows(layout->codes) > 1)
		write_code_blocks(run);
	else if (has_codes(layout))
		write_plain_codes(run);
}

/// Within a list rows are in TID order, so that one pass over the labels in that order gives each row its place.
void
write_places(ListRun *run)
{
	IvfWriter *writer = run->writer;
	const Size n_bytes = writer->model.n_lists * sizeof(uint64);
	uint64 *next = static_cast<uint64 *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	uint32 labels[kLabelsPerRead];

	memcpy(next, writer->offsets, n_bytes);
	spool_seek(writer->labels, 0);
	stream_run_open(&run->streams, kPlaceStream);
	for (uint64 first = 0; first < writer->n_rows; first += kLabelsPerRead)
	{
		const uint64 n = Min(kLabelsPerRead, writer->n_rows - first);

		spool_read(writer->labels, labels, n * sizeof(uint32));
		for (uint64 i = 0; i < n; i++)
			labels[i] = static_cast<uint32>(next[labels[i]]++);
		stream_write(&run->streams.stream, labels, n * sizeof(uint32));
	}
	stream_run_close(&run->streams);
	pfree(next);
}

/// Calibrates a model that is still to be calibrated. False: it gave way, without parallel workers.
bool
calibrate_beside(IvfWriter *writer)
{
	if (writer->queries.n == 0)
		return true;
	if (!ivf_calibrate(writer))
		return false;
	worker_build_end(writer);
	ivf_start_phase(writer, kPhaseWriteLists);
	return true;
}

/// The streams that follow kVectors.
void
write_other_streams(ListRun *run)
{
	IvfWriter *writer = run->writer;

	if (run->order != nullptr)
		stream_run_write(&run->streams, kListRowStream, run->order, writer->n_rows * sizeof(uint32));
	else
		(void) stream_run_copy(
			&run->streams, kListRowStream, writer->list_rows, writer->n_rows * sizeof(uint32), false);
	write_places(run);
	write_codes(run);
	if (writer->layout.codec_floats > 0)
		stream_run_write(
			&run->streams, kCodecStream, writer->codec.floats, writer->layout.codec_floats * sizeof(float));
}

} // namespace

bool
ivf_are_in_memory(const IvfWriter *writer, Size others)
{
	const Size held = row_store_held(&writer->vectors) + row_store_held(&writer->codes);

	return row_store_in_memory(&writer->vectors) && (writer->coded_bytes == 0 || row_store_in_memory(&writer->codes)) &&
		held + writer->n_rows * sizeof(uint32) + others <= writer->memory;
}

uint32 *
ivf_order_rows(IvfWriter *writer)
{
	const Size n_bytes = writer->model.n_lists * sizeof(uint64);
	uint64 *next = static_cast<uint64 *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	uint32 *order =
		static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, writer->n_rows * sizeof(uint32)));
	uint32 labels[kLabelsPerRead];

	memcpy(next, writer->offsets, n_bytes);
	spool_seek(writer->labels, 0);
	for (uint64 first = 0; first < writer->n_rows; first += kLabelsPerRead)
	{
		const uint64 n = Min(kLabelsPerRead, writer->n_rows - first);

		spool_read(writer->labels, labels, n * sizeof(uint32));
		for (uint64 i = 0; i < n; i++)
			order[next[labels[i]]++] = static_cast<uint32>(first + i);
	}
	pfree(next);
	return order;
}

BlockNumber
ivf_write_lists(IvfWriter *writer, SegmentEntry *entry, BlockNumber start)
{
	ListRun *run = static_cast<ListRun *>(palloc0(sizeof(ListRun)));

	run->writer = writer;
	stream_run_begin(&run->streams, &writer->plan, entry, start);
	stream_run_write(&run->streams, kCentroidStream, writer->centroids,
		static_cast<Size>(writer->model.n_lists) * writer->meta->dim * sizeof(float));
	stream_run_write(&run->streams, kOffsetStream, writer->offsets, (writer->model.n_lists + Size{1}) * sizeof(uint64));
	if (!write_rows(run) || !calibrate_beside(writer))
		return InvalidBlockNumber;
	write_other_streams(run);
	ivf_end_list_writers(&run->writers);
	ivf_report_rows(writer, writer->n_rows);
	stream_run_write(&run->streams, kModelStream, &writer->model, sizeof(writer->model));
	return run->streams.block;
}

} // namespace vectorgpu::am

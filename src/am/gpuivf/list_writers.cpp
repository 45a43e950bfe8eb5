// See list_writers.hpp. The rows lie in files that the processes of the scan have written (SegmentFormat::share), and
// so do their codes, if there are any, which the leader has written. The leader puts the order of the rows behind them
// and extends the index by the streams' pages. Then every process takes ranges of pages from a shared counter, the
// leader when its other work is done: it measures recall and writes the other streams behind these pages. Processes
// wait for the last page and for the leader's other work, which reads rows and codes, and then free the files together.
#include "am/gpuivf/list_writers.hpp"

#include "am/build/build_context.hpp"
#include "pg/fault.hpp"
#include "storage/row_file.hpp"

#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kRangePages = 128;
constexpr uint64 kLeastPages = 1024; // of vectors, for which workers are started
constexpr uint64 kKeyLists = 1;
constexpr uint64 kBlockRows = engine::ivf::kCodeBlockRows;

/// A stream that is written by ranges of pages, from rows in files.
struct SharedStream
{
	StreamKind kind;
	BlockNumber start_block;
	uint64 n_bytes; // 0: no such stream
	uint64 n_ranges;
	Size row_bytes;  // of a row in the files
	Size file_bytes; // of the files
	RowPaths paths;
};

} // namespace

/// In the parallel context's shared memory.
struct SharedLists
{
	Oid index;
	bool logged;
	IndexUuid uuid;
	uint32 segment;
	uint64 n_rows;
	SharedStream vectors; // its files have the order of the rows, too,
	uint64 order_byte;    // ... from this byte on
	SharedStream codes;
	engine::ivf::CodeSpec code_spec;
	Size code_bytes; // of a code, which codes.row_bytes begin with
	uint64 n_pages;  // of both streams
	pg_atomic_uint64 next_range;
	pg_atomic_uint64 n_left; // pages that are not written yet, and one for the leader's other work
	ConditionVariable none_left;
	int n_processes; // that were asked for
};

namespace
{

/// Rows, their codes and their order, in the files' memory.
struct OrderedRows
{
	const char *rows;
	const char *codes;
	const uint32 *order;
};

/// The range to write as number n: neighbours go to different files of the index, since a writer of a file keeps
/// others out.
uint64
range_by_turns(const SharedLists *shared, uint64 n)
{
	const uint64 n_ranges = shared->vectors.n_ranges + shared->codes.n_ranges;
	const uint64 n_files = shared->n_pages / RELSEG_SIZE + 1;
	const uint64 longer = n_ranges % n_files; // files with one range more
	const uint64 file = n % n_files;

	return file * (n_ranges / n_files) + Min(file, longer) + n / n_files;
}

/// Write bytes [begin, end) of rows [row_bytes] that follow each other by place.
void
write_rows(StreamWriter *stream, const char *rows, Size row_bytes, const uint32 *order, uint64 begin, uint64 end)
{
	for (uint64 byte = begin; byte < end;)
	{
		const Size skipped = byte % row_bytes;
		const Size part = Min(row_bytes - skipped, end - byte);

		stream_write(stream, rows + order[byte / row_bytes] * row_bytes + skipped, part);
		byte += part;
	}
}

/// Write bytes [begin, end) of the blocks of codes, which are made for this.
void
write_blocks(const SharedLists *shared, StreamWriter *stream, const OrderedRows &rows, uint64 begin, uint64 end)
{
	const Size code_bytes = shared->code_bytes;
	const Size block_bytes = kBlockRows * code_bytes;
	uint8 *codes = static_cast<uint8 *>(palloc(block_bytes));
	uint8 *block = static_cast<uint8 *>(palloc(block_bytes));

	for (uint64 byte = begin; byte < end;)
	{
		const uint64 first = byte / block_bytes * kBlockRows;
		const uint64 n = Min(kBlockRows, shared->n_rows - first);
		const Size skipped = byte % block_bytes;
		const Size part = Min(block_bytes - skipped, end - byte);

		for (uint64 i = 0; i < n; i++)
			memcpy(codes + i * code_bytes, rows.codes + rows.order[first + i] * shared->codes.row_bytes, code_bytes);
		engine::ivf::code_make_blocks(shared->code_spec, codes, n, block);
		stream_write(stream, block + skipped, part);
		byte += part;
	}
	pfree(codes);
	pfree(block);
}

/// Write pages [first, first + n) of a stream, the last of which may have less than a page's bytes.
void
write_range(
	const SharedLists *shared, const SharedStream *to, Relation index, const OrderedRows &rows, uint64 first, uint64 n)
{
	const uint64 begin = first * kPayloadBytes;
	const uint64 end = Min((first + n) * kPayloadBytes, to->n_bytes);
	StreamWriter stream;

	(void) VG_FAULT("ivf_write_range");
	stream_write_part_begin(&stream, index, shared->logged, shared->uuid, shared->segment, to->kind, to->start_block,
		static_cast<uint32>(first));
	if (to == &shared->vectors)
		write_rows(&stream, rows.rows, to->row_bytes, rows.order, begin, end);
	else if (engine::ivf::code_unit_rows(shared->code_spec) == 1)
		write_rows(&stream, rows.codes, to->row_bytes, rows.order, begin, end);
	else
		write_blocks(shared, &stream, rows, begin, end);
	stream_write_part_end(&stream);
}

/// Return what is left after n.
uint64
take_off(SharedLists *shared, uint64 n)
{
	const uint64 left = pg_atomic_sub_fetch_u64(&shared->n_left, static_cast<int64>(n));

	if (left == 0)
		ConditionVariableBroadcast(&shared->none_left);
	return left;
}

/// Write ranges until none is left. writer: for the progress that the leader reports; null in a worker.
void
write_ranges(SharedLists *shared, Relation index, const OrderedRows &rows, const IvfWriter *writer)
{
	for (;;)
	{
		uint64 range = pg_atomic_fetch_add_u64(&shared->next_range, 1);
		const SharedStream *to = &shared->vectors;
		uint64 n;

		if (range >= shared->vectors.n_ranges + shared->codes.n_ranges)
			return;
		range = range_by_turns(shared, range);
		if (range >= to->n_ranges)
		{
			range -= to->n_ranges;
			to = &shared->codes;
		}
		n = Min(static_cast<uint64>(kRangePages), stream_blocks(to->n_bytes) - range * kRangePages);
		write_range(shared, to, index, rows, range * kRangePages, n);
		n = take_off(shared, n);
		if (writer != nullptr)
			ivf_report_rows(writer, writer->n_rows * (shared->n_pages - n) / shared->n_pages);
	}
}

/// Wait until nothing is left; then free the files, as one of the processes: the leader is number 0.
void
free_files(SharedLists *shared, int number)
{
	ConditionVariablePrepareToSleep(&shared->none_left);
	while (pg_atomic_read_u64(&shared->n_left) > 0)
		ConditionVariableSleep(&shared->none_left, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	row_files_free(&shared->vectors.paths, number, shared->n_processes);
	if (shared->codes.n_bytes > 0)
		row_files_free(&shared->codes.paths, number, shared->n_processes);
}

/// Describe a stream at the run's next block, which moves behind it.
void
init_stream(SharedStream *stream, StreamRun *run, StreamKind kind, const RowStore *rows)
{
	const uint64 n_bytes = run->entry->streams[static_cast<int>(kind)].n_bytes;
	const uint64 n_pages = stream_blocks(n_bytes);

	stream->kind = kind;
	stream->start_block = run->block;
	stream->n_bytes = n_bytes;
	stream->n_ranges = (n_pages + kRangePages - 1) / kRangePages;
	stream->row_bytes = rows->row_bytes;
	stream->file_bytes = rows->n_rows * rows->row_bytes;
	row_store_paths(rows, &stream->paths);
	stream_run_reserve(run, kind, n_bytes);
}

/// Describe both streams, for which the index is extended, and put the order behind the rows.
void
init_shared(SharedLists *shared, const IvfWriter *writer, StreamRun *run, const uint32 *order)
{
	const Size order_bytes = writer->n_rows * sizeof(uint32);

	memset(static_cast<void *>(shared), 0, sizeof(*shared));
	shared->index = RelationGetRelid(writer->plan.index);
	shared->logged = RelationNeedsWAL(writer->plan.index);
	shared->uuid = writer->meta->uuid;
	shared->segment = run->entry->id;
	shared->n_rows = writer->n_rows;
	init_stream(&shared->vectors, run, StreamKind::kVectors, &writer->vectors);
	shared->order_byte = row_store_append_shared(&writer->vectors, order, order_bytes);
	shared->vectors.file_bytes = shared->order_byte + order_bytes;
	if (ivf_shares_codes(writer))
	{
		init_stream(&shared->codes, run, kCodeStream, &writer->codes);
		shared->code_spec = writer->layout.codes;
		shared->code_bytes = writer->layout.code_bytes;
	}
	shared->n_pages = stream_blocks(shared->vectors.n_bytes) + stream_blocks(shared->codes.n_bytes);
	stream_reserve(writer->plan.index, run->block - 1);
	pg_atomic_init_u64(&shared->next_range, 0);
	pg_atomic_init_u64(&shared->n_left, shared->n_pages + 1);
	ConditionVariableInit(&shared->none_left);
	shared->n_processes = writer->plan.n_workers + 1;
}

/// Start workers for what `plan` says, whose place in shared memory becomes `shared`. False: there is no shared memory
/// for them.
bool
start_workers(ListWriters *writers, const SharedLists *plan)
{
	const SegmentPlan *segment = &writers->writer->plan;
	ParallelContext *context;

	EnterParallelMode();
	context = CreateParallelContext("vectorgpu", "vectorgpu_list_writer_main", segment->n_workers);
	shm_toc_estimate_chunk(&context->estimator, sizeof(SharedLists));
	shm_toc_estimate_keys(&context->estimator, 1);
	build_context_estimate(context, segment->n_workers);
	InitializeParallelDSM(context);
	if (context->seg == nullptr)
	{
		DestroyParallelContext(context);
		ExitParallelMode();
		return false;
	}
	writers->context = context;
	writers->shared = static_cast<SharedLists *>(shm_toc_allocate(context->toc, sizeof(SharedLists)));
	memcpy(static_cast<void *>(writers->shared), plan, sizeof(*plan));
	shm_toc_insert(context->toc, kKeyLists, writers->shared);
	build_context_store(context, segment->n_workers);
	LaunchParallelWorkers(context);
	ereport(DEBUG1,
		(errmsg_internal("index \"%s\": using %d parallel workers to write the lists",
			RelationGetRelationName(segment->index), context->nworkers_launched)));
	return true;
}

const char *
map_stream(const SharedStream *stream)
{
	return stream->n_bytes > 0 ? row_files_map(&stream->paths, stream->file_bytes) : nullptr;
}

void
unmap_stream(const SharedStream *stream, const char *bytes)
{
	if (bytes != nullptr)
		row_files_unmap(const_cast<char *>(bytes), stream->file_bytes);
}

} // namespace

bool
ivf_writes_lists_beside(const IvfWriter *writer, Size others)
{
	return writer->plan.n_workers > 0 && writer->layout.kept_bytes > 0 &&
		writer->n_rows * writer->vector_bytes >= kLeastPages * kPayloadBytes && writer->vectors.mapped != nullptr &&
		ivf_are_in_memory(writer, others);
}

bool
ivf_shares_codes(const IvfWriter *writer)
{
	return writer->coded_bytes > 0 && writer->codes.mapped != nullptr;
}

bool
ivf_begin_list_writers(ListWriters *writers, IvfWriter *writer, StreamRun *run, const uint32 *order)
{
	SharedLists *plan;

	*writers = {writer, nullptr, nullptr, order};
	if (!ivf_writes_lists_beside(writer, 0))
		return false;
	plan = static_cast<SharedLists *>(palloc(sizeof(SharedLists)));
	init_shared(plan, writer, run, order);
	if (start_workers(writers, plan))
		pfree(plan);
	else
		writers->shared = plan;
	return true;
}

void
ivf_end_list_writers(ListWriters *writers)
{
	IvfWriter *writer = writers->writer;

	if (writers->shared == nullptr)
		return;
	(void) take_off(writers->shared, 1);
	write_ranges(writers->shared, writer->plan.index,
		{writer->vectors.mapped, ivf_shares_codes(writer) ? writer->codes.mapped : nullptr, writers->order}, writer);
	if (writers->context != nullptr)
	{
		free_files(writers->shared, 0);
		WaitForParallelWorkersToFinish(writers->context);
		build_context_collect(writers->context);
		DestroyParallelContext(writers->context);
		ExitParallelMode();
	}
	writers->shared = nullptr;
}

} // namespace vectorgpu::am

void
vectorgpu_list_writer_main(dsm_segment *, shm_toc *toc)
{
	using namespace vectorgpu::am;
	SharedLists *shared = static_cast<SharedLists *>(shm_toc_lookup(toc, kKeyLists, false));
	OrderedRows rows;
	Relation index;

	build_context_enter(toc);
	index = index_open(shared->index, AccessExclusiveLock); // the leader has it
	rows.rows = map_stream(&shared->vectors);
	rows.codes = map_stream(&shared->codes);
	rows.order = reinterpret_cast<const uint32 *>(rows.rows + shared->order_byte);
	write_ranges(shared, index, rows, nullptr);
	unmap_stream(&shared->vectors, rows.rows);
	unmap_stream(&shared->codes, rows.codes);
	index_close(index, NoLock);
	free_files(shared, ParallelWorkerNumber + 1);
	build_context_leave(toc);
}

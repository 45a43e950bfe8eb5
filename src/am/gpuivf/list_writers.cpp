// See list_writers.hpp. The rows lie in files that the processes of the scan have written (SegmentFormat::share); the
// leader puts their order behind them and extends the index to the last full page. Then every process takes ranges of
// pages from a shared counter, the leader when its other work is done: it measures recall and writes the other streams
// behind these pages. No process waits for another, but the leader for the end of the workers.
#include "am/gpuivf/list_writers.hpp"

#include "am/build/build_context.hpp"
#include "pg/fault.hpp"
#include "storage/row_file.hpp"

extern "C"
{
#include "access/xact.h"
#include "port/atomics.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kRangePages = 128;
constexpr uint64 kLeastPages = 1024; // for which workers are started
constexpr uint64 kKeyLists = 1;

} // namespace

/// In the parallel context's shared memory.
struct SharedLists
{
	Oid index;
	bool logged;
	IndexUuid uuid;
	uint32 segment;
	BlockNumber start_block;
	uint64 n_pages; // full ones
	Size row_bytes;
	uint64 n_rows;
	uint64 order_byte; // of the order, behind the rows,
	RowPaths paths;    // ... in these files
	uint64 n_ranges;
	pg_atomic_uint64 next_range;
	pg_atomic_uint64 n_written; // pages
};

namespace
{

/// Rows and their order, in the files' memory.
struct OrderedRows
{
	const char *rows;
	const uint32 *order;
};

/// The range to write as number n: neighbours go to different files of the index, since a writer of a file keeps
/// others out.
uint64
range_by_turns(const SharedLists *shared, uint64 n)
{
	const uint64 n_files = shared->n_pages / RELSEG_SIZE + 1;
	const uint64 longer = shared->n_ranges % n_files; // files with one range more
	const uint64 file = n % n_files;

	return file * (shared->n_ranges / n_files) + Min(file, longer) + n / n_files;
}

/// Write the pages [first, first + n).
void
write_range(const SharedLists *shared, Relation index, const OrderedRows &rows, uint64 first, uint64 n)
{
	const uint64 end = (first + n) * kPayloadBytes;
	StreamWriter stream;

	(void) VG_FAULT("ivf_write_range");
	stream_write_part_begin(&stream, index, shared->logged, shared->uuid, shared->segment, StreamKind::kVectors,
		shared->start_block, static_cast<uint32>(first));
	for (uint64 byte = first * kPayloadBytes; byte < end;)
	{
		const uint64 place = byte / shared->row_bytes;
		const Size skipped = byte % shared->row_bytes;
		const Size part = Min(shared->row_bytes - skipped, end - byte);

		stream_write(&stream, rows.rows + rows.order[place] * shared->row_bytes + skipped, part);
		byte += part;
	}
	stream_write_part_end(&stream);
}

/// Write ranges until none is left. writer: for the progress that the leader reports; null in a worker.
void
write_ranges(SharedLists *shared, Relation index, const OrderedRows &rows, const IvfWriter *writer)
{
	for (;;)
	{
		const uint64 range = pg_atomic_fetch_add_u64(&shared->next_range, 1);
		uint64 first;
		uint64 n;

		if (range >= shared->n_ranges)
			return;
		first = range_by_turns(shared, range) * kRangePages;
		n = Min(static_cast<uint64>(kRangePages), shared->n_pages - first);
		write_range(shared, index, rows, first, n);
		n += pg_atomic_fetch_add_u64(&shared->n_written, n);
		if (writer != nullptr)
			ivf_report_rows(writer, n * kPayloadBytes / shared->row_bytes);
	}
}

void
init_shared(SharedLists *shared, const IvfWriter *writer, const StreamWriter *stream, uint64 n_pages)
{
	memset(shared, 0, sizeof(*shared));
	shared->index = RelationGetRelid(writer->plan.index);
	shared->logged = stream->logged;
	shared->uuid = stream->uuid;
	shared->segment = stream->segment;
	shared->start_block = stream->start_block;
	shared->n_pages = n_pages;
	shared->row_bytes = writer->vector_bytes;
	shared->n_rows = writer->n_rows;
	shared->n_ranges = (n_pages + kRangePages - 1) / kRangePages;
	pg_atomic_init_u64(&shared->next_range, 0);
	pg_atomic_init_u64(&shared->n_written, 0);
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
	memcpy(writers->shared, plan, sizeof(*plan));
	shm_toc_insert(context->toc, kKeyLists, writers->shared);
	build_context_store(context, segment->n_workers);
	LaunchParallelWorkers(context);
	ereport(DEBUG1,
		(errmsg_internal("index \"%s\": using %d parallel workers to write the lists",
			RelationGetRelationName(segment->index), context->nworkers_launched)));
	return true;
}

uint64
full_pages(const IvfWriter *writer)
{
	return writer->n_rows * writer->vector_bytes / kPayloadBytes;
}

} // namespace

bool
ivf_writes_lists_beside(const IvfWriter *writer, Size others)
{
	return writer->plan.n_workers > 0 && writer->layout.kept_bytes > 0 && full_pages(writer) >= kLeastPages &&
		writer->vectors.mapped != nullptr && ivf_are_in_memory(writer, others);
}

uint32
ivf_begin_list_writers(ListWriters *writers, IvfWriter *writer, StreamWriter *stream, const uint32 *order)
{
	const uint64 n_pages = full_pages(writer);
	SharedLists plan;

	*writers = {writer, nullptr, nullptr, order};
	if (!ivf_writes_lists_beside(writer, 0) || n_pages > MaxBlockNumber - stream->start_block)
		return 0;
	init_shared(&plan, writer, stream, n_pages);
	if (!row_store_append_shared(
			&writer->vectors, order, writer->n_rows * sizeof(uint32), &plan.order_byte, &plan.paths))
		return 0;
	stream_reserve(writer->plan.index, static_cast<BlockNumber>(stream->start_block + n_pages - 1));
	if (!start_workers(writers, &plan))
	{
		writers->shared = static_cast<SharedLists *>(palloc(sizeof(plan)));
		memcpy(writers->shared, &plan, sizeof(plan));
	}
	stream_write_skip(stream, static_cast<uint32>(n_pages));
	return static_cast<uint32>(n_pages);
}

void
ivf_end_list_writers(ListWriters *writers)
{
	IvfWriter *writer = writers->writer;

	if (writers->shared == nullptr)
		return;
	write_ranges(writers->shared, writer->plan.index, {row_store_row(&writer->vectors, 0), writers->order}, writer);
	if (writers->context != nullptr)
	{
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
	const Size n_bytes = shared->order_byte + shared->n_rows * sizeof(uint32);
	Relation index;
	char *bytes;

	build_context_enter(toc);
	index = index_open(shared->index, AccessExclusiveLock); // the leader has it
	bytes = row_files_map(&shared->paths, n_bytes);
	write_ranges(shared, index, {bytes, reinterpret_cast<const uint32 *>(bytes + shared->order_byte)}, nullptr);
	row_files_unmap(bytes, n_bytes);
	index_close(index, NoLock);
	build_context_leave(toc);
}

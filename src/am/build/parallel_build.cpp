// The leader of a parallel build. Workers (build_worker.cpp) scan the table and send rows; the leader merges them by
// row id and writes.
//
// Workers take chunks of blocks from a shared counter, so each worker's rows come in ascending order. Each worker sends
// them through its own queue, and the leader takes the smallest head of all queues. A worker whose queue is full waits,
// so nothing is spooled and the queues are all the memory used. The rows of a chunk usually fit into a queue: the
// leader drains one chunk while the other workers fill their queues. (Core's parallel table scan assigns chunks of up
// to 64 MB, which would leave all workers but one waiting.)
//
// There is no additional lock: as members of the leader's lock group, workers take the locks that the leader already
// holds. PG dialect.
#include "am/build/parallel_build.hpp"

#include "am/build/build_context.hpp"
#include "am/build/build_worker.hpp"
#include "pg/parallel_build.hpp"
#include "storage/value_format.hpp"

#include <cstring>

extern "C"
{
#include "access/heaptoast.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/shm_mq.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kMinQueueBytes = 256 * 1024;
constexpr Size kMaxQueueBytes = 4 * 1024 * 1024;
constexpr BlockNumber kMaxChunkBlocks = 256;

/// The leader's end of one worker's queue, or its own rows.
struct RowSource
{
	shm_mq_handle *queue; // null: the leader's own
	const char *next;     // the rest of the message
	const char *end;
	bool has_head;
	uint64 header; // of the head row; kEndOfRows after the last row
	RowId row;
};

struct Leader
{
	BuildState *state;
	ParallelContext *context;
	SharedBuild *shared;
	Size padded_bytes; // of a vector in a message; 0: stored values
	bool placed;       // messages have no vectors
	Size padded_keys;  // of the image of a row's key columns; 0: there are none
	int n_sources;
	RowSource *sources; // of the workers, then the leader's own
	RowSender own;
	bool scans;         // the leader may still take chunks of the table
	double heap_tuples; // that it has seen itself
};

/// A queue was detached. Raise the worker's own error if it has one, else an error here.
[[noreturn]] void
worker_lost(Leader *leader)
{
	WaitForParallelWorkersToFinish(leader->context);
	ereport(ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("a worker of the parallel index build ended before its work was done"),
			errdetail("The build is undone."),
			errhint(
				"The server log may tell why. With max_parallel_maintenance_workers = 0 a build needs no workers.")));
	pg_unreachable();
}

/// Read the head of a source unless it has one. If it is not there yet: wait, or return false.
bool
read_head(Leader *leader, RowSource *source, bool wait)
{
	if (source->has_head)
		return true;
	if (source->next == source->end)
	{
		Size size;
		void *data;
		shm_mq_result result;

		if (source->queue == nullptr)
		{
			// Rows of the chunks that the leader may take are not before these blocks.
			source->row = leader->scans
				? make_row_id(static_cast<BlockNumber>(Min(pg_atomic_read_u64(&leader->shared->next_block),
								  static_cast<uint64>(leader->shared->n_blocks))),
					  0)
				: kEndOfRows;
			source->header = kEndOfRows;
			return true;
		}
		result = shm_mq_receive(source->queue, &size, &data, !wait);
		if (result == SHM_MQ_WOULD_BLOCK)
			return false;
		if (result != SHM_MQ_SUCCESS)
			worker_lost(leader);
		source->next = static_cast<const char *>(data);
		source->end = source->next + size;
	}
	memcpy(&source->header, source->next, sizeof(source->header));
	source->next += sizeof(source->header);
	source->row = source->header == kEndOfRows ? kEndOfRows : source->header & ~kNullRow;
	source->has_head = true;
	return true;
}

void
write_head(Leader *leader, RowSource *source)
{
	const bool is_null = (source->header & kNullRow) != 0;
	const char *keys = leader->padded_keys > 0 ? source->next : nullptr;

	source->next += leader->padded_keys;
	build_write_row(leader->state, source->row, is_null ? nullptr : source->next, keys);
	if (!is_null && !leader->placed)
		source->next += leader->padded_bytes > 0 ? leader->padded_bytes : padded_vector(stored_bytes(source->next));
	source->has_head = false;
}

/// Return the source with the smallest head; *bound: the smallest head of the others. Null: a head is not there yet.
RowSource *
smallest_head(Leader *leader, bool wait, RowId *bound)
{
	RowSource *best = nullptr;

	*bound = kEndOfRows;
	for (int i = 0; i < leader->n_sources; i++)
	{
		RowSource *source = &leader->sources[i];

		if (!read_head(leader, source, wait))
			return nullptr;
		if (best == nullptr || source->row < best->row)
		{
			if (best != nullptr)
				*bound = best->row;
			best = source;
		}
		else if (source->row < *bound)
			*bound = source->row;
	}
	return best;
}

/// Merge rows: all, or those that are there already.
void
merge_rows(Leader *leader, bool wait)
{
	for (;;)
	{
		RowId bound;
		RowSource *source = smallest_head(leader, wait, &bound);

		if (source == nullptr || source->header == kEndOfRows)
			break;
		CHECK_FOR_INTERRUPTS();
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, row_id_block(source->row));
		do
			write_head(leader, source);
		while (read_head(leader, source, wait) && source->header != kEndOfRows && source->row < bound);
	}
}

/// Scan chunks of the table as the workers do, and merge what is there between them.
void
scan_chunks(Leader *leader)
{
	BuildState *state = leader->state;
	BlockRows *rows = static_cast<BlockRows *>(palloc(sizeof(BlockRows)));
	RowSource *own = &leader->sources[leader->n_sources - 1];
	const ChunkScan scan = {leader->shared, state->heap, state->index, state->info, rows, &leader->own};

	row_sender_init(&leader->own, leader->shared, state->coder, nullptr);
	block_rows_init(rows, &state->shape, state->coder, {send_row, &leader->own});
	while (leader->scans)
	{
		// Rows that wait go to the front of the message, which the next chunk's are added to.
		const Size n_waiting = static_cast<Size>(own->end - own->next);

		if (n_waiting > 0)
			memmove(leader->own.message, own->next, n_waiting);
		leader->own.size = n_waiting;
		leader->scans = scan_chunk(&scan, &leader->heap_tuples);
		own->next = leader->own.message;
		own->end = own->next + leader->own.size;
		merge_rows(leader, false);
	}
	block_rows_end(rows);
	chunk_vectors_end(&leader->own.chunk);
	pfree(rows);
}

/// Bytes of a queue, and of the vectors of a chunk that a process collects to write them itself.
Size
queue_bytes_for(int n_workers)
{
	const Size share = static_cast<Size>(maintenance_work_mem) * 1024 / 4 / static_cast<Size>(n_workers);

	return MAXALIGN(Min(Max(share, kMinQueueBytes), kMaxQueueBytes));
}

/// Rows of a block of the table, to judge by the last count.
double
rows_per_block(const BuildState *state)
{
	const Form_pg_class table = state->heap->rd_rel;
	const double counted = table->relpages > 0 ? static_cast<double>(table->reltuples) / table->relpages : 0;

	return counted > 0 ? counted : static_cast<double>(MaxHeapTuplesPerPage);
}

/// Rows of the table. Of one that was not counted yet, as after a load, as many as have room: toasted vectors leave any
/// number of rows in a block, others do not.
double
expected_rows(const BuildState *state)
{
	const Size n_bytes = vector_bytes(state->shape.element, state->shape.dim);
	const bool counted = state->heap->rd_rel->relpages > 0;
	const double most =
		counted || n_bytes >= TOAST_TUPLE_TARGET ? MaxHeapTuplesPerPage : static_cast<int>(Size{BLCKSZ} / n_bytes);

	return Min(rows_per_block(state), most) * state->heap_blocks;
}

/// Blocks of a chunk whose rows have about n_bytes of vectors.
BlockNumber
chunk_blocks_for(const BuildState *state, Size n_bytes)
{
	const double block_bytes =
		Max(rows_per_block(state), 1.0) * static_cast<double>(vector_bytes(state->shape.element, state->shape.dim));

	return static_cast<BlockNumber>(
		Max(Min(static_cast<double>(n_bytes) / block_bytes, static_cast<double>(kMaxChunkBlocks)), 1.0));
}

void
init_shared(SharedBuild *shared, BuildState *state, Size queue_bytes)
{
	const RowPaths *paths;

	memset(shared, 0, sizeof(*shared));
	shared->heap = RelationGetRelid(state->heap);
	shared->index = RelationGetRelid(state->index);
	shared->concurrent = state->info->ii_Concurrent;
	shared->shape = state->shape;
	shared->queue_bytes = queue_bytes;
	shared->n_blocks = RelationGetNumberOfBlocks(state->heap);
	if (value_format(&state->shape) != nullptr)
		shared->chunk_blocks = Min(static_cast<BlockNumber>(queue_bytes / BLCKSZ), kMaxChunkBlocks);
	else if (vectors_can_be_placed(&state->writer, shared->concurrent))
	{
		shared_vectors_init(&shared->vectors, state->index, &state->writer);
		shared->chunk_blocks = chunk_blocks_for(state, queue_bytes);
	}
	else if ((paths = segment_write_share(&state->writer, expected_rows(state))) != nullptr)
	{
		shared_vectors_init_files(&shared->vectors, paths);
		shared->chunk_blocks = chunk_blocks_for(state, queue_bytes);
	}
	else // a block may have many rows, whose vectors are out of line: a worker fills its queue while others' are read
		shared->chunk_blocks = chunk_blocks_for(state, queue_bytes / 2);
	pg_atomic_init_u64(&shared->next_block, 0);
	SpinLockInit(&shared->mutex);
}

void
estimate(ParallelContext *context, int n_workers, Size queue_bytes)
{
	shm_toc_estimate_chunk(&context->estimator, sizeof(SharedBuild));
	shm_toc_estimate_chunk(&context->estimator, mul_size(queue_bytes, n_workers));
	shm_toc_estimate_keys(&context->estimator, 2);
	build_context_estimate(context, n_workers);
}

/// Start workers. Returns false if no shared memory segment or no worker is available.
bool
launch(Leader *leader, int n_workers)
{
	const Size queue_bytes = queue_bytes_for(n_workers);
	ParallelContext *context;
	char *queues;

	EnterParallelMode();
	context = leader->context = CreateParallelContext("vectorgpu", "vectorgpu_build_worker_main", n_workers);
	estimate(context, n_workers, queue_bytes);
	InitializeParallelDSM(context);
	if (context->seg == nullptr)
		return false;
	leader->shared = static_cast<SharedBuild *>(shm_toc_allocate(context->toc, sizeof(SharedBuild)));
	init_shared(leader->shared, leader->state, queue_bytes);
	shm_toc_insert(context->toc, kKeyShared, leader->shared);
	queues = static_cast<char *>(shm_toc_allocate(context->toc, mul_size(queue_bytes, n_workers)));
	for (int i = 0; i < n_workers; i++)
		shm_mq_set_receiver(shm_mq_create(queues + i * queue_bytes, queue_bytes), MyProc);
	shm_toc_insert(context->toc, kKeyQueues, queues);
	build_context_store(context, n_workers);

	LaunchParallelWorkers(context);
	if (context->nworkers_launched == 0)
		return false;
	leader->n_sources = context->nworkers_launched + 1;
	leader->sources = static_cast<RowSource *>(palloc0(sizeof(RowSource) * leader->n_sources));
	for (int i = 0; i < context->nworkers_launched; i++)
		leader->sources[i].queue = shm_mq_attach(
			reinterpret_cast<shm_mq *>(queues + i * queue_bytes), context->seg, context->worker[i].bgwhandle);
	// Raises an error if a worker could not be started. Otherwise the other workers would wait for the leader to drain
	// their queues, and the leader for the missing worker, forever.
	WaitForParallelWorkersToAttach(context);
	// Before 17 core says of each index but a btree that it is built serially.
	ereport(DEBUG1,
		(errmsg_internal("index \"%s\": using %d parallel workers to read the table",
			RelationGetRelationName(leader->state->index), context->nworkers_launched)));
	return true;
}

/// Add up the workers' counts. Return the number of live rows.
double
collect(Leader *leader)
{
	build_context_collect(leader->context);
	if (leader->shared->broken_hot_chain)
		leader->state->info->ii_BrokenHotChain = true;
	return leader->shared->heap_tuples + leader->heap_tuples;
}

/// Write the rows of all processes.
void
write_rows(Leader *leader)
{
	SegmentWriter *writer = &leader->state->writer;
	const SharedVectors *vectors = &leader->shared->vectors;

	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, leader->shared->n_blocks);
	leader->placed = leader->scans = vectors->used;
	if (leader->placed)
	{
		segment_write_expect_placed(writer);
		scan_chunks(leader);
	}
	merge_rows(leader, true);
	WaitForParallelWorkersToFinish(leader->context);
	if (leader->placed)
		segment_write_placed(writer, static_cast<uint32>(vectors->n_pages), vectors->tail, vectors->tail_bytes);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, leader->shared->n_blocks);
}

} // namespace

int
build_workers(Relation heap, Relation index, const IndexInfo *info)
{
	// Chunks are ranges of heap blocks, so this works only for tables with the heap access method.
	return heap->rd_tableam == GetHeapamTableAmRoutine() ? pg::planned_build_workers(heap, index, info) : 0;
}

bool
parallel_build_scan(BuildState *state, double *heap_tuples)
{
	const int n_workers = build_workers(state->heap, state->index, state->info);
	Leader leader = {};
	bool launched;

	if (n_workers == 0)
		return false;
	leader.state = state;
	leader.padded_bytes = value_format(&state->shape) != nullptr
		? 0
		: padded_vector(vector_bytes(state->shape.element, state->shape.dim));
	leader.padded_keys = padded_vector(meta_key_bytes(state->meta));
	launched = launch(&leader, n_workers);
	if (launched)
	{
		write_rows(&leader);
		*heap_tuples = collect(&leader);
	}
	DestroyParallelContext(leader.context);
	ExitParallelMode();
	return launched;
}

} // namespace vectorgpu::am

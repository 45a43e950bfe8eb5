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

#include "am/build/build_worker.hpp"
#include "pg/parallel_build.hpp"
#include "storage/value_format.hpp"

#include <cstring>

extern "C"
{
#include "access/parallel.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "executor/instrument.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/shm_mq.h"
#include "tcop/tcopprot.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kMinQueueBytes = 256 * 1024;
constexpr Size kMaxQueueBytes = 4 * 1024 * 1024;
constexpr BlockNumber kMaxChunkBlocks = 256;

/// The leader's end of one worker's queue.
struct RowSource
{
	shm_mq_handle *queue;
	const char *next; // the rest of the message
	const char *end;
	uint64 header; // of the head row; kEndOfRows after the last row
	RowId row;
};

struct Leader
{
	BuildState *state;
	ParallelContext *context;
	SharedBuild *shared;
	Size padded_bytes; // of a vector; 0: stored values
	Size padded_keys;  // of the image of a row's key columns; 0: there are none
	int n_sources;
	RowSource *sources;
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

/// Advance a source to its next row; wait for it if necessary.
void
next_row(Leader *leader, RowSource *source)
{
	if (source->next == source->end)
	{
		Size size;
		void *data;

		if (shm_mq_receive(source->queue, &size, &data, false) != SHM_MQ_SUCCESS)
			worker_lost(leader);
		source->next = static_cast<const char *>(data);
		source->end = source->next + size;
	}
	memcpy(&source->header, source->next, sizeof(source->header));
	source->next += sizeof(source->header);
	source->row = source->header == kEndOfRows ? kEndOfRows : source->header & ~kNullRow;
}

void
write_head(Leader *leader, RowSource *source)
{
	const bool is_null = (source->header & kNullRow) != 0;
	const char *keys = leader->padded_keys > 0 ? source->next : nullptr;

	source->next += leader->padded_keys;
	build_write_row(leader->state, source->row, is_null ? nullptr : source->next, keys);
	if (!is_null)
		source->next += leader->padded_bytes > 0 ? leader->padded_bytes : padded_vector(stored_bytes(source->next));
	next_row(leader, source);
}

/// Return the source with the smallest head; *bound: the smallest head of the others.
RowSource *
smallest_head(Leader *leader, RowId *bound)
{
	RowSource *best = &leader->sources[0];

	*bound = kEndOfRows;
	for (int i = 1; i < leader->n_sources; i++)
	{
		RowSource *source = &leader->sources[i];

		if (source->row < best->row)
		{
			*bound = best->row;
			best = source;
		}
		else if (source->row < *bound)
			*bound = source->row;
	}
	return best;
}

void
merge_rows(Leader *leader)
{
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, leader->shared->n_blocks);
	for (int i = 0; i < leader->n_sources; i++)
		next_row(leader, &leader->sources[i]);
	for (;;)
	{
		RowId bound;
		RowSource *source = smallest_head(leader, &bound);

		if (source->row == kEndOfRows)
			break;
		CHECK_FOR_INTERRUPTS();
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, row_id_block(source->row));
		do
			write_head(leader, source);
		while (source->row < bound);
	}
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, leader->shared->n_blocks);
}

Size
queue_bytes_for(int n_workers)
{
	const Size share = static_cast<Size>(maintenance_work_mem) * 1024 / 4 / static_cast<Size>(n_workers);

	return MAXALIGN(Min(Max(share, kMinQueueBytes), kMaxQueueBytes));
}

void
init_shared(SharedBuild *shared, const BuildState *state, Size queue_bytes)
{
	memset(shared, 0, sizeof(*shared));
	shared->heap = RelationGetRelid(state->heap);
	shared->index = RelationGetRelid(state->index);
	shared->concurrent = state->info->ii_Concurrent;
	shared->shape = state->shape;
	shared->queue_bytes = queue_bytes;
	shared->n_blocks = RelationGetNumberOfBlocks(state->heap);
	shared->chunk_blocks = Min(static_cast<BlockNumber>(queue_bytes / BLCKSZ), kMaxChunkBlocks);
	pg_atomic_init_u64(&shared->next_block, 0);
	SpinLockInit(&shared->mutex);
}

/// Store the other data that a worker needs in shared memory.
void
store_extras(ParallelContext *context, int n_workers)
{
	BufferUsage *buffer_usage =
		static_cast<BufferUsage *>(shm_toc_allocate(context->toc, mul_size(sizeof(BufferUsage), n_workers)));
	WalUsage *wal_usage =
		static_cast<WalUsage *>(shm_toc_allocate(context->toc, mul_size(sizeof(WalUsage), n_workers)));

	shm_toc_insert(context->toc, kKeyBufferUsage, buffer_usage);
	shm_toc_insert(context->toc, kKeyWalUsage, wal_usage);
	if (debug_query_string != nullptr)
	{
		char *text = static_cast<char *>(shm_toc_allocate(context->toc, strlen(debug_query_string) + 1));

		strcpy(text, debug_query_string);
		shm_toc_insert(context->toc, kKeyQueryText, text);
	}
}

void
estimate(ParallelContext *context, int n_workers, Size queue_bytes)
{
	shm_toc_estimate_chunk(&context->estimator, sizeof(SharedBuild));
	shm_toc_estimate_chunk(&context->estimator, mul_size(queue_bytes, n_workers));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(BufferUsage), n_workers));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(WalUsage), n_workers));
	shm_toc_estimate_keys(&context->estimator, 4);
	if (debug_query_string != nullptr)
	{
		shm_toc_estimate_chunk(&context->estimator, strlen(debug_query_string) + 1);
		shm_toc_estimate_keys(&context->estimator, 1);
	}
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
	store_extras(context, n_workers);

	LaunchParallelWorkers(context);
	if (context->nworkers_launched == 0)
		return false;
	leader->n_sources = context->nworkers_launched;
	leader->sources = static_cast<RowSource *>(palloc0(sizeof(RowSource) * context->nworkers_launched));
	for (int i = 0; i < leader->n_sources; i++)
		leader->sources[i].queue = shm_mq_attach(
			reinterpret_cast<shm_mq *>(queues + i * queue_bytes), context->seg, context->worker[i].bgwhandle);
	// Raises an error if a worker could not be started. Otherwise the other workers would wait for the leader to drain
	// their queues, and the leader for the missing worker, forever.
	WaitForParallelWorkersToAttach(context);
	// Before 17 core says of each index but a btree that it is built serially.
	ereport(DEBUG1,
		(errmsg_internal("index \"%s\": using %d parallel workers to read the table",
			RelationGetRelationName(leader->state->index), leader->n_sources)));
	return true;
}

/// Add up the workers' counts. Return the number of live rows.
double
collect(Leader *leader)
{
	const ParallelContext *context = leader->context;
	BufferUsage *buffer_usage = static_cast<BufferUsage *>(shm_toc_lookup(context->toc, kKeyBufferUsage, false));
	WalUsage *wal_usage = static_cast<WalUsage *>(shm_toc_lookup(context->toc, kKeyWalUsage, false));

	for (int i = 0; i < context->nworkers_launched; i++)
		InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
	if (leader->shared->broken_hot_chain)
		leader->state->info->ii_BrokenHotChain = true;
	return leader->shared->heap_tuples;
}

} // namespace

bool
parallel_build_scan(BuildState *state, double *heap_tuples)
{
	Leader leader = {};
	int n_workers;
	bool launched;

	// Chunks are ranges of heap blocks, so this works only for tables with the heap access method.
	if (state->heap->rd_tableam != GetHeapamTableAmRoutine())
		return false;
	n_workers = pg::planned_build_workers(state->heap, state->index, state->info);
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
		merge_rows(&leader);
		WaitForParallelWorkersToFinish(leader.context);
		*heap_tuples = collect(&leader);
	}
	DestroyParallelContext(leader.context);
	ExitParallelMode();
	return launched;
}

} // namespace vectorgpu::am

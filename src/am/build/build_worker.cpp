// A worker of a parallel build: scans chunks of the table and sends rows to the leader. See build_worker.hpp. PG
// dialect.
#include "am/build/build_worker.hpp"

#include "am/build/block_rows.hpp"
#include "am/build/build_context.hpp"
#include "am/method/am_interface.hpp"
#include "pg/fault.hpp"

#include <cstring>

extern "C"
{
#include "access/heapam.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "storage/shm_mq.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kMessageBytes = 32 * 1024; // a message is sent when it exceeds this size

void
send_message(RowSender *sender)
{
	if (sender->size == 0)
		return;
	(void) VG_FAULT("build_send");
	if (shm_mq_send(sender->queue, sender->size, sender->message, false, false) != SHM_MQ_SUCCESS)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("the leader of a parallel index build went away"),
				errdetail("It ended or was cancelled; the build is undone.")));
	sender->size = 0;
}

/// Add bytes and their padding to the message, which has room.
void
put_bytes(RowSender *sender, const void *bytes, Size n)
{
	char *to = sender->message + sender->size;

	if (n == 0)
		return;
	memcpy(to, bytes, n);
	memset(to + n, 0, padded_vector(n) - n);
	sender->size += padded_vector(n);
}

} // namespace

void
row_sender_init(RowSender *sender, const SharedBuild *shared, const KeyCoder *coder, shm_mq_handle *queue)
{
	memset(sender, 0, sizeof(*sender));
	sender->queue = queue;
	sender->placed = shared->vectors.used;
	sender->vector_bytes =
		value_format(&shared->shape) != nullptr ? 0 : vectorgpu::vector_bytes(shared->shape.element, shared->shape.dim);
	sender->key_bytes = coder != nullptr ? key_image_bytes(&coder->layout) : 0;
	sender->capacity =
		kMessageBytes + sizeof(uint64) + padded_vector(sender->key_bytes) + padded_vector(sender->vector_bytes);
	sender->message = static_cast<char *>(palloc(sender->capacity));
}

void
send_row(void *state, RowId row, const char *vector, const char *keys)
{
	RowSender *sender = static_cast<RowSender *>(state);
	const uint64 header = vector == nullptr ? row | kNullRow : row;
	const Size n_bytes = vector == nullptr || sender->placed ? 0
		: sender->vector_bytes > 0                           ? sender->vector_bytes
															 : stored_bytes(vector);
	const Size wanted = sender->size + sizeof(header) + padded_vector(sender->key_bytes) + padded_vector(n_bytes);

	if (wanted > sender->capacity)
	{
		sender->capacity = Max(wanted, sender->placed ? 2 * sender->capacity : 0);
		sender->message = static_cast<char *>(repalloc_huge(sender->message, sender->capacity));
	}

	put_bytes(sender, &header, sizeof(header));
	put_bytes(sender, keys, sender->key_bytes);
	put_bytes(sender, vector, n_bytes);
	if (sender->placed)
	{
		// The message waits until the chunk is placed: a full queue would keep others from placing theirs.
		if (vector != nullptr)
			chunk_vectors_add(&sender->chunk, vector, sender->vector_bytes);
	}
	else if (sender->size >= kMessageBytes)
		send_message(sender);
}

bool
scan_chunk(const ChunkScan *scan, double *heap_tuples)
{
	SharedBuild *shared = scan->shared;
	const Snapshot snapshot = shared->concurrent ? GetActiveSnapshot() : SnapshotAny;
	const uint64 first = pg_atomic_fetch_add_u64(&shared->next_block, shared->chunk_blocks);
	TableScanDesc table;

	CHECK_FOR_INTERRUPTS();
	if (first >= shared->n_blocks)
		return false;
	table = table_beginscan_strat(scan->heap, snapshot, 0, nullptr, true, false);
	heap_setscanlimits(table, static_cast<BlockNumber>(first),
		Min(shared->chunk_blocks, shared->n_blocks - static_cast<BlockNumber>(first)));
	*heap_tuples += table_index_build_scan(
		scan->heap, scan->index, scan->info, true, false, block_rows_callback, scan->rows, table);
	block_rows_flush(scan->rows);
	if (shared->vectors.used)
	{
		chunk_vectors_place(&shared->vectors, scan->index, first / shared->chunk_blocks, &scan->sender->chunk);
		if (scan->sender->queue != nullptr)
			send_message(scan->sender);
	}
	return true;
}

} // namespace vectorgpu::am

void
vectorgpu_build_worker_main(dsm_segment *segment, shm_toc *toc)
{
	using namespace vectorgpu::am;
	SharedBuild *shared = static_cast<SharedBuild *>(shm_toc_lookup(toc, kKeyShared, false));
	char *queues = static_cast<char *>(shm_toc_lookup(toc, kKeyQueues, false));
	shm_mq *queue = reinterpret_cast<shm_mq *>(queues + ParallelWorkerNumber * shared->queue_bytes);
	BlockRows *rows = static_cast<BlockRows *>(palloc(sizeof(BlockRows)));
	const uint64 end = kEndOfRows;
	RowSender sender;
	ChunkScan scan;
	const KeyCoder *coder;
	Relation heap;
	Relation index;
	IndexInfo *info;
	shm_mq_handle *attached;
	double heap_tuples = 0;

	build_context_enter(toc);
	shm_mq_set_sender(queue, MyProc);
	attached = shm_mq_attach(queue, segment, nullptr);

	// The lock modes that the leader holds.
	heap = table_open(shared->heap, shared->concurrent ? ShareUpdateExclusiveLock : ShareLock);
	index = index_open(shared->index, shared->concurrent ? RowExclusiveLock : AccessExclusiveLock);
	coder = index_key_coder(index);
	row_sender_init(&sender, shared, coder, attached);
	block_rows_init(rows, &shared->shape, coder, {send_row, &sender});
	info = BuildIndexInfo(index);
	info->ii_Concurrent = shared->concurrent;

	scan = {shared, heap, index, info, rows, &sender};
	while (scan_chunk(&scan, &heap_tuples))
		;
	block_rows_end(rows);
	chunk_vectors_end(&sender.chunk);
	memcpy(sender.message + sender.size, &end, sizeof(end));
	sender.size += sizeof(end);
	send_message(&sender);
	SpinLockAcquire(&shared->mutex);
	shared->heap_tuples += heap_tuples;
	if (info->ii_BrokenHotChain)
		shared->broken_hot_chain = true;
	SpinLockRelease(&shared->mutex);
	build_context_leave(toc);

	shm_mq_detach(sender.queue);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

// A worker of a parallel build: scans chunks of the table and sends rows to the leader. See build_worker.hpp. PG
// dialect.
#include "am/build/build_worker.hpp"

#include "am/build/block_rows.hpp"
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
#include "executor/instrument.h"
#include "pgstat.h"
#include "storage/shm_mq.h"
#include "tcop/tcopprot.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kMessageBytes = 32 * 1024; // a message is sent when it exceeds this size

/// Packs rows into messages.
struct RowSender
{
	shm_mq_handle *queue;
	Size vector_bytes; // 0: stored values
	Size key_bytes;    // 0: no key columns
	Size size;
	Size capacity;
	char *message; // [capacity], grows to hold a row beyond kMessageBytes
};

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

/// A RowSink; state is a RowSender.
void
send_row(void *state, RowId row, const char *vector, const char *keys)
{
	RowSender *sender = static_cast<RowSender *>(state);
	const uint64 header = vector == nullptr ? row | kNullRow : row;
	const Size n_bytes = vector == nullptr ? 0 : sender->vector_bytes > 0 ? sender->vector_bytes : stored_bytes(vector);
	const Size wanted = sender->size + sizeof(header) + padded_vector(sender->key_bytes) + padded_vector(n_bytes);

	if (wanted > sender->capacity)
	{
		sender->capacity = wanted;
		sender->message = static_cast<char *>(repalloc_huge(sender->message, sender->capacity));
	}

	put_bytes(sender, &header, sizeof(header));
	put_bytes(sender, keys, sender->key_bytes);
	put_bytes(sender, vector, n_bytes);
	if (sender->size >= kMessageBytes)
		send_message(sender);
}

/// Scan chunks until none is left. Return the number of live rows seen.
double
scan_chunks(SharedBuild *shared, Relation heap, Relation index, IndexInfo *info, BlockRows *rows)
{
	const Snapshot snapshot = shared->concurrent ? GetActiveSnapshot() : SnapshotAny;
	double heap_tuples = 0;

	for (;;)
	{
		const uint64 first = pg_atomic_fetch_add_u64(&shared->next_block, shared->chunk_blocks);
		TableScanDesc scan;

		CHECK_FOR_INTERRUPTS();
		if (first >= shared->n_blocks)
			return heap_tuples;
		scan = table_beginscan_strat(heap, snapshot, 0, nullptr, true, false);
		heap_setscanlimits(scan, static_cast<BlockNumber>(first),
			Min(shared->chunk_blocks, shared->n_blocks - static_cast<BlockNumber>(first)));
		heap_tuples += table_index_build_scan(heap, index, info, true, false, block_rows_callback, rows, scan);
		block_rows_flush(rows);
	}
}

} // namespace

} // namespace vectorgpu::am

void
vectorgpu_build_worker_main(dsm_segment *segment, shm_toc *toc)
{
	using namespace vectorgpu::am;
	SharedBuild *shared = static_cast<SharedBuild *>(shm_toc_lookup(toc, kKeyShared, false));
	char *queues = static_cast<char *>(shm_toc_lookup(toc, kKeyQueues, false));
	BufferUsage *buffer_usage = static_cast<BufferUsage *>(shm_toc_lookup(toc, kKeyBufferUsage, false));
	WalUsage *wal_usage = static_cast<WalUsage *>(shm_toc_lookup(toc, kKeyWalUsage, false));
	shm_mq *queue = reinterpret_cast<shm_mq *>(queues + ParallelWorkerNumber * shared->queue_bytes);
	BlockRows *rows = static_cast<BlockRows *>(palloc(sizeof(BlockRows)));
	const uint64 end = kEndOfRows;
	RowSender sender = {};
	const KeyCoder *coder;
	Relation heap;
	Relation index;
	IndexInfo *info;
	double heap_tuples;

	debug_query_string = static_cast<const char *>(shm_toc_lookup(toc, kKeyQueryText, true));
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	shm_mq_set_sender(queue, MyProc);
	sender.queue = shm_mq_attach(queue, segment, nullptr);
	sender.vector_bytes =
		value_format(&shared->shape) != nullptr ? 0 : vectorgpu::vector_bytes(shared->shape.element, shared->shape.dim);

	// The lock modes that the leader holds.
	heap = table_open(shared->heap, shared->concurrent ? ShareUpdateExclusiveLock : ShareLock);
	index = index_open(shared->index, shared->concurrent ? RowExclusiveLock : AccessExclusiveLock);
	coder = index_key_coder(index);
	sender.key_bytes = coder != nullptr ? key_image_bytes(&coder->layout) : 0;
	sender.capacity =
		kMessageBytes + sizeof(uint64) + padded_vector(sender.key_bytes) + padded_vector(sender.vector_bytes);
	sender.message = static_cast<char *>(palloc(sender.capacity));
	block_rows_init(rows, &shared->shape, coder, {send_row, &sender});
	info = BuildIndexInfo(index);
	info->ii_Concurrent = shared->concurrent;

	InstrStartParallelQuery();
	heap_tuples = scan_chunks(shared, heap, index, info, rows);
	memcpy(sender.message + sender.size, &end, sizeof(end));
	sender.size += sizeof(end);
	send_message(&sender);
	SpinLockAcquire(&shared->mutex);
	shared->heap_tuples += heap_tuples;
	if (info->ii_BrokenHotChain)
		shared->broken_hot_chain = true;
	SpinLockRelease(&shared->mutex);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber], &wal_usage[ParallelWorkerNumber]);

	shm_mq_detach(sender.queue);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

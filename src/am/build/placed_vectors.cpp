// See placed_vectors.hpp. Who has the turn also extends the file, to the last page that it is going to write: so
// segments of the file are made in order, by one process at a time, and pages lie in blocks that exist.
#include "am/build/placed_vectors.hpp"

#include "pg/fault.hpp"
#include "storage/row_file.hpp"

#include <cstring>

extern "C"
{
#include "miscadmin.h"
#include "pgstat.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr Size kFirstBytes = 256 * 1024;

void
wait_for_turn(SharedVectors *shared, uint64 number)
{
	ConditionVariablePrepareToSleep(&shared->turn_changed);
	while (pg_atomic_read_u64(&shared->turn) != number)
		ConditionVariableSleep(&shared->turn_changed, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	pg_read_barrier();
}

void
pass_turn(SharedVectors *shared, uint64 number)
{
	pg_write_barrier();
	pg_atomic_write_u64(&shared->turn, number + 1);
	ConditionVariableBroadcast(&shared->turn_changed);
}

/// Write the vectors of a chunk behind those of the chunks before.
void
write_to_files(SharedVectors *shared, uint64 number, ChunkVectors *chunk)
{
	uint64 first_byte;

	if (!chunk->is_open)
		row_files_open(&chunk->files, &shared->paths);
	chunk->is_open = true;
	wait_for_turn(shared, number);
	first_byte = shared->n_bytes;
	shared->n_bytes += chunk->n_bytes;
	pass_turn(shared, number);
	row_files_write(&chunk->files, first_byte, chunk->bytes, chunk->n_bytes);
	chunk->n_bytes = 0;
}

} // namespace

bool
vectors_can_be_placed(const SegmentWriter *writer, bool concurrent)
{
	// During a concurrent build a session may read blocks that are not written yet into the buffer cache (pg_prewarm).
	return !concurrent &&
		(writer->format == nullptr || (writer->format->placed != nullptr && writer->format->share == nullptr));
}

void
shared_vectors_init(SharedVectors *shared, Relation index, const SegmentWriter *writer)
{
	shared->used = true;
	shared->logged = RelationNeedsWAL(index);
	shared->uuid = writer->meta->uuid;
	shared->segment = writer->entry.id;
	shared->start_block = writer->start_block;
	ConditionVariableInit(&shared->turn_changed);
	pg_atomic_init_u64(&shared->turn, 0);
	shared->n_pages = 0;
	shared->tail_bytes = 0;
}

void
shared_vectors_init_files(SharedVectors *shared, const RowPaths *paths)
{
	shared->used = true;
	shared->to_files = true;
	shared->paths = *paths;
	shared->n_bytes = 0;
	ConditionVariableInit(&shared->turn_changed);
	pg_atomic_init_u64(&shared->turn, 0);
}

void
chunk_vectors_add(ChunkVectors *chunk, const char *vector, Size n_bytes)
{
	if (chunk->n_bytes + n_bytes > chunk->capacity)
	{
		const Size capacity = Max(Max(chunk->capacity * 2, kFirstBytes), chunk->n_bytes + n_bytes);

		chunk->bytes =
			static_cast<char *>(chunk->bytes == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, capacity)
														: repalloc_huge(chunk->bytes, capacity));
		chunk->capacity = capacity;
	}
	memcpy(chunk->bytes + chunk->n_bytes, vector, n_bytes);
	chunk->n_bytes += n_bytes;
}

void
chunk_vectors_place(SharedVectors *shared, Relation index, uint64 number, ChunkVectors *chunk)
{
	char before[kPayloadBytes];
	Size n_before;
	uint64 first_page;
	uint64 n_pages;
	Size n_after;
	StreamWriter stream;

	(void) VG_FAULT("build_place");
	if (shared->to_files)
	{
		write_to_files(shared, number, chunk);
		return;
	}
	wait_for_turn(shared, number);
	n_before = shared->tail_bytes;
	first_page = shared->n_pages;
	n_pages = (n_before + chunk->n_bytes) / kPayloadBytes;
	n_after = (n_before + chunk->n_bytes) % kPayloadBytes;
	if (n_pages == 0)
	{
		if (chunk->n_bytes > 0)
			memcpy(shared->tail + n_before, chunk->bytes, chunk->n_bytes);
	}
	else
	{
		if (first_page + n_pages > MaxBlockNumber - shared->start_block)
			ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					errmsg(
						"index \"%s\" cannot have more than %u blocks", RelationGetRelationName(index), MaxBlockNumber),
					errhint("Partition the table.")));
		memcpy(before, shared->tail, n_before);
		memcpy(shared->tail, chunk->bytes + chunk->n_bytes - n_after, n_after);
		stream_reserve(index, static_cast<BlockNumber>(shared->start_block + first_page + n_pages - 1));
	}
	shared->n_pages += n_pages;
	shared->tail_bytes = n_after;
	pass_turn(shared, number);

	if (n_pages > 0)
	{
		stream_write_part_begin(&stream, index, shared->logged, shared->uuid, shared->segment, StreamKind::kVectors,
			shared->start_block, static_cast<uint32>(first_page));
		stream_write(&stream, before, n_before);
		stream_write(&stream, chunk->bytes, chunk->n_bytes - n_after);
		stream_write_part_end(&stream);
	}
	chunk->n_bytes = 0;
}

void
chunk_vectors_end(ChunkVectors *chunk)
{
	row_files_close(&chunk->files);
	if (chunk->bytes != nullptr)
		pfree(chunk->bytes);
	memset(chunk, 0, sizeof(*chunk));
}

} // namespace vectorgpu::am

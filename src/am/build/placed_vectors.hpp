// Vectors that the processes of a parallel build write themselves: into the index, or into files of the access method.
// Pages of the index are shared between chunks of the table, so a process writes those that its chunk fills, and hands
// the bytes behind the last one to the process with the next chunk. PG dialect.
#pragma once

#include "storage/segment_writer.hpp"

extern "C"
{
#include "port/atomics.h"
#include "storage/condition_variable.h"
}

namespace vectorgpu::am
{

/// In shared memory. The process whose chunk's turn it is reads and writes what lies behind `turn`.
struct SharedVectors
{
	bool used;      // else rows are sent to the leader, and the rest is not set
	bool to_files;  // of the access method, else to pages of the index
	RowPaths paths; // of these files
	uint64 n_bytes; // of the vectors of the chunks before, in these files
	bool logged;
	IndexUuid uuid;
	uint32 segment;
	BlockNumber start_block;
	ConditionVariable turn_changed;
	pg_atomic_uint64 turn; // number of a chunk: all before it have handed over
	uint64 n_pages;        // filled by the chunks before
	Size tail_bytes;       // of the last page, which is not full
	char tail[kPayloadBytes];
};

/// The vectors of a chunk, one after the other.
struct ChunkVectors
{
	char *bytes;
	Size n_bytes;
	Size capacity;
	bool is_open;
	RowFiles files; // of SharedVectors::paths, if is_open
};

/// True if the build's processes can write the vectors: these are in TID order on disk and of one size, and no other
/// session can read the index before it is complete.
bool vectors_can_be_placed(const SegmentWriter *writer, bool concurrent);

void shared_vectors_init(SharedVectors *shared, Relation index, const SegmentWriter *writer);

/// The same for the files of SegmentFormat::share.
void shared_vectors_init_files(SharedVectors *shared, const RowPaths *paths);

void chunk_vectors_add(ChunkVectors *chunk, const char *vector, Size n_bytes);

/// Wait for the turn of chunk `number`, pass it on, and write the vectors, or the pages that they fill. Every chunk has
/// to be placed, also one without rows; the caller must not wait for another process between taking a chunk and this
/// call.
void chunk_vectors_place(SharedVectors *shared, Relation index, uint64 number, ChunkVectors *chunk);

void chunk_vectors_end(ChunkVectors *chunk);

} // namespace vectorgpu::am

// A worker of a parallel build, and the state shared with the leader (parallel_build.cpp). PG dialect.
//
// Rows travel in messages. Each row is a header (row id and kNullRow), the image of its key columns and, unless NULL,
// the vector or stored value, each padded to 8 bytes (padded_vector). Vectors that workers write themselves
// (placed_vectors.hpp) do not travel.
#pragma once

#include "am/build/block_rows.hpp"
#include "am/build/placed_vectors.hpp"

extern "C"
{
#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"
#include "storage/shm_mq.h"
#include "storage/spin.h"

	/// A worker's main function, which core looks up by name; runs inside the parallel worker's transaction.
	PGDLLEXPORT void vectorgpu_build_worker_main(dsm_segment *segment, shm_toc *toc);
}

namespace vectorgpu::am
{

enum TocKey : uint64
{
	kKeyShared = 1,
	kKeyQueues = 2,
};

constexpr uint64 kNullRow = UINT64CONST(1) << 63; // in a row's header; row ids have 48 bits
constexpr uint64 kEndOfRows = ~UINT64CONST(0);    // the header that ends a worker's rows

/// State in the parallel context's shared memory, for leader and workers.
struct SharedBuild
{
	Oid heap;
	Oid index;
	bool concurrent;
	IndexShape shape;
	Size queue_bytes;
	BlockNumber n_blocks;
	BlockNumber chunk_blocks;
	pg_atomic_uint64 next_block;
	slock_t mutex; // guards the following fields
	double heap_tuples;
	bool broken_hot_chain;
	SharedVectors vectors;
};

inline Size
padded_vector(Size vector_bytes)
{
	return MAXALIGN(vector_bytes);
}

/// Packs rows into messages.
struct RowSender
{
	shm_mq_handle *queue; // null: the leader's own rows
	Size vector_bytes;    // 0: stored values
	Size key_bytes;       // 0: no key columns
	Size size;
	Size capacity;
	char *message; // [capacity], grows to hold more than kMessageBytes
	bool placed;   // vectors are written by this process
	ChunkVectors chunk;
};

void row_sender_init(RowSender *sender, const SharedBuild *shared, const KeyCoder *coder, shm_mq_handle *queue);

/// A RowSink; state is a RowSender.
void send_row(void *state, RowId row, const char *vector, const char *keys);

/// What a process needs to scan chunks of the table.
struct ChunkScan
{
	SharedBuild *shared;
	Relation heap;
	Relation index;
	IndexInfo *info;
	BlockRows *rows;
	RowSender *sender; // the sink of rows
};

/// Scan the next chunk, and write its vectors if workers do so. *heap_tuples counts live rows. False: none is left.
bool scan_chunk(const ChunkScan *scan, double *heap_tuples);

} // namespace vectorgpu::am

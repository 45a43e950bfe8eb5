// Several processes of a build write the vectors and codes of the lists. PG dialect.
#pragma once

#include "am/gpuivf/writer.hpp"
#include "storage/stream_run.hpp"

extern "C"
{
#include "access/parallel.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"

	/// A worker's main function, which core looks up by name; runs inside the parallel worker's transaction.
	PGDLLEXPORT void vectorgpu_list_writer_main(dsm_segment *segment, shm_toc *toc);
}

namespace vectorgpu::am
{

struct SharedLists;

/// Parallel workers that write kVectors, and kCodeStream where codes are in shared files, while this process does other
/// work, in parallel mode. After an error core ends them.
struct ListWriters
{
	IvfWriter *writer;
	ParallelContext *context; // null: there is no shared memory for workers
	SharedLists *shared;      // null: not begun
	const uint32 *order;      // [n_rows] numbers of the rows by place
};

/// True if there will be workers for the lists, with `others` bytes of memory beside rows and their order.
bool ivf_writes_lists_beside(const IvfWriter *writer, Size others);

/// True if such workers write kCodeStream as well.
bool ivf_shares_codes(const IvfWriter *writer);

/// Begin these streams at the run's next block, which moves behind them. order [n_rows]: must outlive the writers.
/// False: there are no workers, and nothing has begun.
bool ivf_begin_list_writers(ListWriters *writers, IvfWriter *writer, StreamRun *run, const uint32 *order);

/// Write what is left of the streams, and wait for the workers. The rows and codes of the writer are lost. Nothing if
/// they were not begun.
void ivf_end_list_writers(ListWriters *writers);

} // namespace vectorgpu::am

// Several processes of a build write the vectors of the lists. PG dialect.
#pragma once

#include "am/gpuivf/writer.hpp"

extern "C"
{
#include "storage/dsm.h"
#include "storage/shm_toc.h"

	/// A worker's main function, which core looks up by name; runs inside the parallel worker's transaction.
	PGDLLEXPORT void vectorgpu_list_writer_main(dsm_segment *segment, shm_toc *toc);
}

namespace vectorgpu::am
{

/// Write the full pages of kVectors, which the stream has just begun, beside parallel workers. order [n_rows]: numbers
/// of the rows by place. Return the number of pages, which the stream has skipped: 0 if there are no workers for it.
uint32 ivf_write_beside_workers(IvfWriter *writer, StreamWriter *stream, const uint32 *order);

} // namespace vectorgpu::am

// Waiting rows, interrupts and progress of a segment being written. See writer.hpp. PG dialect.
#include "am/gpuivf/writer.hpp"

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

void
ivf_read_spooled(IvfWriter *writer, uint64 first, uint64 n, char *vectors)
{
	spool_seek(writer->vectors, first * writer->vector_bytes);
	spool_read(writer->vectors, vectors, n * writer->vector_bytes);
}

bool
ivf_gives_way(const IvfWriter *writer)
{
	CHECK_FOR_INTERRUPTS();
	return writer->watch.give_way != nullptr && writer->watch.give_way(writer->watch.give_way_state);
}

void
ivf_start_phase(const IvfWriter *writer, IvfBuildPhase phase)
{
	if (!writer->watch.report)
		return;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, phase);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, static_cast<int64>(writer->n_rows));
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, 0);
}

void
ivf_report_rows(const IvfWriter *writer, uint64 n_done)
{
	if (writer->watch.report)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, static_cast<int64>(n_done));
}

} // namespace vectorgpu::am

// Temporary files and progress of a segment being written. See writer.hpp. PG dialect.
#include "am/gpuivf/writer.hpp"

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

[[noreturn]] void
spool_failed()
{
	ereport(ERROR, (errcode_for_file_access(), errmsg("could not read a temporary file of the index build")));
	pg_unreachable();
}

} // namespace

void
ivf_read_spool(BufFile *file, void *data, Size n_bytes)
{
	if (BufFileRead(file, data, n_bytes) != n_bytes)
		spool_failed();
}

void
ivf_seek_spool(BufFile *file, uint64 byte)
{
	if (BufFileSeek(file, 0, static_cast<off_t>(byte), SEEK_SET) != 0)
		spool_failed();
}

void
ivf_close_spool(BufFile **file)
{
	if (*file != nullptr)
		BufFileClose(*file);
	*file = nullptr;
}

void
ivf_read_spooled(IvfWriter *writer, uint64 first, uint64 n, char *vectors)
{
	ivf_seek_spool(writer->vectors, first * writer->vector_bytes);
	ivf_read_spool(writer->vectors, vectors, n * writer->vector_bytes);
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

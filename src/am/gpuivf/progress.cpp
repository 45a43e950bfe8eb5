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
	row_store_read(&writer->vectors, first, n, vectors);
}

Size
ivf_room_for_rows(const IvfWriter *writer)
{
	constexpr Size kLeastMemory = 256 * 1024 * 1024; // with less, a file costs little
	const Size held = row_store_held(&writer->vectors) + row_store_held(&writer->codes);
	const Size most = writer->memory < kLeastMemory ? 0 : writer->memory / 4 * 3;

	return most - Min(most, held);
}

void
ivf_reserve(IvfWriter *writer, Size n_bytes)
{
	const Size held = row_store_held(&writer->vectors) + row_store_held(&writer->codes);

	if (held == 0 || held + n_bytes <= writer->memory)
		return;
	row_store_spill(&writer->vectors);
	if (writer->codes.row_bytes > 0)
		row_store_spill(&writer->codes);
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

// The state of an index build and where its rows are written. PG dialect. Used by the files of this folder.
#pragma once

#include "am/method/am_interface.hpp"
#include "storage/segment_writer.hpp"

namespace vectorgpu::am
{

/// A build under way, in the backend that writes.
struct BuildState
{
	const AccessMethod *am;
	Relation heap;
	Relation index;
	IndexInfo *info;
	IndexShape shape;
	MetaData *meta;
	SegmentPlan plan;
	SegmentWriter writer;
	uint64 n_tuples;         // written so far
	BlockNumber heap_blocks; // of the table, when the build began
};

/// The sink that writes; state is a BuildState.
void build_write_row(void *state, RowId row, const char *vector);

/// Subphases of pg_stat_progress_create_index; 1 is core's "initializing".
enum BuildPhase
{
	kPhaseInitialize = 1,
	kPhaseWriteRows = 2,
	kPhaseFinish = 3,
	kPhaseOfAm = 4, // and what follows: AccessMethod::phase_name
};

} // namespace vectorgpu::am

// The state of an index build and where its rows are written. PG dialect. Used by the files of this folder.
#pragma once

#include "am/keys/key_coder.hpp"
#include "am/method/am_interface.hpp"
#include "storage/segment_writer.hpp"

namespace vectorgpu::am
{

/// A build in progress, in the backend that writes.
struct BuildState
{
	const AccessMethod *am;
	Relation heap;
	Relation index;
	IndexInfo *info;
	IndexShape shape;
	const KeyCoder *coder; // null: the index has no key columns
	MetaData *meta;
	SegmentPlan plan;
	SegmentWriter writer;
	uint64 n_tuples;         // written so far
	BlockNumber heap_blocks; // blocks of the table at the start of the build
};

/// A RowSink that writes to the segment; state is a BuildState.
void build_write_row(void *state, RowId row, const char *vector, const char *keys);

/// Subphases of pg_stat_progress_create_index; 1 is core's "initializing".
enum BuildPhase
{
	kPhaseInitialize = 1,
	kPhaseWriteRows = 2,
	kPhaseFinish = 3,
	kPhaseOfAm = 4, // and following numbers: AccessMethod::phase_name
};

} // namespace vectorgpu::am

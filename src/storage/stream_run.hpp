// The streams of a segment, written one behind the other: for SegmentFormat::write. PG dialect.
#pragma once

#include "storage/segment_format.hpp"

extern "C"
{
#include "storage/buffile.h"
}

namespace vectorgpu::am
{

struct StreamRun
{
	const SegmentPlan *plan;
	SegmentEntry *entry;
	BlockNumber block; // where the next stream begins
	StreamWriter stream;
	StreamKind kind; // of the stream being written
};

/// Begin at block `start`. Plan and entry must outlive the run.
void stream_run_begin(StreamRun *run, const SegmentPlan *plan, SegmentEntry *entry, BlockNumber start);

/// Begin a stream, which is written by stream_write(&run->stream, ...), and end it.
void stream_run_open(StreamRun *run, StreamKind kind);
void stream_run_close(StreamRun *run);

/// Leave the blocks of a stream to others, which write its pages by stream_write_part_begin once stream_reserve has
/// made the blocks.
void stream_run_reserve(StreamRun *run, StreamKind kind, uint64 n_bytes);

/// Write a stream from memory.
void stream_run_write(StreamRun *run, StreamKind kind, const void *data, Size n_bytes);

/// The same of many bytes: it looks at interrupts and SegmentPlan::give_way. False: the merge gave way, and the stream
/// is not whole.
bool stream_run_write_large(StreamRun *run, StreamKind kind, const void *data, uint64 n_bytes);

/// Write a stream from the first n_bytes of a temporary file. False: the merge gave way, and the stream is not whole.
/// Looks at interrupts and SegmentPlan::give_way only if `may_give_way`.
bool stream_run_copy(StreamRun *run, StreamKind kind, BufFile *file, uint64 n_bytes, bool may_give_way);

} // namespace vectorgpu::am

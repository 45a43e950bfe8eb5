// What the checks of segment formats share: SegmentFormat::check_entry and check. PG dialect.
#pragma once

#include "storage/stream.hpp"

namespace vectorgpu::am
{

/// Bytes of a stream.
inline uint64
stream_size(const SegmentEntry *segment, StreamKind kind)
{
	return segment->streams[static_cast<int>(kind)].n_bytes;
}

/// Raise ERRCODE_INDEX_CORRUPTED at the first block of a stream; `what` is a sentence.
[[noreturn]] inline void
stream_corrupted(Relation index, const SegmentEntry *segment, StreamKind kind, const char *what)
{
	page_corrupted(index, segment->streams[static_cast<int>(kind)].start_block, what);
}

/// Raise the error of a recycled page unless `intact`, the result of a read.
inline void
must_be_intact(Relation index, bool intact)
{
	if (!intact)
		page_recycled(index, 0);
}

} // namespace vectorgpu::am

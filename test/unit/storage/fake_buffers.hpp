// An index of any size whose pages are made when they are read, from the stream that a test sets. See fake_server.hpp
// of test/fuzz for memory and errors.
#pragma once

#include "fake_server.hpp"

#include "storage/metapage.hpp"

namespace vectorgpu::unit
{

/// The stream on the pages: byte b of it is byte_at(b).
struct Stream
{
	am::IndexUuid uuid;
	uint32 segment;
	am::StreamKind kind;
	am::StreamEntry entry;
};

extern Stream stream;

/// Blocks read since it was cleared, and the largest piece of memory requested.
extern std::vector<BlockNumber> blocks_read;
extern Size most_memory;

char byte_at(uint64 byte);

/// The index; its pages are those of `stream`.
Relation index();

} // namespace vectorgpu::unit

// An index of any size whose pages are made when they are read: what a block is says the stream that lies there. See
// fake_server.hpp of test/fuzz for memory and errors.
#pragma once

#include "fake_server.hpp"

#include "storage/metapage.hpp"

namespace vectorgpu::unit
{

/// The stream that the pages are of: byte b of it is byte_at(b).
struct Stream
{
	am::IndexUuid uuid;
	uint32 segment;
	am::StreamKind kind;
	am::StreamEntry entry;
};

extern Stream stream;

/// Blocks that were read since it was cleared, and the largest piece of memory that was asked for.
extern std::vector<BlockNumber> blocks_read;
extern Size most_memory;

char byte_at(uint64 byte);

/// The index; its pages are those of `stream`.
Relation index();

} // namespace vectorgpu::unit

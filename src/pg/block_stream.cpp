// Read streams. See block_stream.hpp.
#include "pg/block_stream.hpp"

extern "C"
{
#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif
}

namespace vectorgpu::pg
{

#if PG_VERSION_NUM >= 170000

struct BlockStream
{
	ReadStream *stream;
	BlockNumber next; // that the stream asks for
	BlockNumber end;
};

namespace
{

BlockNumber
next_block(ReadStream *, void *state, void *)
{
	BlockStream *blocks = static_cast<BlockStream *>(state);

	return blocks->next < blocks->end ? blocks->next++ : InvalidBlockNumber;
}

} // namespace

BlockStream *
block_stream_begin(Relation relation, BlockNumber first, BlockNumber end, BufferAccessStrategy strategy)
{
	BlockStream *blocks = static_cast<BlockStream *>(palloc(sizeof(BlockStream)));
	int flags = READ_STREAM_SEQUENTIAL | READ_STREAM_FULL;

#if PG_VERSION_NUM >= 180000
	flags |= READ_STREAM_USE_BATCHING;
#endif
	blocks->next = first;
	blocks->end = end;
	blocks->stream = read_stream_begin_relation(flags, strategy, relation, MAIN_FORKNUM, next_block, blocks, 0);
	return blocks;
}

Buffer
block_stream_next(BlockStream *stream)
{
	return read_stream_next_buffer(stream->stream, nullptr);
}

void
block_stream_end(BlockStream *stream)
{
	read_stream_end(stream->stream);
	pfree(stream);
}

#else

BlockStream *
block_stream_begin(Relation, BlockNumber, BlockNumber, BufferAccessStrategy)
{
	return nullptr;
}

Buffer
block_stream_next(BlockStream *)
{
	return InvalidBuffer;
}

void
block_stream_end(BlockStream *)
{
}

#endif

} // namespace vectorgpu::pg

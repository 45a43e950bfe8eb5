// See fake_buffers.hpp.
#include "fake_buffers.hpp"

#include <cstring>

extern "C"
{
#include "catalog/pg_class.h"
#include "executor/instrument.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
}

namespace vectorgpu::fuzz
{

void free_memory();

} // namespace vectorgpu::fuzz

namespace vectorgpu::unit
{

Stream stream;
std::vector<BlockNumber> blocks_read;
Size most_memory;

namespace
{

constexpr int kBuffers = 4;
char memory[kBuffers * BLCKSZ] __attribute__((aligned(64)));
BlockNumber blocks[kBuffers];
int next_buffer;

} // namespace

char
byte_at(uint64 byte)
{
	return static_cast<char>((byte * 0x9E3779B97F4A7C15) >> 56);
}

Relation
index()
{
	static RelationData relation = {};
	static FormData_pg_class form = {};

	std::strcpy(NameStr(form.relname), "large");
	form.relpersistence = RELPERSISTENCE_PERMANENT;
	relation.rd_rel = &form;
	return &relation;
}

/// Make the page of a block, in a buffer.
Buffer
make_page(BlockNumber block)
{
	const int buffer = next_buffer;
	char *page = memory + buffer * BLCKSZ;
	const uint32 position = block - stream.entry.start_block;

	next_buffer = (next_buffer + 1) % kBuffers;
	blocks[buffer] = block;
	blocks_read.push_back(block);
	am::page_init(page, stream.uuid, am::PageRole::kStream, stream.kind, stream.segment, position);
	for (Size i = 0; i < am::kPayloadBytes; i++)
		am::page_payload(page)[i] = byte_at(uint64{position} * am::kPayloadBytes + i);
	am::page_seal(page);
	return buffer + 1;
}

BlockNumber
block_of(Buffer buffer)
{
	return blocks[buffer - 1];
}

char *
buffer_blocks()
{
	return memory;
}

} // namespace vectorgpu::unit

using namespace vectorgpu;

extern "C"
{

	char *BufferBlocks = unit::buffer_blocks();
	Block *LocalBufferBlockPointers;
	BufferDescPadded *BufferDescriptors;
	BufferUsage pgBufferUsage;
	int NBuffers = 16;
	int NLocBuffer = 0;
	int old_snapshot_threshold = -1;

	BlockNumber RelationGetNumberOfBlocksInFork(Relation relation, ForkNumber fork)
	{
		return MaxBlockNumber;
	}

	Buffer ReadBufferExtended(
		Relation relation, ForkNumber fork, BlockNumber block, ReadBufferMode mode, BufferAccessStrategy strategy)
	{
		pgBufferUsage.shared_blks_read++; // every checksum is compared
		return unit::make_page(block);
	}

	bool ReadRecentBuffer(RelFileNode node, ForkNumber fork, BlockNumber block, Buffer buffer)
	{
		return false;
	}

	BlockNumber BufferGetBlockNumber(Buffer buffer)
	{
		return unit::block_of(buffer);
	}

	void LockBuffer(Buffer buffer, int mode) {}

	void ReleaseBuffer(Buffer buffer) {}

	void UnlockReleaseBuffer(Buffer buffer) {}

	bool RecoveryInProgress()
	{
		return false;
	}

	void PageInit(Page page, Size page_bytes, Size special_bytes)
	{
		std::memset(page, 0, page_bytes);
		reinterpret_cast<PageHeader>(page)->pd_upper = static_cast<LocationIndex>(page_bytes);
	}

	/// No memory for a bit a block of such a large index: the bits are left out then.
	void *MemoryContextAllocExtended(MemoryContext context, Size n, int flags)
	{
		unit::most_memory = Max(unit::most_memory, n);
		return nullptr;
	}

} // extern "C"

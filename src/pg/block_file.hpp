// Writes and reads blocks of a relation past the buffer cache, many in one call to the operating system: a file's lock,
// taken once a page, is what several writers of one file wait for. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::pg
{

/// Bytes of a file that are written or read in one call to the operating system. Much larger calls get large pieces of
/// memory from it, which on virtual machines may be new to it as well: 4 MB took 3 to 8 times the time of 64 kB.
constexpr Size kWrittenBytes = 128 * 1024;

/// Write n blocks of zeros behind the end of the main fork, its first at `block`. Precondition: the caller holds the
/// relation's extension lock.
void write_zero_blocks(Relation relation, BlockNumber block, BlockNumber n);

/// A file of the main fork that stays open between calls. All zeros: none.
struct BlockFile
{
	int file; // a virtual file, which an error closes too; unused from 17 on
	BlockNumber segment;
};

/// Write blocks [first, first + n), which exist, without fsync. pages [n, BLCKSZ]: with checksums.
void block_file_write(BlockFile *file, Relation relation, BlockNumber first, char *pages, uint32 n);

/// The same for blocks at the end of the file: no other process sees one of them without its contents.
void block_file_append(BlockFile *file, Relation relation, BlockNumber first, char *pages, uint32 n);

/// Read blocks [first, first + n), which exist. pages [n, BLCKSZ]: checksums are not looked at.
void block_file_read(BlockFile *file, Relation relation, BlockNumber first, char *pages, uint32 n);

void block_file_close(BlockFile *file);

/// Return the path of the main fork's first file, relative to the data directory.
char *block_file_path(Relation relation);

} // namespace vectorgpu::pg

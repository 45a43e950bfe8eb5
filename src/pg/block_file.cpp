// See block_file.hpp. From 17 on smgrwritev() and smgrreadv() take many blocks; before, the calls take one, so the file
// is opened here once more, beside the storage manager's. Both write behind the end of a file as well.
#include "pg/block_file.hpp"

extern "C"
{
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/smgr.h"
}

namespace vectorgpu::pg
{

namespace
{

constexpr uint32 kBlocksPerCall = kWrittenBytes / BLCKSZ;

} // namespace

char *
block_file_path(Relation relation)
{
	const SMgrRelation smgr = RelationGetSmgr(relation);

#if PG_VERSION_NUM >= 180000
	return pstrdup(relpath(smgr->smgr_rlocator, MAIN_FORKNUM).str);
#elif PG_VERSION_NUM >= 160000
	return relpath(smgr->smgr_rlocator, MAIN_FORKNUM);
#else
	return relpath(smgr->smgr_rnode, MAIN_FORKNUM);
#endif
}

void
write_zero_blocks(Relation relation, BlockNumber block, BlockNumber n)
{
#if PG_VERSION_NUM >= 160000
	smgrzeroextend(RelationGetSmgr(relation), MAIN_FORKNUM, block, static_cast<int>(n), false);
#else
	PGAlignedBlock zeros = {};

	for (BlockNumber i = 0; i < n; i++)
		smgrextend(RelationGetSmgr(relation), MAIN_FORKNUM, block + i, zeros.data, false);
#endif
}

#if PG_VERSION_NUM >= 170000

void
block_file_write(BlockFile *, Relation relation, BlockNumber first, char *pages, uint32 n)
{
	const void *buffers[kBlocksPerCall];

	for (uint32 done = 0; done < n; done += kBlocksPerCall)
	{
		const uint32 here = Min(n - done, kBlocksPerCall);

		for (uint32 i = 0; i < here; i++)
			buffers[i] = pages + static_cast<Size>(done + i) * BLCKSZ;
		smgrwritev(RelationGetSmgr(relation), MAIN_FORKNUM, first + done, buffers, here, true);
	}
}

void
block_file_read(BlockFile *, Relation relation, BlockNumber first, char *pages, uint32 n)
{
	void *buffers[kBlocksPerCall];

	for (uint32 done = 0; done < n; done += kBlocksPerCall)
	{
		const uint32 here = Min(n - done, kBlocksPerCall);

		for (uint32 i = 0; i < here; i++)
			buffers[i] = pages + static_cast<Size>(done + i) * BLCKSZ;
		smgrreadv(RelationGetSmgr(relation), MAIN_FORKNUM, first + done, buffers, here);
	}
}

void
block_file_close(BlockFile *)
{
}

#else

namespace
{

void
open_segment(BlockFile *file, Relation relation, BlockNumber segment)
{
	char *path = block_file_path(relation);

	if (segment > 0)
	{
		char *first = path;

		path = psprintf("%s.%u", first, segment);
		pfree(first);
	}
	block_file_close(file);
	// The file is not temporary. A file opened by this call is closed at the end of the transaction.
	file->file = PathNameOpenTemporaryFile(path, O_RDWR);
	if (file->file <= 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", path)));
	file->segment = segment;
	pfree(path);
}

/// Open the file of block `first`; return how many of n blocks from there on a call takes.
uint32
enter_segment(BlockFile *file, Relation relation, BlockNumber first, uint32 n)
{
	const BlockNumber segment = first / RELSEG_SIZE;

	if (file->file <= 0 || file->segment != segment)
		open_segment(file, relation, segment);
	return Min(Min(n, kBlocksPerCall), RELSEG_SIZE - first % RELSEG_SIZE);
}

off_t
offset_in_segment(BlockNumber block)
{
	return static_cast<off_t>(block % RELSEG_SIZE) * BLCKSZ;
}

} // namespace

void
block_file_write(BlockFile *file, Relation relation, BlockNumber first, char *pages, uint32 n)
{
	while (n > 0)
	{
		const uint32 here = enter_segment(file, relation, first, n);
		const int n_bytes = static_cast<int>(here * BLCKSZ);
		int written;

		errno = 0;
		written = FileWrite(file->file, pages, n_bytes, offset_in_segment(first), WAIT_EVENT_DATA_FILE_WRITE);
		if (written != n_bytes)
		{
			if (written >= 0) // no error is one, too little room the reason
				errno = ENOSPC;
			ereport(ERROR,
				(errcode_for_file_access(),
					errmsg("could not write blocks %u to %u in file \"%s\": %m", first, first + here - 1,
						FilePathName(file->file)),
					errhint("Check free disk space.")));
		}
		first += here;
		pages += n_bytes;
		n -= here;
	}
}

void
block_file_read(BlockFile *file, Relation relation, BlockNumber first, char *pages, uint32 n)
{
	while (n > 0)
	{
		const uint32 here = enter_segment(file, relation, first, n);
		const int n_bytes = static_cast<int>(here * BLCKSZ);
		const int n_read = FileRead(file->file, pages, n_bytes, offset_in_segment(first), WAIT_EVENT_DATA_FILE_READ);

		if (n_read != n_bytes)
			ereport(ERROR,
				(n_read < 0 ? errcode_for_file_access() : errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("could not read blocks %u to %u in file \"%s\"", first, first + here - 1,
						FilePathName(file->file))));
		first += here;
		pages += n_bytes;
		n -= here;
	}
}

void
block_file_close(BlockFile *file)
{
	if (file->file > 0)
		FileClose(file->file);
	file->file = 0;
}

#endif

void
block_file_append(BlockFile *file, Relation relation, BlockNumber first, char *pages, uint32 n)
{
	while (n > 0)
	{
		const BlockNumber within = first % RELSEG_SIZE;
		uint32 here = 1;

		if (within == 0) // makes the file
			smgrextend(RelationGetSmgr(relation), MAIN_FORKNUM, first, pages, true);
		else
		{
			here = Min(n, RELSEG_SIZE - within);
			block_file_write(file, relation, first, pages, here);
		}
		first += here;
		pages += static_cast<Size>(here) * BLCKSZ;
		n -= here;
	}
}

} // namespace vectorgpu::pg

// See row_file.hpp. Byte b is in piece b / kPieceBytes, which lies in the file of that number modulo kRowFiles.
#include "storage/row_file.hpp"

#include "pg/block_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

extern "C"
{
#include "commands/tablespace.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kPieceBytes = 4 * 1024 * 1024; // whole pages of memory

/// A part of a piece.
struct Place
{
	int file; // of kRowFiles
	off_t offset;
	Size n_bytes;
};

/// The place of the byte, and how many of n_bytes lie behind each other there.
Place
place_of(uint64 byte, Size n_bytes)
{
	const uint64 piece = byte / kPieceBytes;
	const uint64 within = byte % kPieceBytes;

	return {static_cast<int>(piece % kRowFiles), static_cast<off_t>(piece / kRowFiles * kPieceBytes + within),
		Min(n_bytes, kPieceBytes - within)};
}

} // namespace

bool
row_files_create(RowFiles *files)
{
	if (temp_file_limit >= 0)
		return false;
	PrepareTempTablespaces();
	for (int &file : files->files)
		file = OpenTemporaryFile(false);
	return true;
}

void
row_files_open(RowFiles *files, const RowPaths *paths)
{
	for (int i = 0; i < kRowFiles; i++)
	{
		files->files[i] = PathNameOpenTemporaryFile(paths->names[i], O_RDWR);
		if (files->files[i] <= 0)
			ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", paths->names[i])));
	}
}

void
row_files_paths(const RowFiles *files, RowPaths *paths)
{
	for (int i = 0; i < kRowFiles; i++)
		strlcpy(paths->names[i], FilePathName(files->files[i]), MAXPGPATH);
}

void
row_files_write(const RowFiles *files, uint64 byte, const void *data, Size n_bytes)
{
	char *bytes = static_cast<char *>(const_cast<void *>(data));

	while (n_bytes > 0)
	{
		const Place place = place_of(byte, Min(n_bytes, pg::kWrittenBytes));
		const File file = files->files[place.file];
		int written;

		errno = 0;
		written = FileWrite(file, bytes, static_cast<int>(place.n_bytes), place.offset, WAIT_EVENT_BUFFILE_WRITE);
		if (written != static_cast<int>(place.n_bytes))
		{
			if (written >= 0) // no error is one, too little room the reason
				errno = ENOSPC;
			ereport(
				ERROR, (errcode_for_file_access(), errmsg("could not write to file \"%s\": %m", FilePathName(file))));
		}
		bytes += place.n_bytes;
		byte += place.n_bytes;
		n_bytes -= place.n_bytes;
	}
}

void
row_files_read(const RowFiles *files, uint64 byte, void *data, Size n_bytes)
{
	char *bytes = static_cast<char *>(data);

	while (n_bytes > 0)
	{
		const Place place = place_of(byte, n_bytes);
		const File file = files->files[place.file];
		const int read = FileRead(file, bytes, static_cast<int>(place.n_bytes), place.offset, WAIT_EVENT_BUFFILE_READ);

		if (read != static_cast<int>(place.n_bytes))
			ereport(ERROR,
				(errcode(read < 0 ? ERRCODE_IO_ERROR : ERRCODE_DATA_CORRUPTED),
					errmsg("could not read file \"%s\"", FilePathName(file))));
		bytes += place.n_bytes;
		byte += place.n_bytes;
		n_bytes -= place.n_bytes;
	}
}

void
row_files_free(const RowPaths *paths, int first, int n)
{
#ifdef FALLOC_FL_PUNCH_HOLE
	for (int i = first; i < kRowFiles; i += n)
	{
		const int descriptor = OpenTransientFile(paths->names[i], O_RDWR);
		struct stat status;

		if (descriptor < 0)
			continue; // a failure leaves it to row_files_close
		if (fstat(descriptor, &status) == 0 && status.st_size > 0)
			(void) fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size);
		CloseTransientFile(descriptor);
	}
#else
	(void) paths, (void) first, (void) n;
#endif
}

void
row_files_close(RowFiles *files)
{
	for (int &file : files->files)
	{
		if (file > 0)
			FileClose(file);
		file = 0;
	}
}

char *
row_files_map(const RowPaths *paths, Size n_bytes)
{
	int descriptors[kRowFiles];
	void *all;

	for (int i = 0; i < kRowFiles; i++)
	{
		descriptors[i] = OpenTransientFile(paths->names[i], O_RDONLY);
		if (descriptors[i] < 0)
			ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", paths->names[i])));
	}
	all = mmap(nullptr, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (uint64 byte = 0; all != MAP_FAILED && byte < n_bytes; byte += kPieceBytes)
	{
		const Place place = place_of(byte, n_bytes - byte);

		if (mmap(static_cast<char *>(all) + byte, place.n_bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
				descriptors[place.file], place.offset) == MAP_FAILED)
		{
			const int error = errno;

			(void) munmap(all, n_bytes);
			errno = error;
			all = MAP_FAILED;
		}
	}
	if (all == MAP_FAILED)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not map file \"%s\": %m", paths->names[0])));
	for (const int descriptor : descriptors)
		CloseTransientFile(descriptor);
	return static_cast<char *>(all);
}

void
row_files_unmap(char *bytes, Size n_bytes)
{
	(void) munmap(bytes, n_bytes);
}

} // namespace vectorgpu::am

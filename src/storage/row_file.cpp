// See row_file.hpp.
#include "storage/row_file.hpp"

#include <sys/mman.h>

extern "C"
{
#include "commands/tablespace.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

int
row_file_create()
{
	if (temp_file_limit >= 0)
		return 0;
	PrepareTempTablespaces();
	return OpenTemporaryFile(false);
}

int
row_file_open(const char *path)
{
	const File file = PathNameOpenTemporaryFile(path, O_RDWR);

	if (file <= 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", path)));
	return file;
}

const char *
row_file_path(int file)
{
	return FilePathName(file);
}

void
row_file_write(int file, uint64 byte, const void *data, Size n_bytes)
{
	constexpr Size kMostBytes = 64 * 1024 * 1024; // in one call
	char *bytes = static_cast<char *>(const_cast<void *>(data));

	while (n_bytes > 0)
	{
		const int here = static_cast<int>(Min(n_bytes, kMostBytes));
		int written;

		errno = 0;
		written = FileWrite(file, bytes, here, static_cast<off_t>(byte), WAIT_EVENT_BUFFILE_WRITE);
		if (written != here)
		{
			if (written >= 0) // no error is one, too little room the reason
				errno = ENOSPC;
			ereport(
				ERROR, (errcode_for_file_access(), errmsg("could not write to file \"%s\": %m", FilePathName(file))));
		}
		bytes += here;
		byte += static_cast<uint64>(here);
		n_bytes -= static_cast<Size>(here);
	}
}

void
row_file_close(int *file)
{
	if (*file > 0)
		FileClose(*file);
	*file = 0;
}

char *
row_file_map(const char *path, Size n_bytes)
{
	const int fd = OpenTransientFile(path, O_RDONLY);
	void *bytes;

	if (fd < 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", path)));
	bytes = mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not map file \"%s\": %m", path)));
	CloseTransientFile(fd);
	return static_cast<char *>(bytes);
}

void
row_file_unmap(char *bytes, Size n_bytes)
{
	(void) munmap(bytes, n_bytes);
}

} // namespace vectorgpu::am

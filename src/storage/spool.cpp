// See spool.hpp.
#include "storage/spool.hpp"

namespace vectorgpu::am
{

namespace
{

[[noreturn]] void
spool_failed()
{
	ereport(ERROR, (errcode_for_file_access(), errmsg("could not read a temporary file of the index build")));
	pg_unreachable();
}

} // namespace

void
spool_read(BufFile *file, void *data, Size n_bytes)
{
	if (BufFileRead(file, data, n_bytes) != n_bytes)
		spool_failed();
}

void
spool_seek(BufFile *file, uint64 byte)
{
	if (BufFileSeek(file, 0, static_cast<off_t>(byte), SEEK_SET) != 0)
		spool_failed();
}

void
spool_close(BufFile **file)
{
	if (*file != nullptr)
		BufFileClose(*file);
	*file = nullptr;
}

} // namespace vectorgpu::am

// See sweep.hpp. PostgreSQL 15 does not tell an access method of a DROP, and a drop that hooks see can be rolled back;
// so the relation's file decides. An index always has a block, so an empty file waits for the next checkpoint to be
// removed. Dropping a copy by mistake only costs a load.
#include "bridge/sweep.hpp"

#include "bridge/client_session.hpp"
#include "pg/fault.hpp"

#include <cstring>

#include <sys/stat.h>

namespace vectorgpu::bridge
{

namespace
{

bool
relation_is_gone(const wire::CopyKey *key)
{
	char *path = pg::main_file_path(key->database, key->tablespace, key->relfilenode);
	struct stat status;
	const bool gone = stat(path, &status) != 0 ? errno == ENOENT : status.st_size == 0;

	pfree(path);
	return gone;
}

/// If another copy has the same file with another uuid, the file was created anew: return the copy of the two that was
/// used longer ago, which is outdated. Null if there is no other.
const wire::CopyInfo *
older_twin(const wire::CopyInfo *copies, uint32 n, const wire::CopyInfo *copy)
{
	for (uint32 i = 0; i < n; i++)
	{
		const wire::CopyInfo *other = &copies[i];

		if (other != copy && other->key.database == copy->key.database &&
			other->key.tablespace == copy->key.tablespace && other->key.relfilenode == copy->key.relfilenode)
			return other->last_used_ns < copy->last_used_ns ? other : copy;
	}
	return nullptr;
}

bool
drop_copy(const wire::CopyKey *key)
{
	wire::ReplyHeader header;
	Fallback reason;

	return session_ready(false) &&
		session_request(wire::RequestType::kDrop, key, nullptr, 0, &header, nullptr, 0, &reason);
}

} // namespace

void
sweep_copies()
{
	wire::CopyInfo *copies = static_cast<wire::CopyInfo *>(palloc(sizeof(wire::CopyInfo) * kCopiesPerReply));
	uint32 n;

	(void) VG_FAULT("sweep");
	for (uint32 first = 0; (n = session_inventory(first, copies)) > 0; first += n)
		for (uint32 i = 0; i < n; i++)
		{
			const wire::CopyInfo *copy = &copies[i];

			if (copy->leased == 0 && (relation_is_gone(&copy->key) || older_twin(copies, n, copy) == copy) &&
				!drop_copy(&copy->key))
			{
				pfree(copies);
				return;
			}
		}
	pfree(copies);
}

} // namespace vectorgpu::bridge

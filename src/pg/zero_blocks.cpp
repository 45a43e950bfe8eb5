// See zero_blocks.hpp.
#include "pg/zero_blocks.hpp"

extern "C"
{
#include "storage/smgr.h"
}

namespace vectorgpu::pg
{

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

} // namespace vectorgpu::pg

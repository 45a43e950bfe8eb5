// See generic_record.hpp. The layout of the record is the one that generic_redo of PostgreSQL 9.6 to 18 reads: for each
// block, (offset, length, bytes) of every fragment, one after the other.
#include "pg/generic_record.hpp"

extern "C"
{
#include "access/rmgr.h"
#include "access/xloginsert.h"
#include "storage/bufmgr.h"
}

namespace vectorgpu::pg
{

static_assert(sizeof(ChangedPart) == 2 * sizeof(OffsetNumber));
static_assert(MAX_GENERIC_XLOG_PAGES * kMaxChangedParts * 2 <= XLR_NORMAL_RDATAS);

void
log_changed_pages(const ChangedPage *pages, int n_pages)
{
	XLogRecPtr lsn;

	Assert(CritSectionCount > 0 && n_pages <= MAX_GENERIC_XLOG_PAGES);
	XLogBeginInsert();
	for (int i = 0; i < n_pages; i++)
	{
		const Page page = BufferGetPage(pages[i].buffer);
		const uint8 block_id = static_cast<uint8>(i);

		XLogRegisterBuffer(block_id, pages[i].buffer, REGBUF_STANDARD);
		for (int j = 0; j < pages[i].n_parts; j++)
		{
			const ChangedPart *part = &pages[i].parts[j];

			XLogRegisterBufData(block_id, const_cast<char *>(reinterpret_cast<const char *>(part)), sizeof(*part));
			XLogRegisterBufData(block_id, page + part->offset, part->length);
		}
	}
	lsn = XLogInsert(RM_GENERIC_ID, 0);
	for (int i = 0; i < n_pages; i++)
		PageSetLSN(BufferGetPage(pages[i].buffer), lsn);
}

} // namespace vectorgpu::pg

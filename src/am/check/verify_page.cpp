// One page under vectorgpu_check. See verify_page.hpp. PG dialect.
#include "am/check/verify_page.hpp"

#include "storage/delta.hpp"

#include <cstring>

extern "C"
{
#include "access/xlog.h"
}

namespace vectorgpu::am
{

bool
all_zero(const char *bytes, Size n)
{
	for (Size i = 0; i < n; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

bool
valid_row_id(RowId row)
{
	return row <= kDeltaRowIdMask && row_id_block(row) != InvalidBlockNumber && OffsetNumberIsValid(row_id_offset(row));
}

void
check_copy_page(PageCheck *check, BlockNumber block, const PageExpectation &expect)
{
	const PageHeaderData *header = reinterpret_cast<const PageHeaderData *>(check->copy.data);
	bool foreign = false;
	Buffer buffer;

	CHECK_FOR_INTERRUPTS();
	buffer = page_run_read(&check->pages, block, expect, BUFFER_LOCK_SHARE, ChecksumPolicy::kAlways, &foreign);
	if (foreign)
	{
		// On a primary the check's snapshot protects its pages from being recycled.
		if (RecoveryInProgress())
			page_recycled(check->index, block);
		page_corrupted(check->index, block, "The page is not part of what the metapage says.");
	}
	memcpy(check->copy.data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	// page_read skips a checksum that this backend has verified before; the check does not.
	if (!page_checksum_ok(check->copy.data))
		page_corrupted(check->index, block, "The checksum of the page does not match its contents.");
	// The checksum does not cover the page header. LSN and core's checksum are left to core.
	if (header->pd_lower > BLCKSZ || header->pd_upper != BLCKSZ || header->pd_special != BLCKSZ ||
		header->pd_lower < (has_hole(expect.role) ? kPayloadOffset : Size(BLCKSZ)) || header->pd_flags != 0 ||
		!TransactionIdEquals(header->pd_prune_xid, InvalidTransactionId) ||
		header->pd_pagesize_version != (BLCKSZ | PG_PAGE_LAYOUT_VERSION))
		page_corrupted(check->index, block, "The page header is wrong for this kind of page.");
	if (!all_zero(check->copy.data + header->pd_lower, BLCKSZ - header->pd_lower))
		page_corrupted(check->index, block, "The hole of the page is not empty.");
	check->result->pages_checked++;
}

void
check_vectors(PageCheck *check, BlockNumber block, const char *bytes, uint64 first_byte, Size n_bytes)
{
	const Size vector_size = meta_vector_bytes(check->meta);
	bool finite = true;

	switch (check->meta->element)
	{
		case ElementType::kFloat32:
			for (Size i = 0; i < n_bytes; i += sizeof(uint32))
			{
				uint32 bits;

				memcpy(&bits, bytes + i, sizeof(bits));
				finite = finite && (bits & 0x7F800000) != 0x7F800000;
			}
			break;
		case ElementType::kFloat16:
			for (Size i = 0; i < n_bytes; i += sizeof(uint16))
			{
				uint16 bits;

				memcpy(&bits, bytes + i, sizeof(bits));
				finite = finite && (bits & 0x7C00) != 0x7C00;
			}
			break;
		case ElementType::kBit:
		{
			const uint8 pad = static_cast<uint8>(0xFF >> (check->meta->dim % 8));

			if (check->meta->dim % 8 == 0)
				break;
			for (Size i = 0; i < n_bytes; i++)
				if ((first_byte + i + 1) % vector_size == 0 && (bytes[i] & pad) != 0)
					page_corrupted(check->index, block, "A bit string has bits after its end.");
			break;
		}
		case ElementType::kSet:
			break; // checked by the access method (SegmentFormat::check)
	}
	if (!finite)
		page_corrupted(check->index, block, "A vector has an element that is not finite.");
}

} // namespace vectorgpu::am

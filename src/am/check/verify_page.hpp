// One page under vectorgpu_check: functions shared by the checks of segments and of the delta. PG dialect.
#pragma once

#include "am/check/verify.hpp"

#include "storage/page_run.hpp"

namespace vectorgpu::am
{

/// The state of a check.
struct PageCheck
{
	Relation index;
	const MetaData *meta;
	BufferAccessStrategy strategy;
	PageRun pages; // of the stream being checked
	CheckResult *result;
	PGAlignedBlock copy; // copy of the page being checked
};

/// The payload of the page in check->copy.
inline const char *
checked_payload(const PageCheck *check)
{
	return check->copy.data + kPayloadOffset;
}

/// True if all bytes are 0.
bool all_zero(const char *bytes, Size n);

/// True if a row id can be a TID.
bool valid_row_id(RowId row);

/// Copy a page into check->copy. Raises XX001 unless the page is what the metapage says, its checksum and header are
/// right and its hole is zero.
void check_copy_page(PageCheck *check, BlockNumber block, const PageExpectation &expect);

/// Raise XX001 if a vector has an element that is not finite, or a bit string has bits after its end. bytes [n_bytes]
/// begin at byte first_byte of the vectors. Elements never cross a page border, since the payload is a multiple of 64
/// bytes.
void check_vectors(PageCheck *check, BlockNumber block, const char *bytes, uint64 first_byte, Size n_bytes);

} // namespace vectorgpu::am

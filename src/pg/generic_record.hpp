// Generic WAL records whose changed bytes the caller names. PG dialect.
//
// GenericXLogFinish finds out what has changed by comparing the whole page byte by byte, which was half the time of an
// insert. Who knows the place of its change can log it at once; the record is an ordinary one of core's generic
// resource manager, so that replay, masking and pg_waldump need no code of ours.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/generic_xlog.h"
#include "storage/buf.h"
#include "storage/off.h"
}

namespace vectorgpu::pg
{

constexpr int kMaxChangedParts = 2;

/// Bytes [offset, offset + length) of a page. Stored in the record as it is: generic WAL's fragment header.
struct ChangedPart
{
	OffsetNumber offset;
	OffsetNumber length;
};

/// A page, locked exclusively, and the parts that differ from what it was; what lies between pd_lower and pd_upper is
/// zero.
struct ChangedPage
{
	Buffer buffer;
	int n_parts;
	ChangedPart parts[kMaxChangedParts];
};

/// Logs the changes of up to MAX_GENERIC_XLOG_PAGES pages as one record and stamps the pages with it. Call it inside
/// the critical section in which the pages were changed and marked dirty, for relations that need WAL only.
void log_changed_pages(const ChangedPage *pages, int n_pages);

} // namespace vectorgpu::pg

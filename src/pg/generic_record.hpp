// Generic WAL records whose changed bytes the caller names. PG dialect.
//
// GenericXLogFinish compares the whole page byte by byte to find the changes, which was half the time of an insert. A
// caller that knows the changed bytes logs them directly with this file's function. The record is an ordinary one of
// core's generic resource manager, so replay, masking and pg_waldump need no code of ours.
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

/// Bytes [offset, offset + length) of a page. Stored in the record unchanged, as generic WAL's fragment header.
struct ChangedPart
{
	OffsetNumber offset;
	OffsetNumber length;
};

/// An exclusively locked page and its changed parts. The bytes between pd_lower and pd_upper must be zero.
struct ChangedPage
{
	Buffer buffer;
	int n_parts;
	ChangedPart parts[kMaxChangedParts];
};

/// Log the changes of up to MAX_GENERIC_XLOG_PAGES pages as one record and set the pages' LSN to it. Call it inside the
/// critical section in which the pages were changed and marked dirty, and only for relations that need WAL.
void log_changed_pages(const ChangedPage *pages, int n_pages);

} // namespace vectorgpu::pg

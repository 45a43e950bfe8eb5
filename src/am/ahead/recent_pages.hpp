// Where pages of a table were in the buffer cache when they were read last. A join's index scans fetch the same pages
// again and again, one row each; finding a page's buffer by the server's hash table, and waiting for memory at the
// page, its line pointer and the row, took two thirds of the session's time. Here a page is looked for where it was,
// and the memory of rows that will be fetched soon is asked for early. Knows tables of the heap access method that are
// not temporary. PG dialect.
#pragma once

#include "common/types.hpp"
#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
}

namespace vectorgpu::am
{

struct RecentPages;

/// Make an empty table of places in the context, of at most n_bytes or a few. Null for a table whose pages this cannot
/// find.
RecentPages *recent_pages_make(MemoryContext context, Relation table, Size n_bytes);

/// Let the scan's fetch hold the page of a row, so that it does not look for it: as the fetch itself does, the page is
/// read, counted and pruned. Holds the pin that the fetch holds, and no other.
void recent_pages_hold(RecentPages *pages, IndexScanDesc scan, RowId row);

/// Ask for the memory by which a row is found in its page, without waiting. Does nothing if the page is not known.
void recent_pages_prefetch_page(const RecentPages *pages, RowId row);

/// Ask for the memory of the row itself, some time after that of its page.
void recent_pages_prefetch_row(const RecentPages *pages, RowId row);

} // namespace vectorgpu::am

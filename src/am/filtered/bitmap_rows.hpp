// The bitmap of other indexes in the executor: run when a filtered scan starts, and kept while its parameters stay the
// same. PG dialect. Used by the files of this folder.
#pragma once

#include "am/scan/row_set.hpp"

extern "C"
{
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

struct BitmapRows
{
	PlanState *plan;       // null: the scan has no bitmap
	MemoryContext context; // of the rows
	bool known;
	RowSet rows;
};

/// plans: the bitmap's plan, or none.
void bitmap_rows_begin(BitmapRows *bitmap, CustomScanState *node, List *plans, EState *estate, int eflags);

/// The rows that it has, until the next rescan; null: there is no bitmap.
const RowSet *bitmap_rows_find(BitmapRows *bitmap);

void bitmap_rows_rescan(BitmapRows *bitmap, CustomScanState *node);
void bitmap_rows_end(BitmapRows *bitmap);

} // namespace vectorgpu::am

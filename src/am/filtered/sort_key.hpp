// Sort keys that an index serves: the distance, and expressions that grow or fall with it. PG dialect. Used by
// filtered_path.cpp.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// How an index serves a query's first sort key.
struct SortKey
{
	Expr *
		distance; // the operator that the index orders by, with the column on its left; null: it does not serve the key
	Expr *expression; // what the query orders by
	bool core;        // core orders by it, too: the distance, ascending, NULLs last
	bool nulls_first;
	bool nan_first; // rows whose distance is NaN, which may exist, come before all numbers: the key is descending
	bool rough;     // distances may differ in their last bits from the operator's: rows of equal keys may be apart
};

/// Return how the index serves the query's first sort key.
SortKey sort_key_find(PlannerInfo *root, IndexOptInfo *index);

} // namespace vectorgpu::am

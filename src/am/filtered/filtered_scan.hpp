// The executor's side of the custom scan `Vectorgpu Filtered Scan`. PG dialect.
#pragma once

#include "am/keys/key_tree.hpp"
#include "am/filtered/bitmap_rows.hpp"
#include "pg/ordered_scan.hpp"

extern "C"
{
#include "commands/explain.h"
#include "nodes/extensible.h"
}

namespace vectorgpu::am
{

/// The rows that one scan of the index returns. Orders that begin with rows that an index has last take several.
enum class ScanPart : uint8
{
	kAll,    // in the order of the index
	kNull,   // without a value
	kNan,    // with a value, at a distance that is NaN
	kValues, // with a value, but for those of kNan if that is another part
};
constexpr int kMostParts = 3;

struct FilteredScanState
{
	pg::FilteredNode node; // first
	ExprState *conditions; // what the index decides, tested on rows where codes leave it open
	ExprState *order;      // what the order is computed from: the right operand
	ExprState **others;    // [n_others] the other sides of conditions
	int n_others;
	const List *numbers;        // see filtered_plan.hpp
	ExprContext *context;       // of their values, from one start of the scan to the next
	ScanPart parts[kMostParts]; // [n_parts] in their order
	int n_parts;
	int part;        // the present one; n_parts: there are no more rows
	ScanKeyData key; // of the order, from one start of the scan to the next
	bool started;
	BitmapRows bitmap; // of other indexes
};

extern const CustomScanMethods filtered_plan_methods;

/// ExplainCustomScan.
void filtered_explain(CustomScanState *node, List *ancestors, ExplainState *es);

/// Register the plan's methods, by which parallel workers find them. Called once, from _PG_init.
void filtered_scan_install();

} // namespace vectorgpu::am

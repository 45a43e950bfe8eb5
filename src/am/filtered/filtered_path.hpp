// Paths of the custom scan `Vectorgpu Filtered Scan`: an index in order, with conditions that core hands to no index.
// PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// The private nodes of a path and what they are.
enum FilteredPathPart
{
	kPathScan,        // IndexPath: the scan that the path stands for, whose cost it has
	kPathNumbers,     // integers: see clause.hpp
	kPathExpressions, // see clause.hpp
	kPathOrder,       // integers: see kPlanOrderFlags
};

/// Define vectorgpu.enable_filtered_scan and vectorgpu.enable_derived_order, and install the hook. Called once, from
/// _PG_init.
void filtered_path_install();

} // namespace vectorgpu::am

// The conditions of a filtered scan, with the values that they have when it starts. PG dialect. Used by the files of
// this folder.
#pragma once

#include "am/filtered/filtered_scan.hpp"

namespace vectorgpu::am
{

/// Compute the other sides of the conditions, in state->context, and make the tree of them there. Operands of OR behind
/// one that all rows meet, and of AND behind one that none does, are not computed. Null: there are no conditions.
const KeyTree *condition_tree(const FilteredScanState *state);

} // namespace vectorgpu::am

// The snapshot of a copy as a search with conditions sees it: rows that fail count as dead. Thread-safe; throws
// bad_alloc.
#pragma once

#include <memory>
#include <vector>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/interface/passing.hpp"

namespace vectorgpu::engine
{

/// A segment whose passing rows are listed: their places, ascending. Rows with a tombstone are among them.
struct ListedRows
{
	std::shared_ptr<const RowsView> view;
	std::shared_ptr<const void> held; // keeps the places
	const std::vector<uint32_t> *places;
};

struct MaskedSnapshot
{
	Snapshot snapshot; // the delta, and the segments whose passing rows are not listed; rows that fail are dead
	std::vector<ListedRows> listed; // the others
};

/// Leave out of a snapshot the rows that fail. What is derived from `passing`, which has to outlive the result, is kept
/// beside it.
MaskedSnapshot mask_snapshot(const Snapshot &snapshot, const Passing &passing);

} // namespace vectorgpu::engine

// The list way of searches with conditions: canonical scores of the rows that pass, one by one, and the k first of each
// query. All queries go in the same launches, whatever their conditions (kernels/canonical/README.md, "Listed rows").
#pragma once

#include <vector>

#include "cuda/device/budget.hpp"
#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// True if every segment of the snapshot has a list, and few rows of the delta pass.
bool is_listed(const Snapshot &snapshot, const engine::Passing &passing);

/// True if few rows of the delta pass.
bool may_be_listed(const Snapshot &snapshot, const engine::Passing &passing);

/// Answer the queries of these numbers, with k of 1 to kMaxSelectK and conditions for which may_be_listed() is true. Of
/// segments without a list one is made; kOutOfMemory if it has no room. Queries that find no room are added to *left.
/// Lists of segments are kept on the device (passing_device.hpp) as far as the budget goes. Waits for the stream.
Status search_listed(
	const SearchCall &call, Budget *budget, std::vector<uint32_t> numbers, std::vector<uint32_t> *left);

} // namespace vectorgpu::cuda

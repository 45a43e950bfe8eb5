// The mask way of searches with conditions: a snapshot whose tombstones are the rows that fail or are dead. Every exact
// search of a snapshot takes it.
#pragma once

#include "cuda/device/budget.hpp"
#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Make *view from call.snapshot, without segments where no row passes. Bitmaps of segments are kept
/// (passing_device.hpp) as far as the budget goes, those of the delta, and others for which there is no room, lie in
/// context->masks: the view is valid until the next one is made on this context. kInvalidArgument if `passing` is of
/// other segments.
Status mask_snapshot(const SearchCall &call, Budget *budget, const engine::Passing &passing, Snapshot *view);

} // namespace vectorgpu::cuda

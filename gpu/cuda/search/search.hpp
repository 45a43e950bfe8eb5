// Batched exact search over a snapshot of a copy, on one context from start to end. Throws bad_alloc.
#pragma once

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// kCancelled if control says stop. Waits for the stream.
Status search_snapshot(const SearchCall &call);

} // namespace vectorgpu::cuda

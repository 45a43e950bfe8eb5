// The end of a search that its caller has stopped.
#pragma once

#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

/// control: may be null.
inline bool
is_stopped(const engine::SearchControl *control)
{
	return control != nullptr && control->stop.load(std::memory_order_relaxed);
}

inline Status
stopped()
{
	return Status::error(StatusCode::kCancelled, "the search was stopped");
}

} // namespace vectorgpu::cuda

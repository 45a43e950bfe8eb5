// An engine that keeps nothing and answers every search at once with k invented rows, to measure the cost of a request
// without the engine's time. Not for users.
#pragma once

#include <memory>

#include "engine/interface/engine.hpp"

namespace vectorgpu::worker
{

std::unique_ptr<engine::Engine> make_null_engine();

} // namespace vectorgpu::worker

// An engine that keeps nothing and answers every search with k made-up rows at once: what a request costs beside the
// engine's own time is measured with it. Not for users.
#pragma once

#include <memory>

#include "engine/interface/engine.hpp"

namespace vectorgpu::worker
{

std::unique_ptr<engine::Engine> make_null_engine();

} // namespace vectorgpu::worker

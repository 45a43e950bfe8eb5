// A GPU that computes wrongly must not be used: every kernel against the CPU's answer, in well under a second.
#pragma once

#include "engine/engine.hpp"

namespace vectorgpu::cuda
{

/// kUnavailable, with what differed, if the engine's answers are not the canonical ones bit for bit.
Status self_test(engine::Engine *engine);

} // namespace vectorgpu::cuda

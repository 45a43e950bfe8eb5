// Memory of the server for the engine of match counts. PG dialect.
#pragma once

#include "engine/match/run_builder.hpp"

namespace vectorgpu::am
{

/// Memory of the current memory context. Raises an error if there is none left.
engine::match::Memory match_memory();

} // namespace vectorgpu::am

// The rows that a SEARCH names itself, instead of a program (wire::GivenRows).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/interface/passing.hpp"

namespace vectorgpu::worker
{

/// Return the rows of the bytes of wire::GivenRows, or null if they are malformed: a client's bytes, not checked yet.
/// delta_first: the copy's first row of the delta; delta_end: at most the end of its delta. Throws bad_alloc.
std::shared_ptr<const engine::Passing> given_rows(
	std::span<const uint8_t> bytes, uint64_t delta_first, uint64_t delta_end);

} // namespace vectorgpu::worker

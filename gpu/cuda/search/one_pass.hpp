// A small exact batch over byte rows in one pass (kernels/filter/one_pass.hpp): one launch goes over segments and
// delta.
#pragma once

#include <span>
#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Answers the queries of these numbers if they and the snapshot suit this way; *taken: whether it was taken. Queries
/// that it could not answer go to redo. The process runs one such search at a time on a device, whatever the engine:
/// *taken is false for the others. It is also false for a launch that gave up, as happens if another process uses so
/// much of the device that not all blocks run together, and for all searches of the pause that follows.
Status search_one_pass(
	const SearchCall &call, std::span<const uint32_t> numbers, std::vector<uint32_t> *redo, bool *taken);

} // namespace vectorgpu::cuda

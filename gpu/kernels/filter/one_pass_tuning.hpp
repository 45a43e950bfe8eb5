// Choices of the searches in one pass, as data: README.md, "One pass", has the measurements.
#pragma once

#include <cstdint>

namespace vectorgpu::kernels
{

/// Measured choices; benchmarks and tests try others.
struct OnePassTuning
{
	uint32_t stages_on_the_way = 5; // copies of a block: enough for the memory's bandwidth; more only delay other loads
	uint32_t least_queries_to_share = 33; // from here on blocks share out tiles, ...
	uint32_t least_tiles_to_share = 24;   // ... if a block has at least this many
	uint32_t shared_tiles = 2;            // that a block takes at a time
	uint64_t kept_bytes = 24 << 20;       // of the rows, which stay in L2 from one search to the next while others make
										  // way; 0: no preference
	bool exact_scores = true; // compute scores from estimates where these are exact; else candidates are rescored
	bool ranked = false;      // find the first of exact scores by counting; not measured
};

} // namespace vectorgpu::kernels

// Choices of the searches in one pass, as data: README.md, "One pass", has the measurements.
#pragma once

#include <cstdint>

namespace vectorgpu::kernels
{

/// Measured choices; benchmarks and tests try others.
struct OnePassTuning
{
	uint32_t stages_on_the_way = 4;    // copies of a block: enough for memory to give what it can, more only hold up other loads
	uint32_t least_tiles_to_share = 24; // of a block; 0xFFFFFFFF: none are shared out
	uint32_t shared_tiles = 4;         // that a block takes at a time
	uint64_t kept_bytes = 0;           // of the rows, that are to stay in L2 from one search to the next while others make way; 0: no preference
	bool kept_last = false;            // these stay even before what is not of searches in one pass
	uint32_t fetch_cycles = 0;         // while all stages are full, rows go to L2, 16 KB so often; 0: they do not
	bool fetch_candidates = false;     // what the end reads of them goes to L2 when they are found
	bool exact_scores = false;         // scores are made of estimates where these are exact; else candidates are rescored
	uint32_t fetch_tiles = 16;         // so far ahead at most
};

} // namespace vectorgpu::kernels

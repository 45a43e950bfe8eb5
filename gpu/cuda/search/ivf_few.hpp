// Few queries over inverted lists in two launches (kernels/ivf/ivf_few.hpp), which write the answers into pinned
// memory: over bytes by integer products, over any numbers by canonical scores.
#pragma once

#include <vector>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// *taken: false if the queries, the lists or k do not suit this way; then nothing has happened. call.results
/// [queries], empty before, get the answers over all sources. The numbers of queries without an answer go to redo. All
/// queries have probes and a k of 1 or more.
Status search_few(
	const SearchCall &call, const std::vector<const Source *> &sources, std::vector<uint32_t> *redo, bool *taken);

} // namespace vectorgpu::cuda

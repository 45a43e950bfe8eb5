// The CPU engine: resident copies in host memory, batched search. The worker's engine where there is no GPU, and the
// reference of the others. Backends do not link it: they scan pages with distance.hpp and topk.hpp.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/cpu/near_groups_tuning.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

struct CpuEngineOptions
{
	size_t n_threads = 1; // threads of one search, the caller included

	/// From this many queries on a batch goes through the GEMM filter; below, every row is scored canonically.
	size_t gemm_min_queries = 8;

	NearGroupsTuning near_groups = {}; // of graphs whose nearest rows another engine finds
};

/// Return null only if out of memory.
std::unique_ptr<Engine> make_cpu_engine(const CpuEngineOptions &options);

} // namespace vectorgpu::engine

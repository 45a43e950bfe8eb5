// A GPU that computes wrongly must not be used: every kernel against the CPU's answer, in well under a second.
#pragma once

#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

class CudaEngine;

/// kUnavailable, with what differed, if the engine's answers are not the canonical ones bit for bit.
Status self_test(engine::Engine *engine);

/// The same of small batches over bytes, which are to be searched in one pass. kUnavailable, too, if one of them went
/// another way, as happens where a pass is given up: answers of others prove nothing.
Status self_test_one_pass(CudaEngine *engine);

/// The same of small batches over lists of bytes, which are to be searched in two launches.
Status self_test_few_lists(CudaEngine *engine);

/// ... over lists of any numbers, bytes among them.
Status self_test_few_real_lists(CudaEngine *engine);

/// self_test_bins.cpp. The same of queries with a recall target, against the reduction of engine/partial_reduce.
Status self_test_bins(engine::Engine *engine);

/// self_test_graph.cpp. The same of copies of graphs alone. steps: nodes that a search expands at a time.
Status self_test_graphs(engine::Engine *engine, uint32_t steps);

/// self_test_graph.cpp. The same of graphs of bit strings.
Status self_test_bit_graphs(engine::Engine *engine, uint32_t steps);

/// self_test_hashed.cpp. The same of copies of graphs with codes, against the CPU engine. n_searches: how many of a
/// segment by codes the GPU was asked for.
Status self_test_hashed(engine::Engine *engine, uint64_t *n_searches);

/// self_test_codes.cpp. The same of copies of lists with codes.
Status self_test_codes(engine::Engine *engine);

/// self_test_match.cpp. The same of copies of sets and texts alone: match counts and edit distances. n_searches: how
/// many of a segment the GPU was asked for.
Status self_test_matches(engine::Engine *engine, uint64_t *n_searches);

} // namespace vectorgpu::cuda

// Tests at start, since a GPU that computes wrongly must not be used: the answers of each kernel are compared with the
// CPU's. They take well under a second together.
#pragma once

#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

class CudaEngine;

// All return kUnavailable, with the difference as the message, if an answer of the engine is not the canonical one bit
// for bit; or the error of a call.

/// Rows, lists and builds of lists: the parts without which an engine is not used.
Status self_test(engine::Engine *engine);

/// Rows that are to be kept rounded to signed bytes; like self_test_one_pass.
Status self_test_scaled(CudaEngine *engine);

/// Small batches over bytes, which are to be searched in one pass. Also kUnavailable if one of them went another way,
/// as when a pass gives up: the answers of other ways prove nothing.
Status self_test_one_pass(CudaEngine *engine);

/// self_test_lists.cpp. Inverted lists; a part of self_test().
Status self_test_lists(engine::Engine *engine);

/// self_test_lists.cpp. Small batches over lists of bytes, which are to be searched in two launches; like
/// self_test_one_pass.
Status self_test_few_lists(CudaEngine *engine);

/// self_test_lists.cpp. The same over lists of any numbers, bytes among them.
Status self_test_few_real_lists(CudaEngine *engine);

/// self_test_lists.cpp. Lists of reals by estimates over rounded rows; like self_test_one_pass.
Status self_test_rounded_lists(CudaEngine *engine);

/// self_test_lists.cpp. The same over rows that are to be kept rounded to signed bytes alone.
Status self_test_scaled_lists(CudaEngine *engine);

/// self_test_builder.cpp. Builds of lists; a part of self_test().
Status self_test_list_builder(engine::Engine *engine);

/// self_test_bins.cpp. Queries with a recall target, against the reduction of engine/distance/partial_reduce.hpp.
Status self_test_bins(engine::Engine *engine);

/// self_test_graph.cpp. Copies of graphs. steps: nodes that a search expands at a time.
Status self_test_graphs(engine::Engine *engine, uint32_t steps);

/// self_test_graph.cpp. Graphs of bit strings.
Status self_test_bit_graphs(engine::Engine *engine, uint32_t steps);

/// self_test_hashed.cpp. Copies of graphs with codes, against the CPU engine. *n_searches: the searches of a segment
/// that were asked for; the GPU must have done all of them.
Status self_test_hashed(engine::Engine *engine, uint64_t *n_searches);

/// self_test_codes.cpp. Copies of lists with codes.
Status self_test_codes(engine::Engine *engine);

/// self_test_match.cpp. Copies of sets and texts: match counts and edit distances. *n_searches: like self_test_hashed.
Status self_test_matches(engine::Engine *engine, uint64_t *n_searches);

/// self_test_sparse.cpp. Copies of sparse vectors, against the definition; like self_test_hashed.
Status self_test_sparse(engine::Engine *engine, uint64_t *n_searches);

/// self_test_keys.cpp. Programs over codes of key columns, against the host's evaluation; like self_test_hashed.
Status self_test_keys(engine::Engine *engine, uint64_t *n_programs);

} // namespace vectorgpu::cuda

// Host side of the kernels that search graphs by codes: the Hamming distance of projections (SONG, section 7), or
// RaBitQ. Launchers as in kernels.hpp.
#pragma once

#include "kernels/graph/graph.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kCodeGraphMostWidth = 4096;   // nodes in the list of such a search
constexpr uint32_t kCodeGraphMostEntries = 8192; // of a part
constexpr uint32_t kCodeGraphMostBegin = 8;

struct CodeGraphArgs
{
	uint32_t n_queries = 0;
	// [n_queries, code_bytes], of RaBitQ [n_queries, engine::graph::code_query_bytes]; 16-byte aligned
	const uint8_t *query_codes = nullptr;
	uint32_t rabitq_bits = 0;        // 1, 2, 4: codes of RaBitQ; 0: of projections
	uint32_t code_bytes = 0;         // of a row: 4, 8, 16, 32, 64; of RaBitQ 8 more than a multiple of 16
	const uint8_t *codes = nullptr;  // [n_rows, code_bytes], 16-byte aligned
	uint32_t n_rows = 0;             // below 2^31
	const uint32_t *edges = nullptr; // [n_rows, degree]; all ones: none
	uint32_t degree = 0;
	const uint8_t *entry_codes = nullptr;  // [n_entries, code_bytes], 16-byte aligned
	const uint32_t *entry_nodes = nullptr; // [n_entries]
	uint32_t n_entries = 0;                // 1 ... kCodeGraphMostEntries
	Entry *begin = nullptr;                // work memory [n_queries, kCodeGraphMostBegin]
	uint32_t n_begin = 0; // entry points at which a search begins: 1 ... kCodeGraphMostBegin, at most n_entries
	const uint32_t *widths = nullptr; // [n_queries], 1 ... max_width
	uint32_t max_width = 0;           // at most kCodeGraphMostWidth
	Candidates found; // out: rows [n_queries, capacity] and counts; keys are work memory. capacity at least max_width
};

/// Find the nodes whose codes are nearest to each query's by SONG's search, dead ones included, as engine/graph's
/// search does. Two kernels: grid n_queries, block 128; then a warp or a block of 128 for each query. Reproducible.
[[nodiscard]] cudaError_t launch_code_graph_search(const CodeGraphArgs &args, cudaStream_t stream);

/// Copy the codes of nodes [n] to `to` [n, code_bytes].
[[nodiscard]] cudaError_t launch_code_gather(
	const uint8_t *codes, uint32_t code_bytes, const uint32_t *nodes, uint32_t n, uint8_t *to, cudaStream_t stream);

/// Set the shared-memory limits of all kernels; once per device, before any launch.
[[nodiscard]] cudaError_t prepare_code_graph_kernels();

} // namespace vectorgpu::kernels

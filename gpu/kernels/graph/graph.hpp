// Host side of the kernels that search graphs (README.md, "Graphs"). Launchers as in kernels.hpp.
#pragma once

#include "common/narrow.hpp"
#include "kernels/graph/graph_tuning.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kGraphMostWidth = 1024;    // nodes in the list of a search
constexpr uint32_t kGraphMostSteps = 8;       // nodes expanded at a time
constexpr uint32_t kGraphMostTableBits = 13;  // four queries of a block, the widest, have room for it
constexpr uint32_t kGraphMostByteDims = 256;  // 256 * 255^2 < 2^24
constexpr uint32_t kGraphAloneTableBits = 14; // 64 kB, for a query with a block of its own
constexpr int kGraphAloneWarps = 8;           // of a search with a block of its own
constexpr uint32_t kGraphMostBegin = 8;       // entry points at which a search begins
constexpr uint32_t kGraphMostEntries = 8192;  // entry points that it scores: all on one multiprocessor
constexpr uint32_t kGraphEntryBlocks = 64;    // of a query whose entry points are scored apart
constexpr uint32_t kGraphEntryItems = kGraphEntryBlocks * kGraphMostBegin;
constexpr uint32_t kGraphMostRanked = 64; // widest search that ranks what it has found (GraphArgs::best)

/// The rounded rows of a graph (graph_narrow.hpp); rows null: searches read the rows alone.
struct GraphNarrowRows
{
	const int8_t *rows = nullptr;      // [n_rows, pitch_bytes], 16-byte aligned
	const NarrowRow *values = nullptr; // [n_rows]
	uint32_t pitch_bytes = 0;
};

struct GraphArgs
{
	Metric metric = Metric::kL2;
	Rows rows;
	Queries queries;
	const uint32_t *edges = nullptr; // [n_rows, degree]; all ones: none
	uint32_t degree = 0;
	const uint32_t *entry_nodes = nullptr; // [number of entry points]
	// [n_queries, n_begin]: Entry::row is a number of an entry point, ascending by (key, number).
	const Entry *begin = nullptr;
	uint32_t n_begin = 0;             // at most kGraphMostBegin
	const uint32_t *widths = nullptr; // [n_queries], 1 ... max_width
	uint32_t max_width = 0;
	// [n_queries, dim_pad] the queries as bytes, 16-byte aligned; null: some queries are not bytes
	const uint8_t *byte_queries = nullptr;
	GraphNarrowRows narrow;
	Candidates candidates; // out: the nodes found, canonical keys; capacity at least max_width
	// out, instead of candidates, if entries is not null: the k first of each query, for searches that find all of its
	// answer. max_width is at most kGraphMostRanked then.
	Best best;
	// Instead, without begin and candidates: each search finds its own n_begin of entries, and writes its k nearest
	// there. queries.k, queries.vectors, widths and byte_queries may then lie in pinned memory.
	Answers answers;
	Rows entries; // the entry points as rows, in the form of rows, without ids
	// With answers: [n_queries, kGraphEntryItems] of launch_graph_entries; null: the search scores all entry points.
	const uint64_t *entry_items = nullptr;
	GraphTuning tuning;
};

/// Find the nodes nearest to each query by SONG's search, except dead nodes, those whose score is NaN or +infinity, and
/// those not after `after`. Grid n_queries, block 32 or 128, with `answers` 256; or, with tuning.lanes, grid
/// ceil(n_queries / 4), block 4 lanes; or, with `answers` and tuning.blocks of 2 or 4, grid n_queries blocks, block
/// 256, clusters of `blocks`, or one block if the device has no room for those. Reproducible (with a filter: for a
/// table size). *n_blocks, unless null: blocks of each query with `answers`.
[[nodiscard]] cudaError_t launch_graph_search(const GraphArgs &args, cudaStream_t stream, uint32_t *n_blocks = nullptr);

/// Score the entry points of searches with `answers` by the whole device: items [n_queries, kGraphEntryItems] become
/// the n_begin nearest of each block's part, as GraphArgs::entry_items. Not for bits. Grid (kGraphEntryBlocks,
/// n_queries), block 256. Reproducible.
[[nodiscard]] cudaError_t launch_graph_entries(const GraphArgs &args, uint64_t *items, cudaStream_t stream);

/// Set *room to the number of queries that the device has room for at a time, each with args.tuning.blocks blocks, 2 or
/// 4, by args.metric over args.rows.form; 0: it has no such clusters.
[[nodiscard]] cudaError_t graph_cluster_room(const GraphArgs &args, uint32_t *room);

/// True if the search can score bytes by integers, exactly, for queries of whole numbers 0 ... 255.
bool graph_bytes_are_exact(Metric metric, Form form, uint32_t dim_pad);

/// begin [n_queries, n_begin] becomes the first of each query's keys [n_queries, n_entries], by (key, number), as
/// GraphArgs::begin. n_begin is at most kGraphMostBegin and n_entries; no key is kExcludedKey. Grid
/// ceil(n_queries / 8), block 256: a warp a query. keys are written by the kernel ahead alone. Reproducible.
[[nodiscard]] cudaError_t launch_graph_begin(
	const uint64_t *keys, uint32_t n_entries, uint32_t n_queries, uint32_t n_begin, Entry *begin, cudaStream_t stream);

/// Copy rows nodes [n] of `rows` to `to` [n, pitch_bytes].
[[nodiscard]] cudaError_t launch_graph_gather(
	const Rows &rows, const uint32_t *nodes, uint32_t n, void *to, cudaStream_t stream);

/// Set the shared-memory limits of all kernels; for each context of a device, before any launch.
[[nodiscard]] cudaError_t prepare_graph_kernels();

template <Metric metric>
cudaError_t launch_graph_metric(const GraphArgs &args, bool prepare, cudaStream_t stream); // graph_launch.cuh

template <Metric metric>
cudaError_t launch_graph_entries_metric(
	const GraphArgs &args, uint64_t *items, cudaStream_t stream); // graph_entries.cuh

template <Metric metric>
cudaError_t launch_graph_lanes(const GraphArgs &args, cudaStream_t stream); // graph_lanes_search.cuh

template <Metric metric>
cudaError_t launch_graph_clusters(const GraphArgs &args, bool prepare, uint32_t *room, bool *launched,
	cudaStream_t stream); // graph_cluster_search.cuh

} // namespace vectorgpu::kernels

// c-PQ on the device, the count priority queue of GENIE (Zhou et al., section III-C). Only compared with counting by
// tiles (kernels/match/match.hpp): no search uses it. One increment of a query's bitmap counter for each posting, a
// gate (zipper array and audit threshold) and a hash table of the objects that pass it.
//
// It differs from the paper, so that answers are exact whatever threads do at the same time, and ties go to the
// smaller row:
// - An object is counted in the zipper array before it enters the table. So fewer than k objects at a time have to
// be in it (lemma III.1), and no entry waits for room that a later one makes.
// - The table has buckets of 16 entries. Compare-and-swap overwrites in place an entry that has expired (less than
// the audit threshold), and the object's own. A bucket that is full without one is reported (n_overflows), and the
// query's bitmap counters are read instead.
// - The table gives the rows above the k-th count. Rows with the k-th count are found by one look at the bitmap
// counters, in the order of rows, as far as they are needed (in the paper: any that are in the table).
#pragma once

#include "kernels/match/match.hpp"

namespace vectorgpu::bench
{

constexpr uint32_t kCountBucket = 16; // entries

struct CountPqArgs
{
	const kernels::MatchTile *tiles = nullptr; // [n_tiles]
	uint32_t n_tiles = 0;
	uint32_t n_rows = 0;
	kernels::MatchQueries queries;  // ranges, range_ends, k, n_queries; bits: of a bitmap counter, 1, 2, 4, 8, 16 or 32
	uint32_t max_count = 0;         // no row counts more; below 2^bits
	uint32_t *bitmap = nullptr;     // [n_queries, n_words], zero at first
	uint32_t n_words = 0;           // a multiple of 4
	uint32_t *zipper = nullptr;     // [n_queries, max_count + 2], zero at first
	uint32_t *thresholds = nullptr; // [n_queries] audit thresholds, 1 at first
	uint64_t *table = nullptr;      // [n_queries, n_buckets, kCountBucket] of count << 32 | row, zero at first
	uint32_t n_buckets = 0;         // a power of two
	uint32_t *n_overflows = nullptr; // [n_queries], zero at first
	uint64_t *out = nullptr;         // [n_queries, stride] of count << 32 | row, in no order
	uint32_t *n_out = nullptr;       // [n_queries], zero at first: min(k, n_rows)
	uint32_t stride = 0;             // the largest k
};

/// Grid (n_queries, n_tiles), block 512; then grid n_queries, block 256.
[[nodiscard]] cudaError_t launch_count_pq(const CountPqArgs &args, cudaStream_t stream);

} // namespace vectorgpu::bench

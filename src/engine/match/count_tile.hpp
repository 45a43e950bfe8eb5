// Counters of the rows of a tile, and their selection. A counter has one, two or four bytes, depending on the greatest
// possible count: narrow ones keep a tile in the cache and let one comparison cover many rows. No allocation, never
// fails.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/distance/topk.hpp"

namespace vectorgpu::engine::match
{

/// Bytes of a counter that counts up to max_count without overflow: 1, 2 or 4.
size_t counter_bytes(uint64_t max_count);

/// Add one to the counter of each of rows [n] that lies in [first_row, first_row + n_counters). counters [n_counters],
/// `width` bytes each.
void add_postings(void *counters, size_t width, uint32_t first_row, size_t n_counters, const uint32_t *rows, size_t n);

/// The same for rows relative to the tile, all inside of it.
void add_local_postings(void *counters, size_t width, const uint16_t *rows, size_t n);

/// The same for rows at places [n] of a tile of 65,536 rows that begins at counter `base`, which may be negative:
/// places whose counter is not one of the n_counters are left out.
void add_places(void *counters, size_t width, int64_t base, size_t n_counters, const uint16_t *places, size_t n);

/// Whether one of counters [first, first + n) is at least min_count.
bool any_at_least(const void *counters, size_t width, size_t first, size_t n, uint64_t min_count);

/// scores[i] = minus counter first + i (never -0), for i in [0, n).
void count_scores(const void *counters, size_t width, size_t first, size_t n, double *scores);

/// The smallest count that can still enter a selection whose scores are minus counts: the audit threshold of GENIE's
/// gate (section III-C1), less one while a tie with the k-th row may still win by its row id. rows_after: all further
/// rows have larger ids than every row offered so far.
uint64_t least_count(const TopK *topk, bool rows_after);

} // namespace vectorgpu::engine::match

// Selection of the k smallest (score, row id) pairs of a stream, on the CPU, without allocation: the caller owns the
// buffer, so that the code may run in a backend frame that an error can leave by longjmp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/types.hpp"

namespace vectorgpu::engine
{

/// One candidate. Order is (score, row): NaN scores sort after all others, ties by the smaller row id.
struct Neighbor
{
	double score;
	RowId row;
};

/// The total order of results: whether a comes strictly before b.
bool neighbor_less(const Neighbor &a, const Neighbor &b);

/// A plain struct on purpose (see above). Set up by topk_init.
struct TopK
{
	Neighbor *buffer = nullptr; // [capacity], owned by the caller
	size_t capacity = 0;        // >= k, 2 * k is fast
	size_t k = 0;
	size_t size = 0;        // candidates in the buffer, unordered
	bool full = false;      // at least k candidates seen: `threshold` holds
	bool has_after = false; // only candidates strictly after `after` count
	Neighbor threshold{};   // a candidate not before this one cannot be among the k
	Neighbor after{};
};

/// The recommended size in bytes of topk_init's buffer.
size_t topk_buffer_bytes(size_t k);

/// Start a selection of the k first candidates; with `after`, of the k first strictly after it.
void topk_init(TopK *topk, size_t k, Neighbor *buffer, size_t capacity, const Neighbor *after);

/// False if topk_push would skip all of scores [n], whatever their rows: the caller need not read those.
bool topk_wants(const TopK *topk, const double *scores, size_t n);

/// Offer n candidates: scores [n], rows [n]. `dead`: null, or a bitmap (bit i of byte i / 8 is 1 << (i % 8)) that
/// starts at bit `dead_offset`; a candidate whose bit is set is skipped.
void topk_push(TopK *topk, const double *scores, const RowId *rows, size_t n, const uint8_t *dead, size_t dead_offset);

/// Make `threshold` as tight as the candidates seen allow, at a cost of O(size), for callers that skip scores by it.
/// Otherwise it moves only when the buffer is full.
void topk_tighten(TopK *topk);

/// The same where it pays: after an eighth of k candidates more, so that it costs O(1) each.
void topk_tighten_some(TopK *topk);

/// Sort the k first and return how many there are; buffer[0 .. n) is then in order. No push may follow.
size_t topk_finish(TopK *topk);

} // namespace vectorgpu::engine

// Rows of a merge that take the place of a row of the base with the same vector. See base.hpp.
#include "am/gpugraph/base.hpp"

#include "storage/spool.hpp"
#include "storage/stream.hpp"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kFirstNewcomers = 1024; // a power of two
constexpr Size kBatchBytes = 256 * 1024; // of vectors of the base that are read together

/// The search for newcomers that equal rows which leave.
struct Match
{
	const SegmentPlan *plan;
	GraphBase *base;
	BufFile *vectors; // of the new segment
	Size vector_bytes;
	char *batch; // [kBatchBytes or one vector]
	char *other; // one vector
};

/// Gives the place of a row of the base to the first newcomer that has its vector.
void
match_row(Match *match, uint64 row, const char *vector)
{
	GraphBase *base = match->base;
	Newcomer *end = base->newcomers + base->n_newcomers;
	const uint64 hash = XXH3_64bits(vector, match->vector_bytes);
	Newcomer *newcomer = std::lower_bound(
		base->newcomers, end, hash, [](const Newcomer &one, uint64 wanted) { return one.hash < wanted; });

	for (; newcomer < end && newcomer->hash == hash; newcomer++)
	{
		if (newcomer->number == engine::graph::kNoNode)
			continue;
		spool_seek(match->vectors, newcomer->number * match->vector_bytes);
		spool_read(match->vectors, match->other, match->vector_bytes);
		if (memcmp(match->other, vector, match->vector_bytes) != 0)
			continue;
		base->numbers[row] = newcomer->number;
		base->n_kept++;
		newcomer->number = engine::graph::kNoNode;
		return;
	}
}

/// Handles rows [first, first + n) of the base that leave.
void
match_rows(Match *match, uint64 first, uint64 n)
{
	const uint64 step = Max(kBatchBytes / match->vector_bytes, 1);

	for (uint64 done = 0; done < n; done += step)
	{
		const uint64 n_batch = Min(step, n - done);

		CHECK_FOR_INTERRUPTS();
		if (!stream_read(match->plan->index, match->plan->meta, match->base->segment, StreamKind::kVectors,
				(first + done) * match->vector_bytes, n_batch * match->vector_bytes, match->batch,
				match->base->strategy))
			page_recycled(match->plan->index, 0);
		for (uint64 i = 0; i < n_batch; i++)
			match_row(match, first + done + i, match->batch + i * match->vector_bytes);
	}
}

} // namespace

void
graph_base_newcomer(GraphBase *base, uint64 number, const void *vector, Size vector_bytes)
{
	const uint64 n = base->n_newcomers++;

	if (n >= base->most_newcomers)
		return;
	// The array grows, since most merges have few.
	if (base->newcomers == nullptr)
		base->newcomers = static_cast<Newcomer *>(palloc(kFirstNewcomers * sizeof(Newcomer)));
	else if (n >= kFirstNewcomers && (n & (n - 1)) == 0)
		base->newcomers = static_cast<Newcomer *>(repalloc_huge(base->newcomers, 2 * n * sizeof(Newcomer)));
	base->newcomers[n] = {XXH3_64bits(vector, vector_bytes), static_cast<uint32>(number)};
}

void
graph_base_match(const SegmentPlan *plan, GraphBase *base, BufFile *vectors)
{
	const uint64 n_rows = base->segment->n_rows;
	const Size vector_bytes = meta_vector_bytes(plan->meta);
	Match match = {plan, base, vectors, vector_bytes, nullptr, nullptr};

	if (base->n_newcomers == 0 || base->n_newcomers > base->most_newcomers || base->n_kept == n_rows)
		return;
	match.batch = static_cast<char *>(palloc(Max(kBatchBytes, vector_bytes)));
	match.other = static_cast<char *>(palloc(vector_bytes));
	std::sort(base->newcomers, base->newcomers + base->n_newcomers,
		[](const Newcomer &a, const Newcomer &b) { return a.hash != b.hash ? a.hash < b.hash : a.number < b.number; });
	for (uint64 row = 0; row < n_rows;)
	{
		uint64 end = row;

		while (end < n_rows && base->numbers[end] == engine::graph::kNoNode)
			end++;
		match_rows(&match, row, end - row);
		row = end + 1;
	}
	pfree(match.batch);
	pfree(match.other);
}

} // namespace vectorgpu::am

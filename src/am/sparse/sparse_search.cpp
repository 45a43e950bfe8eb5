// Exact search of one segment over sparsevec: scores group by group, then offers scores and row ids to the selection. A
// cheap lower bound spares most rows the canonical distance. PG dialect; locks one page at a time, none while it scores
// or looks at interrupts.
#include "am/sparse/sparse_rows.hpp"

#include "am/method/dead_rows.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/sparse_query.hpp"

#include <limits>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A group's scores, row ids and tombstones.
struct Group
{
	SparseRows rows;
	double scores[kSparseGroupRows];
	RowId ids[kSparseGroupRows];
	uint8 dead[kSparseGroupRows / 8 + 2];
};

/// Computes the scores of the group's rows that meet the conditions; of a row that certainly comes after the k-th so
/// far, infinity, which comes after it, too. Rows that do not meet them get infinity; their bits leave them out.
void
score(Group *group, const SegmentSearch *search, const engine::SparseQuery &query)
{
	const engine::TopK *topk = search->topk;
	const bool has_worst = topk->full && topk->threshold.score < kInfinity;

	for (uint32 i = 0; i < group->rows.n; i++)
	{
		const engine::SparseVector row = sparse_rows_get(&group->rows, i);

		group->scores[i] = kInfinity;
		if (!search_row_passes(search, group->rows.first + i))
			continue;
		++*search->n_compared;
		if (!has_worst || !(engine::sparse_least_distance(query, row) > topk->threshold.score))
			group->scores[i] =
				engine::finish_score(query.metric, engine::sparse_score(query.metric, row, query.vector));
	}
}

/// Reads row ids and tombstones and offers the group; reads nothing if no score can matter. False if a page was
/// foreign.
bool
offer(Group *group, const SegmentSearch *search)
{
	const uint64 first = group->rows.first;
	const uint32 n = group->rows.n;
	const bool drops = search_drops_rows(search);

	if (!engine::topk_wants(search->topk, group->scores, n))
		return true;
	if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds, first * sizeof(RowId),
			n * sizeof(RowId), group->ids, search->strategy))
		return false;
	if (drops && !search_read_dead(search, first, n, group->dead))
		return false;
	engine::topk_push(search->topk, group->scores, group->ids, n, drops ? group->dead : nullptr, first % 8);
	return true;
}

} // namespace

bool
sparse_search_segment(const SegmentSearch *search)
{
	const uint32 dim = static_cast<uint32>(sparse_options(search->meta->am_options).dim);
	const engine::SparseVector vector = *static_cast<const engine::SparseVector *>(search->query);
	Group *group = static_cast<Group *>(palloc(sizeof(Group)));
	SparseRows *rows = &group->rows;
	void *table = palloc(engine::sparse_table_bytes(vector.n, dim));
	engine::SparseQuery query;

	engine::sparse_query_init(&query, search->meta->metric, vector, dim, table);
	sparse_rows_begin(rows, search->index, search->meta, search->segment, search->strategy);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!sparse_rows_next(rows))
			return false;
		if (rows->n == 0)
			break;
		score(group, search, query);
		if (!offer(group, search))
			return false;
	}
	pfree(table);
	pfree(rows->bytes);
	pfree(group);
	return true;
}

} // namespace vectorgpu::am

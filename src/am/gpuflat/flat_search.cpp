// Exact search of one segment: streams the vectors page by page, scores them where they lie, then offers scores and row
// ids to the selection. PG dialect; holds one content lock at a time, none between two groups of rows.
#include "am/gpuflat/gpuflat.hpp"

#include "am/method/dead_rows.hpp"
#include "storage/stream.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kGroupRows = kPayloadBytes / sizeof(RowId); // rows scored before row ids are read: a page of those
constexpr Size kGroupBytes = 1024 * 1024;                    // bytes read between two looks at interrupts, about

/// Scores, row ids and tombstones of the rows of one group. A group ends at the end of a run, so that it can be longer
/// than kGroupRows by the items of one page (of at least one byte each).
struct Group
{
	uint64 rows_wanted;
	double *scores;
	RowId *rows;
	uint8 *dead;
	uint64 first;
	uint64 n;
};

constexpr uint64 kGroupCapacity = kGroupRows + kPayloadBytes;

void
group_init(Group *group, const SegmentEntry *segment, Size stride)
{
	const uint64 capacity = Min(kGroupCapacity, segment->n_rows);

	group->rows_wanted = Max(UINT64CONST(1), Min(kGroupRows, kGroupBytes / stride));
	group->scores = static_cast<double *>(palloc(capacity * sizeof(double)));
	group->rows = static_cast<RowId *>(palloc(capacity * sizeof(RowId)));
	group->dead = segment->n_dead > 0 ? static_cast<uint8 *>(palloc(capacity / 8 + 2)) : nullptr;
	group->first = 0;
	group->n = 0;
}

/// Reads row ids and tombstones and offers the group; reads nothing if no score can matter. False if a page was
/// foreign.
bool
group_offer(Group *group, const SegmentSearch *search)
{
	if (!engine::topk_wants(search->topk, group->scores, group->n))
	{
		group->first += group->n;
		group->n = 0;
		return true;
	}
	if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds, group->first * sizeof(RowId),
			group->n * sizeof(RowId), group->rows, search->strategy))
		return false;
	if (group->dead != nullptr && !search_read_dead(search, group->first, group->n, group->dead))
		return false;
	engine::topk_push(search->topk, group->scores, group->rows, group->n, group->dead, group->first % 8);
	group->first += group->n;
	group->n = 0;
	return true;
}

} // namespace

bool
flat_search_segment(const SegmentSearch *search)
{
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	const Size stride = meta_vector_bytes(meta);
	StreamCursor cursor;
	Group group;
	const void *vectors;
	uint64 n;

	group_init(&group, search->segment, stride);
	stream_open(&cursor, search->index, meta, search->segment, StreamKind::kVectors, stride, 0, search->strategy);
	stream_read_ahead(&cursor);
	while (stream_next_run(&cursor, &vectors, &n))
	{
		engine::compute_scores(spec, search->query, vectors, stride, n, group.scores + group.n, cursor.read_ahead);
		group.n += n;
		*search->n_compared += n;
		if (group.n < group.rows_wanted)
			continue;
		stream_release(&cursor);
		if (!group_offer(&group, search))
		{
			stream_close(&cursor);
			return false;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return !cursor.foreign && (group.n == 0 || group_offer(&group, search));
}

} // namespace vectorgpu::am

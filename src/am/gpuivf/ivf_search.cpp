// Search of one segment: ranks its lists by their centroids, scores the rows of the first ones where they lie. PG
// dialect; holds one content lock at a time.
#include "am/gpuivf/ivf_search.hpp"

#include "am/scan/batch_plan.hpp"
#include "am/method/dead_rows.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/list_metric.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

extern "C"
{
#include "common/hashfn.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kRoundGrowth = 2; // a round looks at this multiple of the lists of the one before
// Of the rows that meet conditions, those in the lists chosen over those expected there: if they are fewer, the rows
// lie away from the query. arXiv, the half, a fifth and a ninth farthest: recall .78 to .84 of .94 by lists.
constexpr double kAwayShare = 0.7;
constexpr uint64 kGroupRows = 1024;                           // rows scored before row ids are read
constexpr uint64 kGroupCapacity = kGroupRows + kPayloadBytes; // a run is no longer than a page of rows of a byte

/// ApproximateSearch::am_state.
struct IvfQuery
{
	const float *floats; // [dim] the query
	const float *unit;   // the same of length 1 for cosine
	uint32 n;
	RankedSegment segments[kMaxSegments];
};

/// The rows of one list that are being scored.
struct Group
{
	uint64 first; // place
	uint64 n;
	double scores[kGroupCapacity];
	uint32 numbers[kGroupCapacity]; // then those of the rows that matter
	double kept_scores[kGroupCapacity];
	uint64 items[kGroupCapacity];
	RowId rows[kGroupCapacity];
	uint8 dead[kGroupCapacity];
};

void
begin_query(const SegmentSearch *search, IvfQuery *query)
{
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {Metric::kL2, meta->element, meta->dim};
	float *floats =
		static_cast<float *>(MemoryContextAlloc(search->approximate->am_context, Size{2} * meta->dim * sizeof(float)));

	ivf_rows_to_floats(spec, static_cast<const char *>(search->query), 1, floats);
	memcpy(floats + meta->dim, floats, meta->dim * sizeof(float));
	if (meta->metric == Metric::kCosine)
		engine::ivf::normalise_rows(floats + meta->dim, 1, meta->dim);
	query->floats = floats;
	query->unit = floats + meta->dim;
}

/// Scores the centroids. False if a page was foreign.
bool
rank_lists(const SegmentSearch *search, const float *query, RankedSegment *ranked)
{
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	const Size stride = meta->dim * sizeof(float);
	StreamCursor cursor;
	const void *centroids;
	uint64 n;
	uint64 done = 0;

	stream_open(&cursor, search->index, meta, search->segment, kCentroidStream, stride, 0, search->strategy);
	while (done < ranked->n_lists && stream_next_run(&cursor, &centroids, &n))
	{
		n = Min(n, ranked->n_lists - done);
		engine::ivf::centroid_scores(spec, query, centroids, stride, n, ranked->scores + done, cursor.read_ahead);
		done += n;
	}
	stream_close(&cursor);
	return !cursor.foreign && done == ranked->n_lists;
}

/// Makes the query ready for the segment's codes. False if a page was foreign.
bool
prepare_codes(const SegmentSearch *search, const float *query, RankedSegment *ranked)
{
	const MemoryContext old = MemoryContextSwitchTo(search->approximate->am_context);
	Codec *codec = static_cast<Codec *>(palloc(sizeof(Codec)));
	CodeQuery *codes = static_cast<CodeQuery *>(palloc(sizeof(CodeQuery)));
	const bool intact = codec_read(codec, search->index, search->meta, search->segment, search->strategy) &&
		ivf_query_is_far(
			search->index, search->meta, search->segment, &ranked->described, query, search->strategy, &ranked->far);

	if (intact)
		code_query_begin(codes, codec, query);
	ranked->codes = codes;
	MemoryContextSwitchTo(old);
	return intact;
}

/// The ranking of this segment's lists, made at its first search. Null if a page was foreign.
const RankedSegment *
ranked_segment(const SegmentSearch *search)
{
	IvfQuery *query = static_cast<IvfQuery *>(*search->approximate->am_state);
	RankedSegment *ranked;
	IvfModel model;

	if (query == nullptr)
	{
		query = static_cast<IvfQuery *>(MemoryContextAllocZero(search->approximate->am_context, sizeof(IvfQuery)));
		*search->approximate->am_state = query;
		begin_query(search, query);
	}
	for (uint32 i = 0; i < query->n; i++)
		if (query->segments[i].segment == search->segment->id)
			return &query->segments[i];

	if (!ivf_read_model(search->index, search->meta, search->segment, &model, search->strategy))
		return nullptr;
	ranked = &query->segments[query->n];
	ranked->segment = search->segment->id;
	ranked->n_lists = model.n_lists;
	ranked->described = model;
	ranked->scores = nullptr;
	ranked->codes = nullptr;
	ranked->far = false;
	// Segments that were merged with the same model have the same centroids and codec.
	for (uint32 i = 0; i < query->n; i++)
		if (query->segments[i].described.id == model.id && query->segments[i].n_lists == model.n_lists)
		{
			ranked->scores = query->segments[i].scores;
			ranked->codes = query->segments[i].codes;
			ranked->far = query->segments[i].far;
		}
	if (ranked->scores == nullptr)
	{
		ranked->scores = static_cast<double *>(
			MemoryContextAllocHuge(search->approximate->am_context, model.n_lists * sizeof(double)));
		if (!rank_lists(search, query->floats, ranked))
			return nullptr;
		if (ivf_options(search->meta)->storage != IvfStorage::kPlain && !prepare_codes(search, query->unit, ranked))
			return nullptr;
	}
	query->n++;
	return ranked;
}

uint32
probes_of_round(const SegmentSearch *search, const RankedSegment *ranked)
{
	return search->approximate->exact
		? ranked->n_lists
		: ivf_round_probes(search->meta, search->segment, &ranked->described, search->approximate->round,
			  search->approximate->n_before, search->approximate->wanted, search->query, search->approximate->missed);
}

/// The lists to look at: the nearest first, in the order of their centroids' scores (NaN last), or all as they lie.
/// all_sorted: those behind them follow in that order, too.
uint32 *
choose_lists(const RankedSegment *ranked, uint32 n_probes, bool all_sorted)
{
	uint32 *lists = static_cast<uint32 *>(palloc(ranked->n_lists * sizeof(uint32)));
	const double *scores = ranked->scores;
	const auto nearer = [scores](uint32 a, uint32 b) { return engine::neighbor_less({scores[a], a}, {scores[b], b}); };

	for (uint32 i = 0; i < ranked->n_lists; i++)
		lists[i] = i;
	if (n_probes == ranked->n_lists && !all_sorted)
		return lists;
	if (all_sorted)
	{
		std::sort(lists, lists + ranked->n_lists, nearer);
		return lists;
	}
	std::nth_element(lists, lists + n_probes, lists + ranked->n_lists, nearer);
	std::sort(lists, lists + n_probes, nearer);
	return lists;
}

/// Passes over dead rows; false if a page was foreign. rows, scores: [*n], compacted.
bool
drop_dead(const SegmentSearch *search, Group *group, uint64 *n)
{
	uint64 kept = 0;

	if (search->segment->n_dead == 0)
		return true;
	if (!search_gather_dead(search, group->numbers, *n, group->items, group->dead))
		return false;
	for (uint64 i = 0; i < *n; i++)
	{
		if (group->dead[i] != 0)
			continue;
		group->rows[kept] = group->rows[i];
		group->kept_scores[kept++] = group->kept_scores[i];
	}
	*n = kept;
	return true;
}

/// Offers the rows of the group whose scores can matter. False if a page was foreign.
bool
group_offer(Group *group, const SegmentSearch *search)
{
	uint64 kept = 0;

	if (search_wants(search, group->scores, group->n))
	{
		if (!stream_read(search->index, search->meta, search->segment, kListRowStream, group->first * sizeof(uint32),
				group->n * sizeof(uint32), group->numbers, search->strategy))
			return false;
		for (uint64 i = 0; i < group->n; i++)
		{
			if (!search_wants(search, &group->scores[i], 1))
				continue;
			if (group->numbers[i] >= search->segment->n_rows)
				page_corrupted(search->index, search->segment->streams[static_cast<int>(kListRowStream)].start_block,
					"A list has a row that the segment does not have.");
			group->kept_scores[kept] = group->scores[i];
			group->items[kept] = group->numbers[i];
			group->numbers[kept++] = group->numbers[i];
		}
		if (!stream_gather(search->index, search->meta, search->segment, StreamKind::kRowIds, sizeof(RowId),
				group->items, kept, group->rows, search->strategy) ||
			!drop_dead(search, group, &kept))
			return false;
		search_offer(search, group->kept_scores, group->rows, kept);
	}
	group->first += group->n;
	group->n = 0;
	return true;
}

/// Scores the rows of places [first, end). False if a page was foreign.
bool
search_places(const SegmentSearch *search, uint64 first, uint64 end, Group *group)
{
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	const Size stride = meta_vector_bytes(meta);
	StreamCursor cursor;
	const void *vectors;
	uint64 n;

	group->first = first;
	group->n = 0;
	stream_open(&cursor, search->index, meta, search->segment, StreamKind::kVectors, stride, first, search->strategy);
	while (group->first + group->n < end && stream_next_run(&cursor, &vectors, &n))
	{
		n = Min(n, end - group->first - group->n);
		engine::compute_scores(spec, search->query, vectors, stride, n, group->scores + group->n, cursor.read_ahead);
		group->n += n;
		*search->n_compared += n;
		if (group->n < kGroupRows)
			continue;
		stream_release(&cursor);
		if (!group_offer(group, search))
			return false;
		CHECK_FOR_INTERRUPTS();
	}
	stream_close(&cursor);
	return !cursor.foreign && (group->n == 0 || group_offer(group, search));
}

/// The places of the lists. Null if a page was foreign.
PlaceRange *
find_ranges(const SegmentSearch *search, const uint32 *lists, uint32 n)
{
	PlaceRange *ranges = static_cast<PlaceRange *>(palloc(n * sizeof(PlaceRange)));

	for (uint32 i = 0; i < n; i++)
	{
		uint64 range[2];

		if (!stream_read(search->index, search->meta, search->segment, kOffsetStream, lists[i] * sizeof(uint64),
				sizeof(range), range, search->strategy))
			return nullptr;
		if (range[0] > range[1] || range[1] > search->segment->n_rows)
			page_corrupted(search->index, search->segment->streams[static_cast<int>(kOffsetStream)].start_block,
				"A list ends before it begins, or behind the last row.");
		ranges[i] = {lists[i], range[0], range[1]};
	}
	return ranges;
}

/// Counts the rows of the places that meet the scan's conditions. False if a page was foreign.
bool
count_passing(const SegmentSearch *search, const PlaceRange *range, uint32 *numbers, uint64 *n_passing)
{
	*n_passing = 0;
	for (uint64 first = range->first; first < range->end; first += kGroupRows)
	{
		const uint64 n = Min(kGroupRows, range->end - first);

		if (!stream_read(search->index, search->meta, search->segment, kListRowStream, first * sizeof(uint32),
				n * sizeof(uint32), numbers, search->strategy))
			return false;
		for (uint64 i = 0; i < n; i++)
			if (numbers[i] < search->segment->n_rows)
				*n_passing += search->passing[numbers[i] / 8] >> (numbers[i] % 8) & 1;
	}
	return true;
}

/// With conditions: keeps the lists that have rows that meet them, of the nearest *n_probes, and as many more until
/// they hold as many such rows as those would if the rows were spread evenly. Where the rows lie away from the query,
/// their lists are not told apart by their centroids as those around a query are, and recall would not be what was
/// measured: then *n_probes becomes n_lists, to look at all rows. lists: all, nearest first. False if a page was
/// foreign.
bool
widen_for_conditions(const SegmentSearch *search, uint32 *lists, uint32 n_lists, uint32 *n_probes)
{
	const PlaceRange *ranges = find_ranges(search, lists, n_lists);
	const double share =
		1 - static_cast<double>(search->segment->n_dead) / static_cast<double>(search->segment->n_rows);
	uint32 *numbers;
	double expected = 0;
	uint64 n_passing = 0;
	uint32 kept = 0;

	if (ranges == nullptr)
		return false;
	numbers = static_cast<uint32 *>(palloc(kGroupRows * sizeof(uint32)));
	for (uint32 n = 0; n < n_lists && (n < *n_probes || static_cast<double>(n_passing) < expected); n++)
	{
		uint64 passing_here;

		CHECK_FOR_INTERRUPTS();
		if (n < *n_probes)
			expected += share * static_cast<double>(ranges[n].end - ranges[n].first);
		if (!count_passing(search, &ranges[n], numbers, &passing_here))
			return false;
		n_passing += passing_here;
		if (passing_here > 0)
			lists[kept++] = lists[n];
		if (n + 1 == *n_probes && static_cast<double>(n_passing) < kAwayShare * expected)
		{
			*n_probes = n_lists;
			return true;
		}
	}
	*n_probes = kept;
	return true;
}

/// Looks at all rows by their vectors.
bool
search_all(const SegmentSearch *search)
{
	Group *group;

	if (ivf_options(search->meta)->refine != IvfRefine::kFull)
		return ivf_search_table(search);
	group = static_cast<Group *>(palloc(sizeof(Group)));
	return search_places(search, 0, search->segment->n_rows, group);
}

/// Offers candidates, for an index without full vectors: all of an exact search, or the worker's of the round. A
/// segment all of whose lists a round looks at is read from the table, as without the worker.
bool
search_found(const SegmentSearch *search)
{
	const IvfLayout layout = ivf_layout(search->meta);
	IvfModel model;

	if (search->approximate->exact) // all rows that are wanted
		return ivf_refine_found(search, &layout);
	if (!ivf_read_model(search->index, search->meta, search->segment, &model, search->strategy))
		return false;
	if (ivf_round_probes(search->meta, search->segment, &model, search->approximate->round,
			search->approximate->n_before, search->approximate->wanted, search->query,
			search->approximate->missed) >= model.n_lists)
		return search_all(search);
	*search->approximate->coverage = Coverage::kPart;
	return ivf_refine_found(search, &layout);
}

/// Scales the wanted rows: if rows have gone since recall was measured, `wanted` rows lie as far away as more rows did
/// then.
uint64
measured_rows(const SegmentEntry *segment, const IvfModel *model, uint64 wanted)
{
	const uint64 n_left = Max(segment->n_rows - Min(segment->n_dead, segment->n_rows), UINT64CONST(1));

	// A segment apart never had the rows that were measured: other segments have them.
	if (!ivf_probes_follow_rows(model) || model->apart != 0 || n_left >= model->n_trained_rows)
		return wanted;
	return static_cast<uint64>(static_cast<double>(wanted) * model->n_trained_rows / static_cast<double>(n_left));
}

} // namespace

uint32
ivf_round_probes(const MetaData *meta, const SegmentEntry *segment, const IvfModel *model, uint32 round,
	uint64 n_before, uint64 wanted, const void *query, MissedTarget *missed)
{
	const uint32 hash =
		hash_bytes(static_cast<const unsigned char *>(query), static_cast<int>(meta_vector_bytes(meta)));
	const uint64 rows = measured_rows(segment, model, n_before + wanted);
	const double target = batch_plan_target(ivf_recall_target(), n_before, n_before + wanted);
	double probes = ivf_probes(model, ivf_options(meta)->lists, rows, target);

	for (uint32 i = 0; i < round && probes < model->n_lists; i++)
		probes *= kRoundGrowth;
	probes = std::floor(probes + hash * 0x1p-32);
	if (round == 0 && probes >= model->n_lists)
		note_missed_target(missed, ivf_missed_target(model, rows, target));
	return static_cast<uint32>(Min(probes, static_cast<double>(model->n_lists)));
}

bool
ivf_search_segment(const SegmentSearch *search)
{
	const RankedSegment *ranked;
	const PlaceRange *ranges;
	uint32 *lists;
	uint32 n_probes;
	Group *group;

	if (search->approximate->candidates != nullptr)
		return search_found(search);
	ranked = ranked_segment(search);
	if (ranked == nullptr)
		return false;
	n_probes = probes_of_round(search, ranked);
	if (n_probes == ranked->n_lists)
		return search_all(search);
	lists = choose_lists(ranked, n_probes, search->passing != nullptr);
	if (search->passing != nullptr)
	{
		if (!widen_for_conditions(search, lists, ranked->n_lists, &n_probes))
			return false;
		if (n_probes == ranked->n_lists)
			return search_all(search);
	}
	*search->approximate->coverage = Coverage::kPart;
	note_width(search->approximate->width, n_probes);
	ranges = find_ranges(search, lists, n_probes);
	if (ranges == nullptr)
		return false;
	if (ranked->codes != nullptr && !(ranked->far && ivf_options(search->meta)->refine == IvfRefine::kFull))
		return ivf_search_codes(search, ranked, ranges, n_probes);
	group = static_cast<Group *>(palloc(sizeof(Group)));
	for (uint32 i = 0; i < n_probes; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!search_places(search, ranges[i].first, ranges[i].end, group))
			return false;
	}
	return true;
}

} // namespace vectorgpu::am

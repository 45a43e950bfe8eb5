// Search of one segment: SONG's search over the pages of its graph, part by part, or a look at all rows where that is
// cheaper. PG dialect; holds one content lock at a time.
#include "am/gpugraph/graph_search.hpp"

#include "am/method/dead_rows.hpp"
#include "engine/distance/distance.hpp"

#include <cmath>

extern "C"
{
#include "utils/memutils.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::graph::Candidate;
using engine::graph::GraphView;
using engine::graph::SearchSpec;
using engine::graph::SearchStats;

constexpr uint64 kGroupRows = 64;     // candidates offered at a time
constexpr Size kPrefetchBytes = 1024; // of a vector

/// ApproximateSearch::am_state.
struct GraphQuery
{
	uint32 n;
	KnownGraph segments[kMaxSegments];
};

/// Scores of all entry points. False if a page was foreign.
bool
score_entries(const SegmentSearch *search, const uint32 *numbers, KnownGraph *known)
{
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	const Size stride = meta_vector_bytes(meta);
	double *scores = static_cast<double *>(palloc(known->model.n_entries * sizeof(double)));
	StreamCursor cursor;
	const void *vectors;
	uint64 n;
	uint64 done = 0;

	stream_open(&cursor, search->index, meta, search->segment, kEntryVectorStream, stride, 0, search->strategy);
	while (done < known->model.n_entries && stream_next_run(&cursor, &vectors, &n))
	{
		n = Min(n, known->model.n_entries - done);
		engine::compute_scores(spec, search->query, vectors, stride, n, scores + done, cursor.read_ahead);
		done += n;
	}
	stream_close(&cursor);
	if (cursor.foreign || done < known->model.n_entries)
		return false;
	for (uint32 i = 0; i < known->model.n_entries; i++)
		known->entries[i] = {scores[i], numbers[i]};
	*search->n_compared += known->model.n_entries;
	return true;
}

/// The query's state of this segment, made at its first search. Null if a page was foreign.
const KnownGraph *
known_graph(const SegmentSearch *search)
{
	GraphQuery *query = static_cast<GraphQuery *>(*search->approximate->am_state);
	KnownGraph *known;
	MemoryContext old;
	uint32 *numbers;
	bool intact;

	if (query == nullptr)
	{
		query = static_cast<GraphQuery *>(MemoryContextAllocZero(search->approximate->am_context, sizeof(GraphQuery)));
		*search->approximate->am_state = query;
	}
	for (uint32 i = 0; i < query->n; i++)
		if (query->segments[i].segment == search->segment->id)
			return &query->segments[i];

	known = &query->segments[query->n];
	known->segment = search->segment->id;
	if (!graph_read_model(search->index, search->meta, search->segment, &known->model, search->strategy))
		return nullptr;
	old = MemoryContextSwitchTo(search->approximate->am_context);
	intact = graph_read_entries(
		search->index, search->meta, search->segment, &known->model, &known->parts, &numbers, search->strategy);
	known->entries = static_cast<Candidate *>(
		MemoryContextAllocHuge(CurrentMemoryContext, known->model.n_entries * sizeof(Candidate)));
	if (known->model.code_bits > 0)
		known->code =
			static_cast<uint8 *>(palloc(engine::graph::code_query_bytes(known->model.code_bits, search->meta->dim)));
	MemoryContextSwitchTo(old);
	if (!intact ||
		!(known->model.code_bits > 0 ? graph_score_entry_codes(search, numbers, known)
									 : score_entries(search, numbers, known)))
		return nullptr;
	for (uint32 i = 0; i < known->model.n_parts; i++)
		engine::graph::first_candidates(
			known->entries + known->parts[i].first_entry, known->parts[i].n_entries, engine::graph::kSearchEntries);
	pfree(numbers);
	query->n++;
	return known;
}

/// Prefetches an item from its present place, if this backend has read its page before.
void
ask_for_item(const PageGraph *graph, uint32 node)
{
	const SegmentSearch *search = graph->search;
	const uint64 byte = node * static_cast<uint64>(graph->item_bytes);
	const BlockNumber first = search->segment->streams[static_cast<int>(graph->items)].start_block;
	const char *page =
		page_whereabouts(search->index, search->meta->uuid, first + static_cast<BlockNumber>(byte / kPayloadBytes));
	const Size offset = kPayloadOffset + byte % kPayloadBytes;

	if (page == nullptr)
		return;
	for (Size line = 0; line < Min(graph->item_bytes, kPrefetchBytes) && offset + line < BLCKSZ; line += 64)
		__builtin_prefetch(page + offset + line);
}

void
score_item(const PageGraph *graph, const void *item, double *score)
{
	if (graph->code_bits != 0)
		engine::graph::compute_code_scores(
			graph->code_bits, graph->spec.dim, graph->query, item, graph->item_bytes, 1, score);
	else
		engine::compute_scores(graph->spec, graph->query, item, graph->item_bytes, 1, score, 0);
}

/// A group of found candidates: row ids and tombstones of those that matter.
struct Group
{
	uint64 items[kGroupRows];
	uint32 numbers[kGroupRows];
	double scores[kGroupRows];
	RowId rows[kGroupRows];
	uint8 dead[kGroupRows];
};

/// Offers n rows with their scores; numbers [n] of rows. False if a page was foreign.
bool
offer_rows(const SegmentSearch *search, const Candidate *candidates, uint64 n, Group *group)
{
	uint64 kept = 0;

	for (uint64 i = 0; i < n; i++)
	{
		group->items[i] = candidates[i].node;
		group->scores[i] = candidates[i].score;
	}
	if (!stream_gather(search->index, search->meta, search->segment, StreamKind::kRowIds, sizeof(RowId), group->items,
			n, group->rows, search->strategy))
		return false;
	if (search->segment->n_dead > 0)
	{
		for (uint64 i = 0; i < n; i++)
			group->numbers[i] = candidates[i].node;
		if (!search_gather_dead(search, group->numbers, n, group->items, group->dead))
			return false;
	}
	for (uint64 i = 0; i < n; i++)
	{
		if (search->segment->n_dead > 0 && group->dead[i] != 0)
			continue;
		group->rows[kept] = group->rows[i];
		group->scores[kept++] = group->scores[i];
	}
	search_offer(search, group->scores, group->rows, kept);
	return true;
}

/// Offers the rows that a search has found, in order, until none can matter any more. Infinite scores may stand for
/// NaN: an exact pass finds those rows. False if a page was foreign.
bool
offer_found(const SegmentSearch *search, const Candidate *found, uint32 n_found, Group *group)
{
	for (uint32 first = 0; first < n_found; first += kGroupRows)
	{
		uint64 n = Min(kGroupRows, static_cast<uint64>(n_found - first));

		while (n > 0 && std::isinf(found[first + n - 1].score) && found[first + n - 1].score > 0)
			n--;
		if (n == 0)
			return true;
		for (uint64 i = 0; i < n; i++)
			group->scores[i] = found[first + i].score;
		if (!search_wants(search, group->scores, n))
		{
			// If rows were returned before, those behind them may count; else there are enough nearer ones.
			if (search->topk->has_after && found[first + n - 1].score <= search->topk->after.score)
				continue;
			return true;
		}
		if (!offer_rows(search, found + first, n, group))
			return false;
	}
	return true;
}

/// Searches the graphs of the segment, part by part. False if a page was foreign.
bool
search_graph(const SegmentSearch *search, const KnownGraph *known, uint32 width)
{
	const bool hashed = known->model.code_bits > 0;
	PageGraph graph = hashed ? graph_of_codes(search, known) : graph_of_vectors(search, known);
	GraphView view;
	SearchSpec spec;
	SearchStats stats;
	Candidate *found =
		static_cast<Candidate *>(MemoryContextAllocHuge(CurrentMemoryContext, width * sizeof(Candidate)));
	Group *group = static_cast<Group *>(palloc(sizeof(Group)));
	Size work_bytes;
	void *work;
	uint32 n_found;

	view.n_nodes = static_cast<uint32>(search->segment->n_rows);
	view.degree = known->model.degree;
	view.neighbors = graph_read_neighbors;
	view.scores = graph_score_nodes;
	view.context = &graph;
	spec.width = width;
	spec.probe_steps = engine::graph::kSearchSteps;
	work_bytes = engine::graph::graph_search_bytes(view, spec);
	work = MemoryContextAllocHuge(CurrentMemoryContext, work_bytes);
	for (uint32 i = 0; i < known->model.n_parts; i++)
	{
		const GraphPart *part = &known->parts[i];
		const engine::graph::Outcome outcome =
			engine::graph::graph_search(view, spec, known->entries + part->first_entry,
				Min(part->n_entries, engine::graph::kSearchEntries), found, &n_found, &stats, work, work_bytes);

		if (outcome.code == StatusCode::kCancelled)
			return false; // a foreign page
		if (!outcome.is_ok())
			elog(ERROR, "%s", outcome.message);
		if (hashed && !graph_judge_found(search, known, found, n_found))
			return false;
		if (!offer_found(search, found, n_found, group))
			return false;
	}
	*search->n_compared += stats.n_scored;
	pfree(work);
	pfree(found);
	return true;
}

/// Looks at all rows. False if a page was foreign.
bool
search_rows(const SegmentSearch *search)
{
	const MetaData *meta = search->meta;
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	const Size stride = meta_vector_bytes(meta);
	const uint64 capacity = kGroupRows + kPayloadBytes / stride + 1; // a run is as long as a page, at most
	Candidate *candidates = static_cast<Candidate *>(palloc(kGroupRows * sizeof(Candidate)));
	double *scores = static_cast<double *>(palloc(capacity * sizeof(double)));
	Group *group = static_cast<Group *>(palloc(sizeof(Group)));
	StreamCursor cursor;
	const void *vectors;
	uint64 first = 0;
	uint64 n_wanted = 0;
	uint64 n;

	stream_open(&cursor, search->index, meta, search->segment, StreamKind::kVectors, stride, 0, search->strategy);
	stream_read_ahead(&cursor);
	while (stream_next_run(&cursor, &vectors, &n))
	{
		engine::compute_scores(spec, search->query, vectors, stride, n, scores, cursor.read_ahead);
		*search->n_compared += n;
		if (search_wants(search, scores, n))
		{
			stream_release(&cursor);
			for (uint64 i = 0; i < n; i++)
			{
				if (!search_wants(search, &scores[i], 1))
					continue;
				candidates[n_wanted++] = {scores[i], static_cast<uint32>(first + i)};
				if (n_wanted < kGroupRows)
					continue;
				if (!offer_rows(search, candidates, n_wanted, group))
				{
					stream_close(&cursor);
					return false;
				}
				n_wanted = 0;
			}
			CHECK_FOR_INTERRUPTS();
		}
		first += n;
	}
	stream_close(&cursor);
	return !cursor.foreign && (n_wanted == 0 || offer_rows(search, candidates, n_wanted, group));
}

/// A zero vector has no cosine with any row.
bool
has_no_scores(const SegmentSearch *search)
{
	const engine::DistanceSpec spec = {search->meta->metric, search->meta->element, search->meta->dim};
	double score;

	engine::compute_scores(spec, search->query, search->query, meta_vector_bytes(search->meta), 1, &score, 0);
	return std::isnan(score);
}

} // namespace

PageGraph
graph_of_vectors(const SegmentSearch *search, const KnownGraph *known)
{
	const MetaData *meta = search->meta;
	const Size n_bytes = meta_vector_bytes(meta);

	return {search, known->model.degree, StreamKind::kVectors, n_bytes, {meta->metric, meta->element, meta->dim},
		search->query, static_cast<char *>(palloc(n_bytes)), 0};
}

bool
graph_read_neighbors(void *context, uint32_t node, uint32_t *neighbors)
{
	const PageGraph *graph = static_cast<const PageGraph *>(context);
	const SegmentSearch *search = graph->search;
	const Size n_bytes = graph->degree * sizeof(uint32);

	CHECK_FOR_INTERRUPTS();
	if (!stream_read(search->index, search->meta, search->segment, kEdgeStream, node * n_bytes, n_bytes, neighbors,
			search->strategy))
		return false;
	for (uint32 i = 0; i < graph->degree; i++)
		if (neighbors[i] >= search->segment->n_rows && neighbors[i] != engine::graph::kNoNode)
			page_corrupted(search->index, search->segment->streams[static_cast<int>(kEdgeStream)].start_block,
				"An edge leads to a row that the segment does not have.");
	return true;
}

/// Scores items where they lie; those that cross pages are copied.
bool
graph_score_nodes(void *context, const uint32_t *nodes, size_t n, double *scores)
{
	const PageGraph *graph = static_cast<const PageGraph *>(context);
	const SegmentSearch *search = graph->search;
	const MetaData *meta = search->meta;
	const BlockNumber start = search->segment->streams[static_cast<int>(graph->items)].start_block;

	for (size_t i = 0; i < n; i++)
		ask_for_item(graph, nodes[i]);
	for (size_t i = 0; i < n; i++)
	{
		const uint64 byte = nodes[i] * static_cast<uint64>(graph->item_bytes);
		const uint32 position = static_cast<uint32>(byte / kPayloadBytes);
		const Size offset = byte % kPayloadBytes;
		const PageExpectation expected = {meta->uuid, PageRole::kStream, graph->items, search->segment->id, position};
		bool foreign = false;
		Buffer buffer;

		if (offset + graph->item_bytes > kPayloadBytes)
		{
			if (!stream_read(search->index, meta, search->segment, graph->items, byte, graph->item_bytes,
					graph->scratch, search->strategy))
				return false;
			score_item(graph, graph->scratch, scores + i);
			continue;
		}
		buffer = page_read(search->index, start + position, expected, BUFFER_LOCK_SHARE, ChecksumPolicy::kFirstRead,
			search->strategy, &foreign);
		if (foreign)
			return false;
		score_item(graph, page_payload(BufferGetPage(buffer)) + offset, scores + i);
		UnlockReleaseBuffer(buffer);
	}
	return true;
}

bool
graph_search_segment(const SegmentSearch *search)
{
	const KnownGraph *known;
	double width;

	if (search->approximate->exact)
		return search_rows(search);
	if (has_no_scores(search))
	{
		*search->approximate->coverage = Min(*search->approximate->coverage, Coverage::kScored);
		return true;
	}
	known = known_graph(search);
	if (known == nullptr)
		return false;
	width = graph_width(search->meta, &known->model, search->segment, search->approximate->n_before,
		search->approximate->wanted, search->approximate->round);
	note_missed_target(search->approximate->missed,
		graph_missed_target(
			&known->model, static_cast<double>(search->approximate->n_before + search->approximate->wanted)));
	if (engine::graph::looks_at_all(width, static_cast<double>(search->segment->n_rows)))
		return search_rows(search);
	*search->approximate->coverage = Coverage::kPart;
	note_width(search->approximate->width, static_cast<uint32>(width));
	return search_graph(search, known, static_cast<uint32>(width));
}

} // namespace vectorgpu::am

// The scan of lists by codes: estimated distances choose candidates, whose canonical distances are computed then. See
// ivf_search.hpp. PG dialect; holds one content lock at a time.
#include "am/gpuivf/ivf_search.hpp"

#include "engine/distance/distance.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kBlockRows = engine::ivf::kCodeBlockRows;
constexpr uint64 kGroupRows = 32 * kBlockRows; // scored before candidates are chosen
constexpr uint64 kFarFactor = 32;              // times the candidates, for a far query

/// A group of places being scored.
struct CodeGroup
{
	double scores[kGroupRows];
	RowId places[kGroupRows];
	float terms[kGroupRows];
};

/// The state of a scan of codes.
struct CodeScan
{
	const SegmentSearch *search;
	const IvfLayout *layout;
	const CodeQuery *codes;
	uint64 unit;        // rows of an item of kCodeStream
	engine::TopK *topk; // of estimates, places in place of row ids
	CodeGroup *group;
};

/// Scores of the places [first, first + n) of a list, from a unit's beginning on. False if a page was foreign.
bool
score_group(const CodeScan *scan, StreamCursor *cursor, uint64 first, uint64 n, double constant)
{
	const SegmentSearch *search = scan->search;
	CodeGroup *group = scan->group;
	const void *items;
	uint64 n_items;
	uint64 done = 0;

	if (scan->layout->row_terms)
	{
		stream_release(cursor);
		if (!stream_read(search->index, search->meta, search->segment, kRowTermStream, first * sizeof(float),
				n * sizeof(float), group->terms, search->strategy))
			return false;
	}
	while (done < n)
	{
		uint64 rows;

		if (!stream_next_run(cursor, &items, &n_items))
			return false;
		rows = Min(n_items * scan->unit, n - done);
		// Items behind the group are read again by the next one.
		cursor->next_byte -= (n_items - (rows + scan->unit - 1) / scan->unit) * cursor->item_bytes;
		engine::ivf::code_scores(scan->codes->query, constant, static_cast<const uint8 *>(items),
			scan->layout->row_terms ? group->terms + done : nullptr, rows, group->scores + done,
			scan->topk->threshold.score);
		done += rows;
	}
	return true;
}

/// Chooses candidates among the places of a range. False if a page was foreign.
bool
scan_range(const CodeScan *scan, const PlaceRange *range, double constant)
{
	const SegmentSearch *search = scan->search;
	CodeGroup *group = scan->group;
	const uint64 start = range->first / scan->unit * scan->unit;
	StreamCursor cursor;

	stream_open(&cursor, search->index, search->meta, search->segment, kCodeStream,
		scan->layout->code_bytes * scan->unit, start / scan->unit, search->strategy);
	for (uint64 first = start, step; first < range->end; first += step)
	{
		step = engine::ivf::code_step_rows(scan->layout->codes, *scan->topk, kGroupRows);

		const uint64 end = Min(first + step, range->end);
		const uint64 skipped = first < range->first ? range->first - first : 0;

		CHECK_FOR_INTERRUPTS();
		if (!score_group(scan, &cursor, first, end - first, constant))
		{
			stream_close(&cursor);
			return false;
		}
		for (uint64 i = skipped; i < end - first; i++)
			group->places[i] = first + i;
		if (engine::topk_wants(scan->topk, group->scores + skipped, end - first - skipped))
		{
			engine::topk_push(
				scan->topk, group->scores + skipped, group->places + skipped, end - first - skipped, nullptr, 0);
			if (engine::ivf::code_has_bounds(scan->layout->codes))
				engine::topk_tighten_some(scan->topk);
		}
		*search->n_compared += end - first - skipped;
	}
	stream_close(&cursor);
	return true;
}

} // namespace

uint64
ivf_segment_candidates(
	const MetaData *meta, const SegmentEntry *segment, const IvfModel *model, uint64 wanted, bool far)
{
	const uint64 factor = far ? kFarFactor : 1;
	const uint64 n_dead = Min(segment->n_dead, segment->n_rows - 1);
	const double alive = static_cast<double>(segment->n_rows - n_dead) / static_cast<double>(segment->n_rows);

	if (far && ivf_options(meta)->refine == IvfRefine::kFull)
		return segment->n_rows;
	return static_cast<uint64>(static_cast<double>(factor * ivf_candidates(model, wanted)) / alive);
}

bool
ivf_search_codes(const SegmentSearch *search, const RankedSegment *ranked, const PlaceRange *ranges, uint32 n)
{
	const IvfLayout *layout = &ranked->codes->codec->layout;
	const engine::ivf::CodeSpec &codes = ranked->codes->codec->model.spec;
	uint64 n_rows = 0;
	uint64 k;
	Size buffer_bytes;
	engine::TopK topk;
	CodeScan scan = {search, layout, ranked->codes, engine::ivf::code_unit_rows(codes), &topk, nullptr};
	uint64 *places;
	bool intact;

	for (uint32 i = 0; i < n; i++)
		n_rows += ranges[i].end - ranges[i].first;
	k = ivf_segment_candidates(search->meta, search->segment, &ranked->described,
		search->approximate->wanted + search->approximate->n_before, ranked->far);
	k = Max(Min(k, n_rows), UINT64CONST(1));
	buffer_bytes = engine::topk_buffer_bytes(k);
	engine::topk_init(&topk, k,
		static_cast<engine::Neighbor *>(MemoryContextAllocHuge(CurrentMemoryContext, buffer_bytes)),
		buffer_bytes / sizeof(engine::Neighbor), nullptr);
	scan.group = static_cast<CodeGroup *>(palloc(sizeof(CodeGroup)));
	for (uint32 i = 0; i < n; i++)
		if (!scan_range(&scan, &ranges[i], engine::ivf::code_list_constant(codes, ranked->scores[ranges[i].list])))
			return false;

	k = engine::topk_finish(&topk);
	places = static_cast<uint64 *>(MemoryContextAllocHuge(CurrentMemoryContext, Max(k, 1) * sizeof(uint64)));
	for (uint64 i = 0; i < k; i++)
		places[i] = topk.buffer[i].row;
	std::sort(places, places + k);
	intact = ivf_refine(search, layout, places, k);
	pfree(places);
	pfree(scan.group);
	pfree(topk.buffer);
	return intact;
}

} // namespace vectorgpu::am

// Search of texts in a segment: counts of common n-grams become bounds of edit distances, and the texts with the least
// bounds are read and compared first, until no other can be among the first. See README.md ("Edit distance"). PG
// dialect; holds one content lock at a time, none while it computes, allocates or looks at interrupts.
#include "am/gpumatch/gpumatch.hpp"

#include "am/method/dead_rows.hpp"
#include "engine/match/count_tile.hpp"

namespace vectorgpu::am
{

namespace
{

using engine::match::GramWindow;
using engine::match::text_end;

constexpr uint64 kChunkRows =
	kPayloadBytes / sizeof(RowId);         // rows whose items and ids are read together: a page of each
constexpr uint64 kReadTogether = 8;        // from this number of texts wanted of a chunk on, all are read at once
constexpr Size kMostTogether = 256 * 1024; // bytes of them
constexpr uint64 kFirstPassRows = 16;

/// The data read of a chunk of rows.
struct TextChunk
{
	const SegmentSearch *search;
	uint64 first; // row of the segment
	uint64 n;
	bool has_items;
	bool has_rows;
	bool has_texts;
	uint64 items[kChunkRows + 1]; // items[0]: of the row before the chunk, or 0
	RowId rows[kChunkRows];
	uint8 dead[kChunkRows / 8 + 2];
	uint8 *text; // [capacity]
	Size capacity;
};

bool
read(const SegmentSearch *search, StreamKind kind, uint64 offset, Size n_bytes, void *dest)
{
	return stream_read(search->index, search->meta, search->segment, kind, offset, n_bytes, dest, search->strategy);
}

void
start_chunk(TextChunk *chunk, uint64 first, uint64 n)
{
	chunk->first = first;
	chunk->n = n;
	chunk->has_items = chunk->has_rows = chunk->has_texts = false;
}

/// Reads the places of the chunk's texts. False if a page was foreign.
bool
need_items(TextChunk *chunk)
{
	const uint64 before = chunk->first > 0 ? 1 : 0;

	if (chunk->has_items)
		return true;
	chunk->items[0] = 0;
	if (!read(chunk->search, kTextItems, (chunk->first - before) * sizeof(uint64), (chunk->n + before) * sizeof(uint64),
			&chunk->items[1 - before]))
		return false;
	for (uint64 i = 0; i < chunk->n; i++)
		if (!engine::match::text_item_valid(text_end(chunk->items[i]), chunk->items[i + 1]) ||
			text_end(chunk->items[i + 1]) > chunk->search->segment->streams[static_cast<int>(kTexts)].n_bytes)
			page_corrupted(chunk->search->index,
				chunk->search->segment->streams[static_cast<int>(kTextItems)].start_block,
				"The ends of the texts are out of order.");
	chunk->has_items = true;
	return true;
}

bool
need_rows(TextChunk *chunk)
{
	if (chunk->has_rows)
		return true;
	if (!read(
			chunk->search, StreamKind::kRowIds, chunk->first * sizeof(RowId), chunk->n * sizeof(RowId), chunk->rows) ||
		(search_drops_rows(chunk->search) && !search_read_dead(chunk->search, chunk->first, chunk->n, chunk->dead)))
		return false;
	chunk->has_rows = true;
	return true;
}

void
reserve_text(TextChunk *chunk, Size n_bytes)
{
	if (n_bytes <= chunk->capacity)
		return;
	if (chunk->text != nullptr)
		pfree(chunk->text);
	chunk->text = nullptr;
	chunk->capacity = 0;
	chunk->text = static_cast<uint8 *>(palloc_extended(n_bytes, MCXT_ALLOC_HUGE));
	chunk->capacity = n_bytes;
}

/// The text of row i of the chunk, one of n_wanted of it. False if a page was foreign.
bool
read_text(TextChunk *chunk, uint64 i, uint64 n_wanted, engine::match::TextView *text)
{
	const uint64 first = text_end(chunk->items[0]);
	const uint64 start = text_end(chunk->items[i]);
	const uint64 end = text_end(chunk->items[i + 1]);
	const uint64 all = text_end(chunk->items[chunk->n]) - first;
	const uint32 width = engine::match::text_item_width(chunk->items[i + 1]);

	if (!chunk->has_texts && n_wanted >= kReadTogether && all <= kMostTogether)
	{
		reserve_text(chunk, Max(all, UINT64CONST(1)));
		if (!read(chunk->search, kTexts, first, all, chunk->text))
			return false;
		chunk->has_texts = true;
	}
	if (chunk->has_texts)
	{
		*text = {chunk->text + (start - first), engine::match::text_item_size(start, chunk->items[i + 1]), width};
		return true;
	}
	reserve_text(chunk, Max(end - start, UINT64CONST(1)));
	*text = {chunk->text, engine::match::text_item_size(start, chunk->items[i + 1]), width};
	return end == start || read(chunk->search, kTexts, start, end - start, chunk->text);
}

/// levels [tile->n_rows]: engine::match::gram_levels of the rows; kNoGramLevel for rows that cannot be among the first
/// by their counters.
bool
level_tile(const SegmentSearch *search, const MatchSearch *query, const MatchCounters &tile, const engine::TopK *topk,
	TextChunk *chunk, GramWindow *window, uint8 *levels)
{
	uint16 sizes[kChunkRows];

	for (uint64 at = 0; at < tile.n_rows; at += kChunkRows)
	{
		const uint64 n = Min(kChunkRows, tile.n_rows - at);

		CHECK_FOR_INTERRUPTS();
		if (topk->full &&
			!engine::match::any_at_least(
				tile.counters, tile.width, at, n, engine::match::gram_least_count(query->grams, topk->threshold.score)))
		{
			memset(levels + at, engine::match::kNoGramLevel, n);
			continue;
		}
		start_chunk(chunk, tile.first_row + at, n);
		if (!need_items(chunk))
			return false;
		for (uint64 i = 0; i < n; i++)
			sizes[i] =
				static_cast<uint16>(Min(engine::match::text_item_size(text_end(chunk->items[i]), chunk->items[i + 1]),
					static_cast<uint64>(engine::match::kMostRowSize)));
		engine::match::gram_levels(query->grams, tile.counters, tile.width, at, n, sizes, window, levels + at);
	}
	return true;
}

/// Consecutive levels whose rows are compared in one pass over the tile.
struct LevelRange
{
	uint32 first;
	uint32 last;

	bool has(uint8 level) const { return level >= first && level <= last; }
};

/// True if no row with this bound can enter: by a bound equal to the k-th row's distance none behind that row can.
bool
is_out(const engine::TopK *topk, double bound, RowId row)
{
	return topk->full &&
		(bound > topk->threshold.score || (bound >= topk->threshold.score && row > topk->threshold.row));
}

/// Offers the rows of the chunk with these levels, of bounds from first_bound on. levels: of the chunk.
bool
offer_chunk(TextChunk *chunk, const MatchSearch *query, const uint8 *levels, LevelRange range, int64 first_bound,
	engine::TopK *topk)
{
	const SegmentSearch *search = chunk->search;
	uint64 n_wanted = 0;

	for (uint64 i = 0; i < chunk->n; i++)
		n_wanted += range.has(levels[i]);
	for (uint64 i = 0; n_wanted > 0 && i < chunk->n; i++)
	{
		engine::match::TextView text;

		if (!range.has(levels[i]))
			continue;
		if (!need_rows(chunk))
			return false;
		if (is_out(topk, static_cast<double>(first_bound + levels[i]), chunk->rows[i]))
			continue;
		if (search_drops_rows(search) && (chunk->dead[(chunk->first % 8 + i) / 8] >> ((chunk->first + i) % 8) & 1) != 0)
			continue;
		if (!need_items(chunk) || !read_text(chunk, i, n_wanted, &text))
			return false;
		engine::match::offer_text(topk, query->pattern, text, chunk->rows[i], {match_check_interrupts, nullptr});
		++*search->n_named;
		++*search->n_rescored;
	}
	return true;
}

/// The levels of the next pass: one, or as many as have no more rows than the passes before. So each row of many is
/// read a few times at most, and a bound that the first rows have made counts for the others. counts: rows of each
/// level.
LevelRange
next_range(const uint64 *counts, uint32 first, uint32 last, uint64 n_done)
{
	LevelRange range = {first, first};
	uint64 n = counts[first];

	while (range.last < last && n + counts[range.last + 1] <= Max(n_done, kFirstPassRows))
		n += counts[++range.last];
	return range;
}

/// Offers the rows of a window in the order of their bounds, some bounds at a time.
bool
offer_window(TextChunk *chunk, const MatchSearch *query, const MatchCounters &tile, const GramWindow &window,
	const uint8 *levels, engine::TopK *topk)
{
	uint64 counts[engine::match::kGramLevels + 1] = {};
	uint64 n_done = 0;
	uint32 last = engine::match::kGramLevels - 1;

	for (uint64 i = 0; i < tile.n_rows; i++)
		counts[levels[i]]++;
	while (last > 0 && counts[last] == 0)
		last--;
	for (uint32 level = 0; level <= last; level++)
	{
		LevelRange range;

		if (topk->full && static_cast<double>(window.first + level) > topk->threshold.score)
			return true;
		if (topk->full && static_cast<double>(window.first + last) > topk->threshold.score)
			last = static_cast<uint32>(static_cast<int64>(topk->threshold.score) - window.first);
		range = next_range(counts, level, last, n_done);
		for (uint64 at = 0; at < tile.n_rows; at += kChunkRows)
		{
			CHECK_FOR_INTERRUPTS();
			start_chunk(chunk, tile.first_row + at, Min(kChunkRows, tile.n_rows - at));
			if (!offer_chunk(chunk, query, levels + at, range, window.first, topk))
				return false;
		}
		for (; level < range.last; level++)
			n_done += counts[level];
		n_done += counts[level];
	}
	return true;
}

} // namespace

bool
match_offer_texts(const SegmentSearch *search, const MatchSearch *query, const MatchCounters &tile, engine::TopK *topk)
{
	uint8 *levels = static_cast<uint8 *>(palloc_extended(tile.n_rows, MCXT_ALLOC_HUGE));
	TextChunk *chunk = static_cast<TextChunk *>(palloc0(sizeof(TextChunk)));
	GramWindow window;

	chunk->search = search;
	do
	{
		if (!level_tile(search, query, tile, topk, chunk, &window, levels) ||
			!offer_window(chunk, query, tile, window, levels, topk))
			return false;
		window = {window.next, PG_INT64_MAX};
	} while (
		window.first != PG_INT64_MAX && !(topk->full && static_cast<double>(window.first) > topk->threshold.score));
	if (chunk->text != nullptr)
		pfree(chunk->text);
	pfree(chunk);
	pfree(levels);
	return true;
}

} // namespace vectorgpu::am

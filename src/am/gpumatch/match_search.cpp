// Search of one segment: the items of the query become ranges of postings, these become counts of the rows of a tile,
// and the rows whose count can matter are offered to the selection. See README.md ("Search"). PG dialect; holds one
// content lock at a time, none while it allocates or looks at interrupts.
#include "am/gpumatch/gpumatch.hpp"

#include "am/method/dead_rows.hpp"
#include "engine/match/count_tile.hpp"
#include "engine/match/tile_lists.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

using engine::match::Key;

constexpr uint64 kChunkRows = kPayloadBytes / sizeof(RowId); // rows offered at a time: a page of row ids
constexpr Size kLeastTileBytes = 256 * 1024;
constexpr uint32 kPagesBetweenLooks = 64;

/// Items [first, last) of match_lists: whole lists.
struct PostingRange
{
	uint64 first;
	uint64 last;
};

constexpr uint32 kPageCopies = 8;

/// Copies of pages of a stream; a page's place is its number modulo kPageCopies. A search for keys reads the same few
/// pages some hundred times: by pins and locks many sessions would wait for each other at the header of one buffer.
struct PageCopies
{
	StreamKind kind;
	uint64 numbers[kPageCopies]; // of the page in a place, counted from one; 0: none
	char *pages;                 // [kPageCopies, kPayloadBytes]
};

struct Lookup
{
	const SegmentSearch *search;
	uint64 n_keys;
	uint8 *key; // [key_capacity]
	Size key_capacity;
	PageCopies dictionary;
	PageCopies key_bytes;
};

PageCopies
no_copies(StreamKind kind)
{
	return {kind, {}, static_cast<char *>(palloc(kPageCopies * kPayloadBytes))};
}

/// stream_read through the copies.
bool
read_by_copies(const SegmentSearch *search, PageCopies *copies, uint64 offset, Size n_bytes, void *dest)
{
	const uint64 stream_bytes = search->segment->streams[static_cast<int>(copies->kind)].n_bytes;
	char *out = static_cast<char *>(dest);

	Assert(offset + n_bytes <= stream_bytes);
	while (n_bytes > 0)
	{
		const uint64 number = offset / kPayloadBytes;
		const Size start = offset % kPayloadBytes;
		const Size part = Min(n_bytes, kPayloadBytes - start);
		char *page = copies->pages + number % kPageCopies * kPayloadBytes;
		uint64 *held = &copies->numbers[number % kPageCopies];

		if (*held != number + 1)
		{
			*held = 0;
			if (!stream_read(search->index, search->meta, search->segment, copies->kind, number * kPayloadBytes,
					Min(kPayloadBytes, stream_bytes - number * kPayloadBytes), page, search->strategy))
				return false;
			*held = number + 1;
		}
		memcpy(out, page + start, part);
		out += part;
		offset += part;
		n_bytes -= part;
	}
	return true;
}

bool
read_entry(Lookup *lookup, uint64 code, DictionaryEntry *entry)
{
	return read_by_copies(
		lookup->search, &lookup->dictionary, code * sizeof(DictionaryEntry), sizeof(DictionaryEntry), entry);
}

/// Compares the key of a code, whose entry is given, with another. False if a page was foreign.
bool
compare_with(Lookup *lookup, uint64 code, const DictionaryEntry *entry, Key wanted, int *order)
{
	const uint64 prefix = engine::match::key_prefix(wanted);
	DictionaryEntry before = {0, 0, 0};

	if (entry->prefix != prefix)
	{
		*order = entry->prefix < prefix ? -1 : 1;
		return true;
	}
	if (code > 0 && !read_entry(lookup, code - 1, &before))
		return false;
	if (entry->key_end < before.key_end ||
		entry->key_end > lookup->search->segment->streams[static_cast<int>(kKeyBytes)].n_bytes)
		page_corrupted(lookup->search->index,
			lookup->search->segment->streams[static_cast<int>(kDictionary)].start_block,
			"The ends of the keys are out of order.");
	if (entry->key_end - before.key_end > lookup->key_capacity)
	{
		lookup->key_capacity = entry->key_end - before.key_end;
		lookup->key = static_cast<uint8 *>(palloc(lookup->key_capacity));
	}
	if (!read_by_copies(
			lookup->search, &lookup->key_bytes, before.key_end, entry->key_end - before.key_end, lookup->key))
		return false;
	*order = engine::match::key_compare({lookup->key, entry->key_end - before.key_end}, wanted);
	return true;
}

/// The first code in [low, n_keys) whose key is not before the wanted one. *equal: it is the wanted one.
bool
first_code(Lookup *lookup, uint64 low, Key wanted, uint64 *code, bool *equal)
{
	uint64 high = lookup->n_keys;
	uint64 step = 1;

	*equal = false;
	// Items ascend: from the place of the last one, in doubled steps, then by bisection.
	for (bool stepping = true; low < high;)
	{
		const uint64 middle = stepping ? Min(low + step - 1, high - 1) : low + (high - low) / 2;
		DictionaryEntry entry;
		int order;

		if (!read_entry(lookup, middle, &entry) || !compare_with(lookup, middle, &entry, wanted, &order))
			return false;
		if (order < 0)
		{
			low = middle + 1;
			step *= 2;
		}
		else
		{
			*equal = order == 0;
			high = middle;
			stepping = false;
			if (order == 0)
				low = high;
		}
	}
	*code = low;
	return true;
}

/// The begin of the lists of codes from `code` on.
bool
postings_start(Lookup *lookup, uint64 code, uint64 *start)
{
	DictionaryEntry before = {0, 0, 0};

	if (code > 0 && !read_entry(lookup, code - 1, &before))
		return false;
	*start = before.postings_end;
	return true;
}

/// ranges [n_items]: the postings of each item, empty ones left out, neighbours joined. False if a page was foreign.
bool
resolve(const SegmentSearch *search, const MatchSearch *query, PostingRange *ranges, uint64 *n_ranges)
{
	Lookup lookup = {search, search->segment->streams[static_cast<int>(kDictionary)].n_bytes / sizeof(DictionaryEntry),
		nullptr, 0, no_copies(kDictionary), no_copies(kKeyBytes)};
	engine::match::ItemReader reader = engine::match::read_items(query->parts);
	engine::match::Item item;
	uint64 from = 0;

	*n_ranges = 0;
	for (uint32 n = 0; engine::match::next_item(&reader, &item); n++)
	{
		PostingRange range;
		uint64 first;
		uint64 last;
		bool equal;

		if (n % kPagesBetweenLooks == 0)
			CHECK_FOR_INTERRUPTS();
		if (!first_code(&lookup, from, item.low, &first, &equal))
			return false;
		last = equal ? first + 1 : first;
		if (item.high.data != nullptr && !first_code(&lookup, first, item.high, &last, &equal))
			return false;
		from = last;
		if (first == last)
			continue;
		if (!postings_start(&lookup, first, &range.first) || !postings_start(&lookup, last, &range.last))
			return false;
		if (*n_ranges > 0 && ranges[*n_ranges - 1].last == range.first)
			ranges[*n_ranges - 1].last = range.last;
		else
			ranges[(*n_ranges)++] = range;
	}
	pfree(lookup.dictionary.pages);
	pfree(lookup.key_bytes.pages);
	return true;
}

/// Counts the postings of the ranges for rows [first_row, first_row + n_rows). False if a page was foreign.
bool
count_tile(const SegmentSearch *search, const PostingRange *ranges, uint64 n_ranges, void *counters, Size width,
	uint32 first_row, uint64 n_rows)
{
	const StreamKind lists = match_lists(search->segment);
	uint32 n_pages = 0;

	for (uint64 i = 0; i < n_ranges; i++)
	{
		engine::match::TileReader reader = {0, 0, false};
		uint64 left = ranges[i].last - ranges[i].first;
		StreamCursor cursor;
		const void *items;
		uint64 n;

		stream_open(&cursor, search->index, search->meta, search->segment, lists, match_list_item_bytes(lists),
			ranges[i].first, search->strategy);
		while (left > 0 && stream_next_run(&cursor, &items, &n))
		{
			n = Min(n, left);
			// A page's payload is aligned to 64 bytes, and so are its items to their size.
			if (lists == kTileLists)
				engine::match::add_tile_lists(
					counters, width, first_row, n_rows, &reader, static_cast<const uint16 *>(items), n);
			else
				engine::match::add_postings(counters, width, first_row, n_rows, static_cast<const uint32 *>(items), n);
			left -= n;
			if (++n_pages % kPagesBetweenLooks == 0)
			{
				stream_release(&cursor);
				CHECK_FOR_INTERRUPTS();
			}
		}
		stream_close(&cursor);
		if (cursor.foreign)
			return false;
	}
	return true;
}

/// Room for a chunk of rows on its way to the selection.
struct Chunk
{
	double scores[kChunkRows];
	RowId rows[kChunkRows];
	uint8 dead[kChunkRows / 8 + 2];
};

/// The receiver of a segment's rows.
struct Offer
{
	engine::TopK *topk;
	RowId last_row; // of the offered rows
	Chunk chunk;
};

/// Offers rows [row, row + n) of the segment, whose counters begin at `at`.
bool
offer_chunk(
	const SegmentSearch *search, const void *counters, Size width, uint64 at, uint64 row, uint64 n, Offer *offer)
{
	Chunk *chunk = &offer->chunk;
	const bool drops = search_drops_rows(search);

	engine::match::count_scores(counters, width, at, n, chunk->scores);
	if (!stream_read(search->index, search->meta, search->segment, StreamKind::kRowIds, row * sizeof(RowId),
			n * sizeof(RowId), chunk->rows, search->strategy))
		return false;
	offer->last_row = chunk->rows[n - 1];
	if (drops && !search_read_dead(search, row, n, chunk->dead))
		return false;
	engine::topk_push(offer->topk, chunk->scores, chunk->rows, n, drops ? chunk->dead : nullptr, row % 8);
	return true;
}

/// The least count of a row of this segment that can still enter the selection.
uint64
least_count(const Offer *offer)
{
	const engine::TopK *topk = offer->topk;

	if (!topk->full)
		return 0;

	// Rows ascend: those to come lose a tie with the k-th unless that row lies behind them. Scores are whole numbers.
	const double worst = topk->threshold.score - (topk->threshold.row <= offer->last_row ? 1 : 0);

	return worst < 0 ? static_cast<uint64>(-worst) : 0;
}

bool
offer_tile(const SegmentSearch *search, const MatchCounters &tile, Offer *offer)
{
	engine::TopK *topk = offer->topk;

	for (uint64 at = 0; at < tile.n_rows; at += kChunkRows)
	{
		const uint64 n = Min(kChunkRows, tile.n_rows - at);

		if (!engine::match::any_at_least(tile.counters, tile.width, at, n, least_count(offer)))
			continue;
		if (!offer_chunk(search, tile.counters, tile.width, at, tile.first_row + at, n, offer))
			return false;
		if (topk->size > topk->k + topk->k / 4)
			engine::topk_tighten(topk);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

} // namespace

bool
match_count_segment(const SegmentSearch *search, const MatchSearch *query, engine::TopK *topk)
{
	const uint64 n_rows = search->segment->n_rows;
	const bool by_distance = search->meta->metric == Metric::kEdit;
	const Size width = engine::match::counter_bytes(query->max_count);
	const Size budget = Max(static_cast<Size>(work_mem) * 1024, kLeastTileBytes);
	const uint64 tile_rows = Min(n_rows, (budget / width + kChunkRows - 1) / kChunkRows * kChunkRows);
	PostingRange *ranges = static_cast<PostingRange *>(
		palloc_extended(Max(query->n_items, UINT64CONST(1)) * sizeof(PostingRange), MCXT_ALLOC_HUGE));
	char *counters = static_cast<char *>(palloc_extended(tile_rows * width, MCXT_ALLOC_HUGE));
	Offer *offer = static_cast<Offer *>(palloc(sizeof(Offer)));
	uint64 n_ranges;

	offer->topk = topk;
	offer->last_row = 0;
	if (!resolve(search, query, ranges, &n_ranges))
		return false;
	for (uint64 first = 0; first < n_rows; first += tile_rows)
	{
		const uint64 n = Min(tile_rows, n_rows - first);

		memset(counters, 0, n * width);
		const MatchCounters tile = {counters, width, first, n};

		if (!count_tile(search, ranges, n_ranges, counters, width, static_cast<uint32>(first), n) ||
			!(by_distance ? match_offer_texts(search, query, tile, topk) : offer_tile(search, tile, offer)))
			return false;
	}
	pfree(offer);
	pfree(counters);
	pfree(ranges);
	return true;
}

bool
match_search_segment(const SegmentSearch *search)
{
	const MatchSearch *query = static_cast<const MatchSearch *>(search->query);

	if (match_is_signature(query->options.source))
		return match_search_signatures(search, query);
	*search->n_compared += search->segment->n_rows;
	return match_count_segment(search, query, search->topk);
}

} // namespace vectorgpu::am

// See match_index.hpp.
#include "engine/match/match_index.hpp"

#include <algorithm>
#include <cstring>

#include "engine/match/count_tile.hpp"
#include "engine/match/match_layout.hpp"

namespace vectorgpu::engine::match
{

namespace
{

constexpr size_t kChunkRows = 1024;    // counters tested together for survivors
constexpr size_t kTextsPerPoll = 1024; // compared between two polls: well below a millisecond, if they are not long

/// A run that is freed when its scope ends.
struct OwnedRun
{
	RunBuilder run;

	OwnedRun() { run_init(&run, heap_memory()); }
	~OwnedRun() { run_free(&run); }
	OwnedRun(const OwnedRun &) = delete;
	OwnedRun &operator=(const OwnedRun &) = delete;
};

/// Read items [first, first + n) of the lists, those of one key. False if they are no list.
bool
read_list(std::span<const uint8_t> description, const MatchLayout &layout, uint64_t first, size_t n,
	std::vector<uint32_t> *rows)
{
	const uint8_t *at = description.data() + layout.postings_at() + first * layout.head.list_item_bytes();
	std::vector<uint16_t> items;
	size_t n_rows = n;

	rows->resize(n);
	if (layout.head.list_format == kListsOfTiles)
	{
		items.resize(n);
		memcpy(items.data(), at, n * sizeof(uint16_t));
		if (!tile_list_rows(items.data(), n, rows->data(), &n_rows))
			return false;
		rows->resize(n_rows);
	}
	else
		memcpy(rows->data(), at, n * sizeof(uint32_t));
	return true;
}

/// Offer the rows of a tile that can still be among the first k by count. Rows ascend over all tiles.
void
offer_counts(TopK *topk, size_t width, const void *counters, const RowId *row_ids, size_t n, const uint8_t *dead,
	size_t first_row)
{
	double scores[kChunkRows];

	for (size_t first = 0; first < n; first += kChunkRows)
	{
		const size_t n_chunk = std::min(kChunkRows, n - first);
		const size_t bit = first_row + first;

		if (!any_at_least(counters, width, first, n_chunk, least_count(topk, true)))
			continue;
		count_scores(counters, width, first, n_chunk, scores);
		topk_push(topk, scores, row_ids + first, n_chunk, dead == nullptr ? nullptr : dead + bit / 8, bit % 8);
		if (topk->size > topk->k + topk->k / 4)
			topk_tighten(topk);
	}
}

} // namespace

/// The state of a query of a batch.
struct MatchIndex::Running
{
	std::vector<CodeRange> ranges;
	std::vector<Neighbor> buffer;
	TopK topk;
	size_t width = 1;
	bool by_distance = false;
	uint64_t n_compared = 0; // texts
	GramQuery grams{};
	TextPattern pattern{};

	Running() = default;
	~Running()
	{
		if (by_distance)
			text_pattern_free(&pattern);
	}
	Running(const Running &) = delete;
	Running &operator=(const Running &) = delete;
};

bool
MatchIndex::build(std::span<const Bytes> values, std::span<const RowId> row_ids)
{
	OwnedRun owned;
	RunBuilder *run = &owned.run;

	for (size_t i = 0; i < values.size(); i++)
	{
		const size_t before = run->n_pairs;
		Parts parts;

		if (!open_parts(values[i].data, values[i].size, &parts) || !run_add_value(run, static_cast<uint32_t>(i), parts))
			return false;
		max_elements_ = std::max<uint64_t>(max_elements_, run->n_pairs - before);
	}
	run_sort(run);
	row_ids_.assign(row_ids.begin(), row_ids.end());
	n_postings_ = n_list_items_ = run->n_pairs;
	tiles_.resize((values.size() + kTileRows - 1) / kTileRows);
	for (uint32_t code = 0; code < run->n_keys; code++)
	{
		const Key key = run_key(run, code);
		size_t n;
		const uint32_t *rows = run_rows(run, code, &n);

		key_bytes_.insert(key_bytes_.end(), key.data, key.data + key.size);
		key_ends_.push_back(key_bytes_.size());
		prefixes_.push_back(key_prefix(key));
		add_postings(code, rows, n);
	}
	return true;
}

/// Add the list of the next code. rows [n] ascend.
void
MatchIndex::add_postings(uint32_t code, const uint32_t *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		Tile &tile = tiles_[rows[i] / kTileRows];

		if (tile.codes.empty() || tile.codes.back() != code)
		{
			tile.codes.push_back(code);
			tile.ends.push_back(0);
		}
		tile.rows.push_back(static_cast<uint16_t>(rows[i] % kTileRows));
		tile.ends.back() = static_cast<uint32_t>(tile.rows.size());
	}
}

/// Read the items of n texts, and the texts.
bool
MatchIndex::open_texts(std::span<const uint8_t> bytes, size_t n)
{
	uint64_t end = 0;

	text_items_.resize(n);
	sizes_.resize(n);
	if (n > 0)
		memcpy(text_items_.data(), bytes.data(), n * sizeof(uint64_t));
	bytes = bytes.subspan(n * sizeof(uint64_t));
	for (size_t i = 0; i < n; i++)
	{
		if (!text_item_valid(end, text_items_[i]))
			return false;
		sizes_[i] = static_cast<uint16_t>(std::min<uint64_t>(text_item_size(end, text_items_[i]), kMostRowSize));
		end = text_end(text_items_[i]);
	}
	texts_.assign(bytes.begin(), bytes.end());
	return end == bytes.size();
}

TextView
MatchIndex::text(size_t row) const
{
	const uint64_t start = row == 0 ? 0 : text_end(text_items_[row - 1]);
	const uint32_t width = text_item_width(text_items_[row]);

	return {texts_.data() + start, text_item_size(start, text_items_[row]), width};
}

bool
MatchIndex::open(std::span<const uint8_t> description, std::span<const RowId> row_ids, bool with_texts)
{
	MatchLayout layout{};
	std::vector<uint32_t> n_elements(row_ids.size());
	std::vector<uint32_t> rows;
	MatchEntry before{};
	Key last{};

	if (description.size() < sizeof(MatchHead))
		return false;
	memcpy(&layout.head, description.data(), sizeof(MatchHead));
	layout.n_texts = with_texts ? row_ids.size() : 0;
	if (layout.head.n_keys > UINT32_MAX - 1 || layout.head.n_list_items > kMostMatchCount ||
		layout.head.list_format > kListsOfTiles || layout.head.n_key_bytes > kMostMatchCount ||
		layout.bytes() > description.size() || row_ids.size() > UINT32_MAX - 1)
		return false;
	layout.n_text_bytes = description.size() - layout.texts_at();
	if (!open_texts(description.subspan(layout.text_items_at()), layout.n_texts))
		return false;
	row_ids_.assign(row_ids.begin(), row_ids.end());
	tiles_.resize((row_ids.size() + kTileRows - 1) / kTileRows);
	key_bytes_.assign(description.data() + layout.keys_at(), description.data() + layout.text_items_at());
	key_ends_.reserve(layout.head.n_keys);
	prefixes_.reserve(layout.head.n_keys);
	for (uint64_t code = 0; code < layout.head.n_keys; code++)
	{
		MatchEntry entry;

		memcpy(&entry, description.data() + layout.entries_at() + code * sizeof(MatchEntry), sizeof(entry));
		if (entry.key_end < before.key_end || entry.key_end > layout.head.n_key_bytes ||
			entry.postings_end <= before.postings_end || entry.postings_end > layout.head.n_list_items)
			return false;

		const Key key = {key_bytes_.data() + before.key_end, static_cast<size_t>(entry.key_end - before.key_end)};

		if (entry.prefix != key_prefix(key) || (code > 0 && key_compare(last, key) >= 0) ||
			!read_list(description, layout, before.postings_end, entry.postings_end - before.postings_end, &rows))
			return false;
		for (size_t i = 0; i < rows.size(); i++)
		{
			if (rows[i] >= row_ids.size() || (i > 0 && rows[i] <= rows[i - 1]))
				return false;
			max_elements_ = std::max<uint64_t>(max_elements_, ++n_elements[rows[i]]);
		}
		key_ends_.push_back(entry.key_end);
		prefixes_.push_back(entry.prefix);
		add_postings(static_cast<uint32_t>(code), rows.data(), rows.size());
		n_postings_ += rows.size();
		before = entry;
		last = key;
	}
	n_list_items_ = layout.head.n_list_items;
	lists_of_tiles_ = layout.head.list_format == kListsOfTiles;
	for (const Tile &tile : tiles_)
		if (tile.rows.size() > UINT32_MAX) // its ends have overflowed
			return false;
	return before.key_end == layout.head.n_key_bytes && before.postings_end == layout.head.n_list_items;
}

uint64_t
MatchIndex::memory_bytes() const
{
	uint64_t bytes = key_bytes_.size() + (key_ends_.size() + prefixes_.size() + row_ids_.size()) * sizeof(uint64_t) +
		sizes_.size() * sizeof(uint16_t) + text_items_.size() * sizeof(uint64_t) + texts_.size();

	for (const Tile &tile : tiles_)
		bytes += (tile.codes.size() + tile.ends.size()) * sizeof(uint32_t) + tile.rows.size() * sizeof(uint16_t);
	return bytes;
}

Key
MatchIndex::key(uint32_t code) const
{
	const uint64_t start = code == 0 ? 0 : key_ends_[code - 1];

	return {key_bytes_.data() + start, static_cast<size_t>(key_ends_[code] - start)};
}

/// The first code whose key is not before `wanted`.
uint32_t
MatchIndex::first_code(Key wanted) const
{
	const uint64_t prefix = key_prefix(wanted);
	uint32_t low =
		static_cast<uint32_t>(std::lower_bound(prefixes_.begin(), prefixes_.end(), prefix) - prefixes_.begin());
	uint32_t high =
		static_cast<uint32_t>(std::upper_bound(prefixes_.begin() + low, prefixes_.end(), prefix) - prefixes_.begin());

	while (low < high)
	{
		const uint32_t middle = low + (high - low) / 2;

		if (key_compare(key(middle), wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

std::vector<CodeRange>
MatchIndex::resolve(const Parts &query) const
{
	std::vector<CodeRange> ranges;
	ItemReader reader = read_items(query);
	Item item;

	while (next_item(&reader, &item))
	{
		const uint32_t first = first_code(item.low);
		uint32_t last = first;

		if (item.high.data != nullptr)
			last = first_code(item.high);
		else if (first < n_keys() && key_compare(key(first), item.low) == 0)
			last = first + 1;
		if (first >= last)
			continue;
		if (!ranges.empty() && ranges.back().last == first)
			ranges.back().last = last;
		else
			ranges.push_back({first, last});
	}
	return ranges;
}

uint64_t
MatchIndex::most_count(std::span<const CodeRange> ranges) const
{
	uint64_t n_codes = 0;

	for (const CodeRange &range : ranges)
		n_codes += range.last - range.first;
	return std::min(max_elements_, n_codes);
}

void
MatchIndex::add_tile(size_t number, std::span<const CodeRange> ranges, size_t width, void *counters) const
{
	const Tile &tile = tiles_[number];
	auto at = tile.codes.begin();

	for (const CodeRange &range : ranges)
	{
		const auto first = std::lower_bound(at, tile.codes.end(), range.first);
		const auto last = std::lower_bound(first, tile.codes.end(), range.last);
		const size_t from = first == tile.codes.begin() ? 0 : tile.ends[first - tile.codes.begin() - 1];
		const size_t to = last == tile.codes.begin() ? 0 : tile.ends[last - tile.codes.begin() - 1];

		add_local_postings(counters, width, tile.rows.data() + from, to - from);
		at = last;
	}
}

/// Set the levels of a tile's texts in the window; rows that cannot be among the first get none. False if no row of
/// this window, or of a later one, can be among the first.
bool
MatchIndex::level_texts(const Running &query, size_t first_row, size_t n, const void *counters, GramWindow *window,
	std::vector<uint8_t> *levels) const
{
	const TopK &topk = query.topk;

	if (topk.full && static_cast<double>(window->first) > topk.threshold.score)
		return false;
	levels->assign(n, kNoGramLevel);
	for (size_t first = 0; first < n; first += kChunkRows)
	{
		const size_t n_chunk = std::min(kChunkRows, n - first);

		// Rows behind all those offered lose a tie, and distances are integers. This holds until rows of this tile are
		// offered.
		if (topk.full &&
			!any_at_least(counters, query.width, first, n_chunk,
				gram_least_count(query.grams, topk.threshold.score - (window->first == 0 ? 1 : 0))))
			continue;
		gram_levels(query.grams, counters, query.width, first, n_chunk, sizes_.data() + first_row + first, window,
			levels->data() + first);
	}
	return true;
}

/// Offer the texts of a tile, those with the least bounds first, until no other can be among the first k. False if poll
/// said no.
bool
MatchIndex::offer_texts(Running *query, size_t first_row, size_t n, const void *counters, const uint8_t *dead,
	std::vector<uint8_t> *levels, const Poll &poll) const
{
	TopK *topk = &query->topk;

	for (GramWindow window; level_texts(*query, first_row, n, counters, &window, levels);
		window = {window.next, INT64_MAX})
	{
		uint8_t last = 0;

		for (const uint8_t level : *levels)
			last = std::max<uint8_t>(last, level == kNoGramLevel ? 0 : level);
		for (uint32_t level = 0; level <= last; level++)
		{
			const double bound = static_cast<double>(window.first + level);

			if (topk->full && bound > topk->threshold.score)
				return true;
			for (size_t at = 0; at < n; at++)
			{
				const void *found = memchr(levels->data() + at, static_cast<int>(level), n - at);

				if (found == nullptr)
					break;
				at = static_cast<size_t>(static_cast<const uint8_t *>(found) - levels->data());

				const size_t row = first_row + at;

				if (topk->full && bound >= topk->threshold.score && row_ids_[row] > topk->threshold.row)
					break;
				if (dead != nullptr && ((dead[row / 8] >> (row % 8)) & 1) != 0)
					continue;
				offer_text(topk, &query->pattern, text(row), row_ids_[row], poll);
				if (++query->n_compared % kTextsPerPoll == 0 && !keep_going(poll))
					return false;
			}
		}
		if (window.next == INT64_MAX)
			break;
	}
	return true;
}

bool
MatchIndex::search(std::span<const MatchQuery> queries, const uint8_t *dead,
	std::vector<std::vector<Neighbor>> *results, const Poll &poll, uint64_t *n_compared) const
{
	std::vector<Running> running(queries.size());
	std::vector<uint64_t> counters(kTileRows * sizeof(uint32_t) / sizeof(uint64_t));
	std::vector<uint8_t> levels;

	for (size_t i = 0; i < queries.size(); i++)
	{
		const size_t k = std::max<size_t>(1, std::min(queries[i].k, n_rows()));
		Running &query = running[i];
		const uint8_t *codes = nullptr;
		Parts parts;

		if (!open_parts(queries[i].query.data, queries[i].query.size, &parts) ||
			(queries[i].by_distance && (!has_texts() || !open_gram_query(parts, &query.grams, &codes))))
			return false;
		if (queries[i].by_distance)
		{
			query.by_distance = true;
			text_pattern_init(&query.pattern, heap_memory(), codes, query.grams.size);
		}
		query.ranges = resolve(parts);
		query.width = counter_bytes(most_count(query.ranges));
		query.buffer.resize(topk_buffer_bytes(k) / sizeof(Neighbor));
		topk_init(&query.topk, k, query.buffer.data(), query.buffer.size(),
			queries[i].has_after ? &queries[i].after : nullptr);
	}
	for (size_t tile = 0; tile < tiles_.size(); tile++)
	{
		const size_t first = tile * kTileRows;
		const size_t n = std::min(kTileRows, n_rows() - first);

		for (Running &query : running)
		{
			if (!keep_going(poll))
				return true;
			memset(counters.data(), 0, n * query.width);
			add_tile(tile, query.ranges, query.width, counters.data());
			if (query.by_distance)
			{
				if (!offer_texts(&query, first, n, counters.data(), dead, &levels, poll))
					return true;
			}
			else
				offer_counts(&query.topk, query.width, counters.data(), row_ids_.data() + first, n, dead, first);
		}
	}
	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
	{
		running[i].buffer.resize(topk_finish(&running[i].topk));
		(*results)[i] = std::move(running[i].buffer);
		if (n_compared != nullptr)
			*n_compared += running[i].n_compared;
		if (queries[i].k == 0)
			(*results)[i].clear();
	}
	return true;
}

std::vector<uint32_t>
MatchIndex::count_all(const Parts &query) const
{
	const std::vector<CodeRange> ranges = resolve(query);
	std::vector<uint32_t> counts(tiles_.size() * kTileRows);

	for (size_t tile = 0; tile < tiles_.size(); tile++)
		add_tile(tile, ranges, sizeof(uint32_t), counts.data() + tile * kTileRows);
	counts.resize(n_rows());
	return counts;
}

} // namespace vectorgpu::engine::match

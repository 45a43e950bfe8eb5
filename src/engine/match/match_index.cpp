// The inverted index in host memory. See match_index.hpp.
#include "engine/match/match_index.hpp"

#include <algorithm>
#include <cstring>

#include "engine/match/count_tile.hpp"
#include "engine/match/match_layout.hpp"

namespace vectorgpu::engine::match
{

namespace
{

constexpr size_t kChunkRows = 1024; // counters looked at together for survivors

/// A run that is freed when its scope ends.
struct OwnedRun
{
	RunBuilder run;

	OwnedRun() { run_init(&run, heap_memory()); }
	~OwnedRun() { run_free(&run); }
	OwnedRun(const OwnedRun &) = delete;
	OwnedRun &operator=(const OwnedRun &) = delete;
};

/// A query of a batch while tiles go by.
struct Running
{
	std::vector<CodeRange> ranges;
	std::vector<Neighbor> buffer;
	TopK topk;
	size_t width;
	std::optional<GramQuery> grams;
};

/// Offers the rows of a tile that can still be among the first k. Rows ascend over all tiles.
void
offer_tile(Running *query, const void *counters, const RowId *row_ids, const uint16_t *sizes, size_t n, const uint8_t *dead,
	size_t first_row)
{
	TopK *topk = &query->topk;
	const size_t width = query->width;
	double scores[kChunkRows];

	for (size_t first = 0; first < n; first += kChunkRows)
	{
		const size_t n_chunk = std::min(kChunkRows, n - first);
		const size_t bit = first_row + first;
		// A row behind all those offered loses a tie, and bounds are whole numbers.
		const uint64_t least = !query->grams.has_value() ? least_count(topk, true)
							   : topk->full              ? gram_least_count(*query->grams, topk->threshold.score - 1)
														 : 0;

		if (!any_at_least(counters, width, first, n_chunk, least))
			continue;
		if (query->grams.has_value())
			gram_scores(*query->grams, counters, width, first, n_chunk, least, sizes + first, scores);
		else
			count_scores(counters, width, first, n_chunk, scores);
		topk_push(topk, scores, row_ids + first, n_chunk, dead == nullptr ? nullptr : dead + bit / 8, bit % 8);
		if (topk->size > topk->k + topk->k / 4)
			topk_tighten(topk);
	}
}

} // namespace

bool
MatchIndex::build(std::span<const Bytes> values, std::span<const RowId> row_ids)
{
	OwnedRun owned;
	RunBuilder *run = &owned.run;

	for (size_t i = 0; i < values.size(); i++)
	{
		const size_t before = run->n_pairs;
		Parts parts;

		if (!open_parts(values[i].data, values[i].size, &parts) ||
			!run_add_value(run, static_cast<uint32_t>(i), parts))
			return false;
		max_elements_ = std::max<uint64_t>(max_elements_, run->n_pairs - before);
	}
	run_sort(run);
	row_ids_.assign(row_ids.begin(), row_ids.end());
	n_postings_ = run->n_pairs;
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

/// The list of the next code. rows [n] ascend.
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

bool
MatchIndex::open(std::span<const uint8_t> description, std::span<const RowId> row_ids, bool with_sizes)
{
	MatchLayout layout{};
	std::vector<uint32_t> n_elements(row_ids.size());
	std::vector<uint32_t> rows;
	MatchEntry before{};
	Key last{};

	if (description.size() < sizeof(MatchHead))
		return false;
	memcpy(&layout.head, description.data(), sizeof(MatchHead));
	layout.n_sizes = with_sizes ? row_ids.size() : 0;
	if (layout.head.n_keys > UINT32_MAX - 1 || layout.head.n_postings > kMostMatchCount ||
		layout.head.n_key_bytes > kMostMatchCount || layout.bytes() != description.size() || row_ids.size() > UINT32_MAX - 1)
		return false;
	row_ids_.assign(row_ids.begin(), row_ids.end());
	tiles_.resize((row_ids.size() + kTileRows - 1) / kTileRows);
	key_bytes_.assign(description.data() + layout.keys_at(), description.data() + layout.sizes_at());
	sizes_.resize(layout.n_sizes);
	if (with_sizes)
		memcpy(sizes_.data(), description.data() + layout.sizes_at(), sizes_.size() * sizeof(uint16_t));
	key_ends_.reserve(layout.head.n_keys);
	prefixes_.reserve(layout.head.n_keys);
	for (uint64_t code = 0; code < layout.head.n_keys; code++)
	{
		MatchEntry entry;

		memcpy(&entry, description.data() + layout.entries_at() + code * sizeof(MatchEntry), sizeof(entry));
		if (entry.key_end < before.key_end || entry.key_end > layout.head.n_key_bytes || entry.postings_end <= before.postings_end ||
			entry.postings_end > layout.head.n_postings)
			return false;

		const Key key = {key_bytes_.data() + before.key_end, static_cast<size_t>(entry.key_end - before.key_end)};
		const size_t n = entry.postings_end - before.postings_end;

		if (entry.prefix != key_prefix(key) || (code > 0 && key_compare(last, key) >= 0) || n > row_ids.size())
			return false;
		rows.resize(n);
		memcpy(rows.data(), description.data() + layout.postings_at() + before.postings_end * sizeof(uint32_t), n * sizeof(uint32_t));
		for (size_t i = 0; i < n; i++)
		{
			if (rows[i] >= row_ids.size() || (i > 0 && rows[i] <= rows[i - 1]))
				return false;
			max_elements_ = std::max<uint64_t>(max_elements_, ++n_elements[rows[i]]);
		}
		key_ends_.push_back(entry.key_end);
		prefixes_.push_back(entry.prefix);
		add_postings(static_cast<uint32_t>(code), rows.data(), n);
		before = entry;
		last = key;
	}
	n_postings_ = layout.head.n_postings;
	for (const Tile &tile : tiles_)
		if (tile.rows.size() > UINT32_MAX) // its ends have run over
			return false;
	return before.key_end == layout.head.n_key_bytes && before.postings_end == layout.head.n_postings;
}

uint64_t
MatchIndex::memory_bytes() const
{
	uint64_t bytes = key_bytes_.size() + (key_ends_.size() + prefixes_.size() + row_ids_.size()) * sizeof(uint64_t) +
					 sizes_.size() * sizeof(uint16_t);

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
	uint32_t low = static_cast<uint32_t>(std::lower_bound(prefixes_.begin(), prefixes_.end(), prefix) - prefixes_.begin());
	uint32_t high = static_cast<uint32_t>(std::upper_bound(prefixes_.begin() + low, prefixes_.end(), prefix) - prefixes_.begin());

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

bool
MatchIndex::search(
	std::span<const MatchQuery> queries, const uint8_t *dead, std::vector<std::vector<Neighbor>> *results) const
{
	std::vector<Running> running(queries.size());
	std::vector<uint64_t> counters(kTileRows * sizeof(uint32_t) / sizeof(uint64_t));

	for (size_t i = 0; i < queries.size(); i++)
	{
		const size_t k = std::max<size_t>(1, std::min(queries[i].k, n_rows()));
		Running &query = running[i];
		Parts parts;

		if (!open_parts(queries[i].query.data, queries[i].query.size, &parts) ||
			(queries[i].grams.has_value() && sizes_.size() != n_rows()))
			return false;
		query.grams = queries[i].grams;
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
			memset(counters.data(), 0, n * query.width);
			add_tile(tile, query.ranges, query.width, counters.data());
			offer_tile(&query, counters.data(), row_ids_.data() + first, sizes_.empty() ? nullptr : sizes_.data() + first, n, dead, first);
		}
	}
	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
	{
		running[i].buffer.resize(topk_finish(&running[i].topk));
		(*results)[i] = std::move(running[i].buffer);
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

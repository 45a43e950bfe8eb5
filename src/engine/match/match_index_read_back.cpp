// MatchIndex: rebuilding the description from the arrays that searches read, and checking what was derived from it. See
// match_index.hpp. The arrays are not trusted: even if they are damaged no read is out of bounds, and impossible values
// are left out.
#include "engine/match/match_index.hpp"

#include <algorithm>
#include <cstring>

#include "engine/match/match_layout.hpp"

namespace vectorgpu::engine::match
{

namespace
{

/// The wanted piece of a description, whose parts are passed one after the other.
class Window
{
public:
	Window(uint64_t first, size_t n_bytes, uint8_t *bytes) : first_(first), end_(first + n_bytes), bytes_(bytes) {}

	/// The next part, of n items. items(i, m) returns items [i, i + m); only wanted ones are asked for.
	template <class Items>
	void part(uint64_t n, size_t item_bytes, Items items)
	{
		const uint64_t start = at_;
		const uint64_t end = start + n * item_bytes;
		const uint64_t from = std::max(start, first_);
		const uint64_t to = std::min(end, end_);

		at_ = end;
		if (from >= to)
			return;

		const uint64_t first_item = (from - start) / item_bytes;
		const uint64_t n_items = (to - start + item_bytes - 1) / item_bytes - first_item;
		const auto made = items(first_item, static_cast<size_t>(n_items));
		const uint8_t *source = reinterpret_cast<const uint8_t *>(made.data());

		std::memcpy(bytes_ + (from - first_), source + (from - start - first_item * item_bytes),
			static_cast<size_t>(to - from));
	}

private:
	const uint64_t first_;
	const uint64_t end_;
	uint8_t *const bytes_;
	uint64_t at_ = 0;
};

/// The items of a vector, for Window::part.
template <class T>
auto
items_of(const std::vector<T> &all)
{
	return [&all](uint64_t first, size_t n) { return std::span<const T>(all).subspan(static_cast<size_t>(first), n); };
}

/// The range of the list of code number j in the tile's rows.
std::pair<size_t, size_t>
list_of(const MatchIndex::Tile &tile, size_t j)
{
	const size_t from = j == 0 ? 0 : tile.ends[j - 1];
	const size_t to = tile.ends[j];

	return from <= to && to <= tile.rows.size() ? std::pair(from, to) : std::pair<size_t, size_t>(0, 0);
}

/// The first number of a code of the tile that is not below `code`.
size_t
number_of(const MatchIndex::Tile &tile, uint64_t code)
{
	return static_cast<size_t>(std::lower_bound(tile.codes.begin(), tile.codes.end(), code) - tile.codes.begin());
}

} // namespace

uint64_t
MatchIndex::description_bytes() const
{
	return sizeof(MatchHead) + n_keys() * sizeof(MatchEntry) +
		n_list_items_ * (lists_of_tiles_ ? sizeof(uint16_t) : sizeof(uint32_t)) + key_bytes_.size() +
		text_items_.size() * sizeof(uint64_t) + texts_.size();
}

/// The number of items of the lists of codes before `code`, as in the description.
uint64_t
MatchIndex::postings_before(uint64_t code) const
{
	uint64_t n = 0;

	for (const Tile &tile : tiles_)
		if (const size_t j = number_of(tile, code); j > 0)
			n += tile.ends[j - 1] + j * head_items();
	return n;
}

/// The ends of the lists of codes [first, first + n), as in the description.
std::vector<uint64_t>
MatchIndex::postings_ends(uint64_t first, size_t n) const
{
	std::vector<uint64_t> ends(n);
	uint64_t end = postings_before(first);

	for (const Tile &tile : tiles_)
		for (size_t j = number_of(tile, first); j < tile.codes.size() && tile.codes[j] - first < n; j++)
		{
			const auto [from, to] = list_of(tile, j);

			ends[tile.codes[j] - first] += to - from + head_items();
		}
	for (uint64_t &one : ends)
		one = end += one;
	return ends;
}

/// Item `at` of a list in tile `number`, as in the description. The list is [from, to) of the tile's rows.
uint32_t
MatchIndex::list_item(size_t number, size_t from, size_t to, uint64_t at) const
{
	const std::vector<uint16_t> &rows = tiles_[number].rows;

	if (!lists_of_tiles_)
		return static_cast<uint32_t>(number * kTileRows + rows[from + at]);
	if (at >= kTileHeadItems)
		return rows[from + at - kTileHeadItems];
	return static_cast<uint32_t>(at == 0 ? number : to - from - 1);
}

/// Items [first, first + n) of the lists, as in the description.
template <class Item>
std::vector<Item>
MatchIndex::read_lists(uint64_t first, size_t n) const
{
	std::vector<Item> items(n);
	uint64_t code = 0; // the first whose list ends behind `first`

	for (uint64_t step = n_keys(); step > 0;)
	{
		const uint64_t half = step / 2;

		if (postings_before(code + half + 1) <= first)
		{
			code += half + 1;
			step -= half + 1;
		}
		else
			step = half;
	}

	uint64_t at = postings_before(code); // of the first of the lists that are read together

	for (size_t n_codes = 1024; at < first + n && code < n_keys(); code += n_codes)
	{
		n_codes = static_cast<size_t>(std::min<uint64_t>(n_codes, n_keys() - code));

		const std::vector<uint64_t> ends = postings_ends(code, n_codes);
		std::vector<uint64_t> next(n_codes); // where the next row of each list goes

		for (size_t i = 0; i < n_codes; i++)
			next[i] = i == 0 ? at : ends[i - 1];
		while (n_codes > 1 && next[n_codes - 1] >= first + n) // behind what is wanted
			n_codes--;
		for (size_t number = 0; number < tiles_.size(); number++)
		{
			const Tile &tile = tiles_[number];

			for (size_t j = number_of(tile, code); j < tile.codes.size() && tile.codes[j] - code < n_codes; j++)
			{
				const auto [from, to] = list_of(tile, j);
				const uint64_t start = next[tile.codes[j] - code];
				const uint64_t end = next[tile.codes[j] - code] += to - from + head_items();

				for (uint64_t place = std::max(start, first); place < std::min(end, first + n); place++)
					items[place - first] = static_cast<Item>(list_item(number, from, to, place - start));
			}
		}
		at = ends[n_codes - 1];
	}
	return items;
}

bool
MatchIndex::read_description(uint64_t first, size_t n_bytes, uint8_t *bytes) const
{
	const MatchHead head = {n_keys(), n_list_items_, key_bytes_.size(), lists_of_tiles_ ? kListsOfTiles : kListsOfRows};
	Window window(first, n_bytes, bytes);

	if (first > description_bytes() || n_bytes > description_bytes() - first)
		return false;
	window.part(1, sizeof(head), [&](uint64_t, size_t) { return std::span(&head, 1); });
	window.part(n_keys(), sizeof(MatchEntry),
		[&](uint64_t code, size_t n)
		{
			const std::vector<uint64_t> ends = postings_ends(code, n);
			std::vector<MatchEntry> entries;

			entries.reserve(n);
			for (size_t i = 0; i < n; i++)
				entries.push_back({prefixes_[code + i], key_ends_[code + i], ends[i]});
			return entries;
		});
	if (lists_of_tiles_)
		window.part(
			n_list_items_, sizeof(uint16_t), [&](uint64_t at, size_t n) { return read_lists<uint16_t>(at, n); });
	else
		window.part(
			n_list_items_, sizeof(uint32_t), [&](uint64_t at, size_t n) { return read_lists<uint32_t>(at, n); });
	window.part(key_bytes_.size(), 1, items_of(key_bytes_));
	window.part(text_items_.size(), sizeof(uint64_t), items_of(text_items_));
	window.part(texts_.size(), 1, items_of(texts_));
	return true;
}

uint64_t
MatchIndex::count_different(size_t first, size_t n) const
{
	uint64_t n_different = 0;

	for (size_t row = first; !sizes_.empty() && row < first + n; row++)
	{
		const uint64_t start = row == 0 ? 0 : text_end(text_items_[row - 1]);

		n_different += sizes_[row] != std::min<uint64_t>(text_item_size(start, text_items_[row]), kMostRowSize) ? 1 : 0;
	}
	for (size_t number = (first + kTileRows - 1) / kTileRows; number < tiles_.size() && number * kTileRows < first + n;
		number++)
	{
		std::vector<uint64_t> n_elements(kTileRows);

		for (const uint16_t row : tiles_[number].rows)
			n_elements[row]++;
		for (const uint64_t count : n_elements)
			n_different += count > max_elements_ ? 1 : 0; // counters would overflow
	}
	return n_different;
}

} // namespace vectorgpu::engine::match

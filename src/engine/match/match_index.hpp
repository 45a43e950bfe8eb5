// The inverted index of a segment in host memory, and its search, for the CPU engine. Rows are cut into tiles of
// 65,536; a tile has its own lists, by code of the key, of 16-bit places, so that its counters stay in the cache while
// all queries of a batch go over it. C++ dialect: may throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/match/element_set.hpp"
#include "engine/match/run_builder.hpp"
#include "engine/match/text_distance.hpp"
#include "engine/match/tile_lists.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine::match
{

/// Bytes of a stored value or of a query.
struct Bytes
{
	const void *data = nullptr;
	size_t size = 0;
};

/// One query of a batch.
struct MatchQuery
{
	Bytes query;
	size_t k = 0;
	bool has_after = false; // continue strictly after `after`
	Neighbor after{};
	// Scores are edit distances instead of minus counts. The query has a payload (open_gram_query), the index texts.
	bool by_distance = false;
};

/// Codes [first, last) of the keys that an item matches.
struct CodeRange
{
	uint32_t first;
	uint32_t last;
};

class MatchIndex
{
public:
	/// Invert values [n] of rows row_ids [n], ascending. False if a value is invalid.
	bool build(std::span<const Bytes> values, std::span<const RowId> row_ids);

	/// The same from the description of a segment (match_layout.hpp), which is not trusted. False if it is invalid, or
	/// of another number of rows.
	bool open(std::span<const uint8_t> description, std::span<const RowId> row_ids, bool with_texts = false);

	/// Rebuild bytes [first, first + n_bytes) of the description from the arrays that searches read. False if there are
	/// not that many.
	bool read_description(uint64_t first, size_t n_bytes, uint8_t *bytes) const;
	uint64_t description_bytes() const;

	/// Count the derived numbers of rows [first, first + n), and of the tiles that begin there, that differ from those
	/// that the description gives.
	uint64_t count_different(size_t first, size_t n) const;

	size_t n_rows() const { return row_ids_.size(); }
	size_t n_keys() const { return key_ends_.size(); }
	uint64_t n_postings() const { return n_postings_; }
	uint64_t memory_bytes() const;

	/// The key of a code; codes count from 0 in the order of keys.
	Key key(uint32_t code) const;

	/// The codes of every item of a query, without empty ranges.
	std::vector<CodeRange> resolve(const Parts &query) const;

	/// Set results[i] to the first k rows of query i in the order (-count, row id), or (edit distance, row id); rows
	/// without a match come last. dead: null, or a bitmap of rows to leave out (bit i % 8 of byte i / 8). poll: called
	/// every few milliseconds; if it says no, the results are undefined. n_compared: null, or increased by the number
	/// of texts compared with a query. False if a query is invalid.
	bool search(std::span<const MatchQuery> queries, const uint8_t *dead, std::vector<std::vector<Neighbor>> *results,
		const Poll &poll = {}, uint64_t *n_compared = nullptr) const;

	/// counts[i] = count of row i, for all rows.
	std::vector<uint32_t> count_all(const Parts &query) const;

	/// A tile: its codes, ascending, the end of each one's list, and the lists, of places within the tile.
	struct Tile
	{
		std::vector<uint32_t> codes;
		std::vector<uint32_t> ends;
		std::vector<uint16_t> rows;
	};

	std::span<const Tile> tiles() const { return tiles_; }
	std::span<const RowId> row_ids() const { return row_ids_; }
	bool has_texts() const { return text_items_.size() == n_rows(); }
	TextView text(size_t row) const;

	/// The greatest count that a row can have.
	uint64_t most_count(std::span<const CodeRange> ranges) const;
	uint64_t max_elements() const { return max_elements_; } // of one row

private:
	struct Running;

	bool open_texts(std::span<const uint8_t> bytes, size_t n);
	void add_postings(uint32_t code, const uint32_t *rows, size_t n);
	uint32_t first_code(Key key) const;
	uint64_t postings_before(uint64_t code) const;
	std::vector<uint64_t> postings_ends(uint64_t first, size_t n) const;
	uint32_t list_item(size_t number, size_t from, size_t to, uint64_t at) const;
	template <class Item>
	std::vector<Item> read_lists(uint64_t first, size_t n) const;
	uint64_t head_items() const { return lists_of_tiles_ ? kTileHeadItems : 0; } // of a list in a tile, as described
	void add_tile(size_t tile, std::span<const CodeRange> ranges, size_t width, void *counters) const;
	bool level_texts(const Running &query, size_t first_row, size_t n, const void *counters, GramWindow *window,
		std::vector<uint8_t> *levels) const;
	bool offer_texts(Running *query, size_t first_row, size_t n, const void *counters, const uint8_t *dead,
		std::vector<uint8_t> *levels, const Poll &poll) const;

	std::vector<uint8_t> key_bytes_;
	std::vector<uint64_t> key_ends_;
	std::vector<uint64_t> prefixes_; // of the keys, for the first steps of a bisection
	std::vector<Tile> tiles_;
	std::vector<RowId> row_ids_;
	std::vector<uint64_t> text_items_; // by row, or empty
	std::vector<uint16_t> sizes_;      // of the texts, cut at kMostRowSize
	std::vector<uint8_t> texts_;
	uint64_t n_postings_ = 0;
	uint64_t n_list_items_ = 0; // of the description
	bool lists_of_tiles_ = false;
	uint64_t max_elements_ = 0;
};

} // namespace vectorgpu::engine::match

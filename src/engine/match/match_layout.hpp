// The description of a segment of kind kMatch: the inverted index of its rows, as LOAD_STRUCTURE carries it. No
// allocation; used by the writer and the readers.
//
//   MatchHead
//   n_keys x MatchEntry   by code, the number of a key in ascending order
//   n_list_items          the rows (numbers in the segment) of each key, key by key, ascending, as list_format says
//   n_key_bytes           the keys, one behind the other
//   n_rows x uint64       where the copy's metric is Metric::kEdit: text_item of each row's text (text_distance.hpp)
//   n_text_bytes          the texts, one behind the other
#pragma once

#include <cstdint>

namespace vectorgpu::engine::match
{

/// MatchHead::list_format.
constexpr uint64_t kListsOfRows = 0;  // a uint32 for each row
constexpr uint64_t kListsOfTiles = 1; // uint16, as tile_lists.hpp has them

struct MatchHead
{
	uint64_t n_keys;
	uint64_t n_list_items;
	uint64_t n_key_bytes;
	uint64_t list_format = kListsOfRows;

	uint64_t list_item_bytes() const { return list_format == kListsOfTiles ? sizeof(uint16_t) : sizeof(uint32_t); }
};
static_assert(sizeof(MatchHead) == 32);

struct MatchEntry
{
	uint64_t prefix;       // key_prefix of the key
	uint64_t key_end;      // in the keys; a key begins where the one before ends
	uint64_t postings_end; // in the items of the lists, likewise
};
static_assert(sizeof(MatchEntry) == 24);

constexpr uint64_t kMostMatchCount = uint64_t{1} << 40; // of each number of a MatchHead

/// The offsets of the parts. Numbers up to kMostMatchCount.
struct MatchLayout
{
	MatchHead head;
	uint64_t n_texts = 0;
	uint64_t n_text_bytes = 0;

	uint64_t entries_at() const { return sizeof(MatchHead); }
	uint64_t postings_at() const { return entries_at() + head.n_keys * sizeof(MatchEntry); }
	uint64_t keys_at() const { return postings_at() + head.n_list_items * head.list_item_bytes(); }
	uint64_t text_items_at() const { return keys_at() + head.n_key_bytes; }
	uint64_t texts_at() const { return text_items_at() + n_texts * sizeof(uint64_t); }
	uint64_t bytes() const { return texts_at() + n_text_bytes; }
};

/// Most bytes of a description, whatever its head says.
constexpr uint64_t kMostMatchBytes =
	kMostMatchCount * (sizeof(MatchEntry) + sizeof(uint32_t) + 1 + sizeof(uint64_t) + 1) + sizeof(MatchHead);

} // namespace vectorgpu::engine::match

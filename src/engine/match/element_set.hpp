// Values and queries in the match-count model (GENIE, section II-A). A value is a set of elements, each a byte string
// that sorts as its value does; a query is a set of items, each a range of such byte strings. Plain structs over the
// caller's bytes, no allocation, so that the code may run in a backend frame that an error can leave by longjmp.
//
// Stored value:  varint size | varint bytes of elements | elements | payload
// Stored query:  varint size | varint bytes of items    | items    | payload
// Element:       varint length | bytes; ascending, no two the same
// Item:          varint length of low | low | varint (length of high + 1, or 0) | high; ascending, disjoint. It matches
//                the keys of [low, high); 0 stands for the key low alone.
// `size` is the number of elements of a set, or of characters of a text; measures other than the count need it.
// Payload: data for exact rescoring, or nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::match
{

/// A byte string. Keys are ordered by their bytes (unsigned), a prefix first.
struct Key
{
	const uint8_t *data;
	size_t size;
};

/// Negative, 0 or positive if a is before, equal to or behind b.
int key_compare(Key a, Key b);

/// The first eight bytes as a number, most significant first, zero-padded: a <= b implies key_prefix(a) <=
/// key_prefix(b).
uint64_t key_prefix(Key key);

constexpr size_t kMaxVarintBytes = 10;

/// Bytes that put_varint writes.
size_t varint_bytes(uint64_t value);

/// Write 7 bits a byte, lowest first (LEB128); return the byte behind.
uint8_t *put_varint(uint8_t *out, uint64_t value);

/// Read one varint of [at, end); return the byte behind it, or null if there is none.
const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *value);

/// Bytes of one element of `size` bytes; write it and return the byte behind.
size_t element_bytes(size_t size);
uint8_t *put_element(uint8_t *out, Key key);

/// Bytes of one item; write it and return the byte behind. high.data null: low alone.
size_t item_bytes(Key low, Key high);
uint8_t *put_item(uint8_t *out, Key low, Key high);

/// The head of a value or a query: `size` and the number of bytes that follow.
size_t head_bytes(uint64_t size, size_t body_bytes);
uint8_t *put_head(uint8_t *out, uint64_t size, size_t body_bytes);

/// The parts of a value or of a query. body: elements or items.
struct Parts
{
	uint64_t size;
	const uint8_t *body;
	size_t body_bytes;
	const uint8_t *payload;
	size_t payload_bytes;
};

/// False if the bytes cannot be a value (or a query).
bool open_parts(const void *data, size_t n_bytes, Parts *parts);

/// Iterates over the elements of a value.
struct ElementReader
{
	const uint8_t *at;
	const uint8_t *end;
};

ElementReader read_elements(const Parts &value);

/// False at the end, or at bytes that cannot be an element.
bool next_element(ElementReader *reader, Key *key);

/// An item of a query.
struct Item
{
	Key low;
	Key high; // data null: low alone
};

struct ItemReader
{
	const uint8_t *at;
	const uint8_t *end;
};

ItemReader read_items(const Parts &query);
bool next_item(ItemReader *reader, Item *item);

/// Whether all elements are whole, ascend and are distinct, and no bytes are left over. *n_elements: how many.
bool elements_valid(const Parts &value, uint64_t *n_elements);

/// Whether all items are whole, ascend, are disjoint and not empty. *n_items: how many.
bool items_valid(const Parts &query, uint64_t *n_items);

/// The match count MC(Q, O) (GENIE, definition II.1): the number of elements of the value that lie in an item of the
/// query.
uint64_t count_matches(const Parts &query, const Parts &value);

} // namespace vectorgpu::engine::match

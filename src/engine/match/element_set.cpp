// See element_set.hpp.
#include "engine/match/element_set.hpp"

#include <cstring>

namespace vectorgpu::engine::match
{

namespace
{

/// Read length and bytes of a string at `at`; null if it does not end before `end`.
const uint8_t *
get_bytes(const uint8_t *at, const uint8_t *end, Key *key)
{
	uint64_t size;

	at = get_varint(at, end, &size);
	if (at == nullptr || size > static_cast<uint64_t>(end - at))
		return nullptr;
	*key = {at, static_cast<size_t>(size)};
	return at + size;
}

uint8_t *
put_bytes(uint8_t *out, Key key)
{
	out = put_varint(out, key.size);
	if (key.size > 0)
		memcpy(out, key.data, key.size);
	return out + key.size;
}

/// Whether the key lies behind all keys that the item matches.
bool
is_behind(const Item &item, Key key)
{
	return item.high.data == nullptr ? key_compare(key, item.low) > 0 : key_compare(key, item.high) >= 0;
}

} // namespace

int
key_compare(Key a, Key b)
{
	const size_t n = a.size < b.size ? a.size : b.size;
	const int order = n == 0 ? 0 : memcmp(a.data, b.data, n);

	if (order != 0)
		return order;
	return a.size < b.size ? -1 : a.size > b.size;
}

uint64_t
key_prefix(Key key)
{
	uint64_t prefix = 0;

	for (size_t i = 0; i < 8; i++)
		prefix = prefix << 8 | (i < key.size ? key.data[i] : 0);
	return prefix;
}

size_t
varint_bytes(uint64_t value)
{
	size_t n = 1;

	for (; value >= 0x80; value >>= 7)
		n++;
	return n;
}

uint8_t *
put_varint(uint8_t *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*out++ = static_cast<uint8_t>(value | 0x80);
	*out++ = static_cast<uint8_t>(value);
	return out;
}

const uint8_t *
get_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
	uint64_t result = 0;

	if (at < end && *at < 0x80)
	{
		*value = *at;
		return at + 1;
	}
	for (unsigned shift = 0; shift < 64 && at < end; shift += 7)
	{
		const uint8_t byte = *at++;

		result |= static_cast<uint64_t>(byte & 0x7F) << shift;
		if (byte < 0x80)
		{
			*value = result;
			return at;
		}
	}
	return nullptr;
}

size_t
element_bytes(size_t size)
{
	return varint_bytes(size) + size;
}

uint8_t *
put_element(uint8_t *out, Key key)
{
	return put_bytes(out, key);
}

size_t
item_bytes(Key low, Key high)
{
	return element_bytes(low.size) + (high.data == nullptr ? 1 : varint_bytes(high.size + 1) + high.size);
}

uint8_t *
put_item(uint8_t *out, Key low, Key high)
{
	out = put_bytes(out, low);
	if (high.data == nullptr)
		return put_varint(out, 0);
	out = put_varint(out, high.size + 1);
	memcpy(out, high.data, high.size);
	return out + high.size;
}

size_t
head_bytes(uint64_t size, size_t body_bytes)
{
	return varint_bytes(size) + varint_bytes(body_bytes);
}

uint8_t *
put_head(uint8_t *out, uint64_t size, size_t body_bytes)
{
	return put_varint(put_varint(out, size), body_bytes);
}

bool
open_parts(const void *data, size_t n_bytes, Parts *parts)
{
	const uint8_t *at = static_cast<const uint8_t *>(data);
	const uint8_t *end = at + n_bytes;
	uint64_t body_bytes;

	at = get_varint(at, end, &parts->size);
	if (at != nullptr)
		at = get_varint(at, end, &body_bytes);
	if (at == nullptr || body_bytes > static_cast<uint64_t>(end - at))
		return false;
	parts->body = at;
	parts->body_bytes = static_cast<size_t>(body_bytes);
	parts->payload = at + body_bytes;
	parts->payload_bytes = static_cast<size_t>(end - parts->payload);
	return true;
}

ElementReader
read_elements(const Parts &value)
{
	return {value.body, value.body + value.body_bytes};
}

bool
next_element(ElementReader *reader, Key *key)
{
	const uint8_t *behind = reader->at < reader->end ? get_bytes(reader->at, reader->end, key) : nullptr;

	if (behind == nullptr)
		return false;
	reader->at = behind;
	return true;
}

ItemReader
read_items(const Parts &query)
{
	return {query.body, query.body + query.body_bytes};
}

bool
next_item(ItemReader *reader, Item *item)
{
	const uint8_t *at = reader->at;
	uint64_t high_size;

	if (at >= reader->end)
		return false;
	at = get_bytes(at, reader->end, &item->low);
	if (at != nullptr)
		at = get_varint(at, reader->end, &high_size);
	if (at == nullptr || (high_size > 0 && high_size - 1 > static_cast<uint64_t>(reader->end - at)))
		return false;
	item->high = {high_size > 0 ? at : nullptr, high_size > 0 ? static_cast<size_t>(high_size - 1) : 0};
	reader->at = at + item->high.size;
	return true;
}

bool
elements_valid(const Parts &value, uint64_t *n_elements)
{
	ElementReader reader = read_elements(value);
	Key last = {nullptr, 0};
	Key key;
	uint64_t n = 0;

	while (next_element(&reader, &key))
	{
		if (n++ > 0 && key_compare(last, key) >= 0)
			return false;
		last = key;
	}
	*n_elements = n;
	return reader.at == reader.end;
}

bool
items_valid(const Parts &query, uint64_t *n_items)
{
	ItemReader reader = read_items(query);
	Item last = {};
	Item item;
	uint64_t n = 0;

	while (next_item(&reader, &item))
	{
		if (item.high.data != nullptr && key_compare(item.low, item.high) >= 0)
			return false;
		if (n++ > 0 && !is_behind(last, item.low))
			return false;
		last = item;
	}
	*n_items = n;
	return reader.at == reader.end;
}

uint64_t
count_matches(const Parts &query, const Parts &value)
{
	ElementReader elements = read_elements(value);
	ItemReader items = read_items(query);
	Item item;
	Key key;
	uint64_t count = 0;

	if (!next_item(&items, &item))
		return 0;
	while (next_element(&elements, &key))
	{
		while (is_behind(item, key))
			if (!next_item(&items, &item))
				return count;
		if (key_compare(key, item.low) >= 0)
			count++;
	}
	return count;
}

} // namespace vectorgpu::engine::match

// See run_builder.hpp.
#include "engine/match/run_builder.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace vectorgpu::engine::match
{

namespace
{

constexpr size_t kFirstTable = 1024;

void *
heap_resize(void *, void *old, size_t bytes)
{
	if (bytes == 0)
	{
		free(old);
		return nullptr;
	}
	void *grown = realloc(old, bytes);

	if (grown == nullptr)
		throw std::bad_alloc();
	return grown;
}

template <typename T>
void
resize(RunBuilder *run, T **array, size_t n)
{
	*array = static_cast<T *>(run->memory.resize(run->memory.context, *array, n * sizeof(T)));
}

/// Make room for `wanted` items, doubling.
template <typename T>
void
reserve(RunBuilder *run, T **array, size_t *capacity, size_t wanted)
{
	size_t grown = *capacity > 0 ? *capacity : 1024;

	if (wanted <= *capacity)
		return;
	while (grown < wanted)
		grown *= 2;
	resize(run, array, grown);
	*capacity = grown;
}

uint64_t
hash_key(Key key)
{
	uint64_t hash = key.size * 0x9E3779B97F4A7C15u;
	size_t i = 0;

	for (; i + 8 <= key.size; i += 8)
	{
		uint64_t word;

		memcpy(&word, key.data + i, sizeof(word));
		hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
		hash ^= hash >> 32;
	}
	for (; i < key.size; i++)
		hash = (hash ^ key.data[i]) * 0xC4CEB9FE1A85EC53u;
	hash ^= hash >> 29;
	hash *= 0x9E3779B97F4A7C15u;
	return hash ^ hash >> 32;
}

Key
key_of(const RunBuilder *run, uint32_t code)
{
	return {run->bytes + run->keys[code].offset, run->keys[code].size};
}

void
grow_table(RunBuilder *run)
{
	const size_t size = run->table_size > 0 ? run->table_size * 2 : kFirstTable;

	resize(run, &run->table, size);
	run->table_size = size;
	memset(run->table, 0, size * sizeof(uint32_t));
	for (uint32_t code = 0; code < run->n_keys; code++)
	{
		size_t slot = hash_key(key_of(run, code)) & (size - 1);

		while (run->table[slot] != 0)
			slot = (slot + 1) & (size - 1);
		run->table[slot] = code + 1;
	}
}

/// The code of a key; assigns the next one if the key is new.
uint32_t
code_of(RunBuilder *run, Key key)
{
	size_t slot;

	if ((static_cast<size_t>(run->n_keys) + 1) * 2 > run->table_size)
		grow_table(run);
	slot = hash_key(key) & (run->table_size - 1);
	for (; run->table[slot] != 0; slot = (slot + 1) & (run->table_size - 1))
		if (key_compare(key_of(run, run->table[slot] - 1), key) == 0)
			return run->table[slot] - 1;

	reserve(run, &run->bytes, &run->bytes_capacity, run->n_bytes + key.size);
	reserve(run, &run->keys, &run->keys_capacity, static_cast<size_t>(run->n_keys) + 1);
	if (key.size > 0)
		memcpy(run->bytes + run->n_bytes, key.data, key.size);
	run->keys[run->n_keys] = {run->n_bytes, static_cast<uint32_t>(key.size), 0};
	run->n_bytes += key.size;
	run->table[slot] = run->n_keys + 1;
	return run->n_keys++;
}

} // namespace

Memory
heap_memory()
{
	return {heap_resize, nullptr};
}

void
run_init(RunBuilder *run, Memory memory)
{
	*run = {};
	run->memory = memory;
}

void
run_free(RunBuilder *run)
{
	resize(run, &run->bytes, 0);
	resize(run, &run->keys, 0);
	resize(run, &run->table, 0);
	resize(run, &run->pairs, 0);
	resize(run, &run->order, 0);
	resize(run, &run->starts, 0);
	resize(run, &run->rows, 0);
	run_init(run, run->memory);
}

void
run_add(RunBuilder *run, uint32_t row, Key key)
{
	const uint32_t code = code_of(run, key);

	reserve(run, &run->pairs, &run->pairs_capacity, run->n_pairs + 1);
	run->pairs[run->n_pairs++] = {code, row};
	run->keys[code].n_rows++;
}

bool
run_add_value(RunBuilder *run, uint32_t row, const Parts &value)
{
	ElementReader reader = read_elements(value);
	Key key;

	while (next_element(&reader, &key))
		run_add(run, row, key);
	return reader.at == reader.end;
}

size_t
run_bytes(const RunBuilder *run)
{
	return run->bytes_capacity + run->keys_capacity * sizeof(RunKey) + run->table_size * sizeof(uint32_t) +
		run->pairs_capacity * sizeof(RunPair) + run->n_pairs * sizeof(uint32_t) +
		run->n_keys * (sizeof(uint32_t) + sizeof(uint64_t));
}

void
run_sort(RunBuilder *run)
{
	const uint32_t n = run->n_keys;
	uint64_t at = 0;

	if (run->order != nullptr)
		resize(run, &run->order, 0);
	if (run->starts != nullptr)
		resize(run, &run->starts, 0);
	if (run->rows != nullptr)
		resize(run, &run->rows, 0);
	resize(run, &run->order, static_cast<size_t>(n) + 1);
	resize(run, &run->starts, static_cast<size_t>(n) + 1);
	resize(run, &run->rows, run->n_pairs + 1);
	for (uint32_t code = 0; code < n; code++)
		run->order[code] = code;
	std::sort(run->order, run->order + n,
		[run](uint32_t a, uint32_t b)
		{
			const Key key_a = key_of(run, a);
			const Key key_b = key_of(run, b);

			return key_compare(key_a, key_b) < 0;
		});

	// The places of each code's rows; pairs are in the order of rows, and so are the lists.
	for (uint32_t i = 0; i < n; i++)
	{
		run->starts[i] = at;
		at += run->keys[run->order[i]].n_rows;
	}
	run->starts[n] = at;
	{
		uint64_t *next = nullptr; // by code

		resize(run, &next, static_cast<size_t>(n) + 1);
		for (uint32_t i = 0; i < n; i++)
			next[run->order[i]] = run->starts[i];
		for (size_t i = 0; i < run->n_pairs; i++)
			run->rows[next[run->pairs[i].code]++] = run->pairs[i].row;
		resize(run, &next, 0);
	}
}

Key
run_key(const RunBuilder *run, uint32_t i)
{
	return key_of(run, run->order[i]);
}

const uint32_t *
run_rows(const RunBuilder *run, uint32_t i, size_t *n_rows)
{
	*n_rows = static_cast<size_t>(run->starts[i + 1] - run->starts[i]);
	return run->rows + run->starts[i];
}

void
run_clear(RunBuilder *run)
{
	run->n_bytes = 0;
	run->n_keys = 0;
	run->n_pairs = 0;
	if (run->table_size > 0)
		memset(run->table, 0, run->table_size * sizeof(uint32_t));
}

} // namespace vectorgpu::engine::match

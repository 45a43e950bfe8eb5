// Single-pass in-memory inversion: rows with their keys become a sorted run, key by key with the rows that have it. A
// build of any size inverts as many rows at a time as its memory allows and merges the runs; since rows come in order,
// a merge only concatenates the lists of the same key.
// A plain struct over the caller's memory, so that it may live in a backend frame that an error leaves by longjmp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/match/element_set.hpp"

namespace vectorgpu::engine::match
{

/// The allocator. resize works as realloc does (old null: new; bytes 0: frees and returns null) and does not return if
/// there is no memory: it throws or leaves by longjmp.
struct Memory
{
	void *(*resize)(void *context, void *old, size_t bytes);
	void *context;
};

/// The C library's allocator; throws std::bad_alloc.
Memory heap_memory();

struct RunKey
{
	uint64_t offset; // of its bytes
	uint32_t size;
	uint32_t n_rows;
};

struct RunPair
{
	uint32_t code; // number of the key, in order of arrival
	uint32_t row;
};

struct RunBuilder
{
	Memory memory;
	uint8_t *bytes; // of all keys
	size_t n_bytes;
	size_t bytes_capacity;
	RunKey *keys;
	uint32_t n_keys;
	size_t keys_capacity;
	uint32_t *table; // [table_size]: code + 1, or 0; open addressing
	size_t table_size;
	RunPair *pairs;
	size_t n_pairs;
	size_t pairs_capacity;
	uint32_t *order;  // run_sort: codes in order of their keys
	uint64_t *starts; // run_sort: by place in the order, [n_keys + 1]
	uint32_t *rows;   // run_sort: rows of all keys
};

void run_init(RunBuilder *run, Memory memory);
void run_free(RunBuilder *run);

/// Add a key of a row. Rows ascend (or stay the same); a row has a key once.
void run_add(RunBuilder *run, uint32_t row, Key key);

/// Add all elements of a stored value. False if it is invalid.
bool run_add_value(RunBuilder *run, uint32_t row, const Parts &value);

/// Bytes that run_sort would leave in use, for a caller with a memory bound.
size_t run_bytes(const RunBuilder *run);

/// Sort. The run may then be read; nothing may be added until run_clear.
void run_sort(RunBuilder *run);

/// The i-th key in order, and its rows, ascending.
Key run_key(const RunBuilder *run, uint32_t i);
const uint32_t *run_rows(const RunBuilder *run, uint32_t i, size_t *n_rows);

/// Empty the run, keep its memory.
void run_clear(RunBuilder *run);

} // namespace vectorgpu::engine::match

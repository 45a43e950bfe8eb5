// Scores of rows that do not follow each other, and the bits that choose them. Internal to the CPU engine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/distance/distance.hpp"

namespace vectorgpu::engine
{

/// zeros [at most n]: which of bits [first, first + n) of a bitmap are 0, counted from `first`, ascending. Return how
/// many.
inline size_t
zero_bits(const uint8_t *bits, uint64_t first, size_t n, uint32_t *zeros)
{
	size_t found = 0;

	for (size_t i = 0; i < n;)
	{
		const unsigned skipped = (first + i) % 8;
		const size_t here = std::min<size_t>(8 - skipped, n - i);
		unsigned byte = (0xFFu & ~unsigned{bits[(first + i) / 8]}) >> skipped & ((1u << here) - 1);

		for (; byte != 0; byte &= byte - 1)
			zeros[found++] = static_cast<uint32_t>(i) + static_cast<uint32_t>(std::countr_zero(byte));
		i += here;
	}
	return found;
}

/// Whether scoring all n rows in order takes less time than scoring `chosen` ones of them alone: of rows of 1 KB, half
/// at random take .8 of the time of all.
inline bool
pays_in_order(size_t chosen, size_t n)
{
	return chosen * 8 > n * 5;
}

/// scores [n] of rows anywhere in memory: vectors [n] of row_bytes each. Neighbours are scored together.
inline void
score_vectors(const DistanceSpec &spec, const void *query, const uint8_t *const *vectors, size_t row_bytes, size_t n,
	double *scores)
{
	constexpr size_t kAhead = 4; // rows prefetched
	constexpr size_t kLine = 64;
	const size_t ahead_bytes = std::min<size_t>(row_bytes, 1024); // prefetched of a row
	const auto ask = [ahead_bytes](const uint8_t *vector)
	{
		for (size_t line = 0; line < ahead_bytes; line += kLine)
			__builtin_prefetch(vector + line);
	};

	for (size_t i = 0; i < std::min(n, kAhead); i++)
		ask(vectors[i]);
	for (size_t i = 0; i < n;)
	{
		size_t run = 0;

		do
		{
			if (i + run + kAhead < n)
				ask(vectors[i + run + kAhead]);
			run++;
		} while (run < kAhead && i + run < n && vectors[i + run] == vectors[i] + run * row_bytes);
		compute_scores(spec, query, vectors[i], row_bytes, run, scores + i, 0);
		i += run;
	}
}

} // namespace vectorgpu::engine

// What the number of common n-grams says about the edit distance. No PostgreSQL; for every engine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vectorgpu::types
{

/// A lower bound of the edit distance of two strings of a and b characters that have `count` ordered n-grams in common: by theorem
/// V.1 (Zhou et al.) count >= max(a, b) - n + 1 - distance * n, and no two strings are nearer than their lengths differ.
constexpr int64_t
edit_distance_bound(int64_t a, int64_t b, int64_t count, int64_t n)
{
	const int64_t missing = std::max(a, b) - n + 1 - count;
	const int64_t by_length = a > b ? a - b : b - a;

	return std::max(missing > 0 ? (missing + n - 1) / n : int64_t{0}, by_length);
}

} // namespace vectorgpu::types

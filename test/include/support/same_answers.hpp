// Comparison of answers bit by bit, for tests and benchmarks of engines.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/interface/engine.hpp"

namespace vectorgpu::test
{

/// Whether both have the same rows, in the same order, with the same bits of scores.
inline bool
same(const std::vector<engine::Neighbor> &a, const std::vector<engine::Neighbor> &b)
{
	return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const engine::Neighbor &x, const engine::Neighbor &y)
		{ return x.row == y.row && std::memcmp(&x.score, &y.score, sizeof(x.score)) == 0; });
}

/// The same for each query of a batch.
inline bool
same(const std::vector<std::vector<engine::Neighbor>> &a, const std::vector<std::vector<engine::Neighbor>> &b)
{
	return std::equal(a.begin(), a.end(), b.begin(), b.end(),
		[](const std::vector<engine::Neighbor> &x, const std::vector<engine::Neighbor> &y) { return same(x, y); });
}

/// Whether the first answers of a batch are the expected ones.
inline bool
begin_with(const std::vector<std::vector<engine::Neighbor>> &answers,
	const std::vector<std::vector<engine::Neighbor>> &expected)
{
	return expected.size() <= answers.size() &&
		std::equal(expected.begin(), expected.end(), answers.begin(),
			[](const std::vector<engine::Neighbor> &x, const std::vector<engine::Neighbor> &y) { return same(x, y); });
}

} // namespace vectorgpu::test

// Width of searches of a graph with conditions. The CPU engine (cpu/passing_graph.hpp) searches by it, and the planner
// costs such searches by it.
#pragma once

#include <algorithm>

namespace vectorgpu::engine::graph
{

/// How many times as wide a search is as without conditions: each step meets fewer nodes, the fewer the smaller the
/// share that passes. By the table in README.md.
inline double
wider(double share)
{
	constexpr double kMost = 1.5;
	constexpr double kLeast = 1.35;
	constexpr double kMostUpTo = .12;
	constexpr double kLeastFrom = .5;
	const double part = std::clamp((share - kMostUpTo) / (kLeastFrom - kMostUpTo), 0., 1.);

	return 1 + (kMost - part * (kMost - kLeast) - 1) * std::min(1., 4 * (1 - share));
}

} // namespace vectorgpu::engine::graph

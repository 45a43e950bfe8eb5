// The smoothest path against the minimax closure of all pairs (Floyd and Warshall's algorithm with max for plus).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "engine/graph/smooth_path.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Edges
{
	uint32_t n_nodes;
	std::vector<PathEdge> edges;
};

Edges
random_edges(uint32_t n_nodes, size_t n_edges, uint32_t n_lengths, uint32_t seed)
{
	std::mt19937 rng(seed);
	Edges made = {n_nodes, {}};

	while (made.edges.size() < n_edges && n_nodes > 1)
	{
		const uint32_t a = rng() % n_nodes;
		const uint32_t b = rng() % n_nodes;

		if (a != b)
			made.edges.push_back({static_cast<double>(rng() % n_lengths) - 2, a, b}); // inner products are negative
	}
	return made;
}

/// [n, n]: the least length of the longest edge on any path.
std::vector<double>
minimax(const Edges &graph)
{
	const size_t n = graph.n_nodes;
	std::vector<double> worst(n * n, kInfinite);

	for (const PathEdge &edge : graph.edges)
		worst[edge.a * n + edge.b] = worst[edge.b * n + edge.a] = std::min(worst[edge.a * n + edge.b], edge.length);
	for (size_t via = 0; via < n; via++)
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < n; j++)
				worst[i * n + j] = std::min(worst[i * n + j], std::max(worst[i * n + via], worst[via * n + j]));
	return worst;
}

struct Path
{
	std::vector<uint32_t> nodes;
	std::vector<double> lengths;
};

Path
find(const Edges &graph, uint32_t from, uint32_t to)
{
	std::vector<PathEdge> memory(SmoothPath::bytes(graph.n_nodes) / sizeof(PathEdge) + 1);
	SmoothPath search(graph.n_nodes, memory.data());
	Path path = {std::vector<uint32_t>(graph.n_nodes), std::vector<double>(graph.n_nodes)};

	for (const PathEdge &edge : graph.edges)
		search.add(edge);
	const uint32_t n = search.find(from, to, path.nodes.data(), path.lengths.data());

	path.nodes.resize(n);
	path.lengths.resize(n);
	return path;
}

void
expect_smoothest(const Edges &graph, const std::vector<double> &worst, uint32_t from, uint32_t to)
{
	const Path path = find(graph, from, to);
	const size_t n = graph.n_nodes;
	std::vector<uint32_t> sorted = path.nodes;

	if (from != to && worst[from * n + to] == kInfinite)
	{
		EXPECT_TRUE(path.nodes.empty());
		return;
	}
	ASSERT_FALSE(path.nodes.empty());
	EXPECT_EQ(path.nodes.front(), from);
	EXPECT_EQ(path.nodes.back(), to);
	EXPECT_EQ(path.lengths[0], 0);
	std::sort(sorted.begin(), sorted.end());
	EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
	for (size_t i = 1; i < path.nodes.size(); i++)
	{
		const uint32_t a = path.nodes[i - 1];
		const uint32_t b = path.nodes[i];

		EXPECT_TRUE(std::any_of(graph.edges.begin(), graph.edges.end(),
			[&](const PathEdge &edge)
			{
				return edge.length == path.lengths[i] && ((edge.a == a && edge.b == b) || (edge.a == b && edge.b == a));
			}))
			<< "step " << i;
	}
	// Every part of it is the smoothest between its ends.
	for (size_t i = 0; i < path.nodes.size(); i++)
	{
		double longest = -kInfinite;

		for (size_t j = i + 1; j < path.nodes.size(); j++)
		{
			longest = std::max(longest, path.lengths[j]);
			EXPECT_EQ(longest, worst[path.nodes[i] * n + path.nodes[j]]);
		}
	}
}

TEST(SmoothPath, is_the_smoothest_for_all_pairs_of_random_graphs)
{
	for (uint32_t seed = 0; seed < 60; seed++)
	{
		const uint32_t n = 1 + seed % 23;
		// From forests to many times the number of edges kept, so that it shrinks on the way; few lengths, for ties.
		const Edges graph = random_edges(n, seed * seed, 1 + seed % 40, seed);
		const std::vector<double> worst = minimax(graph);

		SCOPED_TRACE(seed);
		for (uint32_t from = 0; from < n; from++)
			for (uint32_t to = 0; to < n; to++)
				expect_smoothest(graph, worst, from, to);
	}
}

TEST(SmoothPath, does_not_depend_on_the_order_of_edges)
{
	Edges graph = random_edges(200, 3000, 30, 5);
	const Path path = find(graph, 3, 150);
	std::mt19937 rng(6);

	ASSERT_GT(path.nodes.size(), 1u);
	for (int i = 0; i < 20; i++)
	{
		std::shuffle(graph.edges.begin(), graph.edges.end(), rng);
		for (PathEdge &edge : graph.edges)
			if (rng() % 2 == 0)
				std::swap(edge.a, edge.b);
		EXPECT_EQ(find(graph, 3, 150).nodes, path.nodes);
		Path back = find(graph, 150, 3);

		std::reverse(back.nodes.begin(), back.nodes.end());
		EXPECT_EQ(back.nodes, path.nodes);
	}
}

TEST(SmoothPath, takes_infinite_lengths_and_chains_of_all_nodes)
{
	Edges chain = {1000, {}};

	for (uint32_t i = 1; i < chain.n_nodes; i++)
		chain.edges.push_back({i == 500 ? kInfinite : 1.0 / i, i - 1, i});
	const Path path = find(chain, 999, 0);

	ASSERT_EQ(path.nodes.size(), 1000u);
	for (uint32_t i = 0; i < 1000; i++)
		EXPECT_EQ(path.nodes[i], 999 - i);
	EXPECT_EQ(*std::max_element(path.lengths.begin(), path.lengths.end()), kInfinite);
	EXPECT_EQ(find({2, {}}, 0, 1).nodes.size(), 0u);
	EXPECT_EQ(find({1, {}}, 0, 0).nodes.size(), 1u);
}

/// The long steps can be left, sorting included.
TEST(SmoothPath, can_be_left_while_it_sorts_and_follows)
{
	static int n_left;
	const Edges graph = random_edges(50000, 120000, 30, 7);
	std::vector<uint8_t> memory(SmoothPath::bytes(graph.n_nodes));
	std::vector<uint32_t> nodes(graph.n_nodes);
	std::vector<double> lengths(graph.n_nodes);
	int n_pauses = 0;

	for (n_left = 0;; n_left++)
	{
		const int wanted = n_left;
		SmoothPath path(graph.n_nodes, memory.data(),
			[]
			{
				if (n_left-- == 0)
					throw 1;
			});

		try
		{
			for (const PathEdge &edge : graph.edges)
				path.add(edge);
			(void) path.find(1, 2, nodes.data(), lengths.data());
			n_left = wanted;
			break;
		}
		catch (int)
		{
			n_left = wanted;
			n_pauses++;
		}
	}
	EXPECT_GT(n_pauses, 20); // 120,000 edges are sorted in more than 65,536 comparisons
}

} // namespace

} // namespace vectorgpu::engine::graph::test

// Reverse edges, against a plain reference: whole graphs, hubs with more edges to them than they may have, any number
// of threads.
#include "engine/graph/reverse.hpp"
#include "graph/graph_data.hpp"

namespace vectorgpu::engine::graph::test
{
namespace
{

constexpr uint32_t kMostEdges = 1U << 20;

/// Rank by rank and row by row, as reverse.hpp defines.
std::vector<uint32_t>
reference(uint32_t n_rows, uint32_t degree, const std::vector<uint32_t> &forward)
{
	std::vector<std::vector<uint32_t>> back(n_rows);
	std::vector<uint32_t> edges;

	for (uint32_t rank = 0; rank < degree; rank++)
		for (uint32_t u = 0; u < n_rows; u++)
		{
			const uint32_t v = forward[size_t{u} * degree + rank];

			if (v != kNoNode && back[v].size() < degree)
				back[v].push_back(u);
		}
	for (uint32_t u = 0; u < n_rows; u++)
	{
		std::vector<uint32_t> out;
		const auto add = [&](uint32_t v)
		{
			if (v != kNoNode && out.size() < degree && std::find(out.begin(), out.end(), v) == out.end())
				out.push_back(v);
		};

		for (uint32_t i = 0; i < (degree + 1) / 2; i++)
			add(forward[size_t{u} * degree + i]);
		for (const uint32_t v : back[u])
			add(v);
		for (uint32_t i = (degree + 1) / 2; i < degree; i++)
			add(forward[size_t{u} * degree + i]);
		out.resize(degree, kNoNode);
		edges.insert(edges.end(), out.begin(), out.end());
	}
	return edges;
}

/// Each row has 0 .. degree different neighbours; with `hubs`, the nearer to row 0 the likelier.
std::vector<uint32_t>
random_edges(uint32_t n_rows, uint32_t degree, bool hubs, unsigned seed)
{
	std::mt19937 rng(seed);
	std::vector<uint32_t> forward;

	for (uint32_t u = 0; u < n_rows; u++)
	{
		const uint32_t n =
			std::min(rng() % 4 == 0 ? static_cast<uint32_t>(rng() % (degree + 1)) : degree, (n_rows - 1) / 2);
		std::vector<uint32_t> own;

		while (own.size() < n)
		{
			const uint32_t v = static_cast<uint32_t>(hubs ? rng() % (rng() % n_rows + 1) : rng() % n_rows);

			if (v != u && std::find(own.begin(), own.end(), v) == own.end())
				own.push_back(v);
		}
		own.resize(degree, kNoNode);
		forward.insert(forward.end(), own.begin(), own.end());
	}
	return forward;
}

TEST(Reverse, is_the_reference_by_any_number_of_threads)
{
	for (const uint32_t n_rows : {1u, 2u, 5u, 63u, 700u, 20000u})
		for (const uint32_t degree : {2u, 3u, 8u, 33u, 256u})
			for (const bool hubs : {false, true})
			{
				if (uint64_t{n_rows} * degree > kMostEdges)
					continue;

				const std::vector<uint32_t> forward = random_edges(n_rows, degree, hubs, n_rows + degree);
				const std::vector<uint32_t> expected = reference(n_rows, degree, forward);
				Bytes work(add_reverse_bytes(n_rows, degree));

				for (const size_t n_threads : {1u, 2u, 7u})
				{
					std::vector<uint32_t> edges(forward.size(), 12345);
					Call call;

					call.n_threads = n_threads;
					call.parallel = n_threads > 1 ? in_threads : nullptr;
					ASSERT_TRUE(
						add_reverse(n_rows, degree, forward.data(), edges.data(), work.data(), work.size(), call)
							.is_ok());
					EXPECT_EQ(edges, expected)
						<< n_rows << " rows of degree " << degree << ", " << n_threads << " threads";
				}
			}
}

TEST(Reverse, stops_when_it_is_told_to_and_says_so_if_memory_is_short)
{
	const std::vector<uint32_t> forward = random_edges(1000, 8, false, 3);
	std::vector<uint32_t> edges(forward.size());
	Bytes work(add_reverse_bytes(1000, 8));

	for (int n : {0, 1})
	{
		Call call;

		call.progress = [](void *context, uint64_t, uint64_t) { return (*static_cast<int *>(context))-- > 0; };
		call.progress_context = &n;
		EXPECT_EQ(add_reverse(1000, 8, forward.data(), edges.data(), work.data(), work.size(), call).code,
			StatusCode::kCancelled);
	}
	EXPECT_EQ(add_reverse(1000, 8, forward.data(), edges.data(), work.data(), work.size() / 2).code,
		StatusCode::kInvalidArgument);
}

} // namespace
} // namespace vectorgpu::engine::graph::test

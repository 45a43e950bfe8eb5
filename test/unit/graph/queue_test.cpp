// The queues and the sets of visited nodes against std::set.
#include "graph/graph_data.hpp"

#include "engine/graph/candidate_queue.hpp"
#include "engine/graph/visited.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

struct Order
{
	bool operator()(const Candidate &a, const Candidate &b) const { return before(a, b); }
};

TEST(GraphQueue, min_max_heap_gives_both_ends_as_a_sorted_set_does)
{
	std::mt19937 rng(7);

	for (size_t capacity : {1u, 2u, 3u, 4u, 7u, 16u, 100u})
	{
		std::vector<Candidate> memory(capacity);
		MinMaxHeap heap(memory.data(), capacity);
		std::set<Candidate, Order> reference;

		for (uint32_t i = 0; i < 5000; i++)
		{
			const uint32_t what = rng() % 4;

			if (!reference.empty())
			{
				EXPECT_EQ(heap.first().node, reference.begin()->node);
				EXPECT_EQ(heap.last().node, reference.rbegin()->node);
			}
			ASSERT_EQ(heap.empty(), reference.empty());
			ASSERT_EQ(heap.full(), reference.size() == capacity);
			if (what < 2 && !heap.full())
			{
				const Candidate candidate = {static_cast<double>(rng() % 10), i}; // many ties

				heap.push(candidate);
				reference.insert(candidate);
			}
			else if (what == 2 && !heap.empty())
			{
				ASSERT_EQ(heap.pop_first().node, reference.begin()->node);
				reference.erase(reference.begin());
			}
			else if (what == 3 && !heap.empty())
			{
				ASSERT_EQ(heap.pop_last().node, reference.rbegin()->node);
				reference.erase(std::prev(reference.end()));
			}
		}
	}
}

TEST(GraphQueue, best_heap_keeps_the_first_and_names_those_that_fall_out)
{
	std::mt19937 rng(8);
	std::vector<Candidate> memory(10);
	BestHeap heap(memory.data(), 10);
	std::set<Candidate, Order> reference;

	for (uint32_t i = 0; i < 1000; i++)
	{
		const Candidate candidate = {static_cast<double>(rng() % 100), i};
		const bool wanted = reference.size() < 10 || before(candidate, *reference.rbegin());

		ASSERT_EQ(heap.wants(candidate), wanted);
		if (!wanted)
			continue;
		const uint32_t out = heap.push(candidate);

		reference.insert(candidate);
		if (reference.size() <= 10)
		{
			EXPECT_EQ(out, kNoNode);
			continue;
		}
		EXPECT_EQ(out, reference.rbegin()->node);
		reference.erase(std::prev(reference.end()));
	}
	heap.sort();
	for (size_t i = 0; const Candidate &expected : reference)
		EXPECT_EQ(memory[i++].node, expected.node);
}

/// Insert and erase at random; members must be found. Return the number of others that were found.
template <class Visited>
size_t
try_visited(const VisitedSize &size, size_t n_others_tried)
{
	Bytes memory(Visited::bytes(size));
	Visited visited(size, memory.data());
	std::set<uint32_t> reference;
	std::mt19937 rng(9);
	size_t n_wrong = 0;

	for (uint32_t i = 0; i < 20000; i++)
	{
		const uint32_t node = rng() % 5000;

		if (visited.contains(node))
		{
			n_wrong += reference.count(node) == 0;
			if (Visited::kDeletes && reference.count(node) != 0 && rng() % 2 == 0)
			{
				visited.erase(node);
				reference.erase(node);
			}
		}
		else if (reference.size() < size.n_kept + size.n_others && visited.insert(node))
			reference.insert(node);
		EXPECT_EQ(reference.count(node) != 0 && !visited.contains(node), false);
	}
	for (uint32_t node : reference)
		EXPECT_TRUE(visited.contains(node));
	EXPECT_GE(reference.size(), size.n_kept);
	for (uint32_t i = 0; i < n_others_tried; i++)
		n_wrong += visited.contains(1000000 + i);
	return n_wrong;
}

TEST(GraphVisited, hash_is_exact)
{
	EXPECT_EQ(try_visited<HashVisited>({100, 900}, 20000), 0u);
	EXPECT_EQ(try_visited<HashVisited>({1, 0}, 20000), 0u);
}

TEST(GraphVisited, filters_never_miss_and_are_seldom_wrong)
{
	EXPECT_LT(try_visited<CuckooVisited>({100, 900}, 20000), 60u);
	EXPECT_LT(try_visited<BloomVisited>({100, 900}, 20000), 600u);
}

TEST(GraphVisited, a_full_hash_refuses_and_has_room_again_after_deletion)
{
	const VisitedSize size = {4, 0};
	Bytes memory(HashVisited::bytes(size));
	HashVisited visited(size, memory.data());
	uint32_t n = 0;

	while (visited.insert(n))
		n++;
	EXPECT_GE(n, 4u);
	EXPECT_TRUE(visited.saturated());
	visited.erase(0);
	EXPECT_FALSE(visited.contains(0));
	EXPECT_TRUE(visited.insert(n));
	for (uint32_t i = 1; i <= n; i++)
		EXPECT_TRUE(visited.contains(i));
}

TEST(GraphVisited, a_full_cuckoo_filter_refuses_and_forgets_nothing)
{
	const VisitedSize size = {4, 0};
	Bytes memory(CuckooVisited::bytes(size));
	CuckooVisited visited(size, memory.data());
	std::vector<uint32_t> in;

	for (uint32_t node = 0; node < 1000; node++)
		if (!visited.contains(node) && visited.insert(node))
			in.push_back(node);
	EXPECT_GE(in.size(), 16u);
	EXPECT_LT(in.size(), 1000u);
	for (uint32_t node : in)
		EXPECT_TRUE(visited.contains(node)) << node;
	for (size_t i = 0; i < in.size(); i++)
	{
		visited.erase(in[i]);
		for (size_t j = i + 1; j < in.size(); j++)
			EXPECT_TRUE(visited.contains(in[j])) << in[j] << " after " << in[i];
	}
	EXPECT_TRUE(visited.insert(5000));
}

} // namespace

} // namespace vectorgpu::engine::graph::test

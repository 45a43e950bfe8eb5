// c-PQ: the paper's example III.1, and lemma III.1 and theorem III.1 as properties of random increments.
#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "engine/match/count_pq.hpp"

namespace vectorgpu::test
{
namespace
{

using engine::match::CountEntry;
using engine::match::CountPriorityQueue;

// Example III.1: objects O1, O2, O3 as 0, 1, 2; lists (A,[1,2]), (B,[1,1]), (C,[2,3]).
TEST(CountPriorityQueue, PaperExample)
{
	CountPriorityQueue queue(3, 3, 1);

	queue.add(0);
	EXPECT_EQ(queue.audit_threshold(), 2u);
	EXPECT_EQ(queue.zipper_array()[1], 1u);
	queue.add(1);
	queue.add(2);
	EXPECT_EQ(queue.audit_threshold(), 2u);
	queue.add(1);
	EXPECT_EQ(queue.audit_threshold(), 3u);
	EXPECT_EQ((std::vector<uint32_t>(queue.zipper_array().begin() + 1, queue.zipper_array().begin() + 4)),
		(std::vector<uint32_t>{1, 1, 0}));
	EXPECT_EQ(queue.count(0), 1u);
	EXPECT_EQ(queue.count(1), 2u);
	EXPECT_EQ(queue.count(2), 1u);
	queue.add(1);
	queue.add(2);
	EXPECT_EQ(queue.audit_threshold(), 4u);
	EXPECT_EQ((std::vector<uint32_t>(queue.zipper_array().begin() + 1, queue.zipper_array().begin() + 4)),
		(std::vector<uint32_t>{1, 1, 1}));
	EXPECT_EQ(queue.count(2), 2u);
	ASSERT_EQ(queue.select().size(), 1u);
	EXPECT_EQ(queue.select()[0].object, 1u);
	EXPECT_EQ(queue.select()[0].count, 3u);
}

struct Case
{
	size_t n_objects;
	uint32_t max_count;
	size_t k;
	size_t n_increments;
	uint32_t seed;
};

class CountPriorityQueueRandom : public ::testing::TestWithParam<Case>
{
};

TEST_P(CountPriorityQueueRandom, Theorem)
{
	const Case &spec = GetParam();
	CountPriorityQueue queue(spec.n_objects, spec.max_count, spec.k);
	std::mt19937 random(spec.seed);
	std::vector<uint32_t> counts(spec.n_objects);

	for (size_t i = 0; i < spec.n_increments; i++)
	{
		// Skewed, so that some objects run ahead.
		const uint32_t object = static_cast<uint32_t>(std::min(random() % spec.n_objects, random() % spec.n_objects));

		if (counts[object] == spec.max_count)
			continue;
		counts[object]++;
		queue.add(object);
		// Lemma III.1, after every update.
		ASSERT_LT(queue.zipper_array()[queue.audit_threshold()], spec.k);
		if (queue.audit_threshold() > 1)
		{
			ASSERT_GE(queue.zipper_array()[queue.audit_threshold() - 1], spec.k);
		}
	}

	std::vector<CountEntry> expected;
	std::vector<uint32_t> sorted = counts;

	std::sort(sorted.begin(), sorted.end(), std::greater<>());
	// Theorem III.1: the k-th count is the audit threshold less one.
	const uint32_t kth = spec.k <= sorted.size() ? sorted[spec.k - 1] : 0;
	EXPECT_EQ(queue.audit_threshold() - 1, kth);
	for (uint32_t object = 0; object < spec.n_objects; object++)
	{
		EXPECT_EQ(queue.count(object), counts[object]);
		if (counts[object] >= std::max(kth, 1u))
			expected.push_back({object, counts[object]});
	}
	std::sort(expected.begin(), expected.end(), [](const CountEntry &a, const CountEntry &b)
		{ return a.count != b.count ? a.count > b.count : a.object < b.object; });

	// The top k and all their ties are in the hash table, each once, with their last counts.
	const std::vector<CountEntry> found = queue.select();
	ASSERT_EQ(found.size(), expected.size());
	for (size_t i = 0; i < found.size(); i++)
	{
		EXPECT_EQ(found[i].object, expected[i].object);
		EXPECT_EQ(found[i].count, expected[i].count);
	}
	std::map<uint32_t, int> seen;
	for (const CountEntry &entry : queue.entries())
		EXPECT_EQ(++seen[entry.object], 1) << "object " << entry.object << " is in the table twice";
}

INSTANTIATE_TEST_SUITE_P(Shapes, CountPriorityQueueRandom,
	::testing::Values(Case{1, 1, 1, 1, 1}, Case{10, 3, 1, 20, 2}, Case{1000, 14, 10, 6000, 3},
		Case{1000, 255, 100, 60000, 4}, Case{5000, 300, 7, 200000, 5}, Case{50, 70000, 5, 300000, 6},
		Case{100, 20, 100, 1500, 7}, Case{100, 20, 101, 1500, 8}, Case{20000, 2, 3, 30000, 9},
		Case{300, 5, 20, 0, 10}));

// The table holds what passed the gate, not all objects.
TEST(CountPriorityQueue, TableStaysSmall)
{
	CountPriorityQueue queue(200000, 40, 10);
	std::mt19937 random(11);

	for (uint32_t object = 0; object < 10; object++)
		for (int i = 0; i < 40; i++)
			queue.add(object);
	EXPECT_EQ(queue.audit_threshold(), 41u);
	for (int i = 0; i < 400000; i++)
	{
		const uint32_t object = 10 + random() % 199990;

		if (queue.count(object) < 39)
			queue.add(object);
	}
	EXPECT_EQ(queue.select().size(), 10u);
	EXPECT_LE(queue.table_size(), 32u);
	EXPECT_EQ(queue.counter_bits(), 8u);
}

} // namespace
} // namespace vectorgpu::test

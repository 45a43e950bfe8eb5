// The queue: batches, and the turns of copies.
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "worker/queue.hpp"

namespace vectorgpu::worker
{
namespace
{

struct QueueTest : testing::Test
{
	Search *add(CopyQueue *copy, size_t k)
	{
		searches.push_back(std::make_unique<Search>());
		searches.back()->queue = copy;
		searches.back()->query.k = k;
		queue.push(searches.back().get());
		return searches.back().get();
	}

	std::vector<Search *> take(size_t most = 100)
	{
		std::vector<Search *> batch;

		queue.take_batch(most, &batch);
		return batch;
	}

	Queue queue;
	CopyQueue a, b, c;
	std::vector<std::unique_ptr<Search>> searches;
};

using Batch = std::vector<Search *>;

TEST_F(QueueTest, takes_all_compatible_searches_of_one_copy_in_order_of_arrival)
{
	Search *first = add(&a, 10);
	Search *other = add(&b, 10);
	Search *second = add(&a, 64);
	Search *large = add(&a, 1000);
	Search *third = add(&a, 1);

	EXPECT_EQ(take(), (Batch{first, second, third}));
	EXPECT_EQ(take(), (Batch{other}));
	EXPECT_EQ(take(), (Batch{large}));
	EXPECT_EQ(take(), Batch{});
	EXPECT_EQ(queue.size(), 0u);
}

TEST_F(QueueTest, compatible_is_small_or_within_a_factor_of_four)
{
	EXPECT_TRUE(Queue::compatible(1, 64));
	EXPECT_TRUE(Queue::compatible(1, 256));
	EXPECT_FALSE(Queue::compatible(1, 260));
	EXPECT_TRUE(Queue::compatible(1000, 4000));
	EXPECT_TRUE(Queue::compatible(4000, 1000));
	EXPECT_FALSE(Queue::compatible(1000, 4004));
	EXPECT_FALSE(Queue::compatible(1, 1 << 20));
}

TEST_F(QueueTest, gives_copies_their_turns_however_much_one_asks)
{
	for (int i = 0; i < 6; i++)
		add(&a, 10);

	Search *of_b = add(&b, 10);
	Search *of_c = add(&c, 10);

	EXPECT_EQ(take(2), (Batch{searches[0].get(), searches[1].get()}));
	EXPECT_EQ(take(2), (Batch{of_b}));

	Search *again_b = add(&b, 10);

	EXPECT_EQ(take(2), (Batch{of_c}));
	EXPECT_EQ(take(2), (Batch{searches[2].get(), searches[3].get()}));
	EXPECT_EQ(take(2), (Batch{again_b}));
	EXPECT_EQ(take(2), (Batch{searches[4].get(), searches[5].get()}));
	EXPECT_EQ(take(2), Batch{});
}

TEST_F(QueueTest, removes_from_any_place_once)
{
	Search *first = add(&a, 10);
	Search *middle = add(&a, 10);
	Search *last = add(&a, 10);
	Search *other = add(&b, 10);

	EXPECT_TRUE(queue.remove(middle));
	EXPECT_FALSE(queue.remove(middle));
	EXPECT_TRUE(queue.remove(last));
	EXPECT_TRUE(queue.remove(first));
	EXPECT_EQ(queue.size(), 1u);
	EXPECT_EQ(take(), (Batch{other}));
	EXPECT_FALSE(queue.remove(other));

	Search *after = add(&a, 10);

	EXPECT_EQ(take(), (Batch{after}));
}

TEST_F(QueueTest, loses_and_doubles_nothing_in_a_random_history)
{
	std::mt19937 random(11);
	CopyQueue *copies[] = {&a, &b, &c};
	std::vector<Search *> waiting;

	for (int step = 0; step < 20000; step++)
	{
		const uint32_t what = random() % 4;

		if (what < 2)
			waiting.push_back(add(copies[random() % 3], size_t{1} << (random() % 14)));
		else if (what == 2 && !waiting.empty())
		{
			const size_t at = random() % waiting.size();

			ASSERT_TRUE(queue.remove(waiting[at]));
			waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(at));
		}
		else
			for (Search *search : take(random() % 5 + 1))
			{
				ASSERT_EQ(std::erase(waiting, search), 1u);
				ASSERT_FALSE(search->queued);
			}
		ASSERT_EQ(queue.size(), waiting.size());
	}
	while (queue.size() > 0)
		for (Search *search : take())
			ASSERT_EQ(std::erase(waiting, search), 1u);
	EXPECT_TRUE(waiting.empty());
}

} // namespace
} // namespace vectorgpu::worker

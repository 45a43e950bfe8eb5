// The two queues of a search, over the caller's memory: the bounded priority queue of nodes to expand (SONG,
// section 4.3, a symmetric queue with access to both ends: a min-max heap), and the heap of the best nodes found.
// Internal to the folder.
#pragma once

#include <algorithm>
#include <bit>

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// A min-max heap (Atkinson, Sack, Santoro, Strothotte 1986). Levels alternate: an item on an even level is the first
/// of its subtree, on an odd level the last. All operations take O(log size).
class MinMaxHeap
{
public:
	MinMaxHeap(Candidate *items, size_t capacity) : items_(items), capacity_(capacity) {}

	bool empty() const { return size_ == 0; }
	bool full() const { return size_ == capacity_; }
	const Candidate &first() const { return items_[0]; }
	const Candidate &last() const { return items_[last_index()]; }

	/// Precondition: not full.
	void push(const Candidate &candidate)
	{
		size_t i = size_++;

		items_[i] = candidate;
		if (i == 0)
			return;
		const size_t parent = (i - 1) / 2;

		if (on_min_level(i) == before(items_[parent], items_[i]))
		{
			std::swap(items_[i], items_[parent]);
			i = parent;
		}
		while (i > 2)
		{
			const size_t grandparent = ((i - 1) / 2 - 1) / 2;

			if (before(items_[i], items_[grandparent]) != on_min_level(i))
				break;
			std::swap(items_[i], items_[grandparent]);
			i = grandparent;
		}
	}

	/// Precondition: not empty.
	Candidate pop_first() { return take(0); }
	Candidate pop_last() { return take(last_index()); }

private:
	static bool on_min_level(size_t i) { return std::bit_width(i + 1) % 2 == 1; }

	size_t last_index() const
	{
		if (size_ < 3)
			return size_ - 1;
		return before(items_[1], items_[2]) ? 2 : 1;
	}

	Candidate take(size_t i)
	{
		const Candidate taken = items_[i];

		items_[i] = items_[--size_];
		if (i < size_)
			sink(i);
		return taken;
	}

	/// The first (on a level of minima; else the last) of the children and grandchildren; size_ if there are none.
	size_t best_descendant(size_t i, bool minima) const
	{
		size_t best = size_;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < size_; child++)
		{
			if (best == size_ || before(items_[child], items_[best]) == minima)
				best = child;
			for (size_t grandchild = 2 * child + 1; grandchild <= 2 * child + 2 && grandchild < size_; grandchild++)
				if (before(items_[grandchild], items_[best]) == minima)
					best = grandchild;
		}
		return best;
	}

	void sink(size_t i)
	{
		const bool minima = on_min_level(i);

		for (;;)
		{
			const size_t best = best_descendant(i, minima);

			if (best == size_ || before(items_[best], items_[i]) != minima)
				return;
			std::swap(items_[best], items_[i]);
			if (best <= 2 * i + 2)
				return; // a child: it has no descendants that would be better
			const size_t parent = (best - 1) / 2;

			if (before(items_[parent], items_[best]) == minima)
				std::swap(items_[parent], items_[best]);
			i = best;
		}
	}

	Candidate *items_;
	size_t capacity_;
	size_t size_ = 0;
};

/// The first `capacity` candidates seen.
class BestHeap
{
public:
	BestHeap(Candidate *items, size_t capacity) : items_(items), capacity_(capacity) {}

	bool full() const { return size_ == capacity_; }
	size_t size() const { return size_; }
	/// Whether the candidate is among the first `capacity` seen.
	bool wants(const Candidate &candidate) const { return size_ < capacity_ || before(candidate, items_[0]); }

	/// Insert a candidate that wants() accepts. Return the node that fell out, or kNoNode.
	uint32_t push(const Candidate &candidate)
	{
		uint32_t out = kNoNode;

		if (full())
		{
			std::pop_heap(items_, items_ + size_, before);
			out = items_[--size_].node;
		}
		items_[size_++] = candidate;
		std::push_heap(items_, items_ + size_, before);
		return out;
	}

	/// Sort the items. No push may follow.
	void sort() { std::sort_heap(items_, items_ + size_, before); }

private:
	Candidate *items_;
	size_t capacity_;
	size_t size_ = 0;
};

} // namespace vectorgpu::engine::graph

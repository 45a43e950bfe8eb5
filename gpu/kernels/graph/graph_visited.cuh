// The sets of visited nodes of a graph's search, in shared memory, used by all threads of a query at once. Every set is
// bounded: a node without room is not remembered, which only costs computing its score again.
#pragma once

#include <cstdint>

#include "kernels/graph/graph.hpp"

namespace vectorgpu::kernels
{

__device__ __forceinline__ uint32_t
graph_hash(uint32_t node)
{
	uint32_t x = node * 0x9E3779B1u; // Fibonacci hashing: the low bits then depend on all

	x ^= x >> 15;
	x *= 0x85EBCA77u;
	return x ^ (x >> 13);
}

/// A set of nodes of `words` [2^bits].
class GraphSet
{
public:
	__device__ GraphSet(GraphVisited kind, uint32_t *words, uint32_t bits)
		: kind_(kind), words_(words), mask_((1u << bits) - 1)
	{
	}

	/// By all threads of the query; the caller synchronises.
	__device__ void clear(uint32_t thread, uint32_t n_threads)
	{
		const uint32_t empty = kind_ == GraphVisited::kHash ? kEmpty : 0;

		if (kind_ == GraphVisited::kNone)
			return;
		for (uint32_t i = thread; i <= mask_; i += n_threads)
			words_[i] = empty;
	}

	__device__ bool contains(uint32_t node) const
	{
		switch (kind_)
		{
			case GraphVisited::kHash:
				return find(node) != nullptr;
			case GraphVisited::kBloom:
			{
				const uint32_t hash = graph_hash(node);

				for (uint32_t i = 0; i < kBloomHashes; i++)
					if ((words_[bloom_bit(hash, i) / 32] >> (bloom_bit(hash, i) % 32) & 1) == 0)
						return false;
				return true;
			}
			case GraphVisited::kCuckoo:
			{
				const uint32_t hash = graph_hash(node);
				const uint32_t mark = cuckoo_mark(hash);
				const uint32_t here = hash & mask_;

				return holds(here, mark) || holds(other(here, mark), mark);
			}
			case GraphVisited::kNone:
				break;
		}
		return false;
	}

	/// Insert a node. False if it was in the set.
	__device__ bool insert(uint32_t node)
	{
		switch (kind_)
		{
			case GraphVisited::kHash:
				return insert_hash(node);
			case GraphVisited::kBloom:
			{
				const uint32_t hash = graph_hash(node);
				bool fresh = false;

				for (uint32_t i = 0; i < kBloomHashes; i++)
				{
					const uint32_t bit = bloom_bit(hash, i);
					const uint32_t one = 1u << (bit % 32);

					fresh |= (atomicOr(&words_[bit / 32], one) & one) == 0;
				}
				return fresh;
			}
			case GraphVisited::kCuckoo:
				return insert_cuckoo(node);
			case GraphVisited::kNone:
				break;
		}
		return true;
	}

	/// Hash table only.
	__device__ void erase(uint32_t node)
	{
		uint32_t *slot = kind_ == GraphVisited::kHash ? find(node) : nullptr;

		if (slot != nullptr)
			*slot = kErased;
	}

private:
	static constexpr uint32_t kEmpty = 0xFFFFFFFFu;
	static constexpr uint32_t kErased = 0xFFFFFFFEu;
	static constexpr uint32_t kProbes = 8; // slots looked at
	static constexpr uint32_t kBloomHashes = 4;
	static constexpr uint32_t kMoves = 16;

	__device__ uint32_t *find(uint32_t node) const
	{
		const uint32_t home = graph_hash(node);

		for (uint32_t i = 0; i < kProbes; i++)
		{
			uint32_t *slot = &words_[(home + i) & mask_];
			const uint32_t held = *slot;

			if (held == node)
				return slot;
			if (held == kEmpty)
				return nullptr;
		}
		return nullptr;
	}

	__device__ bool insert_hash(uint32_t node)
	{
		const uint32_t home = graph_hash(node);

		for (uint32_t i = 0; i < kProbes; i++)
		{
			uint32_t *slot = &words_[(home + i) & mask_];
			uint32_t held = atomicCAS(slot, kEmpty, node);

			if (held == kErased) // the node may also be in a later slot, which no search minds
				held = atomicCAS(slot, kErased, node);
			if (held == kEmpty || held == kErased)
				return true;
			if (held == node)
				return false;
		}
		return true;
	}

	/// Kirsch and Mitzenmacher: two hash functions generate all.
	__device__ uint32_t bloom_bit(uint32_t hash, uint32_t i) const
	{
		return (hash + i * (hash >> 16 | 1)) & (mask_ * 32 + 31);
	}

	/// Two marks of 16 bits a word; 0: none.
	__device__ static uint32_t cuckoo_mark(uint32_t hash)
	{
		const uint32_t mark = hash >> 16;

		return mark == 0 ? 1 : mark;
	}
	__device__ uint32_t other(uint32_t bucket, uint32_t mark) const { return (bucket ^ graph_hash(mark)) & mask_; }
	__device__ bool holds(uint32_t bucket, uint32_t mark) const
	{
		const uint32_t word = words_[bucket];

		return (word & 0xFFFF) == mark || word >> 16 == mark;
	}
	/// False if there is no room.
	__device__ bool put(uint32_t bucket, uint32_t mark)
	{
		uint32_t word = words_[bucket];

		while ((word & 0xFFFF) == 0 || word >> 16 == 0)
		{
			const uint32_t next = (word & 0xFFFF) == 0 ? word | mark : word | mark << 16;
			const uint32_t seen = atomicCAS(&words_[bucket], word, next);

			if (seen == word)
				return true;
			word = seen;
		}
		return false;
	}
	__device__ bool insert_cuckoo(uint32_t node)
	{
		const uint32_t hash = graph_hash(node);
		uint32_t mark = cuckoo_mark(hash);
		uint32_t bucket = hash & mask_;

		if (holds(bucket, mark) || holds(other(bucket, mark), mark))
			return false;
		for (uint32_t i = 0; i < kMoves; i++)
		{
			if (put(bucket, mark) || put(other(bucket, mark), mark))
				return true;

			// Exchange it with the first of the bucket, which moves to its other bucket.
			const uint32_t word = words_[bucket];

			if (atomicCAS(&words_[bucket], word, (word & 0xFFFF0000u) | mark) != word)
				continue;
			mark = word & 0xFFFF;
			bucket = other(bucket, mark);
		}
		return true; // one is forgotten
	}

	GraphVisited kind_;
	uint32_t *words_;
	uint32_t mask_;
};

} // namespace vectorgpu::kernels

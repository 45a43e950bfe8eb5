// The sets of visited nodes of a search (SONG, section 4.2), over the caller's memory: an open-addressing hash table,
// which is exact, a Bloom filter and a cuckoo filter, which take less memory and have false positives. None has false
// negatives, so that no node is ever found twice. Internal to the folder.
#pragma once

#include <bit>
#include <cstring>

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

/// Mixes the bits of a node's number (the finaliser of splitmix64).
inline uint64_t
hash_node(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

/// The number of nodes that a search expects to insert.
struct VisitedSize
{
	size_t n_kept;   // most nodes in the two queues, which the set must have room for
	size_t n_others; // other nodes that it should have room for
};

/// Linear probing, at most seven eighths full. Deletion closes the gap, so that there are no tombstones.
class HashVisited
{
public:
	static constexpr bool kDeletes = true;

	static size_t bytes(const VisitedSize &size) { return capacity_for(size) * sizeof(uint32_t); }
	HashVisited(const VisitedSize &size, void *memory)
		: slots_(static_cast<uint32_t *>(memory)), mask_(capacity_for(size) - 1), kept_(size.n_kept)
	{
		memset(slots_, 0xFF, bytes(size)); // kNoNode
	}

	bool contains(uint32_t node) const
	{
		for (size_t i = home(node);; i = (i + 1) & mask_)
		{
			if (slots_[i] == node)
				return true;
			if (slots_[i] == kNoNode)
				return false;
		}
	}

	/// Whether only nodes that enter a queue may be inserted from now on, so that there is room for all of these.
	bool saturated() const { return size_ + 2 * kept_ >= mask_ - mask_ / 8; }

	/// Insert a node that is not in the set; false if there is no room.
	bool insert(uint32_t node)
	{
		size_t i = home(node);

		if (size_ >= mask_ - mask_ / 8)
			return false;
		while (slots_[i] != kNoNode)
			i = (i + 1) & mask_;
		slots_[i] = node;
		size_++;
		return true;
	}

	void erase(uint32_t node)
	{
		size_t gap = home(node);

		while (slots_[gap] != node)
		{
			if (slots_[gap] == kNoNode)
				return;
			gap = (gap + 1) & mask_;
		}
		for (size_t i = (gap + 1) & mask_; slots_[i] != kNoNode; i = (i + 1) & mask_)
		{
			// An item may move to the gap unless its home lies behind the gap.
			if (((i - home(slots_[i])) & mask_) >= ((i - gap) & mask_))
			{
				slots_[gap] = slots_[i];
				gap = i;
			}
		}
		slots_[gap] = kNoNode;
		size_--;
	}

private:
	static size_t capacity_for(const VisitedSize &size)
	{
		return std::bit_ceil(4 * size.n_kept + 2 * size.n_others + 16);
	}
	size_t home(uint32_t node) const { return hash_node(node) & mask_; }

	uint32_t *slots_; // [mask_ + 1]
	size_t mask_;
	size_t kept_;
	size_t size_ = 0;
};

/// Bloom filter: ten bits a node and six hash functions, under one per cent false positives up to its expected number
/// of nodes.
class BloomVisited
{
public:
	static constexpr bool kDeletes = false;

	static size_t bytes(const VisitedSize &size) { return bits_for(size) / 8; }
	BloomVisited(const VisitedSize &size, void *memory)
		: words_(static_cast<uint64_t *>(memory)), mask_(bits_for(size) - 1), limit_(size.n_kept + size.n_others)
	{
		memset(words_, 0, bytes(size));
	}

	bool contains(uint32_t node) const
	{
		const uint64_t hash = hash_node(node);

		for (uint64_t i = 0; i < kHashes; i++)
		{
			const uint64_t bit = bit_of(hash, i);

			if ((words_[bit / 64] >> (bit % 64) & 1) == 0)
				return false;
		}
		return true;
	}
	bool saturated() const { return size_ >= limit_; }
	bool insert(uint32_t node)
	{
		const uint64_t hash = hash_node(node);

		for (uint64_t i = 0; i < kHashes; i++)
		{
			const uint64_t bit = bit_of(hash, i);

			words_[bit / 64] |= UINT64_C(1) << (bit % 64);
		}
		size_++;
		return true;
	}
	void erase(uint32_t) {}

private:
	static constexpr uint64_t kHashes = 6;

	static size_t bits_for(const VisitedSize &size) { return std::bit_ceil(10 * (size.n_kept + size.n_others) + 64); }
	/// Two hash functions make all (Kirsch and Mitzenmacher).
	uint64_t bit_of(uint64_t hash, uint64_t i) const { return (hash + i * (hash >> 32 | 1)) & mask_; }

	uint64_t *words_;
	uint64_t mask_; // of bits
	size_t limit_;
	size_t size_ = 0;
};

/// Cuckoo filter (Fan, Andersen, Kaminsky, Mitzenmacher 2014): fingerprints of 16 bits, four a bucket.
class CuckooVisited
{
public:
	static constexpr bool kDeletes = true;

	static size_t bytes(const VisitedSize &size) { return buckets_for(size) * kSlots * sizeof(uint16_t); }
	CuckooVisited(const VisitedSize &size, void *memory)
		: slots_(static_cast<uint16_t *>(memory)), mask_(buckets_for(size) - 1), kept_(size.n_kept)
	{
		memset(slots_, 0, bytes(size));
	}

	bool contains(uint32_t node) const
	{
		const Place place = place_of(node);

		return find(place.bucket, place.mark) != nullptr || find(other(place), place.mark) != nullptr ||
			(stash_.mark == place.mark && (stash_.bucket == place.bucket || stash_.bucket == other(place)));
	}
	bool saturated() const { return size_ + 2 * kept_ >= (mask_ + 1) * kSlots * 7 / 8; }

	/// An item that found no slot after many moves waits in the stash; then nothing can be inserted until an item is
	/// erased.
	bool insert(uint32_t node)
	{
		Place place = place_of(node);

		if (stash_.mark != 0)
			return false;
		size_++;
		if (put(place) || put({other(place), place.mark}))
			return true;
		for (uint32_t i = 0; i < kMoves; i++)
		{
			std::swap(slots_[place.bucket * kSlots + i % kSlots], place.mark);
			place.bucket = other(place);
			if (put(place))
				return true;
		}
		stash_ = place;
		return true;
	}

	void erase(uint32_t node)
	{
		const Place place = place_of(node);
		uint16_t *slot = find(place.bucket, place.mark);

		if (slot == nullptr)
			slot = find(other(place), place.mark);
		if (slot != nullptr)
			*slot = 0;
		else if (stash_.mark == place.mark)
			stash_.mark = 0;
		else
			return;
		size_--;
		if (stash_.mark != 0 && (put(stash_) || put({other(stash_), stash_.mark})))
			stash_.mark = 0;
	}

private:
	static constexpr size_t kSlots = 4;
	static constexpr uint32_t kMoves = 64;

	struct Place
	{
		size_t bucket;
		uint16_t mark; // the fingerprint; 0: empty
	};

	static size_t buckets_for(const VisitedSize &size)
	{
		return std::bit_ceil((4 * size.n_kept + size.n_others) / kSlots + 4);
	}
	Place place_of(uint32_t node) const
	{
		const uint64_t hash = hash_node(node);
		const uint16_t mark = static_cast<uint16_t>(hash >> 48);

		return {static_cast<size_t>(hash) & mask_, mark == 0 ? uint16_t{1} : mark};
	}
	/// The other bucket of an item; its own inverse.
	size_t other(const Place &place) const
	{
		return (place.bucket ^ static_cast<size_t>(hash_node(place.mark))) & mask_;
	}
	uint16_t *find(size_t bucket, uint16_t mark) const
	{
		for (size_t i = 0; i < kSlots; i++)
			if (slots_[bucket * kSlots + i] == mark)
				return &slots_[bucket * kSlots + i];
		return nullptr;
	}
	bool put(const Place &place)
	{
		uint16_t *slot = find(place.bucket, 0);

		if (slot == nullptr)
			return false;
		*slot = place.mark;
		return true;
	}

	uint16_t *slots_; // [mask_ + 1, kSlots]
	size_t mask_;     // of buckets
	size_t kept_;
	Place stash_ = {0, 0};
	size_t size_ = 0;
};

} // namespace vectorgpu::engine::graph

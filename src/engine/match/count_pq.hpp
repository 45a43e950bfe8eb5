// c-PQ, the count priority queue (GENIE, section III-C) as in the paper, for one query: a bitmap counter of a few bits
// an object, a gate (zipper array and audit threshold) and a hash table that keeps what passes the gate and overwrites
// expired entries. A reference that kernels are checked against; C++ dialect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vectorgpu::engine::match
{

struct CountEntry
{
	uint32_t object;
	uint32_t count;
};

class CountPriorityQueue
{
public:
	/// Counts of up to max_count for n_objects objects, and the k with the greatest.
	CountPriorityQueue(size_t n_objects, uint32_t max_count, size_t k);

	/// Count one more matched element of the object (algorithm 1).
	void add(uint32_t object);

	/// All entries whose count is at least audit_threshold() - 1, sorted by (count descending, object): the top k, and
	/// all that tie with the last of them. May be fewer than k: objects that were never added are missing.
	std::vector<CountEntry> select() const;

	uint32_t audit_threshold() const { return audit_threshold_; }
	const std::vector<uint32_t> &zipper_array() const { return zipper_; } // by count; [0] is not used
	uint32_t count(uint32_t object) const;                                // of the bitmap counter

	/// Entries of the hash table: all, and those that have not expired (count at least audit threshold - 1).
	std::vector<CountEntry> entries() const;

	size_t table_size() const { return table_.size(); }
	unsigned counter_bits() const { return bits_; }

private:
	struct Slot
	{
		uint32_t object; // kFree
		uint32_t count;
		uint32_t age; // probes from the object's home, from 1
	};

	static constexpr uint32_t kFree = UINT32_MAX;

	uint32_t add_bits(uint32_t object);
	void put(uint32_t object, uint32_t count);
	bool expired(const Slot &slot) const { return slot.count + 1 < audit_threshold_; }
	void grow();
	size_t home(uint32_t object) const;

	size_t k_;
	unsigned bits_; // 1, 2, 4, 8, 16 or 32, so that no counter crosses a word
	std::vector<uint64_t> bitmap_;
	std::vector<uint32_t> zipper_;
	uint32_t audit_threshold_ = 1;
	std::vector<Slot> table_;
	size_t n_slots_used_ = 0;
};

} // namespace vectorgpu::engine::match

// See count_pq.hpp.
// The paper takes any of the objects that tie with the k-th; here all objects that reach the k-th count are kept, since
// ties go to the smaller row id. So an object passes the gate when its count reaches audit threshold - 1, one earlier
// than in algorithm 1: there, the object that raises the threshold has passed the gate, but later objects with the same
// count do not. An entry has expired when its count is less than that.
#include "engine/match/count_pq.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace vectorgpu::engine::match
{

namespace
{

unsigned
bits_for(uint32_t max_count)
{
	return std::bit_ceil(std::max(1u, static_cast<unsigned>(std::bit_width(max_count))));
}

} // namespace

CountPriorityQueue::CountPriorityQueue(size_t n_objects, uint32_t max_count, size_t k)
	: k_(std::max<size_t>(k, 1)), bits_(bits_for(max_count)), bitmap_((n_objects * bits_ + 63) / 64),
	  zipper_(static_cast<size_t>(max_count) + 2),
	  table_(std::bit_ceil(std::max<size_t>(16, 2 * std::min(n_objects, k_))), Slot{kFree, 0, 0})
{
}

uint32_t
CountPriorityQueue::count(uint32_t object) const
{
	const size_t bit = static_cast<size_t>(object) * bits_;

	return static_cast<uint32_t>(bitmap_[bit / 64] >> bit % 64 & ((uint64_t{1} << bits_) - 1));
}

uint32_t
CountPriorityQueue::add_bits(uint32_t object)
{
	const size_t bit = static_cast<size_t>(object) * bits_;

	bitmap_[bit / 64] += uint64_t{1} << bit % 64;
	return count(object);
}

size_t
CountPriorityQueue::home(uint32_t object) const
{
	return static_cast<uint32_t>(object * 0x9E3779B9u) >> (32 - std::bit_width(table_.size() - 1));
}

void
CountPriorityQueue::add(uint32_t object)
{
	const uint32_t value = add_bits(object);

	if (value + 1 < audit_threshold_)
		return;
	put(object, value);
	if (value < audit_threshold_)
		return; // a tie with the k-th does not raise the threshold
	zipper_[value]++;
	while (zipper_[audit_threshold_] >= k_)
		audit_threshold_++;
}

/// Robin Hood hashing: the entry farther from its home takes the slot; an expired entry gives its slot up.
void
CountPriorityQueue::put(uint32_t object, uint32_t value)
{
	Slot carried = {object, value, 1};
	size_t at = home(object);

	for (;;)
	{
		Slot &slot = table_[at];

		if (slot.object == carried.object)
		{
			slot.count = carried.count;
			return;
		}
		if (slot.object == kFree)
		{
			slot = carried;
			if (++n_slots_used_ * 4 > table_.size() * 3)
				grow();
			return;
		}
		if (slot.age < carried.age)
		{
			// The object itself can follow only if it is as far from its home as the carried one: it is not.
			std::swap(slot, carried);
			if (expired(carried))
				return;
		}
		at = (at + 1) & (table_.size() - 1);
		carried.age++;
	}
}

/// Double the table; drop expired entries.
void
CountPriorityQueue::grow()
{
	std::vector<Slot> old(table_.size() * 2, Slot{kFree, 0, 0});

	old.swap(table_);
	n_slots_used_ = 0;
	for (const Slot &slot : old)
		if (slot.object != kFree && !expired(slot))
			put(slot.object, slot.count);
}

std::vector<CountEntry>
CountPriorityQueue::entries() const
{
	std::vector<CountEntry> found;

	for (const Slot &slot : table_)
		if (slot.object != kFree)
			found.push_back({slot.object, slot.count});
	return found;
}

std::vector<CountEntry>
CountPriorityQueue::select() const
{
	std::vector<CountEntry> found;

	for (const Slot &slot : table_)
		if (slot.object != kFree && !expired(slot))
			found.push_back({slot.object, slot.count});
	std::sort(found.begin(), found.end(), [](const CountEntry &a, const CountEntry &b)
		{ return a.count != b.count ? a.count > b.count : a.object < b.object; });
	return found;
}

} // namespace vectorgpu::engine::match

// The rows of a copy that meet the conditions of a search. The worker makes them from the codes of key columns
// (engine/predicate), or has an engine's device make those of a segment (key_codes.hpp); searches know neither codes
// nor programs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/interface/segment_id.hpp"

namespace vectorgpu::engine
{

/// A segment's rows are listed, not masked, up to this share of them: then scoring each by itself is faster than any
/// search that leaves out the others, and exact.
constexpr uint64_t kFewOfRows = 10;

/// Values derived from an immutable object and kept beside it, one for each owner. Thread-safe.
template <class Key, class Value>
class Derived
{
public:
	/// Return the value that the owner keeps for `key`, or null.
	std::shared_ptr<const Value> get(const void *owner, const Key &key) const
	{
		const std::lock_guard lock(mutex_);

		for (const Kept &kept : kept_)
			if (kept.owner == owner)
				return kept.key == key ? kept.value : nullptr;
		return nullptr;
	}

	/// Keep a value instead of the owner's one before.
	void set(const void *owner, Key key, std::shared_ptr<const Value> value) const
	{
		const std::lock_guard lock(mutex_);

		for (Kept &kept : kept_)
			if (kept.owner == owner)
			{
				kept.key.swap(key);
				kept.value.swap(value); // the old one is destroyed after the lock is released
				return;
			}
		kept_.push_back({owner, std::move(key), std::move(value)});
	}

private:
	struct Kept
	{
		const void *owner;
		Key key;
		std::shared_ptr<const Value> value;
	};

	mutable std::mutex mutex_;
	mutable std::vector<Kept> kept_;
};

/// The rows of one segment. Immutable but for what engines derive.
struct PassingSegment
{
	SegmentId segment = 0;
	uint64_t n_rows = 0;        // of the segment
	uint64_t n_pass = 0;        // dead rows included
	bool listed = false;        // n_pass <= n_rows / kFewOfRows
	std::vector<uint32_t> rows; // listed: the numbers of the rows, ascending
	std::vector<uint8_t> bits;  // else: [ceil(n_rows / 8)], bit i of byte i / 8 is 1 << (i % 8), 0 behind the last row

	/// Where a device found the rows: what it keeps of them, in a form that its engine knows. Null: nothing.
	std::shared_ptr<const void> on_device;

	/// What an engine makes of them for its searches: a bitmap joined with tombstones, a list on a device. The key says
	/// of what: the address of what they were joined with. Host memory has no owner, that of a device its engine's:
	/// replicas of a copy are searched with the same object.
	Derived<std::shared_ptr<const void>, void> host;
	Derived<std::shared_ptr<const void>, void> device;
};

/// The rows of a copy, as of one moment: every sealed segment that has rows, and the delta up to delta_end. Rows of the
/// delta from delta_end on fail.
struct Passing
{
	std::vector<std::shared_ptr<const PassingSegment>> segments; // by ascending id
	uint64_t delta_first = 0; // position of the first bit, a multiple of 8; at most the first row held
	uint64_t delta_end = 0;
	std::vector<uint8_t> delta_bits; // of positions [delta_first, delta_end)
	uint64_t n_rows = 0;             // of segments and delta
	uint64_t n_pass = 0;

	const PassingSegment *find(SegmentId segment) const
	{
		for (const std::shared_ptr<const PassingSegment> &one : segments)
			if (one->segment == segment)
				return one.get();
		return nullptr;
	}
};

/// How a search has looked for rows that pass, for EXPLAIN. The greatest of all segments counts.
enum class FilterWay : uint8_t
{
	kNone = 0,
	kList = 1,  // the rows that pass were scored one by one, exactly
	kMask = 2,  // a pass over all rows left out the others
	kLists = 3, // inverted lists, as many as hold enough rows that pass
	kGraph = 4, // a graph, without the rows that fail
};

} // namespace vectorgpu::engine

// Packed rows: the rows of a segment that pass some conditions, copied one after another, so that an exact search reads
// no others. They are made where many queries with the same conditions look at all rows that pass, count against the
// budget, and give way: searches go over the masked segment then, and find the same.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/passing/packed_tuning.hpp"
#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// Immutable.
struct PackedRows
{
	std::shared_ptr<const Block> block; // in the order of their numbers
	RoundedForms rounded;
	std::shared_ptr<const Held> dead; // a bitmap; null: none is dead
	uint32_t n_rows = 0;
	uint64_t bytes = 0;
};

/// The packed rows of a segment and its conditions, if there are any now. Kept beside the bitmap that they were made by
/// (passing_device.hpp). Thread-safe.
class PackedSlot
{
public:
	/// Null: none.
	std::shared_ptr<const PackedRows> rows() const;

	/// Count queries that would use packed rows. True if there were enough of them: the caller makes the rows, and then
	/// calls put. One thread at a time is told so.
	bool ask(size_t n_queries, uint32_t least_queries);

	/// null: they could not be made; after as many queries as before they are tried again.
	void put(std::shared_ptr<const PackedRows> rows);

	/// Give the rows up. It takes twice as many queries until they are made again.
	std::shared_ptr<const PackedRows> take();

	mutable std::atomic<uint64_t> last_use{0};

private:
	static constexpr uint32_t kMostPatience = 1024;

	mutable std::mutex mutex_;
	std::shared_ptr<const PackedRows> rows_;
	uint64_t n_queries_ = 0;
	uint32_t patience_ = 1;
	bool is_being_made_ = false;
};

/// All packed rows of an engine. Thread-safe.
class PackedPool
{
public:
	explicit PackedPool(const PackedTuning &tuning) : tuning_(tuning) {}

	const PackedTuning &tuning() const { return tuning_; }

	struct Found
	{
		bool any = false;     // some sources are packed
		bool missing = false; // some are not, although they would be, had enough queries asked for it
	};

	/// Set the sources of *view, a masked snapshot, to packed rows where these are made. n_queries: that are to look at
	/// all rows that pass; they may be the reason to pack rows now, which waits for the stream and uses
	/// context->pinned_in. 0: nothing is packed.
	Status use(const SearchCall &call, Budget *budget, const engine::Passing &passing, size_t n_queries, Snapshot *view,
		Found *found);

	/// Whether the rows of this source, a masked one, would be packed, had enough queries asked for it.
	bool serves(const SearchCall &call, const engine::PassingSegment &segment, const Source &source) const;

	/// Give all packed rows up. False if there were none.
	bool drop();

private:
	Status pack(const SearchCall &call, Budget *budget, const engine::PassingSegment &segment, const Source &source,
		const std::shared_ptr<PackedSlot> &slot);
	bool make_room(const Budget &budget, uint64_t bytes);
	std::vector<std::shared_ptr<PackedSlot>> slots();

	const PackedTuning tuning_;
	std::atomic<uint64_t> n_uses_{0};
	std::mutex mutex_;                             // slots_
	std::vector<std::weak_ptr<PackedSlot>> slots_; // that have rows, or had some
};

} // namespace vectorgpu::cuda

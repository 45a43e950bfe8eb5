// Searches that wait for the engine: for each copy in order of arrival, copies in turn. Intrusive lists, so that
// nothing can fail. The owner (the batcher) has the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/interface/engine.hpp"
#include "worker/keys/key_store.hpp"

namespace vectorgpu::worker
{

struct Search;
class SearchGroup;

/// The searches that wait for one copy; part of the copy. Guarded by the lock of the Queue.
struct CopyQueue
{
	Search *first = nullptr;
	Search *last = nullptr;
	CopyQueue *next_in_turn = nullptr;
	bool in_turn = false;
};

/// One search, from its arrival to its reply. Part of its session.
struct Search
{
	CopyQueue *queue = nullptr;   // of `copy`
	std::shared_ptr<void> copy;   // keeps the copy resident
	engine::CopyId copy_id = 0;   // the engine's id of the copy
	std::shared_ptr<void> owner;  // keeps the session alive
	engine::SearchQuery query;    // points into `vector`, `probes`, and at `coverage`
	std::vector<uint64_t> vector; // private copy of the query, in words for its alignment
	std::vector<engine::SegmentProbes> probes;
	engine::Coverage coverage = engine::Coverage::kAll;
	std::vector<uint8_t> program;   // conditions; empty: none
	std::shared_ptr<KeyStore> keys; // that decide them; null without conditions
	std::shared_ptr<const engine::Passing> passing;
	const std::atomic<uint64_t> *manifest = nullptr; // of the copy, if the client has named the rows that pass
	uint64_t wanted_manifest = 0;                    // whose rows it has named
	bool outdated = false;                           // the copy has another manifest: the answer is none
	uint64_t n_passing = 0;                          // of the answer
	bool filter_found = false;                       // the rows that pass were known
	engine::FilterWay filter_way = engine::FilterWay::kNone;
	std::atomic<bool> cancelled{false};
	uint64_t taken_ns = 0;              // its request was
	std::shared_ptr<SearchGroup> group; // which it is part of; null: it is a SEARCH of its own
	std::atomic<bool> is_last{false};   // its client sends no more before it has answers
	bool is_small = false;              // of a copy that is searched in less time than several threads need to share it
	Search *next = nullptr;
	bool queued = false;
};

/// Let go of what a search has kept. The caller holds its session, and its group.
inline void
release(Search *search)
{
	search->owner.reset();
	search->copy.reset();
	search->keys.reset();
	search->passing.reset();
	search->group.reset();
}

class Queue
{
public:
	/// Return true if searches for `k` and `other` rows may form a batch: they differ by a factor of at most four. A
	/// selection occasionally costs O(k), and the filter of a batch is as tight as each query's k allows; this factor
	/// wastes little and keeps batches large.
	static bool compatible(size_t k, size_t other);

	void push(Search *search);

	/// Remove a search; false if it is not in the queue.
	bool remove(Search *search);

	/// Take the next batch: the oldest search of the copy in turn and those of the same copy that are compatible with
	/// it, in order of arrival, at most `most`. Empty if nothing waits. A copy with more searches goes to the end of
	/// the turn.
	void take_batch(size_t most, std::vector<Search *> *batch);

	/// The same of the first copy in turn that is small, if several copies wait; else empty.
	void take_small_batch(size_t most, std::vector<Search *> *batch);

	/// True if take_small_batch would take something.
	bool has_small_batch() const;

	size_t size() const { return size_; }

	/// True if the search whose turn it is is one of the last of its client.
	bool at_last() const
	{
		return first_turn_ != nullptr && first_turn_->first->is_last.load(std::memory_order_relaxed);
	}

private:
	void take_of(CopyQueue *queue, size_t most, std::vector<Search *> *batch);
	CopyQueue *first_small() const;
	void append_turn(CopyQueue *queue);
	void leave_turn(CopyQueue *queue);
	static void unlink(CopyQueue *queue, Search *before, Search *search);

	CopyQueue *first_turn_ = nullptr;
	CopyQueue *last_turn_ = nullptr;
	size_t size_ = 0;
};

} // namespace vectorgpu::worker

// Searches that wait for the engine, per copy in order of arrival, copies taken in turn. A plain data structure:
// intrusive lists, so that nothing here can fail; its owner (the batcher) brings the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/interface/engine.hpp"

namespace vectorgpu::worker
{

struct Search;

/// The searches that wait for one copy; part of the copy. Belongs to the queue's lock.
struct CopyQueue
{
	Search *first = nullptr;
	Search *last = nullptr;
	CopyQueue *next_in_turn = nullptr;
	bool in_turn = false;
};

/// One search, from its arrival to its reply. Lives in its session.
struct Search
{
	CopyQueue *queue = nullptr;   // of `copy`
	std::shared_ptr<void> copy;   // keeps the copy resident
	engine::CopyId copy_id = 0;   // the engine's name of it
	std::shared_ptr<void> owner;  // keeps the session alive
	engine::SearchQuery query;    // points into `vector`, `probes`, and at `coverage`
	std::vector<uint64_t> vector; // private copy of the query, in words for its alignment
	std::vector<engine::SegmentProbes> probes;
	engine::Coverage coverage = engine::Coverage::kAll;
	std::atomic<bool> cancelled{false};
	Search *next = nullptr;
	bool queued = false;
};

class Queue
{
public:
	/// May `k` and `other` go together? A selection for k costs its scan of candidates O(k) now and then, and the
	/// filter of a batch is as tight as each query's own k lets it be; a factor of four wastes little and keeps batches
	/// large.
	static bool compatible(size_t k, size_t other);

	void push(Search *search);

	/// Takes a search out again; false if it is not there any more.
	bool remove(Search *search);

	/// The next batch, all of one copy: its oldest search and whatever else of the copy is compatible with that one, in
	/// order of arrival, at most `most`. Empty if nothing waits. The copy goes to the end of the turn if it has more.
	void take_batch(size_t most, std::vector<Search *> *batch);

	size_t size() const { return size_; }

private:
	void append_turn(CopyQueue *queue);
	void leave_turn(CopyQueue *queue);
	static void unlink(CopyQueue *queue, Search *before, Search *search);

	CopyQueue *first_turn_ = nullptr;
	CopyQueue *last_turn_ = nullptr;
	size_t size_ = 0;
};

} // namespace vectorgpu::worker

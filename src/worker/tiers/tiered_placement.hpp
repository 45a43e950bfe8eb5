// The copies of the tiered engine and where they are: the device's engine, the host's engine, the budget of host
// memory, and the moves between them. See README.md, "Two places".
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "worker/tiers/tiered_copy.hpp"
#include "worker/tiers/tiered_engine.hpp"

namespace vectorgpu::worker
{

/// True if the other engine may accept what this one refused. A wrong argument is wrong in both; a lost GPU ends the
/// process.
bool host_may_do_better(const Status &status);

/// Bytes of the host's budget that a change may take of n_bytes; segment_bytes: those of them that are rows of
/// segments.
uint64_t host_growth(const TieredCopy &copy, const Place &place, uint64_t n_bytes, uint64_t segment_bytes);

/// True if the copy can move from the device to host memory.
bool may_move(const TieredCopy &copy, const Place &place);

/// True if the device has all that it can have of the copy.
bool is_complete(const TieredCopy &copy);

Status out_of_host_memory();

class TieredPlacement
{
public:
	TieredPlacement(std::unique_ptr<Engine> device, std::unique_ptr<Engine> host, const TieredEngineOptions &options)
		: options_(options), device_(std::move(device)), host_(std::move(host))
	{
	}

	Engine &device() const { return *device_; }
	Engine &host() const { return *host_; }

	// Any thread.
	CopyId add(std::shared_ptr<TieredCopy> copy);
	std::shared_ptr<TieredCopy> find(CopyId id) const; // null: there is none
	std::shared_ptr<TieredCopy> take(CopyId id);       // find, and remove it from the list
	std::vector<std::shared_ptr<TieredCopy>> by_last_use(bool latest_first) const;
	size_t n_copies() const;
	bool host_has_room(uint64_t bytes) const;
	uint64_t host_bytes() const { return host_bytes_.load(std::memory_order_relaxed); } // charged to all copies
	void say(const std::string &line) const;

	// The caller holds the copy's write mutex.

	/// Call this after each change of the copy.
	void count_bytes(TieredCopy *copy);

	/// Upload the device's part of a copy that stays in its place; idle copies give way.
	Status attach(TieredCopy *copy);

	/// Move any other copy to the device; idle copies give way. If only codes find room, rows stay in host memory.
	Status come_back(TieredCopy *copy);

	/// Move rows of a copy that is on the device to host memory, which the device reads. False if there are none, or no
	/// room for them.
	bool move_rows(TieredCopy *copy);

	/// Bring such rows back, as far as the device has room; no other copy gives way.
	Status bring_rows(TieredCopy *copy);

	Status move_to_host(TieredCopy *copy) { return move(copy, *host_, false, false); }

	/// The copy is dropped: release its share of the host's budget.
	void uncharge(TieredCopy *copy);

	/// Move the copy that has been idle longest from the device to the host, or drop the device's part of it. False if
	/// none may go. A copy in use never goes, so that two busy ones do not evict each other in turn.
	bool give_way(const TieredCopy *to);

private:
	bool detach(TieredCopy *copy);
	void charge_host(TieredCopy *copy);
	Status move(TieredCopy *copy, Engine &to, bool to_device, bool rows_on_host);

	const TieredEngineOptions options_;
	const std::unique_ptr<Engine> device_;
	const std::unique_ptr<Engine> host_;
	std::atomic<uint64_t> host_bytes_{0}; // charged to copies

	mutable std::mutex mutex_;                             // of the two below; never held during work on a copy
	std::map<CopyId, std::shared_ptr<TieredCopy>> copies_; // after the engines, which must outlive them
	CopyId next_copy_ = 1;
};

} // namespace vectorgpu::worker

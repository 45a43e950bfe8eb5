// The batcher's own threads: how a lane waits, gathers searches, and takes a batch or a task. See batcher.hpp.
#include <algorithm>
#include <chrono>
#include <utility>

#include "worker/batcher.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kGatherShare = 8; // of the time that the last batch took
constexpr uint64_t kLeastGatherNs = 50 * 1000;
constexpr size_t kLeastShare = 32;              // searches that are worth a device of their own
constexpr uint64_t kLeastMergedNs = 200 * 1000; // a shorter batch is over before its clients have come again
constexpr uint64_t kMostGatherNs = 5 * 1000 * 1000;

/// The time to wait for the clients of two batches. It pays as long as it is shorter than a batch, since each search of
/// two groups that take turns lasts as long as two.
uint64_t
merge_ns(uint64_t took_ns)
{
	return took_ns / 4 * 3;
}

} // namespace

/// Poll for the next search: it often comes within microseconds, which costs less than sleeping and being woken.
void
Batcher::spin(Lane *lane)
{
	lane->spinning.store(true, std::memory_order_relaxed);
	poll_for_change(0, clock_() + spin_ns_);
	lane->spinning.store(false, std::memory_order_relaxed);
}

/// Poll until another number of searches and tasks waits than n_seen, or the clock says until_ns.
void
Batcher::poll_for_change(uint32_t n_seen, uint64_t until_ns) const
{
	while (n_waiting_.load(std::memory_order_acquire) == n_seen && clock_() < until_ns)
	{
#if defined(__x86_64__)
		for (int i = 0; i < 16; i++)
			__builtin_ia32_pause();
#endif
	}
}

/// True if the lane may take what waits: no other one gathers it, and no task is to run alone. A helper leaves tasks to
/// the others, and takes no batch before them. The caller holds the lock.
bool
Batcher::may_work(const Lane *lane) const
{
	if (held_ || task_runs_)
		return false;
	if (lane->is_helper)
		return tasks_.empty() && queue_.has_small_batch();
	return !tasks_.empty() || (queue_.size() > 0 && (gatherer_ == nullptr || gatherer_ == lane));
}

/// Wait with the lock held. True: there is something to do. False: the thread must end.
bool
Batcher::wait_for_work(Lane *lane, std::unique_lock<std::mutex> *lock)
{
	if (spin_ns_ > 0 && !lane->is_helper && (n_main_ == 1 || latest_.load(std::memory_order_relaxed) == lane))
		spin(lane);
	lock->lock();
	while (!stopping_ && !may_work(lane))
	{
		lane->sleeping = true;
		lane->work_arrived.wait(*lock);
		lane->sleeping = false;
	}
	if (tasks_.empty() && !lane->is_helper)
		gather(lane, lock);
	return !stopping_;
}

/// Return true if the next batch should have the clients of the last one and the searches that waited meanwhile. Two
/// groups of clients that take turns would otherwise stay two, and each search would last as long as two batches.
bool
Batcher::should_merge(Lane *lane, uint64_t took_ns) const
{
	const bool cheap = took_ns < lane->least_ns + lane->least_ns / 2;

	if (std::exchange(lane->merged, false))
		wire::spin_gate_note(&lane->merging, cheap);
	return n_main_ == 1 && engine_.computes_elsewhere() && cheap && lane->last_size + lane->waited >= 2 &&
		took_ns >= kLeastMergedNs && wire::spin_gate_enter(&lane->merging);
}

/// Give the clients of the last batch a moment to send their next searches. Called with the lock held and something
/// waiting; the same holds on return, unless all waiting searches were cancelled.
void
Batcher::gather(Lane *lane, std::unique_lock<std::mutex> *lock)
{
	const uint64_t took_ns = std::exchange(lane->last_engine_ns, 0);
	const bool merge = should_merge(lane, took_ns);
	const size_t wanted = merge ? std::min(lane->last_size + lane->waited, max_batch_) : lane->last_size;
	const uint64_t most_ns = std::min(merge ? merge_ns(took_ns) : took_ns / kGatherShare, kMostGatherNs);

	if (gatherer_ == lane)
		gatherer_ = nullptr;
	if (wanted < 2 || most_ns < kLeastGatherNs || (n_main_ > 1 && queue_.at_last()))
		return;
	wait_for_searches(lane, lock, wanted, most_ns);
	lane->merged = merge && queue_.size() >= wanted;
	if (merge && !lane->merged)
		wire::spin_gate_note(&lane->merging, false);
}

void
Batcher::wait_for_searches(Lane *lane, std::unique_lock<std::mutex> *lock, size_t wanted, uint64_t most_ns)
{
	const uint64_t until = clock_() + most_ns;

	gatherer_ = lane;
	lane->wake_at = wanted;
	while (!stopping_ && tasks_.empty() && queue_.size() < wanted)
	{
		const uint64_t now = clock_();
		const uint32_t n_seen = n_waiting_.load(std::memory_order_relaxed);

		if (now >= until)
			break;
		if (spin_ns_ > 0 && engine_.computes_elsewhere())
		{
			lock->unlock();
			poll_for_change(n_seen, until);
			lock->lock();
			continue;
		}
		lane->sleeping = true;
		lane->work_arrived.wait_for(*lock, std::chrono::nanoseconds(until - now));
		lane->sleeping = false;
	}
	lane->wake_at = 1;
	gatherer_ = nullptr;
}

/// The most searches of the lane's next batch: a share of those that wait, if other lanes are free, or soon will be and
/// the clients send no more: else one of them would have the last batch, and the others nothing.
size_t
Batcher::most_of_batch(const Lane *lane) const
{
	const std::span<const std::unique_ptr<Lane>> all = main_lanes();
	const auto n_free = static_cast<size_t>(std::count_if(
		all.begin(), all.end(), [lane](const auto &other) { return other.get() != lane && other->sleeping; }));

	const size_t n_sharing = queue_.at_last() ? n_main_ : n_free + 1;

	return std::min(max_batch_, std::max(kLeastShare, (queue_.size() + n_sharing - 1) / n_sharing));
}

/// Take a task, or a batch into lane->running. False: everything was cancelled, or another lane has it. The caller
/// holds the lock.
bool
Batcher::take_work(Lane *lane, std::function<void()> *task)
{
	if (task_runs_)
		return false;
	if (!tasks_.empty() && !lane->is_helper)
	{
		*task = std::move(tasks_.front());
		tasks_.pop_front();
		n_waiting_.fetch_sub(1, std::memory_order_relaxed);
		task_runs_ = true;
		return true;
	}
	if (lane->is_helper)
		queue_.take_small_batch(max_batch_, &lane->running);
	else
		queue_.take_batch(most_of_batch(lane), &lane->running);
	if (lane->running.empty())
		return false;
	n_waiting_.fetch_sub(static_cast<uint32_t>(lane->running.size()), std::memory_order_relaxed);
	lane->call.control.stop.store(false, std::memory_order_relaxed);
	stop_if_unwanted(lane);
	return true;
}

/// Wait for the batches that run, then run the task. No lane takes a batch meanwhile.
void
Batcher::run_task(Lane *lane, const std::function<void()> &task)
{
	{
		const std::lock_guard alone(between_);

		for (const std::unique_ptr<Lane> &each : lanes_)
			each->delivery.wait_until_done();
		lane->n_calls.fetch_add(1, std::memory_order_relaxed);
		lane->busy.store(true, std::memory_order_release); // not before: the batches show their progress themselves
		task();
		lane->busy.store(false, std::memory_order_release);
	}

	const std::lock_guard lock(mutex_);

	task_runs_ = false;
	wake_helpers();
	if (Lane *other = next_sleeper(); other != nullptr)
		other->work_arrived.notify_one();
}

void
Batcher::run(Lane *lane)
{
	std::unique_lock lock(mutex_, std::defer_lock);

	while (wait_for_work(lane, &lock))
	{
		std::function<void()> task;
		const bool taken = take_work(lane, &task);
		Lane *other = taken && !task ? next_sleeper() : nullptr; // there may be more than one batch

		lock.unlock();
		if (other != nullptr)
			other->work_arrived.notify_one();
		if (!taken)
			continue;
		if (task)
		{
			run_task(lane, task);
			continue;
		}
		lane->n_calls.fetch_add(1, std::memory_order_relaxed);
		lane->busy.store(true, std::memory_order_release);
		search_batch(lane);
		lane->busy.store(false, std::memory_order_release);
	}
}

/// Note what the next batch of the lane depends on. From here on the searches of this one are not running.
void
Batcher::end_batch(Lane *lane, const BatchInfo &info)
{
	last_end_ns_.store(info.ended_ns, std::memory_order_relaxed);
	lane->last_engine_ns = info.engine_ns;
	lane->last_size = lane->running.size();
	lane->least_ns =
		lane->least_ns == 0 ? info.engine_ns : std::min(info.engine_ns, lane->least_ns + lane->least_ns / 64);

	const std::lock_guard lock(mutex_);

	lane->waited = queue_.size();
	lane->finished.swap(lane->running);
	lane->running.clear();
	if (lane->is_helper)
		return;
	lane->n_ended = ++n_ended_;
	latest_.store(lane, std::memory_order_relaxed);
	// The first of its clients come back before the last of them are answered. With a batch waiting there is no need.
	if (n_main_ > 1 && gatherer_ == nullptr && lane->last_size >= 2 && lane->waited < lane->last_size &&
		info.engine_ns / kGatherShare >= kLeastGatherNs)
		gatherer_ = lane;
}

} // namespace vectorgpu::worker

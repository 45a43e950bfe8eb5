// See batcher.hpp.
#include "worker/batcher.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "worker/fault.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kGatherShare = 8; // of the time that the last batch took
constexpr uint64_t kLeastGatherNs = 50 * 1000;
constexpr uint64_t kMostGatherNs = 5 * 1000 * 1000;

} // namespace

Batcher::Batcher(engine::Engine &engine, size_t max_batch, uint32_t spin_us, Clock clock, Done done)
	: engine_(engine), max_batch_(max_batch), spin_ns_(static_cast<uint64_t>(spin_us) * 1000), clock_(clock),
	  done_(std::move(done))
{
	running_.reserve(max_batch);
	finished_.reserve(max_batch);
	queries_.reserve(max_batch);
}

Batcher::~Batcher()
{
	stop();
}

void
Batcher::start()
{
	thread_ = std::thread([this] { run(); });
}

void
Batcher::stop()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
		control_.stop.store(true, std::memory_order_relaxed);
		work_arrived_.notify_one();
	}
	if (thread_.joinable())
		thread_.join();
}

void
Batcher::submit(Search *search)
{
	const std::lock_guard lock(mutex_);

	queue_.push(search);
	n_waiting_.fetch_add(1, std::memory_order_release);
}

void
Batcher::wake()
{
	if (n_waiting_.load(std::memory_order_acquire) == 0)
		return;
	{
		const std::lock_guard lock(mutex_);

		if (queue_.size() + tasks_.size() < wake_at_ || !std::exchange(sleeping_, false))
			return;
	}
	work_arrived_.notify_one();
}

bool
Batcher::cancel(Search *search)
{
	const std::lock_guard lock(mutex_);

	search->cancelled.store(true, std::memory_order_relaxed);
	if (queue_.remove(search))
	{
		n_waiting_.fetch_sub(1, std::memory_order_relaxed);
		return true;
	}
	stop_if_unwanted();
	return false;
}

/// Tells the engine to stop if every search that it works on was given up. Caller holds the lock.
void
Batcher::stop_if_unwanted()
{
	if (!running_.empty() && std::all_of(running_.begin(), running_.end(),
								 [](const Search *search) { return search->cancelled.load(std::memory_order_relaxed); }))
		control_.stop.store(true, std::memory_order_relaxed);
}

void
Batcher::run_between(std::function<void()> task)
{
	const std::lock_guard lock(mutex_);

	tasks_.push_back(std::move(task));
	n_waiting_.fetch_add(1, std::memory_order_release);
	work_arrived_.notify_one();
}

bool
Batcher::progressing()
{
	const bool busy = engine_busy_.load(std::memory_order_acquire);
	const uint64_t calls = n_calls_.load(std::memory_order_relaxed);
	const uint64_t progress = control_.progress.load(std::memory_order_relaxed);
	const bool moved = calls != seen_calls_ || progress != seen_progress_;

	seen_calls_ = calls;
	seen_progress_ = progress;
	return !busy || moved;
}

void
Batcher::hold(bool on)
{
	const std::lock_guard lock(mutex_);

	held_ = on;
	work_arrived_.notify_one();
}

size_t
Batcher::n_queued()
{
	const std::lock_guard lock(mutex_);

	return queue_.size();
}

/// The next search often comes within microseconds: looking for it costs less than sleeping and being woken.
void
Batcher::spin()
{
	const uint64_t until = clock_() + spin_ns_;

	while (n_waiting_.load(std::memory_order_acquire) == 0 && clock_() < until)
	{
#if defined(__x86_64__)
		for (int i = 0; i < 16; i++)
			__builtin_ia32_pause();
#endif
	}
}

/// Returns with the lock held and something to do, or false to end.
bool
Batcher::wait_for_work(std::unique_lock<std::mutex> *lock)
{
	if (spin_ns_ > 0)
		spin();
	lock->lock();
	while (!stopping_ && (held_ || (queue_.size() == 0 && tasks_.empty())))
	{
		sleeping_ = true;
		work_arrived_.wait(*lock);
		sleeping_ = false;
	}
	if (tasks_.empty())
		gather(lock);
	return !stopping_;
}

/// Gives the clients of the last batch a moment to send what they want next. Called with the lock held and something that
/// waits; so it is afterwards, unless all of it was cancelled.
void
Batcher::gather(std::unique_lock<std::mutex> *lock)
{
	const uint64_t most_ns = std::min(std::exchange(last_engine_ns_, 0) / kGatherShare, kMostGatherNs);

	if (last_size_ < 2 || most_ns < kLeastGatherNs)
		return;

	const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(most_ns);

	wake_at_ = last_size_;
	while (!stopping_ && tasks_.empty() && queue_.size() < last_size_)
	{
		sleeping_ = true;

		const bool late = work_arrived_.wait_until(*lock, until) == std::cv_status::timeout;

		sleeping_ = false;
		if (late)
			break;
	}
	wake_at_ = 1;
}

void
Batcher::run()
{
	std::unique_lock lock(mutex_, std::defer_lock);

	while (wait_for_work(&lock))
	{
		std::function<void()> task;

		if (!tasks_.empty())
		{
			task = std::move(tasks_.front());
			tasks_.pop_front();
			n_waiting_.fetch_sub(1, std::memory_order_relaxed);
		}
		else
		{
			if (queue_.size() == 0) // cancelled meanwhile
			{
				lock.unlock();
				continue;
			}
			queue_.take_batch(max_batch_, &running_);
			n_waiting_.fetch_sub(static_cast<uint32_t>(running_.size()), std::memory_order_relaxed);
			control_.stop.store(false, std::memory_order_relaxed);
			stop_if_unwanted();
		}
		lock.unlock();

		n_calls_.fetch_add(1, std::memory_order_relaxed);
		engine_busy_.store(true, std::memory_order_release);
		if (task)
			task();
		else
			search_batch();
		engine_busy_.store(false, std::memory_order_release);
	}
}

void
Batcher::search_batch()
{
	BatchInfo info;
	Status status;

	try
	{
		const uint64_t rescored_before = engine_.stats().n_rescored;
		const uint64_t started_ns = clock_();

		queries_.clear();
		for (const Search *search : running_)
			queries_.push_back(search->query);
		results_.clear();
		if (WORKER_FAULT("search") == Fault::kError)
			status = Status::error(StatusCode::kInternal, "fault");
		else
			status = engine_.search(running_.front()->copy_id, queries_, &results_, &control_);
		if (status.is_ok() && results_.size() != running_.size())
			status = Status::error(StatusCode::kInternal, "the engine gave another number of answers");
		info.engine_ns = clock_() - started_ns;
		info.n_rescored = engine_.stats().n_rescored - rescored_before;
	}
	catch (const std::bad_alloc &)
	{
		status.code = StatusCode::kOutOfMemory;
	}
	catch (const std::exception &)
	{
		status.code = StatusCode::kInternal;
	}
	info.size = static_cast<uint32_t>(running_.size());
	last_engine_ns_ = info.engine_ns;
	last_size_ = running_.size();
	n_batches_.fetch_add(1, std::memory_order_relaxed);

	size_t n = 0;

	{
		// From here on nobody looks for these searches in running_: each is given to `done_`, which may free it.
		const std::lock_guard lock(mutex_);

		n = running_.size();
		finished_.swap(running_);
		running_.clear();
	}
	for (size_t i = 0; i < n; i++)
	{
		std::vector<engine::Neighbor> none;

		done_(finished_[i], status, status.is_ok() ? std::move(results_[i]) : std::move(none), info);
	}
	finished_.clear();
}

} // namespace vectorgpu::worker

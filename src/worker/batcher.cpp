// See batcher.hpp. Here: what other threads call. batcher_lanes.cpp: its own threads; batcher_search.cpp: batches.
#include "worker/batcher.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace vectorgpu::worker
{

Batcher::Batcher(engine::Engine &engine, size_t max_batch, uint32_t spin_us, Clock clock, Done done)
	: engine_(engine), max_batch_(max_batch), spin_ns_(static_cast<uint64_t>(spin_us) * 1000), clock_(clock),
	  done_(std::move(done)), n_main_(std::clamp<size_t>(engine.n_batches_at_once(), 1, kMostDevices))
{
	for (size_t i = 0; i < n_main_; i++)
		lanes_.push_back(make_lane(false));
}

Batcher::~Batcher()
{
	stop();
}

std::unique_ptr<Lane>
Batcher::make_lane(bool helper) const
{
	return std::make_unique<Lane>(helper, done_, clock_, spin_ns_, max_batch_);
}

void
Batcher::start()
{
	// A device searches two small copies side by side in little more time than one. On the cores a helper's searches
	// use the engine's pool as well: one for two threads is enough.
	const size_t n_helpers = engine_.computes_elsewhere() ? n_main_ : std::min(engine_.n_threads() / 2, kMostHelpers);

	for (size_t i = 0; i < n_helpers; i++)
		lanes_.push_back(make_lane(true));
	for (const std::unique_ptr<Lane> &lane : lanes_)
	{
		try
		{
			lane->thread = std::thread([this, own = lane.get()] { run(own); });
		}
		catch (const std::system_error &)
		{
			if (!lane->is_helper)
				throw;
			break; // the system grants no more threads: fewer helpers do the same work
		}
		if (engine_.computes_elsewhere())
			lane->delivery.start(max_batch_);
	}
}

void
Batcher::stop()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
		for (const std::unique_ptr<Lane> &lane : lanes_)
		{
			lane->call.control.stop.store(true, std::memory_order_relaxed);
			lane->work_arrived.notify_one();
		}
	}
	for (const std::unique_ptr<Lane> &lane : lanes_)
	{
		if (lane->thread.joinable())
			lane->thread.join();
		lane->delivery.stop();
	}
}

void
Batcher::submit(Search *search)
{
	const std::lock_guard lock(mutex_);

	queue_.push(search);
	n_waiting_.fetch_add(1, std::memory_order_release);
}

/// The sleeping lane that waiting work is for; it counts as awake from now on. Of several it is that of the
/// latest batch, whose clients come back now, so that it can gather them. Null: none. The caller holds the lock.
Lane *
Batcher::next_sleeper()
{
	Lane *found = nullptr;

	for (const std::unique_ptr<Lane> &lane : main_lanes())
	{
		// It takes the lock before it sleeps. If another one gathers, it takes nothing, and the other one may sleep.
		if (lane->spinning.load(std::memory_order_relaxed) && may_work(lane.get()))
			return nullptr;
		if (lane->sleeping && queue_.size() + tasks_.size() >= lane->wake_at && may_work(lane.get()) &&
			(found == nullptr || lane->n_ended > found->n_ended))
			found = lane.get();
	}
	if (found != nullptr)
		found->sleeping = false;
	return found;
}

/// The caller holds the lock.
void
Batcher::wake_helpers()
{
	if (lanes_.size() == n_main_ || !queue_.has_small_batch())
		return;
	for (const std::unique_ptr<Lane> &lane : lanes_)
		if (lane->is_helper)
			lane->work_arrived.notify_one();
}

void
Batcher::wake()
{
	Lane *sleeper = nullptr;

	if (n_waiting_.load(std::memory_order_acquire) == 0)
		return;
	{
		const std::lock_guard lock(mutex_);

		wake_helpers();
		sleeper = next_sleeper();
	}
	if (sleeper != nullptr)
		sleeper->work_arrived.notify_one();
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
	for (const std::unique_ptr<Lane> &lane : lanes_)
		stop_if_unwanted(lane.get());
	return false;
}

/// Tell the engine to stop if every search of the running batch was cancelled. The caller holds the lock.
void
Batcher::stop_if_unwanted(Lane *lane)
{
	if (!lane->running.empty() &&
		std::all_of(lane->running.begin(), lane->running.end(),
			[](const Search *search) { return search->cancelled.load(std::memory_order_relaxed); }))
		lane->call.control.stop.store(true, std::memory_order_relaxed);
}

void
Batcher::run_between(std::function<void()> task)
{
	const std::lock_guard lock(mutex_);

	tasks_.push_back(std::move(task));
	n_waiting_.fetch_add(1, std::memory_order_release);
	for (const std::unique_ptr<Lane> &lane : main_lanes()) // also one that gathers
		lane->work_arrived.notify_one();
}

bool
Batcher::progressing(Seen *seen) const
{
	bool all_move = true;

	for (size_t i = 0; i < lanes_.size(); i++)
	{
		const Lane &lane = *lanes_[i];
		Seen::Of &of = seen->lanes[i];
		const bool busy = lane.busy.load(std::memory_order_acquire);
		const uint64_t calls = lane.n_calls.load(std::memory_order_relaxed);
		const uint64_t progress = lane.call.control.progress.load(std::memory_order_relaxed);

		all_move = all_move && (!busy || calls != of.calls || progress != of.progress);
		of = {calls, progress};
	}
	return all_move;
}

bool
Batcher::answers_since(uint64_t time_ns) const
{
	return engine_.computes_elsewhere() &&
		(std::any_of(lanes_.begin(), lanes_.end(),
			 [](const auto &lane) { return lane->busy.load(std::memory_order_relaxed); }) ||
			last_end_ns_.load(std::memory_order_relaxed) >= time_ns);
}

void
Batcher::hold(bool on)
{
	const std::lock_guard lock(mutex_);

	held_ = on;
	for (const std::unique_ptr<Lane> &lane : lanes_)
		lane->work_arrived.notify_one();
}

bool
Batcher::gathering()
{
	const std::lock_guard lock(mutex_);

	return gatherer_ != nullptr;
}

size_t
Batcher::n_queued()
{
	const std::lock_guard lock(mutex_);

	return queue_.size();
}

void
Batcher::submit(Round *round)
{
	bool submitted = false;

	while (!round->searches.empty())
	{
		const Search *first = round->searches.front();
		size_t n_left = 0;

		round->batch.clear();
		for (Search *search : round->searches)
		{
			if (search->queue == first->queue && Queue::compatible(search->query.k, first->query.k))
				round->batch.push_back(search);
			else
				round->searches[n_left++] = search;
		}
		round->searches.resize(n_left);
		if (run_at_once(round))
			continue;
		for (Search *search : round->batch)
			submit(search);
		submitted = true;
	}
	if (submitted)
		wake();
}

} // namespace vectorgpu::worker

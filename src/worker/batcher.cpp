// See batcher.hpp.
#include "worker/batcher.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "worker/worker_fault.hpp"

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

Batcher::Batcher(engine::Engine &engine, size_t max_batch, uint32_t spin_us, Clock clock, Done done)
	: engine_(engine), max_batch_(max_batch), spin_ns_(static_cast<uint64_t>(spin_us) * 1000), clock_(clock),
	  done_(std::move(done))
{
	const size_t n_lanes = std::clamp<size_t>(engine.n_batches_at_once(), 1, kMostDevices);

	for (size_t i = 0; i < n_lanes; i++)
		lanes_.push_back(std::make_unique<Lane>(done_, clock_, spin_ns_, max_batch));
}

Batcher::~Batcher()
{
	stop();
}

void
Batcher::start()
{
	for (const std::unique_ptr<Lane> &lane : lanes_)
	{
		lane->thread = std::thread([this, own = lane.get()] { run(own); });
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
			lane->control.stop.store(true, std::memory_order_relaxed);
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

/// The sleeping lane that the work that waits is for; it counts as awake from now on. Of several it is that of the
/// latest batch, whose clients come back now, so that it can gather them. Null: none. The caller holds the lock.
Batcher::Lane *
Batcher::next_sleeper()
{
	Lane *found = nullptr;

	for (const std::unique_ptr<Lane> &lane : lanes_)
	{
		if (lane->spinning.load(std::memory_order_relaxed)) // it takes the lock before it sleeps
			return nullptr;
		if (lane->sleeping && queue_.size() + tasks_.size() >= lane->wake_at && may_work(lane.get()) &&
			(found == nullptr || lane->n_ended > found->n_ended))
			found = lane.get();
	}
	if (found != nullptr)
		found->sleeping = false;
	return found;
}

void
Batcher::wake()
{
	Lane *sleeper = nullptr;

	if (n_waiting_.load(std::memory_order_acquire) == 0)
		return;
	{
		const std::lock_guard lock(mutex_);

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
		lane->control.stop.store(true, std::memory_order_relaxed);
}

void
Batcher::run_between(std::function<void()> task)
{
	const std::lock_guard lock(mutex_);

	tasks_.push_back(std::move(task));
	n_waiting_.fetch_add(1, std::memory_order_release);
	for (const std::unique_ptr<Lane> &lane : lanes_) // also one that gathers
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
		const uint64_t progress = lane.control.progress.load(std::memory_order_relaxed);

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

/// True if the lane may take what waits: no other one gathers it, and no task is to run alone. The caller holds the
/// lock.
bool
Batcher::may_work(const Lane *lane) const
{
	if (held_ || task_runs_)
		return false;
	return !tasks_.empty() || (queue_.size() > 0 && (gatherer_ == nullptr || gatherer_ == lane));
}

/// Wait with the lock held. True: there is something to do. False: the thread must end.
bool
Batcher::wait_for_work(Lane *lane, std::unique_lock<std::mutex> *lock)
{
	if (spin_ns_ > 0 && (lanes_.size() == 1 || latest_.load(std::memory_order_relaxed) == lane))
		spin(lane);
	lock->lock();
	while (!stopping_ && !may_work(lane))
	{
		lane->sleeping = true;
		lane->work_arrived.wait(*lock);
		lane->sleeping = false;
	}
	if (tasks_.empty())
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
	return lanes_.size() == 1 && engine_.computes_elsewhere() && cheap && lane->last_size + lane->waited >= 2 &&
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
	if (wanted < 2 || most_ns < kLeastGatherNs)
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

/// The most searches of the lane's next batch: a share of those that wait, if other lanes are free.
size_t
Batcher::most_of_batch(const Lane *lane) const
{
	const auto n_free = static_cast<size_t>(std::count_if(
		lanes_.begin(), lanes_.end(), [lane](const auto &other) { return other.get() != lane && other->sleeping; }));

	return std::min(max_batch_, std::max(kLeastShare, (queue_.size() + n_free) / (n_free + 1)));
}

/// Take a task, or a batch into lane->running. False: everything was cancelled, or another lane has it. The caller
/// holds the lock.
bool
Batcher::take_work(Lane *lane, std::function<void()> *task)
{
	if (task_runs_)
		return false;
	if (!tasks_.empty())
	{
		*task = std::move(tasks_.front());
		tasks_.pop_front();
		n_waiting_.fetch_sub(1, std::memory_order_relaxed);
		task_runs_ = true;
		return true;
	}
	if (queue_.size() == 0)
		return false;
	queue_.take_batch(most_of_batch(lane), &lane->running);
	n_waiting_.fetch_sub(static_cast<uint32_t>(lane->running.size()), std::memory_order_relaxed);
	lane->control.stop.store(false, std::memory_order_relaxed);
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

/// Run searches of one copy in the engine.
Status
Batcher::search(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
	std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control, BatchInfo *info)
{
	Status status;

	info->size = static_cast<uint32_t>(searches.size());
	n_batches_.fetch_add(1, std::memory_order_relaxed);
	try
	{
		const uint64_t started_ns = clock_();

		queries->clear();
		for (Search *search : searches)
		{
			// No manifest is published from here to the answer, so the engine searches the segments that this names.
			if (search->manifest != nullptr)
				search->outdated = search->manifest->load(std::memory_order_acquire) != search->wanted_manifest;
			if (search->outdated)
				search->passing = std::make_shared<const engine::Passing>();
			else if (search->keys != nullptr)
				search->passing = search->keys->passing(search->program, &search->filter_found);
			search->query.passing = search->passing.get();
			queries->push_back(search->query);
		}
		if (WORKER_FAULT("search") == Fault::kError)
			status = Status::error(StatusCode::kInternal, "fault");
		else
			status = engine_.search(searches.front()->copy_id, *queries, results, control);
		if (status.is_ok() && results->size() != searches.size())
			status = Status::error(StatusCode::kInternal, "the engine gave another number of answers");
		info->ended_ns = clock_();
		info->engine_ns = info->ended_ns - started_ns;
	}
	catch (const std::bad_alloc &)
	{
		status.code = StatusCode::kOutOfMemory;
	}
	catch (const std::exception &)
	{
		status.code = StatusCode::kInternal;
	}
	return status;
}

void
Batcher::search_batch(Lane *lane)
{
	// Until the answers are written, or the delivery has them.
	const std::shared_lock shared(between_);
	BatchInfo info;
	const uint64_t rescored_before = engine_.n_rescored();
	const Status status = search(lane->running, &lane->queries, &lane->results, &lane->control, &info);
	if (const uint64_t rescored = engine_.n_rescored(); rescored > rescored_before)
		info.n_rescored = rescored - rescored_before; // with several lanes also those of other batches
	last_end_ns_.store(info.ended_ns, std::memory_order_relaxed);
	lane->last_engine_ns = info.engine_ns;
	lane->last_size = lane->running.size();
	lane->least_ns =
		lane->least_ns == 0 ? info.engine_ns : std::min(info.engine_ns, lane->least_ns + lane->least_ns / 64);
	{
		// From here on these searches are not running: `done_` receives them and may free them.
		const std::lock_guard lock(mutex_);

		lane->waited = queue_.size();
		lane->n_ended = ++n_ended_;
		latest_.store(lane, std::memory_order_relaxed);
		// The first of its clients come back before the last of them are answered.
		if (lanes_.size() > 1 && gatherer_ == nullptr && lane->last_size >= 2 &&
			info.engine_ns / kGatherShare >= kLeastGatherNs)
			gatherer_ = lane;
		lane->finished.swap(lane->running);
		lane->running.clear();
	}
	if (status.code == StatusCode::kInvalidArgument && lane->finished.size() > 1)
	{
		answer_alone(lane->finished, &lane->queries, &lane->results, &lane->control);
		lane->finished.clear();
		return;
	}
	if (n_waiting_.load(std::memory_order_relaxed) > 0 &&
		lane->delivery.take(&lane->finished, &lane->results, status, info))
		return;
	done_(lane->finished, status, &lane->results, info);
	lane->finished.clear();
}

/// Run each search of a refused batch by itself, so that one which names rows that there are not is refused alone.
void
Batcher::answer_alone(std::span<Search *const> searches, std::vector<engine::SearchQuery> *queries,
	std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control)
{
	for (size_t i = 0; i < searches.size(); i++)
	{
		BatchInfo info;
		const Status status = search(searches.subspan(i, 1), queries, results, control, &info);

		done_(searches.subspan(i, 1), status, results, info);
	}
}

/// Run round->batch on the calling thread if the engine answers it at once and no task that excludes searches runs.
bool
Batcher::run_at_once(Round *round)
{
	if (!engine_.answers_at_once(round->batch.front()->copy_id, round->batch.size()))
		return false;

	const std::shared_lock lock(between_, std::try_to_lock);
	BatchInfo info;

	if (!lock.owns_lock())
		return false;

	const Status status = search(round->batch, &round->queries, &round->results, &round->control, &info);

	if (status.code == StatusCode::kInvalidArgument && round->batch.size() > 1)
		answer_alone(round->batch, &round->queries, &round->results, &round->control);
	else
		done_(round->batch, status, &round->results, info);
	return true;
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

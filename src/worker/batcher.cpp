// See batcher.hpp.
#include "worker/batcher.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "worker/worker_fault.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kMostHelpers = 16;
constexpr uint64_t kGatherShare = 8; // of the time that the last batch took
constexpr uint64_t kLeastGatherNs = 50 * 1000;
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
	  done_(std::move(done)), delivery_(done_, clock_, spin_ns_)
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
	if (engine_.computes_elsewhere())
		delivery_.start(max_batch_);
	else
		start_helpers();
}

/// A helper's searches use the engine's pool as well: one for two threads is enough.
void
Batcher::start_helpers()
{
	const size_t n_helpers = std::min(engine_.n_threads() / 2, kMostHelpers);

	try
	{
		for (size_t i = 0; i < n_helpers; i++)
			helpers_.emplace_back([this] { help(); });
	}
	catch (const std::system_error &)
	{
		// The system grants no more threads: fewer helpers do the same work.
	}
}

void
Batcher::stop()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
		control_.stop.store(true, std::memory_order_relaxed);
		work_arrived_.notify_one();
		small_arrived_.notify_all();
	}
	if (thread_.joinable())
		thread_.join();
	for (std::thread &helper : helpers_)
		helper.join();
	helpers_.clear();
	delivery_.stop();
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

		if (!helpers_.empty() && queue_.has_small_batch())
			small_arrived_.notify_all();
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

/// Tell the engine to stop if every search of the running batch was cancelled. The caller holds the lock.
void
Batcher::stop_if_unwanted()
{
	if (!running_.empty() &&
		std::all_of(running_.begin(), running_.end(),
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
Batcher::progressing(Seen *seen) const
{
	const bool busy = engine_busy_.load(std::memory_order_acquire);
	const uint64_t calls = n_calls_.load(std::memory_order_relaxed);
	const uint64_t progress = control_.progress.load(std::memory_order_relaxed);
	const bool moved = calls != seen->calls || progress != seen->progress;

	*seen = {calls, progress};
	return !busy || moved;
}

bool
Batcher::answers_since(uint64_t time_ns) const
{
	return engine_.computes_elsewhere() &&
		(engine_busy_.load(std::memory_order_relaxed) || last_end_ns_.load(std::memory_order_relaxed) >= time_ns);
}

void
Batcher::hold(bool on)
{
	const std::lock_guard lock(mutex_);

	held_ = on;
	work_arrived_.notify_one();
	small_arrived_.notify_all();
}

bool
Batcher::gathering()
{
	const std::lock_guard lock(mutex_);

	return gathering_;
}

size_t
Batcher::n_queued()
{
	const std::lock_guard lock(mutex_);

	return queue_.size();
}

/// Poll for the next search: it often comes within microseconds, which costs less than sleeping and being woken.
void
Batcher::spin()
{
	poll_for_change(0, clock_() + spin_ns_);
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

/// Wait with the lock held. True: there is something to do. False: the thread must end.
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

/// Return true if the next batch should have the clients of the last one and the searches that waited meanwhile. Two
/// groups of clients that take turns would otherwise stay two, and each search would last as long as two batches.
bool
Batcher::should_merge(uint64_t took_ns)
{
	const bool cheap = took_ns < least_ns_ + least_ns_ / 2;

	if (std::exchange(merged_, false))
		wire::spin_gate_note(&merging_, cheap);
	return engine_.computes_elsewhere() && cheap && last_size_ + waited_ >= 2 && took_ns >= kLeastMergedNs &&
		wire::spin_gate_enter(&merging_);
}

/// Give the clients of the last batch a moment to send their next searches. Called with the lock held and something
/// waiting; the same holds on return, unless all waiting searches were cancelled.
void
Batcher::gather(std::unique_lock<std::mutex> *lock)
{
	const uint64_t took_ns = std::exchange(last_engine_ns_, 0);
	const bool merge = should_merge(took_ns);
	const size_t wanted = merge ? std::min(last_size_ + waited_, max_batch_) : last_size_;
	const uint64_t most_ns = std::min(merge ? merge_ns(took_ns) : took_ns / kGatherShare, kMostGatherNs);

	if (wanted < 2 || most_ns < kLeastGatherNs)
		return;
	wait_for_searches(lock, wanted, most_ns);
	merged_ = merge && queue_.size() >= wanted;
	if (merge && !merged_)
		wire::spin_gate_note(&merging_, false);
}

void
Batcher::wait_for_searches(std::unique_lock<std::mutex> *lock, size_t wanted, uint64_t most_ns)
{
	const uint64_t until = clock_() + most_ns;

	gathering_ = true;
	wake_at_ = wanted;
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
		sleeping_ = true;
		work_arrived_.wait_for(*lock, std::chrono::nanoseconds(until - now));
		sleeping_ = false;
	}
	wake_at_ = 1;
	gathering_ = false;
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
			task_waits_ = true;
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
		{
			delivery_.wait_until_done();

			{
				const std::lock_guard alone(between_);

				task();
			}
			lock.lock();
			task_waits_ = false;
			small_arrived_.notify_all();
			lock.unlock();
		}
		else
			search_batch();
		engine_busy_.store(false, std::memory_order_release);
	}
}

/// A helper's thread: batches of small copies, as a dispatcher runs those that are answered at once.
void
Batcher::help()
{
	std::unique_lock lock(mutex_);
	std::vector<Search *> batch;
	std::vector<engine::SearchQuery> queries;
	std::vector<std::vector<engine::Neighbor>> results;
	engine::SearchControl control;

	batch.reserve(max_batch_);
	queries.reserve(max_batch_);
	for (;;)
	{
		BatchInfo info;

		small_arrived_.wait(lock,
			[this] { return stopping_ || (!held_ && !task_waits_ && tasks_.empty() && queue_.has_small_batch()); });
		if (stopping_)
			return;
		queue_.take_small_batch(max_batch_, &batch);
		n_waiting_.fetch_sub(static_cast<uint32_t>(batch.size()), std::memory_order_relaxed);

		std::shared_lock beside(between_); // free: who has it alone has set task_waits_

		lock.unlock();

		const Status status = search(batch, &queries, &results, &control, &info);

		if (status.code == StatusCode::kInvalidArgument && batch.size() > 1)
			answer_alone(batch, &queries, &results, &control);
		else
			done_(batch, status, &results, info);
		beside.unlock();
		lock.lock();
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
Batcher::search_batch()
{
	BatchInfo info;
	const uint64_t rescored_before = engine_.n_rescored();
	const Status status = search(running_, &queries_, &results_, &control_, &info);

	info.n_rescored = engine_.n_rescored() - rescored_before;
	last_end_ns_.store(info.ended_ns, std::memory_order_relaxed);
	last_engine_ns_ = info.engine_ns;
	last_size_ = running_.size();
	least_ns_ = least_ns_ == 0 ? info.engine_ns : std::min(info.engine_ns, least_ns_ + least_ns_ / 64);
	{
		// From here on these searches are not in running_: `done_` receives them and may free them.
		const std::lock_guard lock(mutex_);

		waited_ = queue_.size();
		finished_.swap(running_);
		running_.clear();
	}
	if (status.code == StatusCode::kInvalidArgument && finished_.size() > 1)
	{
		answer_alone(finished_, &queries_, &results_, &control_);
		finished_.clear();
		return;
	}
	if (n_waiting_.load(std::memory_order_relaxed) > 0 && delivery_.take(&finished_, &results_, status, info))
		return;
	done_(finished_, status, &results_, info);
	finished_.clear();
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

// See delivery.hpp.
#include "worker/delivery.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kLeastTaken = 4; // below, writing the answers takes less time than waking another thread

} // namespace

Delivery::Delivery(const Done &done, Clock clock, uint64_t spin_ns) : done_(done), clock_(clock), spin_ns_(spin_ns) {}

Delivery::~Delivery()
{
	stop();
}

void
Delivery::start(size_t max_batch)
{
	searches_.reserve(max_batch);
	thread_ = std::thread([this] { run(); });
}

void
Delivery::stop()
{
	{
		const std::lock_guard lock(mutex_);

		ends_ = true;
	}
	changed_.notify_all();
	if (thread_.joinable())
		thread_.join();
}

bool
Delivery::take(std::vector<Search *> *searches, std::vector<std::vector<engine::Neighbor>> *results,
	const Status &status, const BatchInfo &info)
{
	if (!thread_.joinable() || searches->size() < kLeastTaken || waits_.load(std::memory_order_acquire))
		return false;
	searches_.swap(*searches);
	results_.swap(*results);
	status_ = status;
	info_ = info;
	{
		const std::lock_guard lock(mutex_);

		waits_.store(true, std::memory_order_release);
	}
	changed_.notify_all();
	return true;
}

void
Delivery::wait_until_done()
{
	if (!waits_.load(std::memory_order_acquire))
		return;

	std::unique_lock lock(mutex_);

	changed_.wait(lock, [this] { return !waits_.load(std::memory_order_relaxed); });
}

/// The delivering thread. It ends when it is told to and no batch waits.
void
Delivery::run()
{
	for (;;)
	{
		const uint64_t until = clock_() + spin_ns_;

		while (!waits_.load(std::memory_order_acquire) && clock_() < until)
		{
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
		}
		{
			std::unique_lock lock(mutex_);

			changed_.wait(lock, [this] { return ends_ || waits_.load(std::memory_order_relaxed); });
			if (!waits_.load(std::memory_order_relaxed))
				return;
		}
		done_(searches_, status_, &results_, info_);
		searches_.clear();
		{
			const std::lock_guard lock(mutex_);

			waits_.store(false, std::memory_order_release);
		}
		changed_.notify_all();
	}
}

} // namespace vectorgpu::worker

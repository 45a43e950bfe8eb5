// See host_team.hpp.
#include "cuda/device/host_team.hpp"

#include <system_error>

#include "common/cores.hpp"

namespace vectorgpu::cuda
{

HostTeam &
HostTeam::get()
{
	static HostTeam team;

	return team;
}

HostTeam::HostTeam()
{
	const unsigned n_cores = count_cores();

	try
	{
		// Half of the cores are left to the clients.
		for (unsigned i = 1; i < n_cores / 2 && i <= kMostThreads; i++)
			threads_.emplace_back([this] { serve(); });
	}
	catch (const std::system_error &)
	{
		// fewer threads do
	}
}

HostTeam::~HostTeam()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
	}
	begin_.notify_all();
	for (std::thread &thread : threads_)
		thread.join();
}

void
HostTeam::share_out(size_t n, size_t piece, const std::function<void(size_t, size_t)> &part)
{
	const std::unique_lock alone(one_at_a_time_, std::try_to_lock);

	if (!alone.owns_lock())
	{
		part(0, n);
		return;
	}
	{
		const std::lock_guard lock(mutex_);

		part_ = &part;
		n_ = n;
		piece_ = piece;
		next_.store(0, std::memory_order_relaxed);
		thrown_ = nullptr;
		call_++;
	}
	begin_.notify_all();
	work(part);

	std::unique_lock lock(mutex_);

	part_ = nullptr; // for a thread that wakes up late
	end_.wait(lock, [this] { return n_busy_ == 0; });
	if (thrown_ != nullptr)
		std::rethrow_exception(thrown_);
}

/// Take pieces until none is left.
void
HostTeam::work(const std::function<void(size_t, size_t)> &part)
{
	try
	{
		for (size_t first = next_.fetch_add(piece_); first < n_; first = next_.fetch_add(piece_))
			part(first, std::min(n_, first + piece_));
	}
	catch (...)
	{
		const std::lock_guard lock(mutex_);

		thrown_ = std::current_exception();
		next_.store(n_);
	}
}

void
HostTeam::serve()
{
	std::unique_lock lock(mutex_);
	uint64_t seen = 0;

	for (;;)
	{
		begin_.wait(lock, [&] { return stopping_ || (part_ != nullptr && call_ != seen); });
		if (stopping_)
			return;
		seen = call_;
		n_busy_++;

		const std::function<void(size_t, size_t)> &part = *part_; // valid until n_busy_ is 0

		lock.unlock();
		work(part);
		lock.lock();
		if (--n_busy_ == 0)
			end_.notify_all();
	}
}

} // namespace vectorgpu::cuda

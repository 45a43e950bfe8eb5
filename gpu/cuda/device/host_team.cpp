// See host_team.hpp.
#include "cuda/device/host_team.hpp"

#include <system_error>

#include "common/cores.hpp"
#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kMostGroups = 8;
constexpr size_t kMostThreads = 7; // of a group, the caller's included

} // namespace

HostTeam &
HostTeam::get()
{
	static HostTeam team;

	return team;
}

HostTeam::HostTeam()
{
	const size_t n_groups = std::clamp<size_t>(static_cast<size_t>(Device::count()), 1, kMostGroups);

	// Half of the cores are left to the clients.
	for (size_t i = 0; i < n_groups; i++)
		groups_.push_back(std::make_unique<Group>(std::clamp<size_t>(count_cores() / 2 / n_groups, 1, kMostThreads)));
}

void
HostTeam::share_out(size_t n, size_t piece, const PartOf &part)
{
	for (const std::unique_ptr<Group> &group : groups_)
		if (group->try_share(n, piece, part))
			return;
	part(0, n);
}

HostTeam::Group::Group(size_t n_threads)
{
	try
	{
		for (size_t i = 1; i < n_threads; i++)
			threads_.emplace_back([this] { serve(); });
	}
	catch (const std::system_error &)
	{
		// fewer threads do
	}
}

HostTeam::Group::~Group()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
	}
	begin_.notify_all();
	for (std::thread &thread : threads_)
		thread.join();
}

bool
HostTeam::Group::try_share(size_t n, size_t piece, const PartOf &part)
{
	const std::unique_lock alone(one_at_a_time_, std::try_to_lock);

	if (!alone.owns_lock())
		return false;
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
	return true;
}

/// Take pieces until none is left.
void
HostTeam::Group::work(const PartOf &part)
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
HostTeam::Group::serve()
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

		const PartOf &part = *part_; // valid until n_busy_ is 0

		lock.unlock();
		work(part);
		lock.lock();
		if (--n_busy_ == 0)
			end_.notify_all();
	}
}

} // namespace vectorgpu::cuda

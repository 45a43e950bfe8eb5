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
HostTeam::share_out(size_t n, size_t piece, const PartOf &part, const PartOf *done)
{
	for (const std::unique_ptr<Group> &group : groups_)
		if (group->try_share(n, piece, part, done))
			return;
	if (done == nullptr)
		part(0, n);
	else
		for (size_t first = 0; first < n; first += piece)
		{
			part(first, std::min(n, first + piece));
			(*done)(first, std::min(n, first + piece));
		}
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
HostTeam::Group::try_share(size_t n, size_t piece, const PartOf &part, const PartOf *done)
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
		failed_.store(false, std::memory_order_relaxed);
		is_done_ = std::vector<std::atomic<bool>>(done != nullptr ? (n + piece - 1) / piece : 0);
		thrown_ = nullptr;
		call_++;
	}
	begin_.notify_all();
	if (done != nullptr)
		work_in_order(part, *done);
	else
		work(part);

	std::unique_lock lock(mutex_);

	part_ = nullptr; // for a thread that wakes up late
	end_.wait(lock, [this] { return n_busy_ == 0; });
	if (thrown_ != nullptr)
		std::rethrow_exception(thrown_);
	return true;
}

/// False: none is left.
bool
HostTeam::Group::take_piece(const PartOf &part)
{
	const size_t first = next_.fetch_add(piece_);

	if (first >= n_)
		return false;
	part(first, std::min(n_, first + piece_));
	if (!is_done_.empty())
		is_done_[first / piece_].store(true, std::memory_order_release);
	return true;
}

/// In a handler: keep the exception for the caller, and end the call.
void
HostTeam::Group::fail()
{
	const std::lock_guard lock(mutex_);

	thrown_ = std::current_exception();
	next_.store(n_);
	failed_.store(true);
}

/// Take pieces until none is left.
void
HostTeam::Group::work(const PartOf &part)
{
	try
	{
		while (take_piece(part))
			;
	}
	catch (...)
	{
		fail();
	}
}

/// The caller's work: pieces, and what follows those that are done.
void
HostTeam::Group::work_in_order(const PartOf &part, const PartOf &done)
{
	size_t n_done = 0; // pieces, from the first on

	try
	{
		while (n_done < is_done_.size() && !failed_.load())
		{
			const bool took = take_piece(part);
			const size_t before = n_done;

			while (n_done < is_done_.size() && is_done_[n_done].load(std::memory_order_acquire))
				n_done++;
			if (n_done > before)
				done(before * piece_, std::min(n_, n_done * piece_));
			else if (!took)
				std::this_thread::yield(); // others are at work on the last ones
		}
	}
	catch (...)
	{
		fail();
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

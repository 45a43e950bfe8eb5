// See populator.hpp.
#include "engine/copies/populator.hpp"

#include <exception>
#include <utility>

#include "engine/copies/row_list.hpp"

namespace vectorgpu::engine
{

Populator::~Populator()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
		asked_.notify_one();
	}
	if (thread_.joinable())
		thread_.join();
}

void
Populator::ask(std::shared_ptr<RowChunk> chunk) noexcept
{
	try
	{
		const std::lock_guard lock(mutex_);

		if (!thread_.joinable())
			thread_ = std::thread([this] { run(); });
		waiting_.push_back(std::move(chunk));
		asked_.notify_one();
	}
	catch (const std::exception &)
	{
		// no thread or no memory for the queue
	}
}

void
Populator::run()
{
	std::unique_lock lock(mutex_);

	for (;;)
	{
		asked_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
		if (stopping_)
			return;

		std::shared_ptr<RowChunk> chunk = std::move(waiting_.front());

		waiting_.pop_front();
		lock.unlock();
		chunk->populate();
		chunk = nullptr; // may be the last holder: unmap without the lock
		lock.lock();
	}
}

} // namespace vectorgpu::engine

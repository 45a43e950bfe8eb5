// Has the kernel make memory before it is written. Zeroing pages takes longer than filling them with rows, so a load
// that did both in one thread would spend most of its time there.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace vectorgpu::engine
{

class RowChunk;

/// A thread of its own from the first chunk on.
class Populator
{
public:
	Populator() = default;
	~Populator();
	Populator(const Populator &) = delete;
	Populator &operator=(const Populator &) = delete;

	/// The chunk's memory will be there soon; what is in it stays, so that it may be filled meanwhile. Any thread. It
	/// is no failure if this comes to nothing: then the chunk is made page by page as it is written.
	void ask(std::shared_ptr<RowChunk> chunk) noexcept;

private:
	void run();

	std::mutex mutex_; // all below
	std::condition_variable asked_;
	std::deque<std::shared_ptr<RowChunk>> waiting_;
	bool stopping_ = false;
	std::thread thread_;
};

} // namespace vectorgpu::engine

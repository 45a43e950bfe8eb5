// Makes the kernel provide memory before it is written. Zeroing pages takes longer than filling them with rows, so a
// load that did both in one thread would spend most of its time on zeroing.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace vectorgpu::engine
{

class RowChunk;

/// Has a thread of its own from the first chunk on.
class Populator
{
public:
	Populator() = default;
	~Populator();
	Populator(const Populator &) = delete;
	Populator &operator=(const Populator &) = delete;

	/// Have the chunk's memory made. The chunk may be filled meanwhile: its content stays. Any thread. Failures are
	/// ignored: pages are then made when they are written.
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

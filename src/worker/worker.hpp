// The worker as one object: an engine, a handler with its threads, dispatchers, the reception. main makes one; tests
// too.
#pragma once

#include <memory>
#include <vector>

#include "worker/dispatcher.hpp"
#include "worker/handler.hpp"
#include "worker/reception.hpp"

namespace vectorgpu::worker
{

/// "cpu", "null", or "auto": the best there is. Null if the engine cannot be made.
std::unique_ptr<engine::Engine> make_engine(const Options &options);

class Worker
{
public:
	Worker(const Options &options, std::unique_ptr<engine::Engine> engine, Clock clock = monotonic_clock);

	/// The current folder is the data directory.
	Status listen(int lock_timeout_ms);

	/// Serves until stop() or until the parent is gone; receives clients in the calling thread.
	void run();

	/// Any thread.
	void stop() { reception_.stop(); }

	Handler &handler() { return handler_; }

	/// For tests: how many sessions a dispatcher has.
	size_t sessions_of(size_t dispatcher) const { return dispatchers_[dispatcher]->n_sessions(); }

private:
	Dispatcher &least_busy();

	const Options options_;
	const std::unique_ptr<engine::Engine> engine_;
	Handler handler_;
	std::vector<std::unique_ptr<Dispatcher>> dispatchers_;
	Reception reception_;
};

} // namespace vectorgpu::worker

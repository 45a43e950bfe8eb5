// The worker as one object: an engine, a handler with its threads, dispatchers, the reception. For main and for tests.
#pragma once

#include <memory>
#include <vector>

#include "worker/dispatcher.hpp"
#include "worker/handler.hpp"
#include "worker/reception.hpp"

namespace vectorgpu::worker
{

/// Create the engine "cpu", "null", or the best available for "auto". Null if that fails.
std::unique_ptr<engine::Engine> make_engine(const Options &options);

class Worker
{
public:
	Worker(const Options &options, std::unique_ptr<engine::Engine> engine, Clock clock = monotonic_clock);

	/// The current directory must be the data directory.
	Status listen(int lock_timeout_ms);

	/// Serve until stop() or until the parent is gone; accept clients on the calling thread.
	void run();

	/// Any thread.
	void stop() { reception_.stop(); }

	Handler &handler() { return handler_; }

	/// For tests: return the number of a dispatcher's sessions.
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

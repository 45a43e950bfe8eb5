// The worker as one object: an engine, a handler with its threads, a dispatcher. main makes one; tests too.
#pragma once

#include <memory>

#include "worker/dispatcher.hpp"
#include "worker/handler.hpp"

namespace vectorgpu::worker
{

/// "cpu", "null", or "auto": the best there is. Null if the engine cannot be made.
std::unique_ptr<engine::Engine> make_engine(const Options &options);

class Worker
{
public:
	Worker(const Options &options, std::unique_ptr<engine::Engine> engine, Clock clock = monotonic_clock)
		: options_(options), engine_(std::move(engine)), handler_(options_, *engine_, clock),
		  dispatcher_(options_, handler_, clock)
	{
	}

	/// The current folder is the data directory.
	Status
	listen(int lock_timeout_ms)
	{
		return dispatcher_.listen(lock_timeout_ms);
	}

	/// Serves in the calling thread until stop() or until the parent is gone.
	void
	run()
	{
		handler_.start();
		dispatcher_.run();
		handler_.stop();
	}

	void stop() { dispatcher_.stop(); }
	Handler &handler() { return handler_; }

private:
	const Options options_;
	const std::unique_ptr<engine::Engine> engine_;
	Handler handler_;
	Dispatcher dispatcher_;
};

} // namespace vectorgpu::worker

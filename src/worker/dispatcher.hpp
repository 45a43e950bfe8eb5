// A dispatcher: a thread that serves some of the sessions. Sees doorbells, takes requests out of slots, runs searches
// that the engine answers at once, stamps heartbeats, notices who is gone. Everything here runs on that one thread but
// start(), stop(), adopt() and n_sessions().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/status.hpp"
#include "worker/clock.hpp"
#include "worker/handler.hpp"
#include "worker/options.hpp"
#include "worker/session.hpp"

namespace vectorgpu::worker
{

class Dispatcher
{
public:
	Dispatcher(const Options &options, Handler &handler, Clock clock);
	~Dispatcher();
	Dispatcher(const Dispatcher &) = delete;
	Dispatcher &operator=(const Dispatcher &) = delete;

	/// Makes its descriptors. kUnavailable: the system has none.
	Status open();

	/// Serves in a thread of its own until stop().
	void start();

	/// Any thread, once or more often; ends the thread.
	void stop();

	/// Any thread: the session is this dispatcher's from now on. Throws bad_alloc.
	void adopt(const std::shared_ptr<Session> &session);

	/// Any thread: sessions adopted and not over.
	size_t n_sessions() const { return n_sessions_.load(std::memory_order_relaxed); }

private:
	using SessionPtr = std::shared_ptr<Session>;

	bool watch(int fd, uint32_t events, uint64_t tag);
	void run();
	void wait_and_serve();
	void serve(uint64_t tag);
	void call();
	void take_in();
	void close_session(const SessionPtr &session);
	bool look(const SessionPtr &session);
	void take(const SessionPtr &session);
	void start_polling(const SessionPtr &session);
	void stop_polling();
	bool poll_slots();
	void tick(uint64_t now);

	Handler &handler_;
	const Clock clock_;
	const uint64_t spin_ns_;

	int epoll_ = -1;
	int call_ = -1; // readable: look at stopping_ and newcomers_
	std::atomic<bool> stopping_{false};
	std::atomic<size_t> n_sessions_{0};
	std::thread thread_;

	std::mutex mutex_; // newcomers_
	std::vector<SessionPtr> newcomers_;
	std::unordered_map<uint64_t, SessionPtr> sessions_; // by id

	Round round_; // searches that were taken and not submitted yet
	std::vector<SessionPtr> polled_;
	uint64_t last_activity_ns_ = 0;
	bool ticking_ = false;
	uint64_t next_tick_ns_ = 0;
	Batcher::Seen seen_engine_; // at the last tick
	TaskThread::Seen seen_loader_;
	BuildJobs::Seen seen_builds_;
};

} // namespace vectorgpu::worker

// A dispatcher: a thread that serves some of the sessions. It sees doorbells, takes requests out of slots, runs
// searches that the engine answers at once, writes heartbeats, and notices clients that have gone. Everything runs on
// this one thread except start(), stop(), adopt() and n_sessions().
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

	/// Create the descriptors. kUnavailable: the system has none left.
	Status open();

	/// Serve on a thread of its own until stop().
	void start();

	/// End the thread. Any thread, once or more often.
	void stop();

	/// Take over the session. Any thread. Throws bad_alloc.
	void adopt(const std::shared_ptr<Session> &session);

	/// Return the number of its sessions. Any thread.
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
	bool should_poll(uint64_t now) const;
	void start_polling(const SessionPtr &session);
	void stop_polling();
	bool poll_slots();
	void tick(uint64_t now);

	Handler &handler_;
	const Clock clock_;
	const uint64_t spin_ns_;

	int epoll_ = -1;
	int call_ = -1; // readable: stopping_ or newcomers_ has changed
	std::atomic<bool> stopping_{false};
	std::atomic<size_t> n_sessions_{0};
	std::thread thread_;

	std::mutex mutex_; // newcomers_
	std::vector<SessionPtr> newcomers_;
	std::unordered_map<uint64_t, SessionPtr> sessions_; // by id

	Round round_; // searches taken and not yet submitted
	std::vector<SessionPtr> polled_;
	uint64_t last_activity_ns_ = 0;
	bool ticking_ = false;
	uint64_t next_tick_ns_ = 0;
	Batcher::Seen seen_engine_; // at the last tick
	TaskThread::Seen seen_loader_;
	BuildJobs::Seen seen_builds_;
};

} // namespace vectorgpu::worker

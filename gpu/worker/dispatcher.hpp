// The dispatcher's thread: accepts clients, shakes hands, sees doorbells, takes requests out of slots, stamps heartbeats,
// notices who is gone. Everything here runs on that one thread but stop().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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

	/// Takes the lock of the socket folder below the current folder and listens. `lock_timeout_ms`: for an earlier worker.
	Status listen(int lock_timeout_ms);

	/// Serves until stop() or until the parent is gone.
	void run();

	/// Any thread, once or more often.
	void stop();

private:
	using SessionPtr = std::shared_ptr<Session>;

	struct Greeting
	{
		int socket;
		uint64_t deadline_ns;
	};

	bool watch(int fd, uint32_t events, uint64_t tag);
	void wait_and_serve();
	void serve(uint64_t tag);
	void accept_all();
	void refuse_one();
	void greet(uint64_t id);
	void open_session(int socket, const wire::Hello &hello);
	void close_session(const SessionPtr &session);
	bool look(const SessionPtr &session);
	void take(const SessionPtr &session);
	void start_polling(const SessionPtr &session);
	void stop_polling();
	bool poll_slots();
	void tick(uint64_t now);

	const Options &options_;
	Handler &handler_;
	const Clock clock_;
	const uint64_t spin_ns_;

	int epoll_ = -1;
	int stop_event_ = -1;
	int folder_ = -1;    // its lock is held as long as it is open
	int listening_ = -1;
	int reserve_ = -1;   // given up for a moment to send a client away when descriptors run out
	bool parent_gone_ = false;
	std::atomic<bool> stopping_{false};

	std::unordered_map<uint64_t, Greeting> greetings_; // by id
	std::unordered_map<uint64_t, SessionPtr> sessions_; // by id
	uint64_t next_id_ = 1;

	Round round_; // searches that were taken and not submitted yet
	std::vector<SessionPtr> polled_;
	uint64_t last_activity_ns_ = 0;
	bool ticking_ = false;
	uint64_t next_tick_ns_ = 0;
};

} // namespace vectorgpu::worker

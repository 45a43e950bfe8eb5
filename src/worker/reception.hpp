// The main thread: accepts clients, shakes hands, creates their sessions and gives each to a dispatcher; notices that
// the parent is gone. It serves no request. Everything runs on one thread except stop().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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

class Reception
{
public:
	/// Takes over a session after its greeting. Throws bad_alloc; the session is then closed.
	using Adopt = std::function<void(const std::shared_ptr<Session> &)>;

	Reception(const Options &options, Handler &handler, Clock clock, Adopt adopt);
	~Reception();
	Reception(const Reception &) = delete;
	Reception &operator=(const Reception &) = delete;

	/// Take the lock of the socket's directory, below the current one, and listen. lock_timeout_ms: how long to wait
	/// for an earlier worker to end.
	Status listen(int lock_timeout_ms);

	/// Accept clients until stop() or until the parent is gone.
	void run();

	/// Any thread, once or more often.
	void stop();

private:
	struct Greeting
	{
		int socket;
		uint64_t deadline_ns;
	};

	bool watch(int fd, uint64_t tag);
	void wait_and_serve();
	void serve(uint64_t tag);
	void accept_all();
	void refuse_one();
	void greet(uint64_t id);
	bool make_slot(Session *session);
	void open_session(int socket, const wire::Hello &hello);
	void end_late_greetings();

	const Options &options_;
	Handler &handler_;
	const Clock clock_;
	const Adopt adopt_;

	int epoll_ = -1;
	int stop_event_ = -1;
	int folder_ = -1; // open: the worker holds its lock
	int listening_ = -1;
	int reserve_ = -1; // closed for a moment to reject a client when descriptors run out
	bool parent_gone_ = false;
	std::atomic<bool> stopping_{false};

	std::unordered_map<uint64_t, Greeting> greetings_; // by id
	uint64_t next_id_ = 1;
	std::vector<std::weak_ptr<Session>> builders_; // with large areas
};

} // namespace vectorgpu::worker

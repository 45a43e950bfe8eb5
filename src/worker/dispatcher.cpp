// See dispatcher.hpp.
#include "worker/dispatcher.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wire/server.hpp"
#include "worker/worker_fault.hpp"
#include "worker/log.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kTickNs = 100 * 1000 * 1000; // between two heartbeats; clients give up after seconds
constexpr int kEventsAtOnce = 64;
constexpr uint64_t kMostPollNs = 3 * 1000 * 1000; // without a request
constexpr int kRoundsPerWait = 16;                // polls of the slots between two polls of the descriptors

/// The source of an epoll event: the low bits of its tag; the session's id is above them.
enum Subject : uint64_t
{
	kSocket = 0,
	kDoorbell = 1,
	kCall = 2,
};
constexpr int kSubjectBits = 2;

uint64_t
tag_of(Subject subject, uint64_t id)
{
	return id << kSubjectBits | subject;
}

void
close_descriptor(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

} // namespace

Dispatcher::Dispatcher(const Options &options, Handler &handler, Clock clock)
	: handler_(handler), clock_(clock), spin_ns_(static_cast<uint64_t>(options.spin_us) * 1000),
	  round_(options.max_batch)
{
}

Dispatcher::~Dispatcher()
{
	stop();
	for (const auto &[id, session] : sessions_)
		handler_.closed(session);
	close_descriptor(&call_);
	close_descriptor(&epoll_);
}

bool
Dispatcher::watch(int fd, uint32_t events, uint64_t tag)
{
	epoll_event event{};

	event.events = events;
	event.data.u64 = tag;
	return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

Status
Dispatcher::open()
{
	call_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoll_ = epoll_create1(EPOLL_CLOEXEC);
	if (call_ < 0 || epoll_ < 0 || !watch(call_, EPOLLIN | EPOLLET, tag_of(kCall, 0)))
		return Status::error(StatusCode::kUnavailable, std::string("could not set up epoll: ") + strerror(errno));
	return Status::ok();
}

void
Dispatcher::start()
{
	thread_ = std::thread([this] { run(); });
}

void
Dispatcher::stop()
{
	stopping_.store(true, std::memory_order_relaxed);
	call();
	if (thread_.joinable())
		thread_.join();
}

/// Wake the thread, so that it reads stopping_ and newcomers_.
void
Dispatcher::call()
{
	const uint64_t one = 1;

	[[maybe_unused]] const ssize_t written = write(call_, &one, sizeof(one));
}

void
Dispatcher::adopt(const SessionPtr &session)
{
	{
		const std::lock_guard lock(mutex_);

		newcomers_.push_back(session);
	}
	n_sessions_.fetch_add(1, std::memory_order_relaxed);
	handler_.count_session(1);
	call();
}

/// Begin to serve the adopted sessions. A doorbell that was rung earlier is reported when it is added to epoll.
void
Dispatcher::take_in()
{
	std::vector<SessionPtr> newcomers;

	{
		const std::lock_guard lock(mutex_);

		newcomers.swap(newcomers_);
	}
	for (const SessionPtr &session : newcomers)
	{
		bool served = false;

		try
		{
			sessions_.emplace(session->id, session);
			served = watch(session->slot.doorbell, EPOLLIN | EPOLLET, tag_of(kDoorbell, session->id)) &&
				watch(session->socket, EPOLLIN | EPOLLRDHUP, tag_of(kSocket, session->id));
		}
		catch (const std::bad_alloc &)
		{
			log_line("out of memory for a new client");
		}
		if (!served)
			close_session(session);
	}
}

void
Dispatcher::run()
{
	while (!stopping_.load(std::memory_order_relaxed))
	{
		try
		{
			wait_and_serve();
		}
		catch (const std::bad_alloc &)
		{
			log_line("out of memory in the dispatcher");
			handler_.batcher().submit(&round_);
		}
	}
}

void
Dispatcher::wait_and_serve()
{
	std::array<epoll_event, kEventsAtOnce> events;
	int timeout_ms = -1;
	uint64_t now = clock_();

	if (spin_ns_ > 0 && !polled_.empty())
	{
		if (should_poll(now))
		{
			for (int round = 0; round < kRoundsPerWait && !poll_slots(); round++)
			{
#if defined(__x86_64__)
				__builtin_ia32_pause();
#endif
			}
			timeout_ms = 0;
		}
		else
		{
			stop_polling();
			if (!polled_.empty()) // the last poll took a request, and its client does not ring
				timeout_ms = 0;
		}
		handler_.batcher().submit(&round_);
	}
	if (timeout_ms != 0 && ticking_)
		timeout_ms = now >= next_tick_ns_ ? 0 : static_cast<int>((next_tick_ns_ - now + 999999) / 1000000);

	const int n = epoll_wait(epoll_, events.data(), kEventsAtOnce, timeout_ms);

	for (int i = 0; i < n; i++)
		serve(events[static_cast<size_t>(i)].data.u64);
	handler_.batcher().submit(&round_); // once for all searches of the round
	if (ticking_ && (now = clock_()) >= next_tick_ns_)
		tick(now);
}

void
Dispatcher::serve(uint64_t tag)
{
	const Subject subject = static_cast<Subject>(tag & ((1 << kSubjectBits) - 1));
	const uint64_t id = tag >> kSubjectBits;

	if (subject == kCall)
		return take_in();

	const auto found = sessions_.find(id); // absent if an earlier event closed it

	if (found == sessions_.end())
		return;

	const SessionPtr session = found->second;

	if (subject == kSocket)
		close_session(session); // end of file, or a client that breaks the protocol by sending more
	else
		look(session);
}

void
Dispatcher::close_session(const SessionPtr &session)
{
	sessions_.erase(session->id);
	std::erase(polled_, session);
	epoll_ctl(epoll_, EPOLL_CTL_DEL, session->slot.doorbell, nullptr);
	epoll_ctl(epoll_, EPOLL_CTL_DEL, session->socket, nullptr);
	n_sessions_.fetch_sub(1, std::memory_order_relaxed);
	handler_.count_session(-1);
	handler_.closed(session);
}

/// Read a slot's state, after its doorbell was rung or because it is polled. True if it took a request.
bool
Dispatcher::look(const SessionPtr &session)
{
	const wire::SlotHeader *slot = session->slot.header;

	if (session->busy.load(std::memory_order_acquire))
	{
		if (slot->cancel.load(std::memory_order_relaxed) == session->sequence)
			handler_.cancel(session);
		return false;
	}
	if (slot->state.load(std::memory_order_acquire) != static_cast<uint32_t>(wire::SlotState::kSubmitted))
		return false;
	take(session);
	return true;
}

void
Dispatcher::take(const SessionPtr &session)
{
	wire::SlotHeader *slot = session->slot.header;

	session->sequence = slot->request_sequence.load(std::memory_order_relaxed);
	session->busy.store(true, std::memory_order_relaxed);
	slot->state.store(static_cast<uint32_t>(wire::SlotState::kTaken), std::memory_order_relaxed);
	if (spin_ns_ > 0)
		start_polling(session);
	if (!ticking_)
	{
		ticking_ = true;
		next_tick_ns_ = clock_() + kTickNs;
	}
	handler_.handle(session, slot->request_length.load(std::memory_order_relaxed), &round_);
}

/// True if a request is likely soon: one came a moment ago, or answers of an engine elsewhere are about to be or were
/// just given, whose clients come again.
bool
Dispatcher::should_poll(uint64_t now) const
{
	const uint64_t quiet_ns = now - last_activity_ns_;

	return quiet_ns < spin_ns_ || (quiet_ns < kMostPollNs && handler_.batcher().answers_since(now - spin_ns_));
}

void
Dispatcher::start_polling(const SessionPtr &session)
{
	last_activity_ns_ = clock_();
	if (session->polled)
		return;
	polled_.push_back(session);
	session->polled = true;
	session->slot.header->worker_polls.store(1, std::memory_order_relaxed);
}

/// Return to doorbells. The fence pairs with the one in the client's ring(): either the client sees that the slot is
/// not polled, or the last poll here sees the client's stores.
void
Dispatcher::stop_polling()
{
	const std::vector<SessionPtr> last = std::move(polled_);

	polled_.clear();
	for (const SessionPtr &session : last)
	{
		session->polled = false;
		session->slot.header->worker_polls.store(0, std::memory_order_relaxed);
	}
	wire::full_fence();
	for (const SessionPtr &session : last)
		look(session);
}

/// Return true if a request was taken.
bool
Dispatcher::poll_slots()
{
	bool taken = false;

	for (size_t i = 0; i < polled_.size(); i++)
		taken |= look(polled_[i]);
	return taken;
}

/// Write the heartbeats of the requests that advance: searches while the engine advances, loads while the loading
/// thread does, builds while theirs does. If one hangs, its clients see no heartbeat and answer from pages.
void
Dispatcher::tick(uint64_t now)
{
	const bool engine_moves = handler_.batcher().progressing(&seen_engine_);
	const bool loader_moves = handler_.loader().progressing(&seen_loader_);
	const bool build_moves = handler_.builds().progressing(&seen_builds_);
	bool busy = false;

	for (const auto &[id, session] : sessions_)
	{
		if (!session->busy.load(std::memory_order_relaxed))
			continue;
		busy = true;

		const Stage stage = session->stage.load(std::memory_order_relaxed);

		if ((stage == Stage::kEngine && engine_moves) || (stage == Stage::kLoad && loader_moves) ||
			(stage == Stage::kBuild && build_moves))
			session->slot.header->heartbeat_ns.store(now, std::memory_order_relaxed);
	}
	ticking_ = busy;
	next_tick_ns_ = now + kTickNs;
}

} // namespace vectorgpu::worker

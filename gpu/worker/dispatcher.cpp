// See dispatcher.hpp.
#include "worker/dispatcher.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wire/address.hpp"
#include "wire/server.hpp"
#include "worker/fault.hpp"
#include "worker/log.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kTickNs = 100 * 1000 * 1000; // between two heartbeats; clients give up after seconds
constexpr uint64_t kGreetingNs = uint64_t{5} * 1000 * 1000 * 1000;
constexpr size_t kMaxGreetings = 256;
constexpr int kEventsAtOnce = 64;
constexpr int kRoundsPerWait = 16; // looks at the polled slots between two looks at descriptors

/// What an epoll event is about: the low bits of its tag, above them an id.
enum Subject : uint64_t
{
	kListening = 0,
	kGreeting = 1,
	kSocket = 2,
	kDoorbell = 3,
	kStop = 4,
	kParent = 5,
};
constexpr int kSubjectBits = 3;

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

int
open_reserve()
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

} // namespace

Dispatcher::Dispatcher(const Options &options, Handler &handler, Clock clock)
	: options_(options), handler_(handler), clock_(clock), spin_ns_(static_cast<uint64_t>(options.spin_us) * 1000),
	  round_(options.max_batch)
{
}

Dispatcher::~Dispatcher()
{
	for (const auto &[id, greeting] : greetings_)
		close(greeting.socket);
	for (const auto &[id, session] : sessions_)
		handler_.closed(session);
	close_descriptor(&listening_);
	close_descriptor(&stop_event_);
	close_descriptor(&epoll_);
	close_descriptor(&reserve_);
	close_descriptor(&folder_);
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
Dispatcher::listen(int lock_timeout_ms)
{
	Status status = wire::open_folder(&folder_);

	if (status.is_ok())
		status = wire::lock_folder(folder_, lock_timeout_ms);
	if (status.is_ok())
		status = wire::listen_at(folder_, options_.epoch, &listening_);
	if (!status.is_ok())
		return status;
	reserve_ = open_reserve();
	stop_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoll_ = epoll_create1(EPOLL_CLOEXEC);
	if (reserve_ < 0 || stop_event_ < 0 || epoll_ < 0 || !watch(listening_, EPOLLIN, tag_of(kListening, 0)) ||
		!watch(stop_event_, EPOLLIN, tag_of(kStop, 0)) ||
		(options_.parent_fd >= 0 && !watch(options_.parent_fd, EPOLLIN, tag_of(kParent, 0))))
		return Status::error(StatusCode::kUnavailable, std::string("could not set up epoll: ") + strerror(errno));
	return Status::ok();
}

void
Dispatcher::stop()
{
	const uint64_t one = 1;

	stopping_.store(true, std::memory_order_relaxed);
	[[maybe_unused]] const ssize_t written = write(stop_event_, &one, sizeof(one));
}

void
Dispatcher::run()
{
	while (!stopping_.load(std::memory_order_relaxed) && !parent_gone_)
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
		if (now - last_activity_ns_ < spin_ns_)
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
			if (!polled_.empty()) // its last look took a request, and that client does not ring
				timeout_ms = 0;
		}
		handler_.batcher().submit(&round_);
	}
	if (timeout_ms != 0 && ticking_)
		timeout_ms = now >= next_tick_ns_ ? 0 : static_cast<int>((next_tick_ns_ - now + 999999) / 1000000);

	const int n = epoll_wait(epoll_, events.data(), kEventsAtOnce, timeout_ms);

	for (int i = 0; i < n; i++)
		serve(events[static_cast<size_t>(i)].data.u64);
	handler_.batcher().submit(&round_); // once for all that came together
	if (ticking_ && (now = clock_()) >= next_tick_ns_)
		tick(now);
}

void
Dispatcher::serve(uint64_t tag)
{
	const Subject subject = static_cast<Subject>(tag & ((1 << kSubjectBits) - 1));
	const uint64_t id = tag >> kSubjectBits;

	if (subject == kListening)
		return accept_all();
	if (subject == kGreeting)
		return greet(id);
	if (subject == kParent)
	{
		parent_gone_ = true;
		return;
	}
	if (subject == kStop)
		return;

	const auto found = sessions_.find(id); // gone if an event before this one closed it

	if (found == sessions_.end())
		return;

	const SessionPtr session = found->second;

	if (subject == kSocket)
		close_session(session); // nothing but end of file comes here, and whoever sends more breaks the protocol
	else
		look(session);
}

void
Dispatcher::accept_all()
{
	for (;;)
	{
		const int fd = wire::accept_peer(listening_);

		if (fd == -2)
			continue;
		if (fd < 0)
		{
			if (errno != EMFILE && errno != ENFILE)
				return;
			refuse_one();
			return;
		}

		const uint64_t id = next_id_++;

		try
		{
			if (WORKER_FAULT("accept") == Fault::kNone && greetings_.size() < kMaxGreetings)
				greetings_.emplace(id, Greeting{fd, clock_() + kGreetingNs});
		}
		catch (const std::bad_alloc &)
		{
			log_line("out of memory for a new client");
		}
		if (!greetings_.contains(id) || !watch(fd, EPOLLIN, tag_of(kGreeting, id)))
		{
			greetings_.erase(id);
			close(fd);
			continue;
		}
		if (!ticking_)
			next_tick_ns_ = clock_() + kTickNs;
		ticking_ = true;
	}
}

/// No descriptor is left: without this the waiting client would keep the listening socket readable for ever.
void
Dispatcher::refuse_one()
{
	close_descriptor(&reserve_);

	int fd = wire::accept_peer(listening_);

	close_descriptor(&fd);
	reserve_ = open_reserve();
}

void
Dispatcher::greet(uint64_t id)
{
	const auto found = greetings_.find(id);

	if (found == greetings_.end())
		return;

	const int socket = found->second.socket;
	wire::Hello hello{};
	const wire::HelloResult result = wire::receive_hello(socket, &hello);

	if (result == wire::HelloResult::kNothing)
		return;
	greetings_.erase(found);
	epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
	if (result == wire::HelloResult::kHello)
		return open_session(socket, hello);
	if (result == wire::HelloResult::kMalformed)
	{
		wire::Welcome welcome{};

		welcome.magic = wire::kMagic;
		welcome.version = wire::kProtocolVersion;
		welcome.status = wire::WelcomeStatus::kMalformed;
		wire::send_welcome(socket, welcome, nullptr);
	}
	close(socket);
}

void
Dispatcher::open_session(int socket, const wire::Hello &hello)
{
	const bool loader = hello.role == wire::Role::kLoader;
	wire::Welcome welcome{};
	SessionPtr session;

	welcome.magic = wire::kMagic;
	welcome.version = wire::kProtocolVersion;
	welcome.epoch = options_.epoch;
	welcome.worker_pid = static_cast<uint32_t>(getpid());
	welcome.engine = handler_.engine_kind();
	try
	{
		if (hello.version != wire::kProtocolVersion)
			welcome.status = wire::WelcomeStatus::kOtherVersion;
		else if (hello.epoch != options_.epoch)
			welcome.status = wire::WelcomeStatus::kOtherEpoch;
		else
		{
			session = std::make_shared<Session>();
			session->id = next_id_++;
			session->role = hello.role;
			session->pid = hello.pid;
			if (sessions_.size() >= options_.max_sessions || WORKER_FAULT("make_slot") != Fault::kNone ||
				!wire::make_slot(loader ? wire::kLoaderRequestAreaBytes : wire::kRequestAreaBytes, wire::kReplyAreaBytes,
					&session->slot)
					 .is_ok())
				welcome.status = wire::WelcomeStatus::kFull;
		}
		if (welcome.status == wire::WelcomeStatus::kWelcome)
			sessions_.emplace(session->id, session);
	}
	catch (const std::bad_alloc &)
	{
		welcome.status = wire::WelcomeStatus::kFull;
	}
	if (welcome.status != wire::WelcomeStatus::kWelcome)
	{
		wire::send_welcome(socket, welcome, nullptr);
		close(socket);
		return;
	}
	session->socket = socket; // from here on it closes it
	welcome.session = session->id;
	welcome.request_area_bytes = session->slot.request_area_bytes;
	welcome.reply_area_bytes = session->slot.reply_area_bytes;
	if (!watch(session->slot.doorbell, EPOLLIN | EPOLLET, tag_of(kDoorbell, session->id)) ||
		!watch(socket, EPOLLIN | EPOLLRDHUP, tag_of(kSocket, session->id)) ||
		WORKER_FAULT_NO_THROW("send_welcome") != Fault::kNone || !wire::send_welcome(socket, welcome, &session->slot))
	{
		close_session(session);
		return;
	}
	close_descriptor(&session->slot.memory); // the mapping is enough
	handler_.set_sessions(sessions_.size());
}

void
Dispatcher::close_session(const SessionPtr &session)
{
	sessions_.erase(session->id);
	std::erase(polled_, session);
	epoll_ctl(epoll_, EPOLL_CTL_DEL, session->slot.doorbell, nullptr);
	epoll_ctl(epoll_, EPOLL_CTL_DEL, session->socket, nullptr);
	handler_.set_sessions(sessions_.size());
	handler_.closed(session);
}

/// Sees what a slot says, because its doorbell was rung or because it is polled. True if it took a request.
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

/// Back to doorbells. The fence pairs with the one in the client's ring(): either the client sees that nobody polls, or what
/// it stored before is seen by the last look.
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

/// True if a request was taken.
bool
Dispatcher::poll_slots()
{
	bool taken = false;

	for (size_t i = 0; i < polled_.size(); i++)
		taken |= look(polled_[i]);
	return taken;
}

/// Signs of life for every request that gets on: searches while the engine moves, loading while the loading thread does.
/// When one of them hangs, its clients see no heartbeat and answer for themselves.
void
Dispatcher::tick(uint64_t now)
{
	const bool engine_moves = handler_.batcher().progressing();
	const bool loader_moves = handler_.loader().progressing();
	bool busy = false;

	for (const auto &[id, session] : sessions_)
	{
		if (!session->busy.load(std::memory_order_relaxed))
			continue;
		busy = true;

		const Stage stage = session->stage.load(std::memory_order_relaxed);

		if ((stage == Stage::kEngine && engine_moves) || (stage == Stage::kLoad && loader_moves))
			session->slot.header->heartbeat_ns.store(now, std::memory_order_relaxed);
	}
	for (auto at = greetings_.begin(); at != greetings_.end();)
	{
		if (now < at->second.deadline_ns)
		{
			++at;
			continue;
		}
		close(at->second.socket); // leaves epoll with it
		at = greetings_.erase(at);
	}
	ticking_ = busy || !greetings_.empty();
	next_tick_ns_ = now + kTickNs;
}

} // namespace vectorgpu::worker

// See reception.hpp.
#include "worker/reception.hpp"

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
#include "worker/worker_fault.hpp"
#include "worker/log.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kGreetingNs = uint64_t{5} * 1000 * 1000 * 1000;
constexpr int kLookAtGreetingsMs = 100;
constexpr size_t kMaxGreetings = 256;
constexpr int kEventsAtOnce = 64;

/// Tags of epoll events; values from kFirstGreeting on are ids of greetings.
enum Tag : uint64_t
{
	kListening = 0,
	kStop = 1,
	kParent = 2,
	kFirstGreeting = 3,
};

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

constexpr size_t kMostBuilders = 16; // with large areas at a time

struct Areas
{
	uint32_t request_bytes;
	uint32_t reply_bytes;
};

Areas
areas_for(wire::Role role)
{
	switch (role)
	{
		case wire::Role::kBuilder:
			return {wire::kBuilderRequestAreaBytes, wire::kBuilderReplyAreaBytes};
		case wire::Role::kLoader:
			return {wire::kLoaderRequestAreaBytes, wire::kReplyAreaBytes};
		default:
			return {wire::kRequestAreaBytes, wire::kReplyAreaBytes};
	}
}

} // namespace

Reception::Reception(const Options &options, Handler &handler, Clock clock, Adopt adopt)
	: options_(options), handler_(handler), clock_(clock), adopt_(std::move(adopt)), next_id_(kFirstGreeting)
{
}

Reception::~Reception()
{
	for (const auto &[id, greeting] : greetings_)
		close(greeting.socket);
	close_descriptor(&listening_);
	close_descriptor(&stop_event_);
	close_descriptor(&epoll_);
	close_descriptor(&reserve_);
	close_descriptor(&folder_);
}

bool
Reception::watch(int fd, uint64_t tag)
{
	epoll_event event{};

	event.events = EPOLLIN;
	event.data.u64 = tag;
	return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

Status
Reception::listen(int lock_timeout_ms)
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
	if (reserve_ < 0 || stop_event_ < 0 || epoll_ < 0 || !watch(listening_, kListening) || !watch(stop_event_, kStop) ||
		(options_.parent_fd >= 0 && !watch(options_.parent_fd, kParent)))
		return Status::error(StatusCode::kUnavailable, std::string("could not set up epoll: ") + strerror(errno));
	return Status::ok();
}

void
Reception::stop()
{
	const uint64_t one = 1;

	stopping_.store(true, std::memory_order_relaxed);
	[[maybe_unused]] const ssize_t written = write(stop_event_, &one, sizeof(one));
}

void
Reception::run()
{
	while (!stopping_.load(std::memory_order_relaxed) && !parent_gone_)
	{
		try
		{
			wait_and_serve();
		}
		catch (const std::bad_alloc &)
		{
			log_line("out of memory for a new client");
		}
	}
}

void
Reception::wait_and_serve()
{
	std::array<epoll_event, kEventsAtOnce> events;
	const int n = epoll_wait(epoll_, events.data(), kEventsAtOnce, greetings_.empty() ? -1 : kLookAtGreetingsMs);

	for (int i = 0; i < n; i++)
		serve(events[static_cast<size_t>(i)].data.u64);
	if (!greetings_.empty())
		end_late_greetings();
}

void
Reception::serve(uint64_t tag)
{
	switch (tag)
	{
		case kListening:
			return accept_all();
		case kParent:
			parent_gone_ = true;
			return;
		case kStop:
			return;
		default:
			return greet(tag);
	}
}

void
Reception::accept_all()
{
	for (;;)
	{
		const int fd = wire::accept_peer(listening_);

		if (fd == -2)
			continue;
		if (fd < 0)
		{
			if (errno == EMFILE || errno == ENFILE)
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
		if (!greetings_.contains(id) || !watch(fd, id))
		{
			greetings_.erase(id);
			close(fd);
		}
	}
}

/// Reject one client when no descriptor is left: it would keep the listening socket readable for ever.
void
Reception::refuse_one()
{
	close_descriptor(&reserve_);

	int fd = wire::accept_peer(listening_);

	close_descriptor(&fd);
	reserve_ = open_reserve();
}

void
Reception::greet(uint64_t id)
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

/// Make a slot with the areas of the session's role. Further builders than kMostBuilders, or for which there is no
/// memory, get small areas. Throws bad_alloc.
bool
Reception::make_slot(Session *session)
{
	Areas areas = areas_for(session->role);

	std::erase_if(builders_, [](const auto &builder) { return builder.expired(); });
	if (session->role == wire::Role::kBuilder)
	{
		if (builders_.size() < kMostBuilders &&
			wire::make_slot(areas.request_bytes, areas.reply_bytes, &session->slot).is_ok())
			return true;
		areas = areas_for(wire::Role::kBackend);
	}
	return wire::make_slot(areas.request_bytes, areas.reply_bytes, &session->slot).is_ok();
}

void
Reception::open_session(int socket, const wire::Hello &hello)
{
	wire::Welcome welcome{};
	std::shared_ptr<Session> session;

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
			if (handler_.n_sessions() >= options_.max_sessions || WORKER_FAULT("make_slot") != Fault::kNone ||
				!make_slot(session.get()))
				welcome.status = wire::WelcomeStatus::kFull;
			else if (session->slot.request_area_bytes == wire::kBuilderRequestAreaBytes)
				builders_.push_back(session);
		}
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
	session->socket = socket; // the session closes it from here on
	welcome.session = session->id;
	welcome.request_area_bytes = session->slot.request_area_bytes;
	welcome.reply_area_bytes = session->slot.reply_area_bytes;
	if (WORKER_FAULT_NO_THROW("send_welcome") != Fault::kNone || !wire::send_welcome(socket, welcome, &session->slot))
		return;
	close_descriptor(&session->slot.memory); // the mapping suffices
	adopt_(session); // a doorbell that was rung already is reported when the dispatcher adds it to epoll
}

void
Reception::end_late_greetings()
{
	const uint64_t now = clock_();

	for (auto at = greetings_.begin(); at != greetings_.end();)
	{
		if (now < at->second.deadline_ns)
		{
			++at;
			continue;
		}
		close(at->second.socket); // also removes it from epoll
		at = greetings_.erase(at);
	}
}

} // namespace vectorgpu::worker

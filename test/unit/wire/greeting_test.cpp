// The greeting as a client sees it: this test plays the worker and answers HELLO with a WELCOME that has one fault. The
// client must report it, be closed, and keep none of the received descriptors. test/unit/worker tests the real worker.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "wire/address.hpp"
#include "wire/client.hpp"

namespace vectorgpu::wire
{
namespace
{

constexpr uint64_t kEpoch = 0x0123456789abcdef;
constexpr uint32_t kRequestBytes = kMinAreaBytes; // the smallest areas that a client accepts
constexpr uint32_t kReplyBytes = kMinAreaBytes + 64;
constexpr int kPatienceMs = 20 * 1000; // only a failing test waits this long
constexpr int kGoodSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr char kMemoryName[] = "vectorgpu_greeting_test";

/// The false worker's answer. The default is correct.
struct Answer
{
	Welcome welcome = {kMagic, kProtocolVersion, WelcomeStatus::kWelcome, kEpoch, 77, kRequestBytes, kReplyBytes, 4711,
		EngineKind::kCuda, {}};
	size_t message_bytes = sizeof(Welcome); // beyond a WELCOME: zeros
	size_t n_descriptors = 3;               // beyond the three: eventfds
	unsigned memory_flags = MFD_ALLOW_SEALING;
	int seals = kGoodSeals; // 0: none are added
	size_t memory_bytes = slot_bytes(kRequestBytes, kReplyBytes);
	std::function<int()> other_memory; // instead of a memfd
	std::function<int()> other_doorbell;
	bool silent = false;   // nothing is sent, and the connection stays
	bool hangs_up = false; // nothing is sent, and the connection is closed
};

size_t
count_descriptors()
{
	size_t n = 0;

	for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
		n++;
	return n;
}

/// Return true if this process has the memory of an Answer mapped.
bool
memory_is_mapped()
{
	std::ifstream maps("/proc/self/maps");
	std::string line;

	while (std::getline(maps, line))
		if (line.find(kMemoryName) != std::string::npos)
			return true;
	return false;
}

int
make_memory(const Answer &answer)
{
	const int fd =
		answer.other_memory ? answer.other_memory() : memfd_create(kMemoryName, MFD_CLOEXEC | answer.memory_flags);

	EXPECT_GE(fd, 0) << strerror(errno);
	if (answer.other_memory)
		return fd;
	EXPECT_EQ(ftruncate(fd, static_cast<off_t>(answer.memory_bytes)), 0) << strerror(errno);
	if (answer.seals != 0)
	{
		EXPECT_EQ(fcntl(fd, F_ADD_SEALS, answer.seals), 0) << strerror(errno);
	}
	return fd;
}

/// The false worker's socket.
class FalseWorker
{
public:
	FalseWorker()
	{
		sockaddr_un address{};
		char path[kSocketPathBytes];

		format_socket_path(kEpoch, path);
		address.sun_family = AF_UNIX;
		memcpy(address.sun_path, path, sizeof(path));
		listening_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (listening_ < 0 || bind(listening_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0 ||
			listen(listening_, 1) != 0)
			ADD_FAILURE() << strerror(errno);
		path_ = path;
	}

	~FalseWorker()
	{
		if (thread_.joinable())
			thread_.join();
		for (const int fd : fds_)
			close(fd);
		if (connection_ >= 0)
			close(connection_);
		close(listening_);
		unlink(path_.c_str());
	}

	FalseWorker(const FalseWorker &) = delete;
	FalseWorker &operator=(const FalseWorker &) = delete;

	/// Answer the next client, on a thread of its own.
	void start(const Answer &answer)
	{
		thread_ = std::thread([this, answer] { serve(answer); });
	}

	/// Wait until the answer is sent. Its descriptors stay open until the end.
	void finish() { thread_.join(); }

	/// The client's HELLO. After finish.
	const Hello &hello() const { return hello_; }

	/// The descriptors that were sent. After finish.
	const std::vector<int> &fds() const { return fds_; }

private:
	void serve(const Answer &answer)
	{
		pollfd ready = {listening_, POLLIN, 0};

		if (poll(&ready, 1, kPatienceMs) != 1)
		{
			ADD_FAILURE() << "no client came";
			return;
		}
		connection_ = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
		EXPECT_GE(connection_, 0);
		EXPECT_EQ(recv(connection_, &hello_, sizeof(hello_), MSG_TRUNC), static_cast<ssize_t>(sizeof(hello_)));
		if (answer.hangs_up)
		{
			close(connection_);
			connection_ = -1;
		}
		else if (!answer.silent)
			send_answer(answer);
	}

	void send_answer(const Answer &answer)
	{
		std::vector<uint8_t> message(std::max(answer.message_bytes, sizeof(Welcome)));
		alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int) * 32)] = {};
		iovec part = {message.data(), answer.message_bytes};
		msghdr header{};

		memcpy(message.data(), &answer.welcome, sizeof(Welcome));
		header.msg_iov = &part;
		header.msg_iovlen = 1;
		while (fds_.size() < answer.n_descriptors)
			fds_.push_back(fds_.empty()                         ? make_memory(answer)
					: fds_.size() == 1 && answer.other_doorbell ? answer.other_doorbell()
																: eventfd(0, EFD_CLOEXEC));
		if (!fds_.empty())
		{
			header.msg_control = control;
			header.msg_controllen = CMSG_SPACE(sizeof(int) * fds_.size());

			cmsghdr *rights = CMSG_FIRSTHDR(&header);

			rights->cmsg_level = SOL_SOCKET;
			rights->cmsg_type = SCM_RIGHTS;
			rights->cmsg_len = CMSG_LEN(sizeof(int) * fds_.size());
			memcpy(CMSG_DATA(rights), fds_.data(), sizeof(int) * fds_.size());
		}
		EXPECT_EQ(sendmsg(connection_, &header, MSG_NOSIGNAL), static_cast<ssize_t>(answer.message_bytes))
			<< strerror(errno);
	}

	int listening_ = -1;
	int connection_ = -1;
	std::string path_;
	std::thread thread_;
	Hello hello_{};
	std::vector<int> fds_;
};

/// In a directory of its own, which is the current one.
class Greeting : public testing::Test
{
protected:
	void SetUp() override
	{
		char path[] = "/tmp/vectorgpu_test_XXXXXX";

		ASSERT_NE(mkdtemp(path), nullptr);
		before_ = std::filesystem::current_path();
		folder_ = path;
		std::filesystem::current_path(folder_);
		ASSERT_EQ(mkdir(kSocketFolder, 0700), 0);
		client_init(&client_);
	}

	void TearDown() override
	{
		client_close(&client_);
		if (!folder_.empty())
		{
			std::filesystem::current_path(before_);
			std::filesystem::remove_all(folder_);
		}
	}

	/// The client is as if it had never connected.
	void expect_closed()
	{
		EXPECT_EQ(client_.phase, ClientPhase::kClosed);
		EXPECT_EQ(client_.socket, -1);
		EXPECT_EQ(client_.doorbell, -1);
		EXPECT_EQ(client_.wakeup, -1);
		EXPECT_EQ(client_.slot, nullptr);
		EXPECT_FALSE(memory_is_mapped());
		EXPECT_EQ(client_poll(&client_), ClientState::kBroken);
		EXPECT_EQ(client_submit(&client_, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kGone);
	}

	/// Expect `expected` for an answer changed by `change`, and that the client keeps nothing.
	void refuses(const char *what, ClientResult expected, const std::function<void(Answer *)> &change,
		int timeout_ms = kPatienceMs)
	{
		SCOPED_TRACE(what);

		const size_t n_before = count_descriptors();
		Answer answer;

		change(&answer);
		{
			FalseWorker worker;

			worker.start(answer);
			EXPECT_EQ(client_connect(&client_, kEpoch, Role::kBackend, timeout_ms), expected);
			worker.finish();
		}
		expect_closed();
		EXPECT_EQ(count_descriptors(), n_before);
	}

	Client client_;

private:
	std::filesystem::path before_;
	std::filesystem::path folder_;
};

TEST_F(Greeting, of_a_right_worker_opens_the_session)
{
	const size_t n_before = count_descriptors();

	for (const size_t more_bytes : {0, 1, 4096}) // that the memory has
	{
		FalseWorker worker;
		Answer answer;
		uint32_t state = 0;
		uint64_t rings = 0;

		answer.memory_bytes += more_bytes;
		worker.start(answer);
		ASSERT_EQ(client_connect(&client_, kEpoch, Role::kLoader, kPatienceMs), ClientResult::kOk);
		worker.finish();
		EXPECT_EQ(worker.hello().magic, kMagic);
		EXPECT_EQ(worker.hello().version, kProtocolVersion);
		EXPECT_EQ(worker.hello().role, Role::kLoader);
		EXPECT_EQ(worker.hello().epoch, kEpoch);
		EXPECT_EQ(worker.hello().pid, static_cast<uint32_t>(getpid()));
		EXPECT_EQ(client_.session, 77u);
		EXPECT_EQ(client_.worker_pid, 4711u);
		EXPECT_EQ(client_.engine, EngineKind::kCuda);
		EXPECT_EQ(client_body_capacity(&client_), kRequestBytes - sizeof(RequestHeader));
		EXPECT_EQ(client_.reply_area_bytes, kReplyBytes);
		EXPECT_TRUE(client_alive(&client_));

		// Each descriptor has its role: the worker sees a request in the first and is woken by the second.
		ASSERT_EQ(client_submit(&client_, RequestType::kPing, nullptr, nullptr, 0), ClientResult::kOk);
		EXPECT_EQ(pread(worker.fds()[0], &state, sizeof(state), 0), static_cast<ssize_t>(sizeof(state)));
		EXPECT_EQ(state, static_cast<uint32_t>(SlotState::kSubmitted));
		EXPECT_EQ(read(worker.fds()[1], &rings, sizeof(rings)), static_cast<ssize_t>(sizeof(rings)));
		EXPECT_EQ(rings, 1u);

		// They were sent as blocking descriptors, but reading them here must not block.
		EXPECT_NE(fcntl(worker.fds()[1], F_GETFL) & O_NONBLOCK, 0);
		EXPECT_NE(fcntl(worker.fds()[2], F_GETFL) & O_NONBLOCK, 0);
		client_close(&client_);
		expect_closed();
	}
	EXPECT_EQ(count_descriptors(), n_before);
}

TEST_F(Greeting, of_another_protocol_is_refused)
{
	refuses("magic", ClientResult::kProtocol, [](Answer *a) { a->welcome.magic ^= 1; });
	refuses("version before", ClientResult::kSkew, [](Answer *a) { a->welcome.version--; });
	refuses("version behind", ClientResult::kSkew, [](Answer *a) { a->welcome.version++; });
	refuses("epoch", ClientResult::kProtocol, [](Answer *a) { a->welcome.epoch ^= uint64_t{1} << 63; });
}

TEST_F(Greeting, with_a_refusal_is_understood_with_or_without_descriptors)
{
	const struct
	{
		uint16_t status;
		ClientResult result;
	} cases[] = {{1, ClientResult::kSkew}, {2, ClientResult::kSkew}, {3, ClientResult::kFull},
		{4, ClientResult::kProtocol}, {5, ClientResult::kProtocol}, {0xffff, ClientResult::kProtocol}};

	for (const auto &one : cases)
		for (const size_t n : {0, 3})
			refuses(("status " + std::to_string(one.status) + ", descriptors " + std::to_string(n)).c_str(), one.result,
				[&](Answer *a)
				{
					a->welcome.status = static_cast<WelcomeStatus>(one.status);
					a->n_descriptors = n;
				});
}

TEST_F(Greeting, with_areas_that_are_too_small_too_large_or_odd_is_refused)
{
	for (const uint32_t bytes :
		{0u, 64u, kMinAreaBytes - 64, kMaxAreaBytes + 64, kMinAreaBytes + 1, kMinAreaBytes + 32})
	{
		const std::string text = std::to_string(bytes) + " bytes";

		// The memory is large enough, so that only the areas are wrong.
		refuses(("requests, " + text).c_str(), ClientResult::kProtocol,
			[&](Answer *a)
			{
				a->welcome.request_area_bytes = bytes;
				a->memory_bytes = slot_bytes(std::max(bytes, kRequestBytes), kReplyBytes);
			});
		refuses(("replies, " + text).c_str(), ClientResult::kProtocol,
			[&](Answer *a)
			{
				a->welcome.reply_area_bytes = bytes;
				a->memory_bytes = slot_bytes(kRequestBytes, std::max(bytes, kReplyBytes));
			});
	}
}

TEST_F(Greeting, of_another_length_is_refused)
{
	for (const size_t bytes : {size_t{1}, sizeof(Welcome) - 1, sizeof(Welcome) + 1, size_t{4096}})
		refuses((std::to_string(bytes) + " bytes").c_str(), ClientResult::kProtocol,
			[&](Answer *a) { a->message_bytes = bytes; });

	// A message of 0 bytes looks like a closed connection.
	refuses("0 bytes", ClientResult::kUnavailable, [](Answer *a) { a->message_bytes = 0; });
	refuses("hung up", ClientResult::kUnavailable, [](Answer *a) { a->hangs_up = true; });
	refuses("silent", ClientResult::kTimeout, [](Answer *a) { a->silent = true; }, 50);
}

TEST_F(Greeting, with_fewer_or_more_than_three_descriptors_is_refused)
{
	for (const size_t n : {0, 1, 2, 4, 8, 9, 20}) // the client has room for eight
		refuses((std::to_string(n) + " descriptors").c_str(), ClientResult::kProtocol,
			[&](Answer *a) { a->n_descriptors = n; });
}

TEST_F(Greeting, with_memory_that_may_shrink_is_refused)
{
	refuses("no seals", ClientResult::kProtocol, [](Answer *a) { a->seals = 0; });
	refuses("other seals", ClientResult::kProtocol, [](Answer *a) { a->seals = F_SEAL_GROW; });
	refuses("other seals, and no more can be added", ClientResult::kProtocol,
		[](Answer *a) { a->seals = F_SEAL_GROW | F_SEAL_SEAL; });
	refuses("memory that cannot be sealed", ClientResult::kProtocol,
		[](Answer *a)
		{
			a->memory_flags = 0;
			a->seals = 0;
		});
}

TEST_F(Greeting, with_memory_that_is_shorter_than_the_areas_is_refused)
{
	for (const size_t bytes : {size_t{0}, size_t{kSlotHeaderBytes}, slot_bytes(kRequestBytes, kReplyBytes) - 1})
		refuses((std::to_string(bytes) + " bytes").c_str(), ClientResult::kProtocol,
			[&](Answer *a) { a->memory_bytes = bytes; });
}

TEST_F(Greeting, with_another_kind_of_memory_is_refused)
{
	refuses("a file", ClientResult::kProtocol,
		[](Answer *a)
		{
			a->other_memory = []
			{
				const int fd = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

				EXPECT_EQ(ftruncate(fd, static_cast<off_t>(slot_bytes(kRequestBytes, kReplyBytes))), 0);
				return fd;
			};
		});
	refuses("a folder", ClientResult::kProtocol,
		[](Answer *a) { a->other_memory = [] { return open(".", O_RDONLY | O_CLOEXEC); }; });
	refuses("an eventfd", ClientResult::kProtocol,
		[](Answer *a) { a->other_memory = [] { return eventfd(0, EFD_CLOEXEC); }; });
	refuses("a socket", ClientResult::kProtocol,
		[](Answer *a) { a->other_memory = [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }; });
}

/// Faults that only the system detects; the second after the memory was mapped.
TEST_F(Greeting, with_unusable_descriptors_is_refused)
{
	refuses("memory that cannot be written", ClientResult::kSystem,
		[](Answer *a) { a->seals = F_SEAL_SHRINK | F_SEAL_WRITE; });
	EXPECT_EQ(client_.error_number, EPERM);
	refuses("a doorbell that is only a name", ClientResult::kSystem,
		[](Answer *a) { a->other_doorbell = [] { return open(".", O_PATH | O_CLOEXEC); }; });
	EXPECT_EQ(client_.error_number, EBADF);
}

} // namespace
} // namespace vectorgpu::wire

// Shared by the worker's tests: a data directory, a worker as a thread or as a process, a client that loads indexes,
// and a brute-force search to compare with.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/distance/distance.hpp"
#include "engine/distance/topk.hpp"
#include "support/same_answers.hpp"
#include "wire/client.hpp"
#include "wire/codec.hpp"
#include "worker/worker.hpp"

namespace vectorgpu::worker_test
{

using engine::Neighbor;
using test::same;
using wire::Client;
using wire::ClientResult;
using wire::ClientState;
using wire::CopyKey;
using wire::Part;
using wire::ReplyHeader;
using wire::ReplyStatus;
using wire::RequestType;
using wire::Role;

constexpr uint64_t kEpoch = 0x0123456789abcdef;
constexpr int kReplyTimeoutMs = 60000; // a loaded machine with a sanitizer is slow; a hang is still detected

inline bool
wait_until(const std::function<bool()> &condition, int timeout_ms = 30000)
{
	for (int waited = 0; waited < timeout_ms; waited += 5)
	{
		if (condition())
			return true;
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
	}
	return condition();
}

/// A directory that is the current one while the object lives.
class DataDirectory
{
public:
	DataDirectory()
	{
		char path[] = "/tmp/vectorgpu_test_XXXXXX";

		if (mkdtemp(path) == nullptr || getcwd(before_, sizeof(before_)) == nullptr || chdir(path) != 0)
			std::abort();
		path_ = path;
	}

	~DataDirectory()
	{
		if (chdir(before_) != 0 || system(("rm -rf '" + path_ + "'").c_str()) != 0)
			fprintf(stderr, "could not remove %s\n", path_.c_str());
	}

	const std::string &path() const { return path_; }

private:
	char before_[4096];
	std::string path_;
};

/// A worker in a thread of this process.
class ThreadWorker
{
public:
	explicit ThreadWorker(worker::Options options, std::unique_ptr<engine::Engine> made = nullptr)
		: worker_(options, made != nullptr ? std::move(made) : worker::make_engine(options))
	{
		const Status status = worker_.listen(1000);

		if (!status.is_ok())
			ADD_FAILURE() << status.message;
		thread_ = std::thread([this] { worker_.run(); });
	}

	~ThreadWorker()
	{
		worker_.stop();
		thread_.join();
	}

	worker::Worker &operator*() { return worker_; }
	worker::Worker *operator->() { return &worker_; }

private:
	worker::Worker worker_;
	std::thread thread_;
};

/// The real executable.
class ProcessWorker
{
public:
	explicit ProcessWorker(std::vector<std::string> arguments, const char *fault = "")
	{
		char directory[4096];

		if (getcwd(directory, sizeof(directory)) == nullptr)
			std::abort();
		arguments.insert(
			arguments.begin(), {VECTORGPU_WORKER_PATH, "--data-directory", directory, "--epoch", "0123456789abcdef"});

		std::vector<char *> argv;

		for (std::string &argument : arguments)
			argv.push_back(argument.data());
		argv.push_back(nullptr);
		pid_ = fork();
		if (pid_ == 0)
		{
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			setenv("VECTORGPU_WORKER_FAULT", fault, 1);
			execv(argv[0], argv.data());
			_exit(127);
		}
	}

	~ProcessWorker()
	{
		if (pid_ > 0)
		{
			kill(pid_, SIGKILL);
			waitpid(pid_, nullptr, 0);
		}
	}

	pid_t pid() const { return pid_; }

	/// Send a signal; after SIGSTOP wait until the process has stopped.
	void signal(int number)
	{
		siginfo_t info = {};

		kill(pid_, number);
		if (number == SIGSTOP)
			waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT);
	}

	/// Return true if it has ended; it can still be reaped.
	bool has_ended() const
	{
		siginfo_t info = {};

		return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_;
	}

	/// Wait for its end. Returns the status of waitpid.
	int reap()
	{
		int status = -1;

		waitpid(pid_, &status, 0);
		pid_ = -1;
		return status;
	}

private:
	pid_t pid_ = -1;
};

/// A connection that is closed with the object.
struct Connection
{
	explicit Connection(Role role = Role::kBackend)
	{
		wire::client_init(&client);
		// A worker that was just started may not listen yet.
		wait_until([&]
			{ return (result = wire::client_connect(&client, kEpoch, role, 5000)) != ClientResult::kUnavailable; },
			kReplyTimeoutMs);
	}
	~Connection() { wire::client_close(&client); }
	Connection(const Connection &) = delete;
	Connection &operator=(const Connection &) = delete;

	Client client;
	ClientResult result = ClientResult::kUnavailable;
};

struct Answer
{
	ClientResult result = ClientResult::kGone; // of the exchange
	ReplyHeader header{};
	std::vector<uint8_t> body;

	bool ok() const { return result == ClientResult::kOk && header.status == ReplyStatus::kOk; }
	ReplyStatus status() const { return result == ClientResult::kOk ? header.status : static_cast<ReplyStatus>(1000); }
};

/// Submit a request and wait for the reply.
inline Answer
exchange(Client *client, RequestType type, const CopyKey &key, std::initializer_list<Part> parts)
{
	Answer answer;

	answer.result = wire::client_submit(client, type, &key, parts.begin(), parts.size());
	if (answer.result != ClientResult::kOk)
		return answer;
	if (wire::client_wait(client, kReplyTimeoutMs) != ClientState::kReplied)
	{
		answer.result = ClientResult::kTimeout;
		return answer;
	}
	answer.body.resize(client->reply_area_bytes);
	answer.result = wire::client_take_reply(client, &answer.header, answer.body.data(), answer.body.size());
	answer.body.resize(answer.header.body_bytes);
	return answer;
}

template <class T>
Part
part_of(const T &value)
{
	return {&value, sizeof(value)};
}

inline CopyKey
key_of(uint32_t n)
{
	return {5, 1663, 16384 + n, 0, 0x1111, n};
}

/// Rows of a table, to load and to search by brute force.
struct Table
{
	engine::DistanceSpec spec{Metric::kL2, ElementType::kFloat32, 24};
	CopyKey key = key_of(1);
	std::vector<RowId> row_ids;
	std::vector<float> vectors;
	std::vector<bool> dead;

	Table(size_t n_rows, uint32_t dim, uint32_t seed, uint32_t number = 1) : key(key_of(number))
	{
		spec.dim = dim;
		add(n_rows, seed);
	}

	size_t size() const { return row_ids.size(); }

	void add(size_t n_rows, uint32_t seed)
	{
		std::mt19937 random(seed);
		std::uniform_int_distribution<int> value(-8, 8); // integers: ties of distance are common

		for (size_t i = 0; i < n_rows; i++)
		{
			const size_t number = row_ids.size();

			row_ids.push_back(make_row_id(static_cast<uint32_t>(number / 50), static_cast<uint16_t>(number % 50 + 1)));
			dead.push_back(false);
			for (uint32_t d = 0; d < spec.dim; d++)
				vectors.push_back(static_cast<float>(value(random)));
		}
	}

	const float *row(size_t i) const { return &vectors[i * spec.dim]; }

	std::vector<float> query(uint32_t seed) const
	{
		std::mt19937 random(seed);
		std::uniform_int_distribution<int> value(-8, 8);
		std::vector<float> made(spec.dim);

		for (float &x : made)
			x = static_cast<float>(value(random));
		return made;
	}

	/// Return the first k of the rows [0, n_visible), strictly after `after` if it is given.
	std::vector<Neighbor> nearest(
		const std::vector<float> &query, size_t k, size_t n_visible, const Neighbor *after = nullptr) const
	{
		std::vector<Neighbor> all;

		for (size_t i = 0; i < n_visible; i++)
		{
			Neighbor candidate{0, row_ids[i]};

			engine::compute_scores(
				spec, query.data(), row(i), vector_bytes(spec.element, spec.dim), 1, &candidate.score);
			if (!dead[i] && (after == nullptr || engine::neighbor_less(*after, candidate)))
				all.push_back(candidate);
		}
		std::sort(all.begin(), all.end(), engine::neighbor_less);
		all.resize(std::min(all.size(), k));
		return all;
	}
};

inline Answer
create(Client *client, const Table &table, uint64_t expected_bytes = 0, uint64_t delta_first = 0)
{
	const wire::CreateRequest request{
		expected_bytes, delta_first, table.spec.dim, table.spec.element, table.spec.metric, wire::CopyKind::kRows, 0};

	return exchange(client, RequestType::kCreate, table.key, {part_of(request)});
}

/// Send rows [first, last) of the table as rows of a segment (or of the delta: 0) from `position` on, in parts.
inline Answer
send_rows(Client *client, const Table &table, uint32_t segment, uint64_t position, size_t first, size_t last,
	const std::vector<uint64_t> *headers = nullptr, size_t part_rows = 500)
{
	Answer answer;

	while (first < last)
	{
		const size_t n = std::min(part_rows, last - first);
		const wire::RowsRequest request{position, segment, static_cast<uint32_t>(n)};
		const Part ids = {(headers != nullptr ? *headers : table.row_ids).data() + first, n * 8};
		const Part vectors = {table.row(first), n * table.spec.dim * sizeof(float)};

		answer = exchange(client, segment == 0 ? RequestType::kAppend : RequestType::kLoadRows, table.key,
			{part_of(request), ids, vectors});
		if (!answer.ok())
			return answer;
		first += n;
		position += n;
	}
	return answer;
}

inline Answer
seal(Client *client, const Table &table, uint32_t segment, uint64_t n_rows)
{
	const wire::SegmentRequest request{segment, 0, n_rows};

	return exchange(client, RequestType::kSeal, table.key, {part_of(request)});
}

inline Answer
manifest(Client *client, const Table &table, uint64_t generation, std::vector<uint32_t> segments,
	uint64_t delta_first = 0, uint64_t tombstone_generation = 0)
{
	const wire::ManifestRequest request{
		generation, tombstone_generation, delta_first, static_cast<uint32_t>(segments.size()), 0};

	return exchange(
		client, RequestType::kManifest, table.key, {part_of(request), {segments.data(), segments.size() * 4}});
}

/// Load rows [0, n_segment) as segment 1, the rest as the delta; manifest generation 1.
inline void
load(Client *client, const Table &table, size_t n_segment)
{
	ASSERT_TRUE(create(client, table).ok());
	if (n_segment > 0)
	{
		ASSERT_TRUE(send_rows(client, table, 1, 0, 0, n_segment).ok());
		ASSERT_TRUE(seal(client, table, 1, n_segment).ok());
	}
	if (n_segment < table.size())
	{
		ASSERT_TRUE(send_rows(client, table, 0, 0, n_segment, table.size()).ok());
	}
	ASSERT_TRUE(manifest(client, table, 1, n_segment > 0 ? std::vector<uint32_t>{1} : std::vector<uint32_t>{}).ok());
}

inline ClientResult
submit_search(Client *client, const Table &table, const std::vector<float> &query, uint64_t k,
	const wire::CopyVersion &version = {}, const Neighbor *after = nullptr)
{
	wire::SearchRequest request{};

	request.version = version;
	request.k = k;
	if (after != nullptr)
	{
		request.has_after = 1;
		request.after_score = after->score;
		request.after_row = after->row;
	}
	request.dim = table.spec.dim;
	request.element = table.spec.element;
	request.metric = table.spec.metric;

	const Part parts[] = {part_of(request), {query.data(), query.size() * sizeof(float)}};

	return wire::client_submit(client, RequestType::kSearch, &table.key, parts, 2);
}

/// Return the results of a reply's body, after checking their order.
inline std::vector<Neighbor>
neighbors(const Answer &answer)
{
	std::vector<wire::WireNeighbor> items(answer.header.n_items);
	std::vector<Neighbor> found;

	if (!items.empty())
		memcpy(items.data(), answer.body.data(), answer.body.size());
	EXPECT_TRUE(wire::neighbors_valid(items.data(), items.size(), nullptr));
	for (const wire::WireNeighbor &item : items)
		found.push_back({item.score, item.row});
	return found;
}

/// Send SEARCH and as many NEXT as needed.
inline Answer
search(Client *client, const Table &table, const std::vector<float> &query, uint64_t k, std::vector<Neighbor> *found,
	const wire::CopyVersion &version = {}, const Neighbor *after = nullptr)
{
	Answer answer;

	answer.result = submit_search(client, table, query, k, version, after);
	if (answer.result != ClientResult::kOk)
		return answer;

	const wire::NextRequest next{client->sequence};

	if (wire::client_wait(client, kReplyTimeoutMs) != ClientState::kReplied)
	{
		answer.result = ClientResult::kTimeout;
		return answer;
	}
	answer.body.resize(client->reply_area_bytes);
	answer.result = wire::client_take_reply(client, &answer.header, answer.body.data(), answer.body.size());
	answer.body.resize(answer.header.body_bytes);
	found->clear();
	while (answer.ok())
	{
		const std::vector<Neighbor> part = neighbors(answer);

		found->insert(found->end(), part.begin(), part.end());
		if (answer.header.more == 0)
			break;
		answer = exchange(client, RequestType::kNext, CopyKey{}, {part_of(next)});
	}
	return answer;
}

inline wire::WorkerStats
stats(Client *client)
{
	wire::WorkerStats found{};
	const Answer answer = exchange(client, RequestType::kStats, CopyKey{}, {});

	EXPECT_TRUE(answer.ok());
	if (answer.body.size() == sizeof(found))
		memcpy(&found, answer.body.data(), sizeof(found));
	return found;
}

inline worker::Options
options_for_test()
{
	worker::Options options;

	options.data_directory = ".";
	options.epoch = kEpoch;
	options.engine = "cpu";
	options.n_threads = 2;
	options.n_dispatchers = 2;
	options.max_sessions = 64;
	return options;
}

} // namespace vectorgpu::worker_test

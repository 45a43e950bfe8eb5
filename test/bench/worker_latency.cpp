// What the way to the worker and back costs, and what batching brings.
//
//   worker_latency WORKER_EXECUTABLE [--seconds S] [--rows N] [--dim D] [--k K] [--threads T] [--u8bin FILE] [--part
//   null|cpu|load]
//
// part null: round trips of SEARCH (128 floats, k = 10) through a worker whose engine answers in no time, for 1, 4, 16
// and
//   64 clients, with and without spinning: p50 and p99 of the round trip, and CPU time per request on either side.
// part cpu: the CPU engine with one client and with 64: searches per second.
// part load: bytes per second of LOAD_ROWS.
// Prints one JSON object a line. Rows are random clusters, or those of an uncompressed .u8bin file (u32 n, u32 dim,
// bytes).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/client.hpp"
#include "wire/copy_messages.hpp"

using namespace vectorgpu;
using namespace vectorgpu::wire;

namespace
{

constexpr uint64_t kEpoch = 42;
constexpr int kTimeoutMs = 120000;
const CopyKey kKey = {1, 2, 3, 0, 4, 5};

struct Settings
{
	std::string worker;
	std::string part; // empty: all
	std::string u8bin;
	double seconds = 2;
	size_t n_rows = 200000;
	uint32_t dim = 128;
	uint64_t k = 10;
	unsigned n_threads = std::max(1u, std::thread::hardware_concurrency());
};

[[noreturn]] void
die(const char *what)
{
	fprintf(stderr, "worker_latency: %s\n", what);
	exit(1);
}

uint64_t
cpu_ns(clockid_t clock)
{
	timespec now{};

	clock_gettime(clock, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

/// A worker process in a temporary data directory, which becomes the current one.
class Worker
{
public:
	Worker(const Settings &settings, const char *engine, unsigned spin_us)
	{
		char path[] = "/tmp/vectorgpu_bench_XXXXXX";

		if (mkdtemp(path) == nullptr || chdir(path) != 0)
			die("could not make a folder");
		path_ = path;

		const std::string spin = std::to_string(spin_us);
		const std::string threads = std::to_string(settings.n_threads);

		pid_ = fork();
		if (pid_ == 0)
		{
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (freopen("/dev/null", "w", stderr) == nullptr)
				_exit(127);
			execl(settings.worker.c_str(), "vectorgpu_worker", "--data-directory", path, "--epoch", "2a", "--engine",
				engine, "--spin-us", spin.c_str(), "--threads", threads.c_str(), static_cast<char *>(nullptr));
			_exit(127);
		}
		if (clock_getcpuclockid(pid_, &clock_) != 0)
			die("no CPU clock of the worker");
	}

	~Worker()
	{
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
		if (chdir("/") != 0 || system(("rm -rf '" + path_ + "'").c_str()) != 0)
			fprintf(stderr, "could not remove %s\n", path_.c_str());
	}

	uint64_t cpu() const { return cpu_ns(clock_); }

private:
	pid_t pid_;
	clockid_t clock_;
	std::string path_;
};

void
open_client(Client *client, Role role)
{
	client_init(client);
	for (int i = 0; i < 1000; i++)
	{
		if (client_connect(client, kEpoch, role, 5000) == ClientResult::kOk)
			return;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
	die("no worker");
}

/// One request and its reply; the body goes to a buffer of its own thread.
void
exchange(Client *client, RequestType type, std::initializer_list<Part> parts, unsigned spin_us, ReplyHeader *header)
{
	static thread_local std::vector<uint8_t> body(kReplyAreaBytes);
	uint64_t longest_yield_ns = 0;

	if (client_submit(client, type, &kKey, parts.begin(), parts.size()) != ClientResult::kOk)
		die("submit failed");
	if (client_spin(client, spin_us, &longest_yield_ns) == ClientState::kPending &&
		client_wait(client, kTimeoutMs) != ClientState::kReplied)
		die("no reply");
	if (client_take_reply(client, header, body.data(), body.size()) != ClientResult::kOk)
		die("wrong reply");
	if (header->status != ReplyStatus::kOk)
		die("the worker refused");
}

template <class T>
Part
part_of(const T &value)
{
	return {&value, sizeof(value)};
}

/// Row-major floats: clusters, so that a filter has something to tell apart.
std::vector<float>
make_rows(const Settings &settings, size_t *n_rows)
{
	std::vector<float> rows;

	*n_rows = settings.n_rows;
	if (!settings.u8bin.empty())
	{
		FILE *file = fopen(settings.u8bin.c_str(), "rb");
		uint32_t head[2];

		if (file == nullptr || fread(head, 4, 2, file) != 2 || head[1] != settings.dim)
			die("not a .u8bin file of that dimension");
		*n_rows = std::min<size_t>(settings.n_rows, head[0]);

		std::vector<uint8_t> bytes(*n_rows * settings.dim);

		if (fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
			die("the .u8bin file is too short");
		fclose(file);
		rows.assign(bytes.begin(), bytes.end());
		return rows;
	}

	std::mt19937 random(1);
	std::normal_distribution<float> normal;
	std::vector<float> centres(256 * settings.dim);

	for (float &x : centres)
		x = 4 * normal(random);
	rows.resize(*n_rows * settings.dim);
	for (size_t i = 0; i < *n_rows; i++)
	{
		const float *centre = &centres[random() % 256 * settings.dim];

		for (uint32_t d = 0; d < settings.dim; d++)
			rows[i * settings.dim + d] = centre[d] + normal(random);
	}
	return rows;
}

/// Loads the rows as one segment: seconds that LOAD_ROWS took.
double
load(const Settings &settings, const std::vector<float> &rows, size_t n_rows)
{
	const size_t row_bytes = settings.dim * sizeof(float);
	const CreateRequest create = {
		n_rows * (row_bytes + 8), 0, settings.dim, ElementType::kFloat32, Metric::kL2, CopyKind::kRows, 0};
	const SegmentRequest segment = {1, 0, n_rows};
	const ManifestRequest manifest = {1, 0, 0, 1, 0};
	const uint32_t segment_id = 1;
	std::vector<uint64_t> row_ids(n_rows);
	ReplyHeader header;
	Client client;

	for (size_t i = 0; i < n_rows; i++)
		row_ids[i] = make_row_id(static_cast<uint32_t>(i / 100), static_cast<uint16_t>(i % 100 + 1));
	open_client(&client, Role::kLoader);
	exchange(&client, RequestType::kCreate, {part_of(create)}, 0, &header);

	const uint64_t started = monotonic_ns();
	const size_t at_once = (client_body_capacity(&client) - sizeof(RowsRequest)) / (row_bytes + 8);

	for (size_t first = 0; first < n_rows; first += at_once)
	{
		const size_t n = std::min(at_once, n_rows - first);
		const RowsRequest request = {first, 1, static_cast<uint32_t>(n)};

		exchange(&client, RequestType::kLoadRows,
			{part_of(request), {&row_ids[first], n * 8}, {&rows[first * settings.dim], n * row_bytes}}, 20, &header);
	}

	const double seconds = static_cast<double>(monotonic_ns() - started) * 1e-9;

	exchange(&client, RequestType::kSeal, {part_of(segment)}, 0, &header);
	exchange(&client, RequestType::kManifest, {part_of(manifest), part_of(segment_id)}, 0, &header);
	client_close(&client);
	return seconds;
}

struct Measured
{
	uint64_t n = 0;
	double seconds = 0;
	double p50_us = 0;
	double p99_us = 0;
	double max_us = 0;
	double client_cpu_us = 0; // per request
	double worker_cpu_us = 0;
	double mean_batch = 0;
};

/// `n_clients` threads search as fast as they can.
Measured
search_all(
	const Settings &settings, const Worker &worker, const std::vector<float> &rows, size_t n_clients, unsigned spin_us)
{
	std::vector<std::vector<uint32_t>> times(n_clients);
	std::vector<std::thread> threads;
	std::atomic<bool> go{false};
	std::atomic<bool> stop{false};
	std::atomic<size_t> n_ready{0};
	std::atomic<uint64_t> batch_sum{0};
	Measured measured;

	for (size_t t = 0; t < n_clients; t++)
		threads.emplace_back(
			[&, t]
			{
				std::mt19937 random(static_cast<uint32_t>(t));
				SearchRequest request{};
				ReplyHeader header;
				Client client;
				uint64_t batches = 0;

				request.k = settings.k;
				request.dim = settings.dim;
				open_client(&client, Role::kBackend);
				times[t].reserve(1 << 20);
				n_ready++;
				while (!go)
					std::this_thread::sleep_for(std::chrono::milliseconds(1));
				while (!stop)
				{
					const float *query = &rows[random() % (rows.size() / settings.dim) * settings.dim];
					const uint64_t before = monotonic_ns();

					exchange(&client, RequestType::kSearch, {part_of(request), {query, settings.dim * sizeof(float)}},
						spin_us, &header);
					times[t].push_back(static_cast<uint32_t>(std::min<uint64_t>(monotonic_ns() - before, UINT32_MAX)));
					batches += header.batch_size;
				}
				batch_sum += batches;
				client_close(&client);
			});
	while (n_ready < n_clients)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));

	const uint64_t worker_before = worker.cpu();
	const uint64_t client_before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	const uint64_t started = monotonic_ns();

	go = true;
	std::this_thread::sleep_for(std::chrono::duration<double>(settings.seconds));
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	measured.seconds = static_cast<double>(monotonic_ns() - started) * 1e-9;

	const double client_ns = static_cast<double>(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - client_before);
	const double worker_ns = static_cast<double>(worker.cpu() - worker_before);
	std::vector<uint32_t> all;

	for (const auto &some : times)
		all.insert(all.end(), some.begin(), some.end());
	std::sort(all.begin(), all.end());
	measured.n = all.size();
	if (all.empty())
		return measured;
	measured.p50_us = all[all.size() / 2] * 1e-3;
	measured.p99_us = all[all.size() * 99 / 100] * 1e-3;
	measured.max_us = all.back() * 1e-3;
	measured.client_cpu_us = client_ns * 1e-3 / static_cast<double>(all.size());
	measured.worker_cpu_us = worker_ns * 1e-3 / static_cast<double>(all.size());
	measured.mean_batch = static_cast<double>(batch_sum) / static_cast<double>(all.size());
	return measured;
}

void
print(const char *part, size_t n_clients, unsigned spin_us, const Settings &settings, size_t n_rows, const Measured &m)
{
	printf("{\"part\": \"%s\", \"clients\": %zu, \"spin_us\": %u, \"rows\": %zu, \"dim\": %u, \"k\": %" PRIu64
		   ", \"engine_threads\": %u, \"cores\": %u, \"per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
		   "\"max_us\": %.0f, \"client_cpu_us\": %.2f, \"worker_cpu_us\": %.2f, \"batch_seen\": %.1f}\n",
		part, n_clients, spin_us, n_rows, settings.dim, settings.k, settings.n_threads,
		std::thread::hardware_concurrency(), static_cast<double>(m.n) / m.seconds, m.p50_us, m.p99_us, m.max_us,
		m.client_cpu_us, m.worker_cpu_us, m.mean_batch);
	fflush(stdout);
}

Settings
parse(int argc, char **argv)
{
	Settings settings;
	char directory[4096];

	if (argc < 2 || getcwd(directory, sizeof(directory)) == nullptr)
		die("the worker's executable is missing");
	settings.worker = argv[1][0] == '/' ? argv[1] : std::string(directory) + "/" + argv[1];
	for (int i = 2; i + 1 < argc; i += 2)
	{
		const std::string name = argv[i];
		const char *value = argv[i + 1];

		if (name == "--seconds")
			settings.seconds = atof(value);
		else if (name == "--rows")
			settings.n_rows = strtoull(value, nullptr, 10);
		else if (name == "--dim")
			settings.dim = static_cast<uint32_t>(strtoul(value, nullptr, 10));
		else if (name == "--k")
			settings.k = strtoull(value, nullptr, 10);
		else if (name == "--threads")
			settings.n_threads = static_cast<unsigned>(strtoul(value, nullptr, 10));
		else if (name == "--u8bin")
			settings.u8bin = value;
		else if (name == "--part")
			settings.part = value;
		else
			die("unknown option");
	}
	return settings;
}

} // namespace

int
main(int argc, char **argv)
{
	const Settings settings = parse(argc, argv);
	size_t n_rows = 0;
	const std::vector<float> rows = make_rows(settings, &n_rows);

	if (settings.part.empty() || settings.part == "null")
		for (const unsigned spin_us : {0u, 50u})
		{
			Settings small = settings;
			const Worker worker(settings, "null", spin_us);

			load(small, rows, std::min<size_t>(n_rows, 1000));
			for (const size_t n_clients : {1, 4, 16, 64})
				print("null", n_clients, spin_us, settings, n_rows,
					search_all(settings, worker, rows, n_clients, spin_us));
		}
	if (settings.part.empty() || settings.part == "cpu")
	{
		const Worker worker(settings, "cpu", 0);

		load(settings, rows, n_rows);
		for (const size_t n_clients : {1, 4, 16, 64})
			print("cpu", n_clients, 0, settings, n_rows, search_all(settings, worker, rows, n_clients, 0));
	}
	if (settings.part.empty() || settings.part == "load")
		for (const char *engine : {"null", "cpu"})
		{
			const Worker worker(settings, engine, 0);
			const double seconds = load(settings, rows, n_rows);

			printf("{\"part\": \"load\", \"engine\": \"%s\", \"rows\": %zu, \"dim\": %u, \"gb_per_second\": %.2f}\n",
				engine, n_rows, settings.dim, static_cast<double>(n_rows * (settings.dim * 4 + 8)) * 1e-9 / seconds);
		}
	return 0;
}

// Shared by the parts of large_engine_bench: options, threads, times and figures.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "common/cores.hpp"
#include "made_rows.hpp"
#include "support/must.hpp"

namespace vectorgpu::bench
{

using vectorgpu::test::must;

/// Where the rows are that decide among candidates.
enum class RowsPlace
{
	kDevice, // the engine's, on the device (CopyKind::kCodedLists)
	kHost,   // the engine's, in pinned memory of the host
	kCaller, // this program's: the engine returns candidates (CopyKind::kCodes), threads compare the rows
};

struct Storage
{
	std::string name; // rabitq, pq, sq8
	uint32_t number;  // bits of a dimension, bytes of a code, 0
	std::string text; // as given
};

struct Options
{
	RowLaw law;
	uint64_t n_rows = 100000000;
	uint32_t n_lists = 32768;
	uint32_t training = 32; // rows of the sample for each list
	uint32_t iterations = 10;
	std::vector<Storage> storages = {{"rabitq", 4, "rabitq:4"}, {"pq", 48, "pq:48"}};
	std::vector<uint32_t> probes = {8, 16, 24, 32, 48, 64, 96, 128};
	std::vector<uint32_t> candidates = {20, 40, 100};
	std::vector<uint32_t> batches = {10000, 1};
	uint32_t n_queries = 20000;
	uint32_t n_judged = 1000; // queries whose recall is measured
	double seconds = 0.5;     // of a point
	double enough = 0.99;     // recall from which on more probes are left out
	double wanted = 0.95;     // recall of the figures
	double least_recall = 0;  // fail where no point of a storage reaches it
	double deadline = 500;    // seconds after which no further storage or point begins
	size_t n_threads = count_cores();
	size_t n_builders = 4; // that build lists side by side
	uint32_t workspace_mb = 2048;
	bool keep = true; // rows, in this program's memory; else they are made again where they are needed
	bool cpu = false;
	RowsPlace place = RowsPlace::kDevice;
	const char *figures = nullptr; // a file that lines of figures are added to
};

inline double
now_s()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Call work(first, last, thread) over [0, n) in parts of `part`, by n_threads.
template <class Work>
void
in_parts(size_t n_threads, uint64_t n, uint64_t part, const Work &work)
{
	std::atomic<uint64_t> next{0};
	std::vector<std::thread> threads;
	const auto run = [&](size_t thread)
	{
		for (uint64_t first; (first = next.fetch_add(part)) < n;)
			work(first, std::min(n, first + part), thread);
	};
	const size_t n_wanted = static_cast<size_t>(std::min<uint64_t>(n_threads, (n + part - 1) / part));

	for (size_t i = 1; i < n_wanted; i++)
		threads.emplace_back(run, i);
	run(0);
	for (std::thread &thread : threads)
		thread.join();
}

/// Prints what time was spent on, and writes figures: name, value, unit, recall, separated by tabs.
class Report
{
public:
	explicit Report(const Options &options)
		: options_(options), file_(options.figures == nullptr ? nullptr : std::fopen(options.figures, "a"))
	{
	}
	~Report()
	{
		if (file_ != nullptr)
			std::fclose(file_);
	}
	Report(const Report &) = delete;
	Report &operator=(const Report &) = delete;

	/// A step of the build over n rows, since the last line; returns its seconds. storage: "" if it is for all.
	double step(const char *name, uint64_t n, const std::string &storage = "")
	{
		const double now = now_s();
		const double took = now - last_;
		const double cpu = cpu_s();

		std::printf("# %-9s %-10s %8.2f s, %8.2f of the cores'", storage.c_str(), name, took, cpu - last_cpu_);
		last_ = now;
		last_cpu_ = cpu;
		if (n > 0)
			std::printf(" %14.0f rows/s", static_cast<double>(n) / std::max(took, 1e-9));
		std::printf("   (%.0f s in all)\n", now - began_);
		std::fflush(stdout);
		figure((storage.empty() ? "" : storage + ", ") + name, took, "s", 0);
		return took;
	}

	/// Time that belongs to no step.
	void skip()
	{
		last_ = now_s();
		last_cpu_ = cpu_s();
	}

	/// recall 0: it has none.
	void figure(const std::string &what, double value, const char *unit, double recall) const
	{
		char line[512];
		const std::string shape = std::to_string(options_.n_rows) + " x " + std::to_string(options_.law.dim) + ", " +
			std::to_string(options_.n_lists) + " lists";

		std::snprintf(line, sizeof(line), "large_engine: %s: %s\t%.6g\t%s\t%s\n", shape.c_str(), what.c_str(), value,
			unit, recall > 0 ? std::to_string(recall).substr(0, 6).c_str() : "-");
		std::printf("figure\t%s", line);
		if (file_ != nullptr)
			std::fputs(line, file_);
	}

	double elapsed() const { return now_s() - began_; }
	bool is_late() const { return elapsed() > options_.deadline; }

private:
	/// Seconds that cores have computed for this process.
	static double cpu_s()
	{
		rusage usage{};

		if (getrusage(RUSAGE_SELF, &usage) != 0)
			return 0;
		return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	}

	const Options &options_;
	std::FILE *file_;
	const double began_ = now_s();
	double last_ = began_;
	double last_cpu_ = 0;
};

} // namespace vectorgpu::bench

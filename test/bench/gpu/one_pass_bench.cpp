// Small batches over byte rows: the ways of an exact search, and the choices of the searches in one pass
// (kernels/filter/one_pass_tuning.hpp), compared in one process, round by round, so that changes of the device's
// speed affect all alike. Milliseconds from host to host, medians.
//   gpu_one_pass_bench BASE.u8bin QUERY.u8bin GROUND_TRUTH.bin [--runs N] [--stamps] [--only NAME BATCH]
// Files as gpu_search_bench's; every answer's distances are compared with the ground truth. --stamps: how long the
// steps of a search take, by the clocks of device and host. --only: a few searches of one kind, for a profiler.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda/cuda_engine.hpp"
#include "cuda/search/search.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;
using kernels::OnePassStamps;
using kernels::OnePassTuning;

namespace
{

constexpr uint32_t kNever = 0xFFFFFFFFu;
constexpr size_t kMostBlocks = 1024;
constexpr size_t kBatches[] = {1, 8, 16, 32, 64};
constexpr int kRounds = 5;

struct Way
{
	const char *name;
	bool one_pass = true;
	OnePassTuning tuning = {};
};

constexpr uint64_t kMegabyte = 1 << 20;

const Way kWays[] = {
	{"default"},
	{"chain", false},
	{"no tiles shared out", true, {.least_queries_to_share = kNever}},
	{"shared out in all batches", true, {.least_queries_to_share = 1}},
	{"shared out in all batches, by 4", true, {.least_queries_to_share = 1, .shared_tiles = 4}},
	{"4 copies on the way", true, {.stages_on_the_way = 4}},
	{"6 copies on the way", true, {.stages_on_the_way = 6}},
	{"12 copies on the way", true, {.stages_on_the_way = 12}},
	{"no rows preferred in L2", true, {.kept_bytes = 0}},
	{"1 MB kept in L2", true, {.kept_bytes = kMegabyte}},
	{"16 MB kept in L2", true, {.kept_bytes = 16 * kMegabyte}},
	{"32 MB kept in L2", true, {.kept_bytes = 32 * kMegabyte}},
	{"candidates rescored", true, {.exact_scores = false}},
	{"ranked by counting", true, {.ranked = true}},
};

struct Kind
{
	const Way *way = nullptr;
	std::unique_ptr<cuda::OnePassTrace> trace;
	uint64_t *times_of_blocks = nullptr; // for the trace, if it is recorded
	std::unique_ptr<cuda::CudaEngine> engine;
	engine::CopyId copy = 0;
	std::array<std::vector<double>, std::size(kBatches)> times;
	size_t n_wrong = 0;
};

double
microseconds(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to)
{
	return std::chrono::duration<double, std::micro>(to - from).count();
}

/// Sums of the stamps of many searches, in us since the first block of each began.
struct StampSums
{
	struct Sum
	{
		double first = 0, mean = 0, last = 0;
		size_t n = 0;
	};
	std::array<Sum, OnePassStamps::kCount> sums;
	double staging = 0, launching = 0, waiting = 0, device = 0;
	size_t n = 0;

	void add(const cuda::OnePassTrace &trace)
	{
		std::vector<uint64_t> times(size_t{trace.n_blocks} * OnePassStamps::kCount);

		cudaMemcpy(times.data(), trace.stamps.times, times.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost);
		cudaMemset(trace.stamps.times, 0, times.size() * sizeof(uint64_t));

		uint64_t begin = UINT64_MAX;
		double answered = 0;

		for (uint32_t block = 0; block < trace.n_blocks; block++)
			begin = std::min(begin, times[block * OnePassStamps::kCount + OnePassStamps::kBegin]);
		for (size_t what = 0; what < OnePassStamps::kCount; what++)
		{
			double first = 1e30, last = 0, all = 0;
			size_t blocks = 0;

			for (uint32_t block = 0; block < trace.n_blocks; block++)
			{
				const uint64_t at = times[block * OnePassStamps::kCount + what];

				if (at < begin)
					continue; // the block has not recorded this step
				const double us = static_cast<double>(at - begin) / 1000.0;

				first = std::min(first, us);
				last = std::max(last, us);
				all += us;
				blocks++;
			}
			if (blocks == 0)
				continue;
			sums[what].first += first;
			sums[what].mean += all / static_cast<double>(blocks);
			sums[what].last += last;
			sums[what].n++;
			if (what == OnePassStamps::kAnswered)
				answered = last;
		}
		staging += microseconds(trace.begun, trace.staged);
		launching += microseconds(trace.staged, trace.launched);
		waiting += microseconds(trace.launched, trace.answered);
		device += answered;
		n++;
	}

	void print(const char *name, size_t batch) const
	{
		const double searches = static_cast<double>(n);

		std::printf(
			"# %s, batch %zu, us: staging %.1f, launch %.1f, then %.1f until all is answered; on the device %.1f\n",
			name, batch, staging / searches, launching / searches, waiting / searches, device / searches);
		for (size_t what = 0; what < OnePassStamps::kCount; what++)
			if (sums[what].n > 0)
			{
				const double seen = static_cast<double>(sums[what].n);

				std::printf("#   %-14s first %6.1f, mean %6.1f, last %6.1f\n", OnePassStamps::kNames[what],
					sums[what].first / seen, sums[what].mean / seen, sums[what].last / seen);
			}
	}
};

struct Options
{
	bool stamps = false;
	const char *only_name = nullptr;
	size_t only_batch = 0;
	int runs = 400;
};

Options
parse(int argc, char **argv)
{
	Options options;

	for (int i = 4; i < argc; i++)
		if (std::strcmp(argv[i], "--stamps") == 0)
			options.stamps = true;
		else if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
			options.runs = std::atoi(argv[++i]);
		else if (std::strcmp(argv[i], "--only") == 0 && i + 2 < argc)
		{
			options.only_name = argv[++i];
			options.only_batch = static_cast<size_t>(std::atoi(argv[++i]));
		}
	return options;
}

class Bench
{
public:
	Bench(const Options &options, char **files)
		: options_(options), base_(read_u8bin(files[0])), queries_(read_u8bin(files[1])), truth_(files[2], queries_.n)
	{
		std::vector<RowId> ids(base_.n);

		for (uint32_t i = 0; i < base_.n; i++)
			ids[i] = i;
		for (const Way &way : kWays)
			if (options_.only_name == nullptr || std::strcmp(options_.only_name, way.name) == 0)
				add(way, ids);
	}

	bool is_empty() const { return kinds_.empty(); }

	void print_head() const
	{
		std::printf("# %s; %u x %u, k = %zu\n", kinds_[0].engine->description(), base_.n, base_.dim, kK);
	}

	/// A few searches of the first way. True if all answers were right.
	bool run_only()
	{
		const size_t batch = options_.only_batch;

		for (size_t run = 0; run < 8; run++)
			(void) search(&kinds_[0], batch, run * batch % (queries_.n - batch + 1));
		std::printf("%s\n", kinds_[0].n_wrong == 0 ? "exact" : "WRONG");
		return kinds_[0].n_wrong == 0;
	}

	/// All ways in turns, all batches.
	void measure()
	{
		for (size_t b = 0; b < std::size(kBatches); b++)
			for (int round = 0; round < kRounds; round++)
				for (Kind &kind : kinds_)
					for (int run = -5; run < options_.runs / kRounds; run++)
					{
						const double took = search(&kind, kBatches[b],
							static_cast<size_t>(run + 5 + round * options_.runs) * kBatches[b] %
								(queries_.n - kBatches[b] + 1));

						if (run >= 0)
							kind.times[b].push_back(took);
					}
	}

	/// True if all answers were right.
	bool print_table()
	{
		size_t n_wrong = 0;

		std::printf("%-40s", "median ms by batch");
		for (const size_t batch : kBatches)
			std::printf(" %8zu", batch);
		std::printf("\n");
		for (Kind &kind : kinds_)
		{
			std::printf("%-40s", kind.way->name);
			for (std::vector<double> &times : kind.times)
			{
				std::sort(times.begin(), times.end());
				std::printf(" %8.4f", times[times.size() / 2]);
			}
			std::printf("  %s, %llu queries in one pass\n", kind.n_wrong == 0 ? "exact" : "WRONG",
				static_cast<unsigned long long>(kind.engine->n_one_pass()));
			n_wrong += kind.n_wrong;
		}
		return n_wrong == 0;
	}

	void print_stamps()
	{
		for (Kind &kind : kinds_)
			for (const size_t batch : kBatches)
				if (kind.trace != nullptr)
					print_stamps(&kind, batch);
	}

private:
	static constexpr size_t kK = 10;

	void add(const Way &way, const std::vector<RowId> &ids)
	{
		cuda::CudaEngineOptions options;
		Kind kind;

		kind.way = &way;
		options.n_streams = 1;
		options.workspace_bytes = size_t{256} << 20;
		options.pinned_bytes = size_t{4} << 20;
		options.self_test = false; // every answer is compared
		options.one_pass = way.one_pass;
		options.one_pass_tuning = way.tuning;
		if (options_.stamps && way.one_pass)
		{
			void *times = nullptr;

			kind.trace = std::make_unique<cuda::OnePassTrace>();
			if (cudaMalloc(&times, kMostBlocks * OnePassStamps::kCount * sizeof(uint64_t)) != cudaSuccess)
				std::exit(1);
			kind.times_of_blocks = static_cast<uint64_t *>(times);
			options.one_pass_trace = kind.trace.get();
		}
		must(cuda::make_cuda_engine(options, &kind.engine));
		must(kind.engine->create({Metric::kL2, ElementType::kFloat32, base_.dim}, &kind.copy));
		must(kind.engine->load_segment(kind.copy, 1, {ids, base_.values.data(), base_.n}));
		must(kind.engine->seal_segment(kind.copy, 1));
		kinds_.push_back(std::move(kind));
	}

	/// Milliseconds of a search of `batch` queries from `first` on.
	double search(Kind *kind, size_t batch, size_t first)
	{
		requests_.clear();
		for (size_t i = first; i < first + batch; i++)
			requests_.push_back({queries_.values.data() + i * queries_.dim, kK, false, {}});

		const double start = now_ms();

		must(kind->engine->search(kind->copy, requests_, &results_));

		const double took = now_ms() - start;

		for (size_t i = 0; i < batch; i++)
			for (size_t j = 0; j < kK; j++)
				kind->n_wrong += static_cast<float>(std::sqrt(results_[i][j].score)) != truth_.at(first + i, j);
		return took;
	}

	void print_stamps(Kind *kind, size_t batch)
	{
		StampSums sums;

		kind->trace->stamps.times = kind->times_of_blocks;
		cudaMemset(kind->times_of_blocks, 0, kMostBlocks * OnePassStamps::kCount * sizeof(uint64_t));
		for (int run = 0; run < 5 + options_.runs / 10; run++)
		{
			(void) search(kind, batch, static_cast<size_t>(run) * batch % (queries_.n - batch + 1));
			if (run >= 5)
				sums.add(*kind->trace);
		}
		sums.print(kind->way->name, batch);
	}

	const Options options_;
	const Matrix base_;
	const Matrix queries_;
	const Truth truth_;
	std::vector<Kind> kinds_;
	std::vector<std::vector<engine::Neighbor>> results_;
	std::vector<engine::SearchQuery> requests_;
};

} // namespace

int
main(int argc, char **argv)
{
	if (argc < 4)
	{
		std::fprintf(stderr, "usage: %s BASE QUERY GROUND_TRUTH [--runs N] [--stamps] [--only NAME BATCH]\n", argv[0]);
		return 2;
	}

	const Options options = parse(argc, argv);
	Bench bench(options, argv + 1);

	if (bench.is_empty())
	{
		std::fprintf(stderr, "there is no way \"%s\"\n", options.only_name);
		return 2;
	}
	bench.print_head();
	if (options.only_name != nullptr)
		return bench.run_only() ? 0 : 1;
	bench.measure();

	const bool right = bench.print_table();

	bench.print_stamps();
	return right ? 0 : 1;
}

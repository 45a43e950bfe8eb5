// Exact search on the GPU over a data set: milliseconds a batch, end to end through Engine::search, and over the
// physical floor. Prints a table and, with --json FILE, one line of JSON per row. Usage, files and options: README.md.
// Medians of 400 runs up to 64 queries, of 40 up to 1,024, of 20 of more; the first two of each do not count. Every
// answer's distances are compared with the ground truth, or, where rows are real numbers, those of some queries with
// the CPU engine's; with a recall target below 1 (PartialReduce) the measured recall is printed instead.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr double kCopyBytesPerMs = 4.25e9; // measured: device copy, read and write together
constexpr uint32_t kChecked = 8;           // queries whose answers are compared with the CPU engine's
constexpr size_t kMostK = 1000;
constexpr const char *kMetricNames[] = {"l2", "ip", "cosine"};

struct Options
{
	Metric metric = Metric::kL2;
	bool fp32 = false;
	bool rounded = true;
	bool scaled = true;
	bool both_roundings = true;
	bool quick = false;
	bool small = false;
	bool chain = false;
	const char *json_name = nullptr;
	uint32_t filter_min = 0;
	size_t only_batch = 0;
	size_t only_k = 0;
	std::vector<size_t> ks = {10, 100, 1000};
	std::vector<size_t> batches = {1, 2, 4, 8, 16, 32, 64, 256, 1024, 10000};
	float recall_target = 1;
};

Metric
metric_of(std::string_view name)
{
	return name == "cosine" ? Metric::kCosine : name == "ip" ? Metric::kInnerProduct : Metric::kL2;
}

/// "10,20,50".
std::vector<size_t>
parse_list(const char *list)
{
	std::vector<size_t> numbers;

	for (char *end = nullptr; *list != '\0'; list = *end == ',' ? end + 1 : end)
	{
		numbers.push_back(std::strtoul(list, &end, 10));
		if (end == list)
			break;
	}
	return numbers;
}

Options
parse(int argc, char **argv)
{
	Options options;

	for (int i = 4; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--fp32") == 0)
			options.fp32 = true;
		else if (std::strcmp(argv[i], "--tf32") == 0)
			options.rounded = false;
		else if (std::strcmp(argv[i], "--halves") == 0)
			options.scaled = false;
		else if (std::strcmp(argv[i], "--bytes") == 0)
			options.both_roundings = false;
		else if (std::strcmp(argv[i], "--k") == 0 && i + 1 < argc)
			options.ks = parse_list(argv[++i]);
		else if (std::strcmp(argv[i], "--batch") == 0 && i + 1 < argc)
			options.batches = parse_list(argv[++i]);
		else if (std::strcmp(argv[i], "--metric") == 0 && i + 1 < argc)
			options.metric = metric_of(argv[++i]);
		else if (std::strcmp(argv[i], "--quick") == 0)
			options.quick = true;
		else if (std::strcmp(argv[i], "--small") == 0)
			options.small = true;
		else if (std::strcmp(argv[i], "--chain") == 0)
			options.chain = true;
		else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			options.json_name = argv[++i];
		else if (std::strcmp(argv[i], "--filter-min") == 0 && i + 1 < argc)
			options.filter_min = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strncmp(argv[i], "--recall=", 9) == 0)
			options.recall_target = static_cast<float>(std::atof(argv[i] + 9));
		else if (std::strcmp(argv[i], "--only") == 0 && i + 2 < argc)
		{
			options.only_batch = static_cast<size_t>(std::atoi(argv[++i]));
			options.only_k = static_cast<size_t>(std::atoi(argv[++i]));
		}
	}
	return options;
}

class Bench
{
public:
	Bench(const Options &options, char **files)
		: options_(options), is_bytes_(std::string_view(files[0]).ends_with(".u8bin")), base_(read_rows(files[0])),
		  queries_(read_rows(files[1])),
		  json_(options.json_name == nullptr ? nullptr : std::fopen(options.json_name, "a"))
	{
		std::vector<RowId> ids(base_.n);
		cuda::CudaEngineOptions engine_options;

		for (uint32_t i = 0; i < base_.n; i++)
			ids[i] = i;
		if (is_bytes_)
			truth_.emplace(files[2], queries_.n);
		else
			search_on_cpu(ids);
		engine_options.narrow = !options_.fp32;
		engine_options.rounded = options_.rounded;
		engine_options.scaled = options_.scaled;
		engine_options.both_roundings = options_.both_roundings;
		engine_options.scaled_least_bytes = options_.both_roundings ? 0 : 1;
		engine_options.filter_min_queries = options_.filter_min;
		engine_options.n_streams = 1;
		engine_options.one_pass = !options_.chain;

		double start = now_ms();

		must(cuda::make_cuda_engine(engine_options, &engine_));
		std::printf("# %s; engine start with self-test %.0f ms\n", engine_->description(), now_ms() - start);
		start = now_ms();
		must(engine_->create({options_.metric, ElementType::kFloat32, base_.dim}, &copy_));
		must(engine_->load_segment(copy_, 1, {ids, base_.values.data(), base_.n}));
		must(engine_->seal_segment(copy_, 1));
		std::printf("# %u x %u, %s, %s on the device, loaded in %.0f ms, %.0f MB\n", base_.n, base_.dim,
			kMetricNames[static_cast<size_t>(options_.metric)],
			options_.fp32 || !is_bytes_ ? "fp32" : "narrowest exact form", now_ms() - start,
			static_cast<double>(engine_->stats().resident_bytes) / 1e6);
	}

	~Bench()
	{
		if (json_ != nullptr)
			std::fclose(json_);
	}

	Bench(const Bench &) = delete;
	Bench &operator=(const Bench &) = delete;

	bool is_wanted(size_t batch, size_t k) const
	{
		if (batch > queries_.n && is_bytes_)
			return false;
		if (options_.quick && k != 10 && batch != 1 && batch != 64 && batch != 10000)
			return false;
		if (options_.only_batch != 0 && (batch != options_.only_batch || k != options_.only_k))
			return false;
		return !options_.small || (batch <= 64 && k == 10);
	}

	void measure(size_t batch, size_t k)
	{
		// 40 runs of a small batch take 4 ms: a disturbance of the host or the GPU of that length would decide the
		// median.
		const int n_runs = options_.only_batch != 0 ? 1 : batch > 1024 ? 20 : batch > 64 ? 40 : 400;
		std::vector<double> times;
		std::vector<std::vector<engine::Neighbor>> results;
		Judged judged;
		const uint64_t rescored_before = engine_->stats().n_rescored;

		for (int run = -2; run < n_runs; run++)
		{
			std::vector<engine::SearchQuery> requests;
			const size_t first =
				batch > queries_.n ? 0 : static_cast<size_t>(run + 2) * batch % (queries_.n - batch + 1);

			for (size_t i = first; i < first + batch; i++)
				requests.push_back(
					{queries_.values.data() + i % queries_.n * queries_.dim, k, false, {}, options_.recall_target});

			const double start = now_ms();

			must(engine_->search(copy_, requests, &results));
			if (run >= 0)
				times.push_back(now_ms() - start);
			for (size_t i = 0; i < batch; i++)
				judge(results[i], (first + i) % queries_.n, k, &judged);
		}
		std::sort(times.begin(), times.end());
		report(batch, k, times, judged,
			static_cast<double>(engine_->stats().n_rescored - rescored_before) /
				(static_cast<double>(batch) * (n_runs + 2)));
	}

	uint64_t n_one_pass() const { return engine_->n_one_pass(); }

private:
	struct Judged
	{
		size_t wrong = 0;
		size_t n_found = 0; // results at most as far as the last true one
		size_t n_true = 0;
	};

	/// The first kMostK rows of the first queries by the CPU engine.
	void search_on_cpu(const std::vector<RowId> &ids)
	{
		const std::unique_ptr<engine::Engine> cpu = engine::make_cpu_engine({.n_threads = 16});
		std::vector<engine::SearchQuery> requests;
		engine::CopyId copy = 0;

		for (size_t i = 0; i < std::min(kChecked, queries_.n); i++)
			requests.push_back({queries_.values.data() + i * queries_.dim, kMostK, false, {}});
		must(cpu->create({options_.metric, ElementType::kFloat32, base_.dim}, &copy));
		must(cpu->load_segment(copy, 1, {ids, base_.values.data(), base_.n}));
		must(cpu->seal_segment(copy, 1));
		must(cpu->search(copy, requests, &on_cpu_, nullptr));
	}

	void judge(const std::vector<engine::Neighbor> &found, size_t query, size_t k, Judged *judged) const
	{
		if (!truth_.has_value())
		{
			if (query < on_cpu_.size())
				judge_by_cpu(found, on_cpu_[query], k, judged);
			return;
		}

		const size_t n = std::min(k, Truth::kNeighbors);
		const float last = truth_->at(query, n - 1);

		for (size_t j = 0; j < n; j++)
		{
			const float distance = static_cast<float>(std::sqrt(found[j].score));

			judged->wrong += distance != truth_->at(query, j);
			judged->n_found += distance <= last;
		}
		judged->n_true += n;
	}

	static void judge_by_cpu(const std::vector<engine::Neighbor> &found, const std::vector<engine::Neighbor> &true_rows,
		size_t k, Judged *judged)
	{
		for (size_t j = 0; j < k; j++)
		{
			judged->wrong += found[j].row != true_rows[j].row || found[j].score != true_rows[j].score;
			judged->n_found += found[j].score <= true_rows[k - 1].score;
		}
		judged->n_true += k;
	}

	/// times: ascending.
	void report(size_t batch, size_t k, const std::vector<double> &times, const Judged &judged, double rescored) const
	{
		const double row_bytes = options_.fp32 || !is_bytes_ ? base_.dim * 4.0 : base_.dim;
		const double median = times[times.size() / 2];
		// Few queries read memory once; many make 4 billion bf16 products a microsecond (the measured rate).
		const double floor = std::max(
			base_.n * row_bytes / kCopyBytesPerMs, 2.0 * static_cast<double>(batch) * base_.n * base_.dim / 790e9);
		const double recall = static_cast<double>(judged.n_found) / static_cast<double>(judged.n_true);
		char verdict[16];

		if (options_.recall_target < 1)
			std::snprintf(verdict, sizeof(verdict), "%.4f", recall);
		else
			std::snprintf(verdict, sizeof(verdict), "%s", judged.wrong == 0 ? "yes" : "NO");
		std::printf("%8zu %6zu %12.4f %12.4f %10.2f %12.0f %9.1f %8s\n", batch, k, median, times.front(),
			median / floor, 1000.0 * static_cast<double>(batch) / median, rescored, verdict);
		std::fflush(stdout);
		if (json_ != nullptr)
			std::fprintf(json_,
				"{\"rows\": %u, \"dim\": %u, \"form\": \"%s\", \"batch\": %zu, \"k\": %zu, \"median_ms\": %.4f, "
				"\"min_ms\": %.4f, "
				"\"floor_ms\": %.4f, \"rescored\": %.1f, \"recall_target\": %.4f, \"recall\": %.4f, \"exact\": "
				"%s}\n",
				base_.n, base_.dim, options_.fp32 ? "fp32" : "narrow", batch, k, median, times.front(), floor, rescored,
				static_cast<double>(options_.recall_target), recall, judged.wrong == 0 ? "true" : "false");
	}

	const Options options_;
	const bool is_bytes_;
	const Matrix base_;
	const Matrix queries_;
	std::optional<Truth> truth_;
	std::vector<std::vector<engine::Neighbor>> on_cpu_;
	std::FILE *json_;
	std::unique_ptr<cuda::CudaEngine> engine_;
	engine::CopyId copy_ = 0;
};

} // namespace

int
main(int argc, char **argv)
{
	if (argc < 4)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY GROUND_TRUTH [--metric l2|ip|cosine] [--fp32] [--tf32] [--halves] [--bytes] "
			"[--k LIST] [--batch LIST] [--json FILE] [--quick] "
			"[--small] [--chain] [--filter-min N] [--recall=R] [--only BATCH K]\n",
			argv[0]);
		return 2;
	}

	const Options options = parse(argc, argv);
	Bench bench(options, argv + 1);

	std::printf("%8s %6s %12s %12s %10s %12s %9s %8s\n", "batch", "k", "median ms", "min ms", "x floor", "queries/s",
		"rescored", options.recall_target < 1 ? "recall" : "exact");
	for (const size_t k : options.ks)
		for (const size_t batch : options.batches)
			if (bench.is_wanted(batch, k))
				bench.measure(batch, k);
	std::printf("# in one pass: %llu queries\n", static_cast<unsigned long long>(bench.n_one_pass()));
	return 0;
}

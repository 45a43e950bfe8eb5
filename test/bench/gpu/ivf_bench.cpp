// Search of inverted lists on the GPU over a real data set: recall@10 and queries/s by number of probes, end to end
// through Engine::search.
//   gpu_ivf_bench BASE.u8bin QUERY.u8bin GROUND_TRUTH.bin [--lists N] [--fp32] [--json FILE] [--quick]
//     [--storage fp16|sq8|pq|rabitq [--pq-m M] [--pq-bits 4|8] [--opq] [--bits B] [--no-vectors]] [--only BATCH PROBES
//     CANDIDATES]
//     [--batches N,N,...] [--few-pairs X,X,...] [--no-rounded-lists]
// Lists are trained and filled on the CPU. With --storage rows have codes, which choose as many candidates as the
// column shows; with --no-vectors these are the answer, and recall is the share of the nearest rows among them.
// With --few-pairs an engine for each X is measured beside the others: batches over lists of reals go in two launches
// up to X pairs of a query and a list for each list (1e-9: none, 1e9: all that can, 0: as the engine decides); "in two"
// is the share of queries answered so. With --no-rounded-lists other batches over lists of reals score all rows of the
// lists, and read no rounded ones. Some answers of every line are compared with those of the CPU engine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "filled_lists.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr size_t kNeighbors = 10;
constexpr size_t kComparedQueries = 20;

/// The square of the distance.
double
distance(const Matrix &base, uint64_t row, const float *query)
{
	double sum = 0;

	for (uint32_t d = 0; d < base.dim; d++)
	{
		const double difference = static_cast<double>(base.values[row * base.dim + d]) - query[d];

		sum += difference * difference;
	}
	return sum;
}

using Neighbors = std::vector<engine::Neighbor>;

struct Options
{
	uint32_t n_lists = 1024;
	bool fp32 = false;
	bool quick = false;
	bool rounded_lists = true;
	const char *storage = ""; // empty: vectors alone
	uint32_t pq_m = 0;        // 0: a quarter of the dimensions
	uint32_t pq_bits = 8;
	uint32_t bits = 4; // of rabitq
	bool opq = false;
	bool no_vectors = false;
	std::array<uint32_t, 3> only{}; // batch, probes, candidates
	std::vector<uint32_t> batches = {1, 64, 10000};
	std::vector<double> few_pairs = {0};
	const char *json_name = nullptr;

	bool coded() const { return *storage != 0; }
};

/// Numbers separated by commas. False: something else.
template <class T, class Read>
bool
parse_list(char *text, const Read &read, std::vector<T> *numbers)
{
	numbers->clear();
	for (char *rest = text; *rest != 0; rest += *rest == ',')
	{
		char *end = nullptr;

		if (!read(rest, &end, numbers) || end == rest)
			return false;
		rest = end;
	}
	return true;
}

bool
parse_batches(char *text, std::vector<uint32_t> *batches)
{
	const auto read = [](char *from, char **end, std::vector<uint32_t> *numbers)
	{
		numbers->push_back(static_cast<uint32_t>(std::strtoul(from, end, 10)));
		return numbers->back() != 0;
	};

	if (parse_list(text, read, batches))
		return true;
	std::fprintf(stderr, "--batches wants numbers of queries, separated by commas\n");
	return false;
}

bool
parse_few_pairs(char *text, std::vector<double> *few_pairs)
{
	const auto read = [](char *from, char **end, std::vector<double> *numbers)
	{
		numbers->push_back(std::strtod(from, end));
		return numbers->back() >= 0;
	};

	if (parse_list(text, read, few_pairs))
		return true;
	std::fprintf(stderr, "--few-pairs wants numbers that are not negative, separated by commas\n");
	return false;
}

bool
parse(int argc, char **argv, Options *options)
{
	for (int i = 4; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--fp32") == 0)
			options->fp32 = true;
		else if (std::strcmp(argv[i], "--quick") == 0)
			options->quick = true;
		else if (std::strcmp(argv[i], "--no-rounded-lists") == 0)
			options->rounded_lists = false;
		else if (std::strcmp(argv[i], "--opq") == 0)
			options->opq = true;
		else if (std::strcmp(argv[i], "--no-vectors") == 0)
			options->no_vectors = true;
		else if (std::strcmp(argv[i], "--only") == 0 && i + 3 < argc)
		{
			for (uint32_t &number : options->only)
				number = static_cast<uint32_t>(std::atoi(argv[++i]));
		}
		else if (std::strcmp(argv[i], "--batches") == 0 && i + 1 < argc)
		{
			if (!parse_batches(argv[++i], &options->batches))
				return false;
		}
		else if (std::strcmp(argv[i], "--few-pairs") == 0 && i + 1 < argc)
		{
			if (!parse_few_pairs(argv[++i], &options->few_pairs))
				return false;
		}
		else if (std::strcmp(argv[i], "--storage") == 0 && i + 1 < argc)
			options->storage = argv[++i];
		else if (std::strcmp(argv[i], "--pq-m") == 0 && i + 1 < argc)
			options->pq_m = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--pq-bits") == 0 && i + 1 < argc)
			options->pq_bits = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--bits") == 0 && i + 1 < argc)
			options->bits = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--lists") == 0 && i + 1 < argc)
			options->n_lists = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			options->json_name = argv[++i];
	}
	options->no_vectors = options->no_vectors && options->coded();
	return true;
}

engine::CodesHead
head_of(const Options &options, uint32_t dim)
{
	if (std::strcmp(options.storage, "pq") == 0)
		return {static_cast<uint32_t>(engine::ivf::CodeKind::kPq),
			options.pq_m > 0 ? options.pq_m : std::max(dim / 4, 1u), options.pq_bits, options.opq ? 1u : 0u};

	if (std::strcmp(options.storage, "rabitq") == 0)
		return {static_cast<uint32_t>(engine::ivf::CodeKind::kRabitq), 0, options.bits, 0};

	engine::CodesHead head{};

	if (options.coded())
		head.kind = static_cast<uint32_t>(
			std::strcmp(options.storage, "sq8") == 0 ? engine::ivf::CodeKind::kSq8 : engine::ivf::CodeKind::kHalves);
	return head;
}

/// Batch, probes, candidates, number of the engine.
using Line = std::array<uint32_t, 4>;

std::vector<Line>
lines_of(const Options &options, uint32_t n_queries)
{
	const std::vector<uint32_t> all_probes = options.quick
		? std::vector<uint32_t>{16, 32, 64}
		: std::vector<uint32_t>{1, 4, 8, 16, 32, 48, 64, 96, 128, 256};
	const std::vector<uint32_t> all_candidates = !options.coded() ? std::vector<uint32_t>{0}
		: options.quick                                           ? std::vector<uint32_t>{30, 100}
																  : std::vector<uint32_t>{20, 40, 60, 100, 200};
	std::vector<std::array<uint32_t, 3>> shapes;
	std::vector<Line> lines;

	for (const uint32_t batch : options.batches)
	{
		// Large batches of codes: throughput at a recall of 0.95, so the steps next to it.
		const bool near = options.coded() && options.quick && batch == 10000;

		for (const uint32_t n_probes :
			near ? std::vector<uint32_t>{16, 24, 27, 28, 30, 32, 40, 44, 48, 64} : all_probes)
			for (const uint32_t n_candidates : near ? std::vector<uint32_t>{20, 25, 30, 100} : all_candidates)
				if (batch <= n_queries && n_probes < options.n_lists)
					shapes.push_back({batch, n_probes, n_candidates});
	}
	if (options.only[0] > 0)
		shapes.assign(1, options.only);
	for (const auto &[batch, n_probes, n_candidates] : shapes)
		for (uint32_t i = 0; i < options.few_pairs.size(); i++)
			lines.push_back({batch, n_probes, n_candidates, i});
	return lines;
}

class Bench
{
public:
	Bench(const Options &options, char **files)
		: options_(options), base_(read_u8bin(files[0])), queries_(read_u8bin(files[1])), truth_(files[2], queries_.n),
		  head_(head_of(options, base_.dim)), gpus_(options.few_pairs.size()),
		  cpu_(engine::make_cpu_engine({.n_threads = n_threads}))
	{
	}

	/// Trains and fills lists, and loads them into all engines.
	void prepare()
	{
		const engine::CopyKind kind = !options_.coded() ? engine::CopyKind::kLists
			: options_.no_vectors                       ? engine::CopyKind::kCodes
														: engine::CopyKind::kCodedLists;
		cuda::CudaEngineOptions engine_options;
		double start = now_ms();
		const std::vector<float> centroids = train(base_, options_.n_lists);
		const double trained = now_ms() - start;

		start = now_ms();

		InvertedLists lists = fill(base_, centroids, options_.n_lists);

		if (head_.kind != 0)
			add_codes(head_, base_.dim, centroids, &lists);

		std::printf("# %u lists of %u x %u, on the CPU, %zu threads: trained in %.0f ms, filled in %.0f ms\n",
			options_.n_lists, base_.n, base_.dim, n_threads, trained, now_ms() - start);
		engine_options.narrow = !options_.fp32;
		engine_options.rounded_lists = options_.rounded_lists;
		engine_options.self_test = options_.only[0] == 0; // for a profiler: searches alone
		engine_options.n_streams = 1;
		engine_options.list_choice = false; // lists are what is measured
		for (size_t i = 0; i < gpus_.size(); i++)
		{
			engine_options.few_real_pairs = options_.few_pairs[i];
			must(cuda::make_cuda_engine(engine_options, &gpus_[i]));
			start = now_ms();
			copies_.push_back(load(gpus_[i].get(), base_.dim, lists, kind));
			std::printf("# %s; %s, loaded in %.0f ms, %.0f MB\n", gpus_[i]->description(),
				options_.fp32 ? "fp32" : "narrowest exact form", now_ms() - start,
				static_cast<double>(gpus_[i]->stats().resident_bytes) / 1e6);
		}
		cpu_copy_ = load(cpu_.get(), base_.dim, lists, kind);
		json_ = options_.json_name == nullptr ? nullptr : std::fopen(options_.json_name, "a");
	}

	~Bench()
	{
		if (json_ != nullptr)
			std::fclose(json_);
	}

	Bench(const Bench &) = delete;
	Bench &operator=(const Bench &) = delete;

	uint32_t n_queries() const { return queries_.n; }

	void measure(const Line &line)
	{
		const auto &[batch, n_probes, n_candidates, number] = line;
		cuda::CudaEngine *gpu = gpus_[number].get();
		const uint64_t few_before = gpu->n_few_lists() + gpu->n_few_real_lists();
		const int n_runs = (batch >= 10000 ? 7 : batch >= 64 ? 30 : 100) / (options_.quick ? 2 : 1);
		const engine::SegmentProbes probes[] = {{1, n_probes, n_candidates}};
		std::vector<double> times;
		std::vector<Neighbors> results;
		std::vector<Neighbors> expected;
		std::vector<engine::SearchQuery> requests;
		Measured measured;
		size_t n_found = 0;
		size_t n_true = 0;

		for (int run = -2; run < n_runs; run++)
		{
			const size_t first = static_cast<size_t>(run + 2) * batch % (queries_.n - batch + 1);

			requests.clear();
			for (size_t i = first; i < first + batch; i++)
			{
				requests.push_back({query(i), options_.no_vectors ? n_candidates : kNeighbors, false, {}});
				requests.back().probes = probes;
			}

			const double start = now_ms();

			must(gpu->search(copies_[number], requests, &results));
			if (run >= 0)
				times.push_back(now_ms() - start);
			for (size_t i = 0; i < batch; i++)
			{
				n_found += n_near(results[i], first + i);
				n_true += kNeighbors;
			}
		}
		requests.resize(std::min<size_t>(batch, kComparedQueries));
		must(cpu_->search(cpu_copy_, requests, &expected, nullptr));
		measured.equal = begin_with(results, expected);
		std::sort(times.begin(), times.end());
		measured.median = times[times.size() / 2];
		measured.least = times.front();
		measured.recall = static_cast<double>(n_found) / static_cast<double>(n_true);
		measured.in_two = static_cast<double>(gpu->n_few_lists() + gpu->n_few_real_lists() - few_before) /
			(static_cast<double>(batch) * (n_runs + 2));
		report(line, measured);
	}

private:
	struct Measured
	{
		double median = 0; // ms
		double least = 0;
		double recall = 0;
		double in_two = 0; // share of queries answered in two launches
		bool equal = false;
	};

	const float *query(size_t i) const { return queries_.values.data() + i * queries_.dim; }

	/// How many of the nearest rows were found: at most kNeighbors, since more may be at the last one's distance.
	size_t n_near(const Neighbors &found, size_t number) const
	{
		const float last = truth_.at(number, kNeighbors - 1);
		size_t n = 0;

		for (const engine::Neighbor &neighbor : found)
			n += static_cast<float>(std::sqrt(
					 options_.no_vectors ? distance(base_, neighbor.row, query(number)) : neighbor.score)) <= last;
		return std::min(n, kNeighbors);
	}

	void report(const Line &line, const Measured &measured) const
	{
		const auto &[batch, n_probes, n_candidates, number] = line;
		const double per_second = 1000.0 * static_cast<double>(batch) / measured.median;

		std::printf("%8u %8u %10u %12.4f %12.4f %12.0f %10.4f %10g %8.2f %12s\n", batch, n_probes, n_candidates,
			measured.median, measured.least, per_second, measured.recall, options_.few_pairs[number], measured.in_two,
			measured.equal ? "yes" : "NO");
		std::fflush(stdout);
		if (json_ != nullptr)
			std::fprintf(json_,
				"{\"rows\": %u, \"dim\": %u, \"lists\": %u, \"form\": \"%s\", \"storage\": \"%s\", \"vectors\": %s, "
				"\"pq_m\": %u, \"pq_bits\": %u, \"batch\": %u, \"probes\": %u, \"candidates\": %u, \"median_ms\": "
				"%.4f, "
				"\"min_ms\": %.4f, \"queries_per_s\": %.0f, \"recall\": %.4f, \"same\": %s, \"few_pairs\": %g, "
				"\"in_two\": %.2f}\n",
				base_.n, base_.dim, options_.n_lists, options_.fp32 ? "fp32" : "narrow", options_.storage,
				options_.no_vectors ? "false" : "true", head_.pq_m, head_.bits, batch, n_probes, n_candidates,
				measured.median, measured.least, per_second, measured.recall, measured.equal ? "true" : "false",
				options_.few_pairs[number], measured.in_two);
	}

	const Options options_;
	const Matrix base_;
	const Matrix queries_;
	const Truth truth_;
	const engine::CodesHead head_;
	std::vector<std::unique_ptr<cuda::CudaEngine>> gpus_; // one for each of options_.few_pairs
	std::vector<engine::CopyId> copies_;                  // of each
	const std::unique_ptr<engine::Engine> cpu_;
	engine::CopyId cpu_copy_ = 0;
	std::FILE *json_ = nullptr;
};

} // namespace

int
main(int argc, char **argv)
{
	Options options;

	if (argc < 4)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY GROUND_TRUTH [--lists N] [--fp32] [--json FILE] [--quick] [--storage "
			"fp16|sq8|pq|rabitq [--pq-m M] [--pq-bits B] [--opq] [--bits B] [--no-vectors]] [--only BATCH PROBES "
			"CANDIDATES] [--batches N,N,...] "
			"[--few-pairs X,X,...] [--no-rounded-lists]\n",
			argv[0]);
		return 2;
	}
	if (!parse(argc, argv, &options))
		return 2;

	Bench bench(options, argv + 1);

	bench.prepare();
	std::printf("%8s %8s %10s %12s %12s %12s %10s %10s %8s %12s\n", "batch", "probes", "candidates", "median ms",
		"min ms", "queries/s", "recall@10", "few pairs", "in two", "as the CPU");
	for (const Line &line : lines_of(options, bench.n_queries()))
		bench.measure(line);
	return 0;
}

// Search of inverted lists on the GPU over a real data set: recall@10 and queries/s by number of probes, end to end
// through Engine::search.
//   gpu_ivf_bench BASE.u8bin QUERY.u8bin GROUND_TRUTH.bin [--lists N] [--fp32] [--json FILE] [--quick]
//     [--storage fp16|sq8|pq [--pq-m M] [--pq-bits 4|8] [--opq] [--no-vectors]] [--only BATCH PROBES CANDIDATES]
//     [--batches N,N,...]
//     [--few-pairs X,X,...]
// Lists are trained and filled on the CPU. With --storage rows have codes, which choose as many candidates as the
// column says; with
// --no-vectors these are the answer, and recall is the share of the nearest rows among them. With --few-pairs an engine
// for each X is measured beside the others: batches over lists of reals go in two launches up to X pairs of a query and
// a list for each list (1e-9: none, 1e9: all that can, 0: as the engine decides); "in two" is the share of queries that
// went so. Some answers of every line are compared with those of the CPU engine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "coded_lists.hpp"
#include "threads.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr size_t kNeighbors = 10;
constexpr size_t kComparedQueries = 20;

void
finished(const engine::ivf::Outcome &outcome)
{
	if (outcome.is_ok())
		return;
	std::fprintf(stderr, "%s\n", outcome.message);
	std::exit(1);
}

/// What Engine::load_segment and load_structure want.
struct InvertedLists
{
	std::vector<uint8_t> description;
	std::vector<float> vectors; // by place
};

std::vector<float>
train(const Matrix &base, uint32_t n_lists)
{
	const uint64_t n = std::min<uint64_t>(base.n, uint64_t{n_lists} * engine::ivf::kTrainingRowsPerCluster);
	const size_t stride = base.n / n * base.dim;
	engine::ivf::KMeansSpec spec;
	engine::ivf::KMeansReport report;
	engine::ivf::Call call;
	std::vector<float> centroids(size_t{n_lists} * base.dim);

	spec.dim = base.dim;
	spec.n_clusters = n_lists;
	spec.n_rows = n;
	spec.n_threads = call.n_threads = n_threads;
	call.parallel = in_threads;

	std::vector<uint8_t> work(engine::ivf::kmeans_work_bytes(spec));

	finished(engine::ivf::kmeans_train(
		spec, {base.values.data(), stride}, centroids.data(), nullptr, &report, work.data(), work.size(), call));
	return centroids;
}

InvertedLists
fill(const Matrix &base, const std::vector<float> &centroids, uint32_t n_lists, const engine::CodesHead &head)
{
	std::vector<uint8_t> memory(engine::ivf::coarse_bytes(base.dim, n_lists));
	engine::ivf::Coarse coarse;
	engine::ivf::Call call;
	std::vector<uint32_t> labels(base.n);
	std::vector<uint32_t> numbers(base.n);
	std::vector<uint64_t> offsets(n_lists + 1);
	InvertedLists lists;

	finished(engine::ivf::coarse_init(centroids.data(), n_lists, base.dim, memory.data(), memory.size(), &coarse));
	call.n_threads = n_threads;
	call.parallel = in_threads;

	std::vector<uint8_t> work(engine::ivf::coarse_assign_work_bytes(coarse, n_threads));

	finished(engine::ivf::coarse_assign(
		coarse, base.values.data(), base.dim, base.n, labels.data(), nullptr, work.data(), work.size(), call));
	std::iota(numbers.begin(), numbers.end(), 0);
	std::stable_sort(numbers.begin(), numbers.end(), [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
	for (const uint32_t label : labels)
		offsets[label + 1]++;
	std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
	lists.vectors.reserve(base.values.size());
	for (const uint32_t number : numbers)
		lists.vectors.insert(lists.vectors.end(),
			base.values.begin() + static_cast<ptrdiff_t>(size_t{number} * base.dim),
			base.values.begin() + static_cast<ptrdiff_t>((size_t{number} + 1) * base.dim));

	const auto put = [&lists](const auto &values)
	{
		const uint8_t *from = reinterpret_cast<const uint8_t *>(values.data());

		lists.description.insert(lists.description.end(), from, from + values.size() * sizeof(values[0]));
	};

	put(offsets);
	put(centroids);
	put(numbers);
	if (head.kind != 0)
		put(describe_codes({head, n_threads, in_threads}, base.dim, lists.vectors, centroids, offsets));
	return lists;
}

engine::CopyId
load(engine::Engine *engine, const Matrix &base, const InvertedLists &lists, uint32_t n_lists, engine::CopyKind kind)
{
	std::vector<RowId> ids(base.n);
	engine::CopyId copy = 0;

	std::iota(ids.begin(), ids.end(), 0);
	must(engine->create({{Metric::kL2, ElementType::kFloat32, base.dim}, kind}, &copy));
	must(engine->load_segment(copy, 1, {ids, lists.vectors.data(), base.n}));
	must(engine->load_structure(copy, 1, n_lists, lists.description));
	must(engine->seal_segment(copy, 1));
	return copy;
}

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

bool
same(const std::vector<engine::Neighbor> &a, const std::vector<engine::Neighbor> &b)
{
	return a.size() == b.size() &&
		std::equal(a.begin(), a.end(), b.begin(), [](const engine::Neighbor &x, const engine::Neighbor &y)
			{ return std::memcmp(&x.score, &y.score, sizeof(double)) == 0 && x.row == y.row; });
}

} // namespace

int
main(int argc, char **argv)
{
	uint32_t n_lists = 1024;
	bool fp32 = false;
	bool quick = false;
	engine::CodesHead head{};
	uint32_t pq_m = 0;
	uint32_t pq_bits = 8;
	bool opq = false;
	bool no_vectors = false;
	std::array<uint32_t, 3> only{}; // batch, probes, candidates
	std::vector<uint32_t> batches = {1, 64, 10000};
	std::vector<double> few_pairs = {0};
	const char *storage = "";
	const char *json_name = nullptr;

	if (argc < 4)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY GROUND_TRUTH [--lists N] [--fp32] [--json FILE] [--quick] [--storage fp16|sq8|pq "
			"[--pq-m M] [--pq-bits B] [--opq] [--no-vectors]] [--only BATCH PROBES CANDIDATES] [--batches N,N,...] "
			"[--few-pairs X,X,...]\n",
			argv[0]);
		return 2;
	}
	for (int i = 4; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--fp32") == 0)
			fp32 = true;
		else if (std::strcmp(argv[i], "--quick") == 0)
			quick = true;
		else if (std::strcmp(argv[i], "--opq") == 0)
			opq = true;
		else if (std::strcmp(argv[i], "--no-vectors") == 0)
			no_vectors = true;
		else if (std::strcmp(argv[i], "--only") == 0 && i + 3 < argc)
		{
			for (uint32_t &number : only)
				number = static_cast<uint32_t>(std::atoi(argv[++i]));
		}
		else if (std::strcmp(argv[i], "--batches") == 0 && i + 1 < argc)
		{
			batches.clear();
			for (char *rest = argv[++i]; *rest != 0; rest += *rest == ',')
			{
				char *end = nullptr;

				batches.push_back(static_cast<uint32_t>(std::strtoul(rest, &end, 10)));
				if (end == rest || batches.back() == 0)
				{
					std::fprintf(stderr, "--batches wants numbers of queries, separated by commas\n");
					return 2;
				}
				rest = end;
			}
		}
		else if (std::strcmp(argv[i], "--few-pairs") == 0 && i + 1 < argc)
		{
			few_pairs.clear();
			for (char *rest = argv[++i]; *rest != 0; rest += *rest == ',')
			{
				char *end = nullptr;

				few_pairs.push_back(std::strtod(rest, &end));
				if (end == rest || few_pairs.back() < 0)
				{
					std::fprintf(stderr, "--few-pairs wants numbers that are not negative, separated by commas\n");
					return 2;
				}
				rest = end;
			}
		}
		else if (std::strcmp(argv[i], "--storage") == 0 && i + 1 < argc)
			storage = argv[++i];
		else if (std::strcmp(argv[i], "--pq-m") == 0 && i + 1 < argc)
			pq_m = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--pq-bits") == 0 && i + 1 < argc)
			pq_bits = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--lists") == 0 && i + 1 < argc)
			n_lists = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			json_name = argv[++i];
	}

	const Matrix base = read_u8bin(argv[1]);
	const bool coded = *storage != 0;
	const engine::CopyKind kind = !coded ? engine::CopyKind::kLists
		: no_vectors                     ? engine::CopyKind::kCodes
										 : engine::CopyKind::kCodedLists;

	no_vectors = no_vectors && coded;

	if (std::strcmp(storage, "pq") == 0)
		head = {static_cast<uint32_t>(engine::ivf::CodeKind::kPq), pq_m > 0 ? pq_m : std::max(base.dim / 4, 1u),
			pq_bits, opq ? 1u : 0u};
	else if (coded)
		head.kind = static_cast<uint32_t>(
			std::strcmp(storage, "sq8") == 0 ? engine::ivf::CodeKind::kSq8 : engine::ivf::CodeKind::kHalves);

	const Matrix queries = read_u8bin(argv[2]);
	const std::vector<char> truth = read_file(argv[3]);
	const float *true_distances =
		reinterpret_cast<const float *>(truth.data() + 8 + static_cast<size_t>(queries.n) * 100 * sizeof(uint32_t));
	cuda::CudaEngineOptions options;
	std::vector<std::unique_ptr<cuda::CudaEngine>> gpus(few_pairs.size());
	std::vector<engine::CopyId> copies;
	const std::unique_ptr<engine::Engine> cpu = engine::make_cpu_engine({.n_threads = n_threads});
	double start = now_ms();
	const std::vector<float> centroids = train(base, n_lists);
	const double trained = now_ms() - start;

	start = now_ms();

	const InvertedLists lists = fill(base, centroids, n_lists, head);

	std::printf("# %u lists of %u x %u, on the CPU, %zu threads: trained in %.0f ms, filled in %.0f ms\n", n_lists,
		base.n, base.dim, n_threads, trained, now_ms() - start);
	options.narrow = !fp32;
	options.self_test = only[0] == 0; // a profiler is to see searches alone
	options.n_streams = 1;
	for (size_t i = 0; i < gpus.size(); i++)
	{
		options.few_real_pairs = few_pairs[i];
		must(cuda::make_cuda_engine(options, &gpus[i]));
		start = now_ms();
		copies.push_back(load(gpus[i].get(), base, lists, n_lists, kind));
		std::printf("# %s; %s, loaded in %.0f ms, %.0f MB\n", gpus[i]->description(),
			fp32 ? "fp32" : "narrowest exact form", now_ms() - start,
			static_cast<double>(gpus[i]->stats().resident_bytes) / 1e6);
	}

	const engine::CopyId cpu_copy = load(cpu.get(), base, lists, n_lists, kind);
	std::FILE *json = json_name == nullptr ? nullptr : std::fopen(json_name, "a");

	const std::vector<uint32_t> all_probes =
		quick ? std::vector<uint32_t>{16, 32, 64} : std::vector<uint32_t>{1, 4, 8, 16, 32, 48, 64, 96, 128, 256};
	const std::vector<uint32_t> all_candidates = !coded ? std::vector<uint32_t>{0}
		: quick                                         ? std::vector<uint32_t>{30, 100}
														: std::vector<uint32_t>{20, 40, 60, 100, 200};
	std::vector<std::array<uint32_t, 3>> shapes;
	std::vector<std::array<uint32_t, 4>> lines; // with the number of the engine

	for (const uint32_t batch : batches)
	{
		// Large batches of codes are asked for throughput at a recall of 0.95: by the steps that lie next to it.
		const bool near = coded && quick && batch == 10000;

		for (const uint32_t n_probes :
			near ? std::vector<uint32_t>{16, 24, 27, 28, 30, 32, 40, 44, 48, 64} : all_probes)
			for (const uint32_t n_candidates : near ? std::vector<uint32_t>{20, 25, 30, 100} : all_candidates)
				if (batch <= queries.n && n_probes < n_lists)
					shapes.push_back({batch, n_probes, n_candidates});
	}
	if (only[0] > 0)
		shapes.assign(1, only);
	for (const auto &[batch, n_probes, n_candidates] : shapes)
		for (uint32_t i = 0; i < gpus.size(); i++)
			lines.push_back({batch, n_probes, n_candidates, i});
	std::printf("%8s %8s %10s %12s %12s %12s %10s %10s %8s %12s\n", "batch", "probes", "candidates", "median ms",
		"min ms", "queries/s", "recall@10", "few pairs", "in two", "as the CPU");
	for (const auto &[batch, n_probes, n_candidates, number] : lines)
	{
		cuda::CudaEngine *gpu = gpus[number].get();
		const uint64_t few_before = gpu->n_few_lists() + gpu->n_few_real_lists();
		const int n_runs = (batch >= 10000 ? 7 : batch >= 64 ? 30 : 100) / (quick ? 2 : 1);
		const engine::SegmentProbes probes[] = {{1, n_probes, n_candidates}};
		std::vector<double> times;
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<std::vector<engine::Neighbor>> expected;
		std::vector<engine::SearchQuery> requests;
		size_t n_found = 0;
		size_t n_true = 0;

		for (int run = -2; run < n_runs; run++)
		{
			const size_t first = static_cast<size_t>(run + 2) * batch % (queries.n - batch + 1);

			requests.clear();
			for (size_t i = first; i < first + batch; i++)
			{
				requests.push_back(
					{queries.values.data() + i * queries.dim, no_vectors ? n_candidates : kNeighbors, false, {}});
				requests.back().probes = probes;
			}
			start = now_ms();
			must(gpu->search(copies[number], requests, &results));
			if (run >= 0)
				times.push_back(now_ms() - start);
			for (size_t i = 0; i < batch; i++)
			{
				const float last = true_distances[(first + i) * 100 + kNeighbors - 1];
				const float *query = queries.values.data() + (first + i) * queries.dim;
				size_t n_near = 0;

				for (const engine::Neighbor &found : results[i])
					n_near += static_cast<float>(
								  std::sqrt(no_vectors ? distance(base, found.row, query) : found.score)) <= last;
				n_found += std::min(n_near, kNeighbors); // more may be at the last one's distance
				n_true += kNeighbors;
			}
		}
		requests.resize(std::min<size_t>(batch, kComparedQueries));
		must(cpu->search(cpu_copy, requests, &expected, nullptr));

		const bool equal = std::equal(expected.begin(), expected.end(), results.begin(), same);

		std::sort(times.begin(), times.end());

		const double median = times[times.size() / 2];
		const double recall = static_cast<double>(n_found) / static_cast<double>(n_true);
		const double per_second = 1000.0 * static_cast<double>(batch) / median;
		const double in_two = static_cast<double>(gpu->n_few_lists() + gpu->n_few_real_lists() - few_before) /
			(static_cast<double>(batch) * (n_runs + 2));

		std::printf("%8u %8u %10u %12.4f %12.4f %12.0f %10.4f %10g %8.2f %12s\n", batch, n_probes, n_candidates, median,
			times.front(), per_second, recall, few_pairs[number], in_two, equal ? "yes" : "NO");
		std::fflush(stdout);
		if (json != nullptr)
			std::fprintf(json,
				"{\"rows\": %u, \"dim\": %u, \"lists\": %u, \"form\": \"%s\", \"storage\": \"%s\", \"vectors\": %s, "
				"\"pq_m\": %u, \"pq_bits\": %u, \"batch\": %u, \"probes\": %u, \"candidates\": %u, \"median_ms\": "
				"%.4f, "
				"\"min_ms\": %.4f, \"queries_per_s\": %.0f, \"recall\": %.4f, \"same\": %s, \"few_pairs\": %g, "
				"\"in_two\": %.2f}\n",
				base.n, base.dim, n_lists, fp32 ? "fp32" : "narrow", storage, no_vectors ? "false" : "true", head.pq_m,
				head.pq_bits, batch, n_probes, n_candidates, median, times.front(), per_second, recall,
				equal ? "true" : "false", few_pairs[number], in_two);
	}
	if (json != nullptr)
		std::fclose(json);
	return 0;
}

// Inverted lists of many rows on the GPU: build and search, end to end through the engine.
//   gpu_ivf_large_bench BASE.u8bin QUERY.u8bin [--rows N] [--lists N] [--made DIM] [--storage fp16|sq8|pq [--pq-m M]
//   [--pq-bits 4|8]] [--json FILE]
// Rows are the base's with noise of whole numbers -8 ... 8 added, repeated up to N. Lists are trained, and
// rows assigned, on the GPU. With --made rows have DIM dimensions and are made list by list around rows of the base,
// without training: for more rows than memory has room for twice. Recall is that of the first 1,000 queries against
// the copy's own exact search.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "coded_lists.hpp"
#include "cuda/cuda_engine.hpp"
#include "engine/interface/list_builder.hpp"
#include "support/splitmix.hpp"
#include "threads.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr size_t kNeighbors = 10;
constexpr size_t kJudged = 1000; // queries whose recall is measured
constexpr int kNoise = 8;

/// Call work(first, last) over [0, n) in parts, by all threads.
template <class Work>
void
share(size_t n, const Work &work)
{
	const size_t part = std::max<size_t>(n / (n_threads * 8), 1024);
	std::atomic<size_t> next{0};
	std::vector<std::thread> threads;
	const auto run = [&]
	{
		for (size_t first; (first = next.fetch_add(part)) < n;)
			work(first, std::min(n, first + part));
	};

	for (size_t i = 1; i < n_threads; i++)
		threads.emplace_back(run);
	run();
	for (std::thread &thread : threads)
		thread.join();
}

/// Set to [dim] to from with noise.
void
put_row(const float *from, uint32_t dim, uint64_t number, float *to)
{
	uint64_t random = 0;

	for (uint32_t d = 0; d < dim; d++)
	{
		if (d % 8 == 0)
			random = vectorgpu::test::splitmix64(number * 4096 + d / 8);
		to[d] = std::clamp(
			from[d] + static_cast<float>(static_cast<int>(random % (2 * kNoise + 1)) - kNoise), 0.0f, 255.0f);
		random >>= 8;
	}
}

class Stopwatch
{
public:
	/// Print what the time since the last line was spent on.
	void lap(const char *what)
	{
		const double now = now_ms();

		std::printf("# %-40s %8.2f s\n", what, (now - last_) / 1000);
		std::fflush(stdout);
		last_ = now;
	}

private:
	double last_ = now_ms();
};

struct Options
{
	uint64_t n_rows = 10000000;
	uint32_t n_lists = 16384;
	uint32_t made_dim = 0;
	engine::CodesHead head{};
	const char *storage = ""; // empty: vectors
	uint32_t pq_m = 0;        // 0: a quarter of the dimensions
	uint32_t pq_bits = 8;
	const char *json = nullptr;
};

struct Built
{
	uint32_t dim = 0;
	std::vector<float> centroids;
	std::vector<uint64_t> offsets;
	std::vector<uint32_t> numbers; // by place
	std::vector<float> vectors;    // by place
};

/// Train and assign on the GPU.
Built
build(engine::Engine *gpu, const Matrix &base, const Options &options, Stopwatch *watch)
{
	constexpr size_t kBatch = 1 << 18;
	const uint64_t n = options.n_rows;
	const uint32_t dim = base.dim;
	std::vector<float> rows(n * dim);
	std::vector<uint32_t> labels(n);
	std::vector<float> scores(kBatch);
	engine::SearchControl control;
	engine::ListBuildSpec spec;
	std::unique_ptr<engine::ListBuilder> builder;
	Built built;

	share(n,
		[&](size_t first, size_t last)
		{
			for (size_t i = first; i < last; i++)
				put_row(base.values.data() + i % base.n * dim, dim, i, rows.data() + i * dim);
		});
	watch->lap("rows made");
	spec.rows = {Metric::kL2, ElementType::kFloat32, dim};
	spec.n_clusters = options.n_lists;
	spec.n_training = static_cast<uint32_t>(std::min<uint64_t>(n, uint64_t{options.n_lists} * 64));
	must(gpu->make_list_builder(spec, &control, &builder));
	for (uint32_t i = 0; i < spec.n_training; i++)
		must(builder->add_training(rows.data() + n / spec.n_training * i * dim, 1));
	must(builder->train());
	watch->lap("build: trained on the GPU");
	for (uint64_t first = 0; first < n; first += kBatch)
		must(builder->assign(first, rows.data() + first * dim, std::min<uint64_t>(kBatch, n - first),
			labels.data() + first, scores.data()));
	watch->lap("build: rows assigned on the GPU");
	built.dim = dim;
	built.centroids = builder->centroids();
	built.offsets.assign(built.centroids.size() / dim + 1, 0);
	for (const uint32_t label : labels)
		built.offsets[label + 1]++;
	std::partial_sum(built.offsets.begin(), built.offsets.end(), built.offsets.begin());

	std::vector<uint64_t> next = built.offsets;

	built.numbers.resize(n);
	for (uint32_t i = 0; i < n; i++)
		built.numbers[next[labels[i]]++] = i;
	built.vectors.resize(n * dim);
	share(n,
		[&](size_t first, size_t last)
		{
			for (size_t place = first; place < last; place++)
				std::copy_n(rows.data() + size_t{built.numbers[place]} * dim, dim, built.vectors.data() + place * dim);
		});
	watch->lap("build: rows by list");
	return built;
}

/// Lists around rows of the base, all of the same length; their rows are made when they are loaded.
Built
make(const Matrix &base, const Options &options)
{
	Built built;

	built.dim = std::min(options.made_dim, base.dim);
	for (uint32_t list = 0; list < options.n_lists; list++)
	{
		const float *row = base.values.data() + size_t{list} * (base.n / options.n_lists) * base.dim;

		built.centroids.insert(built.centroids.end(), row, row + built.dim);
		built.offsets.push_back(options.n_rows / options.n_lists * list);
	}
	built.offsets.push_back(options.n_rows);
	built.numbers.resize(options.n_rows);
	std::iota(built.numbers.begin(), built.numbers.end(), 0);
	return built;
}

template <class T>
std::span<const uint8_t>
bytes_of(const std::vector<T> &values)
{
	return {reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(T)};
}

engine::CopyId
load(engine::Engine *gpu, Built *built, const Matrix &base, const Options &options, Stopwatch *watch)
{
	constexpr size_t kBatch = 1 << 20;
	const uint32_t dim = built->dim;
	const uint32_t n_lists = static_cast<uint32_t>(built->offsets.size() - 1);
	const bool coded = options.head.kind != 0;
	std::vector<RowId> ids(kBatch);
	std::vector<float> batch;
	engine::CopyId copy = 0;

	must(gpu->create(
		{{Metric::kL2, ElementType::kFloat32, dim}, coded ? engine::CopyKind::kCodedLists : engine::CopyKind::kLists},
		&copy));
	if (coded && built->vectors.empty()) // codes are made of all rows
	{
		built->vectors.resize(options.n_rows * dim);
		share(options.n_lists,
			[&](size_t first, size_t last)
			{
				for (size_t list = first; list < last; list++)
					for (uint64_t place = built->offsets[list]; place < built->offsets[list + 1]; place++)
						put_row(built->centroids.data() + list * dim, dim, place, built->vectors.data() + place * dim);
			});
		watch->lap("rows made");
	}
	for (uint64_t first = 0; first < options.n_rows; first += kBatch)
	{
		const size_t n = std::min<uint64_t>(kBatch, options.n_rows - first);
		const float *from = built->vectors.data() + first * dim;

		std::iota(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), first);
		if (built->vectors.empty())
		{
			batch.resize(n * dim);
			share(n,
				[&](size_t a, size_t b)
				{
					for (size_t i = a; i < b; i++)
					{
						const auto list = std::upper_bound(built->offsets.begin(), built->offsets.end(), first + i) -
							built->offsets.begin() - 1;

						put_row(built->centroids.data() + static_cast<size_t>(list) * dim, dim, first + i,
							batch.data() + i * dim);
					}
				});
			from = batch.data();
		}
		must(gpu->load_segment(copy, 1, {std::span(ids).first(n), from, n}));
	}
	watch->lap("load: rows");
	must(gpu->load_structure(copy, 1, n_lists, bytes_of(built->offsets)));
	must(gpu->load_structure(copy, 1, n_lists, bytes_of(built->centroids)));
	must(gpu->load_structure(copy, 1, n_lists, bytes_of(built->numbers)));
	if (coded)
	{
		const std::vector<uint8_t> codes = describe_codes(
			{options.head, n_threads, in_threads}, dim, built->vectors, built->centroids, built->offsets);

		watch->lap("build: codes made on the CPU");
		must(gpu->load_structure(copy, 1, n_lists, codes));
	}
	must(gpu->seal_segment(copy, 1));
	watch->lap("load: lists, checks, joining");
	std::vector<float>().swap(built->vectors);
	(void) base;
	return copy;
}

std::vector<std::vector<engine::Neighbor>>
search(engine::Engine *gpu, engine::CopyId copy, const std::vector<float> &queries, uint32_t dim, size_t first,
	size_t n, std::span<const engine::SegmentProbes> probes, double *ms)
{
	std::vector<engine::SearchQuery> requests;
	std::vector<std::vector<engine::Neighbor>> results;

	for (size_t i = first; i < first + n; i++)
	{
		requests.push_back({queries.data() + i * dim, kNeighbors, false, {}});
		requests.back().probes = probes;
	}

	const double start = now_ms();

	must(gpu->search(copy, requests, &results));
	*ms = now_ms() - start;
	return results;
}

Options
parse(int argc, char **argv)
{
	Options options;

	for (int i = 3; i + 1 < argc; i += 2)
	{
		const char *value = argv[i + 1];

		if (std::strcmp(argv[i], "--rows") == 0)
			options.n_rows = static_cast<uint64_t>(std::atoll(value));
		else if (std::strcmp(argv[i], "--lists") == 0)
			options.n_lists = static_cast<uint32_t>(std::atoi(value));
		else if (std::strcmp(argv[i], "--made") == 0)
			options.made_dim = static_cast<uint32_t>(std::atoi(value));
		else if (std::strcmp(argv[i], "--storage") == 0)
			options.storage = value;
		else if (std::strcmp(argv[i], "--pq-m") == 0)
			options.pq_m = static_cast<uint32_t>(std::atoi(value));
		else if (std::strcmp(argv[i], "--pq-bits") == 0)
			options.pq_bits = static_cast<uint32_t>(std::atoi(value));
		else if (std::strcmp(argv[i], "--json") == 0)
			options.json = value;
	}
	return options;
}

engine::CodesHead
head_of(const Options &options, uint32_t dim)
{
	if (std::strcmp(options.storage, "pq") == 0)
		return {static_cast<uint32_t>(engine::ivf::CodeKind::kPq),
			options.pq_m > 0 ? options.pq_m : std::max(dim / 4, 1u), options.pq_bits, 0};

	engine::CodesHead head{};

	if (*options.storage != 0)
		head.kind = static_cast<uint32_t>(
			std::strcmp(options.storage, "sq8") == 0 ? engine::ivf::CodeKind::kSq8 : engine::ivf::CodeKind::kHalves);
	return head;
}

class Bench
{
public:
	/// queries: the first dim elements of each.
	Bench(const Options &options, engine::Engine *gpu, engine::CopyId copy, const Matrix &queries, uint32_t dim)
		: options_(options), gpu_(gpu), copy_(copy), n_queries_(queries.n), dim_(dim),
		  n_judged_(std::min<size_t>(kJudged, queries.n)),
		  json_(options.json == nullptr ? nullptr : std::fopen(options.json, "a"))
	{
		double ms = 0;

		for (size_t i = 0; i < queries.n; i++)
			asked_.insert(asked_.end(), queries.values.begin() + static_cast<ptrdiff_t>(i * queries.dim),
				queries.values.begin() + static_cast<ptrdiff_t>(i * queries.dim + dim));
		truth_ = search(gpu_, copy_, asked_, dim_, 0, n_judged_, {}, &ms);
		std::printf("# exact search of the same rows, batch %zu: %.2f ms\n", n_judged_, ms);
	}

	~Bench()
	{
		if (json_ != nullptr)
			std::fclose(json_);
	}

	Bench(const Bench &) = delete;
	Bench &operator=(const Bench &) = delete;

	void measure(size_t batch, uint32_t n_probes, uint32_t n_candidates)
	{
		const engine::SegmentProbes probes[] = {{1, n_probes, n_candidates}};
		const int n_runs = batch >= 10000 ? 5 : 15;
		std::vector<double> times;
		double ms = 0;
		size_t n_found = 0;

		for (int run = -1; run < n_runs; run++)
		{
			(void) search(gpu_, copy_, asked_, dim_, static_cast<size_t>(run + 1) * batch % (n_queries_ - batch + 1),
				batch, probes, &ms);
			if (run >= 0)
				times.push_back(ms);
		}

		const auto found = search(gpu_, copy_, asked_, dim_, 0, n_judged_, probes, &ms);

		for (size_t i = 0; i < n_judged_; i++)
			for (const engine::Neighbor &neighbor : found[i])
				n_found += neighbor.score <= truth_[i].back().score;
		std::sort(times.begin(), times.end());

		const double median = times[times.size() / 2];
		const double recall = static_cast<double>(n_found) / static_cast<double>(n_judged_ * kNeighbors);
		const double rows =
			static_cast<double>(options_.n_rows) * n_probes / options_.n_lists; // if all lists had the same size

		std::printf("%8zu %8u %10u %12.4f %12.0f %10.4f %14.0f\n", batch, n_probes, n_candidates, median,
			1000.0 * static_cast<double>(batch) / median, recall, rows);
		std::fflush(stdout);
		if (json_ != nullptr)
			std::fprintf(json_,
				"{\"rows\": %llu, \"dim\": %u, \"lists\": %u, \"storage\": \"%s\", \"pq_m\": %u, \"batch\": "
				"%zu, \"probes\": %u, "
				"\"candidates\": %u, \"median_ms\": %.4f, \"recall\": %.4f}\n",
				static_cast<unsigned long long>(options_.n_rows), dim_, options_.n_lists, options_.storage,
				options_.head.pq_m, batch, n_probes, n_candidates, median, recall);
	}

private:
	const Options options_;
	engine::Engine *gpu_;
	const engine::CopyId copy_;
	const size_t n_queries_;
	const uint32_t dim_;
	const size_t n_judged_;
	std::FILE *json_;
	std::vector<float> asked_; // [n_queries_, dim_]
	std::vector<std::vector<engine::Neighbor>> truth_;
};

} // namespace

int
main(int argc, char **argv)
{
	if (argc < 3)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY [--rows N] [--lists N] [--made DIM] [--storage fp16|sq8|pq [--pq-m M] [--pq-bits B]] "
			"[--json FILE]\n",
			argv[0]);
		return 2;
	}

	Options options = parse(argc, argv);
	Stopwatch watch;
	const Matrix base = read_u8bin(argv[1]);
	const Matrix queries = read_u8bin(argv[2]);
	const uint32_t dim = options.made_dim > 0 ? std::min(options.made_dim, base.dim) : base.dim;
	cuda::CudaEngineOptions engine_options;
	std::unique_ptr<cuda::CudaEngine> gpu;

	options.head = head_of(options, dim);
	engine_options.n_streams = 1;
	engine_options.list_choice = false; // lists are what is measured
	must(cuda::make_cuda_engine(engine_options, &gpu));
	std::printf("# %s; %llu rows of %u dimensions, %u lists, storage %s\n", gpu->description(),
		static_cast<unsigned long long>(options.n_rows), dim, options.n_lists,
		*options.storage != 0 ? options.storage : "vectors");
	watch.lap("data set read, GPU opened");

	Built built = options.made_dim > 0 ? make(base, options) : build(gpu.get(), base, options, &watch);
	const engine::CopyId copy = load(gpu.get(), &built, base, options, &watch);

	std::printf("# on the GPU: %.0f MB\n", static_cast<double>(gpu->stats().resident_bytes) / 1e6);

	Bench bench(options, gpu.get(), copy, queries, dim);

	std::printf("%8s %8s %10s %12s %12s %10s %14s\n", "batch", "probes", "candidates", "median ms", "queries/s",
		"recall@10", "rows a query");

	const std::vector<uint32_t> all_candidates =
		options.head.kind != 0 ? std::vector<uint32_t>{30, 100} : std::vector<uint32_t>{0};

	for (const size_t batch : {size_t{1}, size_t{64}, size_t{10000}})
		for (const uint32_t n_probes : {8u, 16u, 32u, 64u, 128u, 256u})
			for (const uint32_t n_candidates : all_candidates)
				if (batch <= queries.n)
					bench.measure(batch, n_probes, n_candidates);
	return 0;
}

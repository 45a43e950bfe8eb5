// Codes side by side over the same inverted lists: recall and time by the number of lists looked at. Usage: README.md.
// Of each kind of codes and number of lists the fewest candidates are taken that lose no more than .005 of the recall
// that vectors in these lists reach; if none of the ladder does, the most. Rows with real candidates (kCodedLists).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "filled_lists.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

using Neighbors = std::vector<engine::Neighbor>;

constexpr size_t kNeighbors = 10;
constexpr size_t kJudged = 2000; // queries whose recall counts
constexpr size_t kCompared = 10; // queries of a line whose answers are compared with the CPU engine's
constexpr size_t kMostQueries = 10000;
constexpr double kLoss = 0.005;  // of recall
constexpr double kTarget = 0.95; // recall of the summary
constexpr uint32_t kCandidates[] = {10, 15, 20, 30, 40, 60, 100, 150, 250, 400, 700, 1200, 2000};
constexpr size_t kBatches[] = {1, 64, kMostQueries};

struct Options
{
	const char *base = nullptr;
	const char *queries = nullptr;
	uint32_t n_lists = 0; // 0: about √rows
	std::vector<std::string> storages;
	std::vector<uint32_t> probes = {4, 8, 16, 32, 64, 128};
};

/// made:ROWSxDIM: rows of kFactors hidden numbers around centres, mapped to the dimensions, and some noise; else a
/// file. n_queries: 0 for the rows.
Matrix
read_or_make(const char *name, unsigned seed, uint32_t n_queries)
{
	constexpr uint32_t kFactors = 32;
	std::vector<std::thread> threads;
	std::vector<float> map, centres;
	std::normal_distribution<float> normal;
	std::mt19937 rng(1);
	unsigned rows = 0;
	Matrix matrix;

	if (std::sscanf(name, "made:%ux%u", &rows, &matrix.dim) != 2)
		return read_rows(name);
	matrix.n = n_queries > 0 ? n_queries : rows;
	matrix.values.resize(size_t{matrix.n} * matrix.dim);
	map.resize(size_t{matrix.dim} * kFactors);
	centres.resize((size_t{rows} / 500 + 1) * kFactors);
	for (size_t i = 0; i < map.size(); i++)
		map[i] = normal(rng) / std::sqrt(1 + static_cast<float>(i % kFactors) / 4);
	for (float &x : centres)
		x = normal(rng);
	for (size_t task = 0; task < n_threads; task++)
		threads.emplace_back(
			[&, task]
			{
				std::mt19937 own(seed * 1000 + static_cast<unsigned>(task));
				std::normal_distribution<float> noise;
				float hidden[kFactors];

				for (size_t i = task; i < matrix.n; i += n_threads)
				{
					const size_t centre = own() % (centres.size() / kFactors) * kFactors;

					for (uint32_t f = 0; f < kFactors; f++)
						hidden[f] = centres[centre + f] + noise(own);
					for (size_t d = 0; d < matrix.dim; d++)
					{
						float x = 0.3f * noise(own);

						for (uint32_t f = 0; f < kFactors; f++)
							x += map[d * kFactors + f] * hidden[f];
						matrix.values[i * matrix.dim + d] = x;
					}
				}
			});
	for (std::thread &thread : threads)
		thread.join();
	return matrix;
}

/// rabitqB, pqM (8 bits), pqMx4, sq8. False: another name.
bool
head_of(const std::string &name, engine::CodesHead *head)
{
	unsigned number = 0;
	unsigned bits = 8;

	*head = {};
	if (name == "sq8")
		head->kind = static_cast<uint32_t>(engine::ivf::CodeKind::kSq8);
	else if (std::sscanf(name.c_str(), "rabitq%u", &number) == 1)
		*head = {static_cast<uint32_t>(engine::ivf::CodeKind::kRabitq), 0, number, 0};
	else if (std::sscanf(name.c_str(), "pq%ux%u", &number, &bits) >= 1)
		*head = {static_cast<uint32_t>(engine::ivf::CodeKind::kPq), number, bits, 0};
	return head->kind != 0;
}

/// RaBitQ of 1, 2 and 4 bits, product quantisers of as many bytes a row (a term is 4 of them), SQ8.
std::vector<std::string>
usual_storages(uint32_t dim)
{
	std::vector<std::string> names = {"sq8"};

	for (const uint32_t bits : {1u, 2u, 4u})
	{
		const size_t bytes = engine::ivf::rabitq_code_bytes({Metric::kL2, dim, bits}) - 4;

		names.push_back("rabitq" + std::to_string(bits));
		names.push_back("pq" + std::to_string(std::min<size_t>(bytes, dim)));
		if (2 * bytes <= dim)
			names.push_back("pq" + std::to_string(2 * bytes) + "x4");
	}
	return names;
}

class Bench
{
public:
	explicit Bench(const Options &options)
		: options_(options), base_(read_or_make(options.base, 1, 0)),
		  queries_(read_or_make(options.queries, 2, kMostQueries)),
		  cpu_(engine::make_cpu_engine({.n_threads = n_threads}))
	{
		cuda::CudaEngineOptions engine_options;

		n_judged_ = std::min<size_t>(queries_.n, kJudged);
		engine_options.n_streams = 1;
		engine_options.list_choice = false; // lists are what is measured
		engine_options.self_test = false;
		must(cuda::make_cuda_engine(engine_options, &gpu_));
	}

	/// False: an answer differs from the CPU engine's.
	bool run()
	{
		const uint32_t n_lists =
			options_.n_lists > 0 ? options_.n_lists : static_cast<uint32_t>(std::sqrt(static_cast<double>(base_.n)));
		double start = now_ms();

		centroids_ = train(base_, n_lists);
		plain_ = fill(base_, centroids_, n_lists);
		std::printf("# %s; %u x %u, %u lists, trained and filled in %.1f s; %u queries\n", gpu_->description(), base_.n,
			base_.dim, n_lists, (now_ms() - start) / 1e3, queries_.n);
		find_truth();
		std::printf("%10s %6s %7s %10s %9s %10s %10s %10s %11s %10s\n", "storage", "bytes", "probes", "candidates",
			"recall@10", "ms of 1", "ms of 64", "of 10,000", "queries/s", "as the CPU");
		measure("vectors");
		for (const std::string &name : options_.storages.empty() ? usual_storages(base_.dim) : options_.storages)
			measure(name);
		for (const std::string &line : summary_)
			std::printf("%s\n", line.c_str());
		return equal_;
	}

private:
	struct Copy
	{
		engine::CopyId gpu = 0;
		engine::CopyId cpu = 0;
	};

	const float *query(size_t i) const { return queries_.values.data() + i % queries_.n * queries_.dim; }

	void search(engine::CopyId copy, size_t n, uint32_t n_probes, uint32_t n_candidates, size_t first)
	{
		probes_[0] = {1, n_probes, n_candidates};
		requests_.clear();
		for (size_t i = first; i < first + n; i++)
		{
			requests_.push_back({query(i), kNeighbors, false, {}});
			if (n_probes > 0)
				requests_.back().probes = probes_;
		}
		must(gpu_->search(copy, requests_, &results_));
	}

	/// The exact answers of the queries that are judged.
	void find_truth()
	{
		const engine::CopyId copy = load(gpu_.get(), base_.dim, plain_, engine::CopyKind::kLists);

		search(copy, n_judged_, 0, 0, 0);
		truth_ = results_;
		must(gpu_->drop(copy));
	}

	double recall() const
	{
		size_t n = 0;

		for (size_t i = 0; i < n_judged_; i++)
			n += static_cast<size_t>(std::count_if(results_[i].begin(), results_[i].end(),
				[&](const engine::Neighbor &found) { return found.score <= truth_[i].back().score; }));
		return static_cast<double>(n) / static_cast<double>(n_judged_ * kNeighbors);
	}

	void measure(const std::string &name)
	{
		const bool coded = name != "vectors";
		const engine::CopyKind kind = coded ? engine::CopyKind::kCodedLists : engine::CopyKind::kLists;
		engine::CodesHead head{};
		engine::ivf::CodeSpec spec;
		InvertedLists lists = plain_;
		const double start = now_ms();
		Copy copy;
		double best = 0;

		if (coded &&
			(!head_of(name, &head) ||
				engine::code_spec_of(head, {Metric::kL2, ElementType::kFloat32, base_.dim}, &spec) != nullptr))
		{
			std::printf("# no such codes: %s\n", name.c_str());
			return;
		}
		if (coded)
			add_codes(head, base_.dim, centroids_, &lists);

		const double encoded = now_ms();

		copy.gpu = load(gpu_.get(), base_.dim, lists, kind);
		copy.cpu = load(cpu_.get(), base_.dim, lists, kind);
		std::printf("# %s: coded in %.1f s, loaded in %.1f s, %.0f MB\n", name.c_str(), (encoded - start) / 1e3,
			(now_ms() - encoded) / 1e3, static_cast<double>(gpu_->stats().resident_bytes) / 1e6);
		for (size_t i = 0; i < options_.probes.size(); i++)
			if (options_.probes[i] < lists.n_lists())
				best = std::max(best, measure_probes(name, coded ? engine::ivf::code_bytes(spec) : 0, copy, i));
		summary_.push_back("# " + name + ": " + std::to_string(static_cast<uint64_t>(best)) +
			" queries/s at a recall of .95 and more, in batches of 10,000");
		must(gpu_->drop(copy.gpu));
		must(cpu_->drop(copy.cpu));
	}

	/// Return the queries/s of large batches if recall reaches kTarget; else 0.
	double measure_probes(const std::string &name, size_t code_bytes, const Copy &copy, size_t number)
	{
		const uint32_t n_probes = options_.probes[number];
		uint32_t n_candidates = 0;
		double reached = 0;
		double times[3];
		std::vector<Neighbors> expected;

		if (code_bytes == 0)
		{
			search(copy.gpu, n_judged_, n_probes, 0, 0);
			reached = recall();
			of_vectors_.push_back(reached);
		}
		for (size_t i = 0; code_bytes > 0 && i < std::size(kCandidates); i++)
		{
			n_candidates = kCandidates[i];
			search(copy.gpu, n_judged_, n_probes, n_candidates, 0);
			reached = recall();
			if (reached >= of_vectors_[number] - kLoss)
				break;
		}
		for (size_t b = 0; b < std::size(kBatches); b++)
		{
			const int n_runs = b == 0 ? 60 : b == 1 ? 20 : 4;
			std::vector<double> all;

			for (int run = -1; run < n_runs; run++)
			{
				const double start = now_ms();

				search(copy.gpu, kBatches[b], n_probes, n_candidates, static_cast<size_t>(run + 1) * kBatches[b]);
				if (run >= 0)
					all.push_back(now_ms() - start);
			}
			std::sort(all.begin(), all.end());
			times[b] = all[all.size() / 2];
		}
		search(copy.gpu, 200, n_probes, n_candidates, 0);
		requests_.resize(kCompared);
		must(cpu_->search(copy.cpu, requests_, &expected, nullptr));

		const bool equal = begin_with(results_, expected);
		const double rate = 1000.0 * kMostQueries / times[2];

		std::printf("%10s %6zu %7u %10u %9.4f %10.4f %10.4f %10.3f %11.0f %10s\n", name.c_str(), code_bytes, n_probes,
			n_candidates, reached, times[0], times[1], times[2], rate, equal ? "yes" : "NO");
		std::fflush(stdout);
		equal_ = equal_ && equal;
		return reached >= kTarget ? rate : 0;
	}

	const Options options_;
	const Matrix base_;
	const Matrix queries_;
	std::unique_ptr<cuda::CudaEngine> gpu_;
	const std::unique_ptr<engine::Engine> cpu_;
	size_t n_judged_ = 0;
	std::vector<float> centroids_;
	InvertedLists plain_;
	std::vector<Neighbors> truth_;
	std::vector<double> of_vectors_; // recall by the number of probes
	engine::SegmentProbes probes_[1] = {};
	std::vector<engine::SearchQuery> requests_;
	std::vector<Neighbors> results_;
	std::vector<std::string> summary_;
	bool equal_ = true;
};

/// The parts of a text between commas.
std::vector<std::string>
parts_of(const char *text)
{
	std::vector<std::string> parts(1);

	for (; *text != 0; text++)
		if (*text == ',')
			parts.emplace_back();
		else
			parts.back() += *text;
	return parts;
}

} // namespace

int
main(int argc, char **argv)
{
	Options options;

	for (int i = 3; i + 1 < argc; i += 2)
		if (std::strcmp(argv[i], "--lists") == 0)
			options.n_lists = static_cast<uint32_t>(std::atoi(argv[i + 1]));
		else if (std::strcmp(argv[i], "--storages") == 0)
			options.storages = parts_of(argv[i + 1]);
		else if (std::strcmp(argv[i], "--probes") == 0)
		{
			options.probes.clear();
			for (const std::string &part : parts_of(argv[i + 1]))
				options.probes.push_back(static_cast<uint32_t>(std::atoi(part.c_str())));
		}
		else
			argc = 0;
	if (argc < 3)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY [--lists N] [--storages NAME,NAME,...] [--probes N,N,...]\n"
			"BASE, QUERY: .u8bin, .f16bin, .f32bin, or made:ROWSxDIM; NAME: sq8, rabitqB, pqM, pqMx4\n",
			argv[0]);
		return 2;
	}
	options.base = argv[1];
	options.queries = argv[2];
	return Bench(options).run() ? 0 : 1;
}

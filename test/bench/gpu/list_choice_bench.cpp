// Inverted lists and a pass over all rows side by side, by batch and probes, beside what the model of the choice
// (gpu/cuda/device/list_choice.hpp) says of both. Usage: README.md. Batches of both ways take turns; medians.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "cuda/device/list_choice.hpp"
#include "filled_lists.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

using Results = std::vector<std::vector<engine::Neighbor>>;

constexpr size_t kNeighbors = 10;
constexpr uint32_t kMostScaled = 4; // queries of a batch that reads float32 rows rounded to bytes (filter/tuning.hpp)

struct Options
{
	Metric metric = Metric::kL2;
	bool fp32 = false;
	uint32_t n_lists = 0; // 0: the root of the number of rows
	std::vector<uint32_t> probes = {14, 34, 61};
	std::vector<uint32_t> batches = {1, 2, 4, 8, 16, 32, 64, 256, 1024};
};

std::vector<uint32_t>
numbers_of(const char *text)
{
	std::vector<uint32_t> numbers;
	char *end = nullptr;

	for (const char *rest = text; *rest != 0; rest = *end == ',' ? end + 1 : end)
	{
		const unsigned long number = std::strtoul(rest, &end, 10);

		if (number == 0 || end == rest)
		{
			std::fprintf(stderr, "numbers from 1 on are wanted, separated by commas\n");
			std::exit(2);
		}
		numbers.push_back(static_cast<uint32_t>(number));
	}
	return numbers;
}

class Bench
{
public:
	Bench(const Options &options, char **files)
		: options_(options), base_(read_rows(files[0])), queries_(read_rows(files[1])),
		  is_bytes_(!options.fp32 && std::string_view(files[0]).ends_with(".u8bin"))
	{
		const uint32_t n_lists =
			options.n_lists > 0 ? options.n_lists : static_cast<uint32_t>(std::sqrt(static_cast<double>(base_.n)));
		const InvertedLists lists = fill(base_, train(base_, n_lists), n_lists);

		n_lists_ = n_lists;
		for (const bool chooses : {false, true})
		{
			cuda::CudaEngineOptions engine_options;

			engine_options.narrow = !options.fp32;
			engine_options.n_streams = 1;
			engine_options.self_test = false;
			engine_options.list_choice = chooses;
			must(cuda::make_cuda_engine(engine_options, &engines_[chooses]));
			copies_[chooses] =
				load(engines_[chooses].get(), base_.dim, lists, engine::CopyKind::kLists, options.metric);
		}
		std::printf("# %u x %u, %s, %s, %u lists, %s\n", base_.n, base_.dim, metric_text(),
			options.fp32 ? "fp32" : "narrowest exact form", n_lists, engines_[0]->description());
		std::printf("%6s %6s | %8s %8s | %8s %8s | %7s %7s | %6s %6s | %s\n", "batch", "probes", "lists", "model",
			"pass", "model", "ratio", "model", "recall", "same", "the engine");
	}

	void run()
	{
		for (const uint32_t batch : options_.batches)
			for (const uint32_t n_probes : options_.probes)
				if (batch <= queries_.n && n_probes < n_lists_)
					measure(batch, n_probes);
	}

private:
	const char *metric_text() const { return options_.metric == Metric::kL2 ? "l2" : "cosine"; }

	/// probes: empty for a pass.
	std::vector<engine::SearchQuery> requests(
		size_t first, uint32_t batch, std::span<const engine::SegmentProbes> probes) const
	{
		std::vector<engine::SearchQuery> made;

		for (size_t i = first; i < first + batch; i++)
		{
			made.push_back({queries_.values.data() + i * queries_.dim, kNeighbors, false, {}});
			made.back().probes = probes;
		}
		return made;
	}

	double search(bool chooses, const std::vector<engine::SearchQuery> &batch, Results *results)
	{
		const double start = now_ms();

		must(engines_[chooses]->search(copies_[chooses], batch, results));
		return now_ms() - start;
	}

	/// What the segment is to the model.
	cuda::ListChoice choice(uint32_t batch, uint32_t n_probes) const
	{
		const bool scaled = !is_bytes_ && batch <= kMostScaled;
		const uint32_t dim_pad = (base_.dim + 31) / 32 * 32;
		cuda::ListChoice made;

		made.n_rows = base_.n;
		made.dim = base_.dim;
		made.n_lists = n_lists_;
		made.probes = n_probes;
		made.row_bytes = is_bytes_ ? dim_pad : 4 * dim_pad;
		made.narrow_bytes = is_bytes_ ? dim_pad : 2 * dim_pad;
		made.pass_bytes = is_bytes_ || scaled ? dim_pad : 2 * dim_pad;
		made.is_scaled = scaled;
		made.is_byte = is_bytes_;
		return made;
	}

	void measure(uint32_t batch, uint32_t n_probes)
	{
		const std::array<engine::SegmentProbes, 1> probes = {engine::SegmentProbes{1, n_probes}};
		const int n_runs = batch >= 256 ? 20 : batch >= 64 ? 40 : 120;
		std::vector<double> lists_ms;
		std::vector<double> pass_ms;
		Results some;
		Results all;
		Results chosen;
		size_t n_found = 0;
		size_t n_true = 0;
		engine::Coverage coverage = engine::Coverage::kPart;

		for (int run = -3; run < n_runs; run++)
		{
			const size_t first = static_cast<size_t>(run + 3) * batch % (queries_.n - batch + 1);
			const double some_ms = search(false, requests(first, batch, probes), &some);
			const double all_ms = search(false, requests(first, batch, {}), &all);

			for (size_t i = 0; i < batch; i++)
			{
				n_true += all[i].size();
				for (const engine::Neighbor &neighbor : some[i])
					n_found += !all[i].empty() && neighbor.score <= all[i].back().score;
			}
			if (run < 0)
				continue;
			lists_ms.push_back(some_ms);
			pass_ms.push_back(all_ms);
		}

		std::vector<engine::SearchQuery> last = requests(0, batch, probes);

		last.back().coverage = &coverage;
		search(false, requests(0, batch, probes), &some);
		search(false, requests(0, batch, {}), &all);
		search(true, last, &chosen);

		const bool passed = coverage != engine::Coverage::kPart;

		report(batch, n_probes, &lists_ms, &pass_ms,
			n_true == 0 ? 0 : std::min(1.0, static_cast<double>(n_found) / static_cast<double>(n_true)),
			same(chosen, passed ? all : some), passed);
	}

	void report(uint32_t batch, uint32_t n_probes, std::vector<double> *lists_ms, std::vector<double> *pass_ms,
		double recall, bool is_same, bool passed) const
	{
		const cuda::ListChoice made = choice(batch, n_probes);
		const double lists_model = cuda::lists_us({&made, 1}, batch, false);
		const double pass_model =
			cuda::list_pass_us({&made, 1}, batch, {kNeighbors, made.is_byte && options_.metric == Metric::kL2, false});

		for (std::vector<double> *times : {lists_ms, pass_ms})
			std::sort(times->begin(), times->end());

		const double lists = 1000 * (*lists_ms)[lists_ms->size() / 2];
		const double pass = 1000 * (*pass_ms)[pass_ms->size() / 2];

		std::printf("%6u %6u | %8.1f %8.1f | %8.1f %8.1f | %7.2f %7.2f | %6.4f %6s | %s\n", batch, n_probes, lists,
			lists_model, pass, pass_model, lists / pass, lists_model / pass_model, recall, is_same ? "yes" : "NO",
			passed ? "pass" : "lists");
		std::fflush(stdout);
	}

	const Options options_;
	const Matrix base_;
	const Matrix queries_;
	const bool is_bytes_; // rows and queries: on the device, unless options_.fp32 is set
	uint32_t n_lists_ = 0;
	std::array<std::unique_ptr<cuda::CudaEngine>, 2> engines_; // one that chooses beside one that does not
	std::array<engine::CopyId, 2> copies_{};
};

} // namespace

int
main(int argc, char **argv)
{
	Options options;

	if (argc < 3)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY [--metric l2|cosine] [--fp32] [--lists N] [--probes N,N,...] [--batches N,N,...]\n",
			argv[0]);
		return 2;
	}
	for (int i = 3; i < argc; i++)
	{
		const std::string_view option = argv[i];

		if (option == "--fp32")
			options.fp32 = true;
		else if (option == "--metric" && i + 1 < argc)
			options.metric = std::string_view(argv[++i]) == "cosine" ? Metric::kCosine : Metric::kL2;
		else if (option == "--lists" && i + 1 < argc)
			options.n_lists = numbers_of(argv[++i]).front();
		else if (option == "--probes" && i + 1 < argc)
			options.probes = numbers_of(argv[++i]);
		else if (option == "--batches" && i + 1 < argc)
			options.batches = numbers_of(argv[++i]);
	}
	Bench(options, argv + 1).run();
	return 0;
}

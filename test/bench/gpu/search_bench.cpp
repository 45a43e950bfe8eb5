// Exact search on the GPU over a real data set: milliseconds a batch, end to end through Engine::search, and over the
// physical floor. Prints a table and, with --json FILE, one line of JSON per row.
//   gpu_search_bench BASE.u8bin QUERY.u8bin GROUND_TRUTH.bin [--fp32] [--recall=R] [--json FILE] [--quick] [--small]
//   [--chain]
//     [--only BATCH K]
// Files: uint32 n, uint32 d, n x d uint8; ground truth: uint32 n, uint32 100, rows uint32, distances float32.
// Medians of 400 runs up to 64 queries, of 40 up to 1,024, of 20 of more; the first two of each do not count. --fp32
// keeps the rows in binary32 on the device; --small: batches up to 64 with k = 10 only; --chain: no search in one pass.
// Every answer's distances are compared with the ground truth; with a recall target below 1 (PartialReduce) the
// measured recall is printed instead.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr double kCopyBytesPerMs = 4.25e9; // measured: device copy, read and write together

} // namespace

int
main(int argc, char **argv)
{
	bool fp32 = false;
	bool quick = false;
	bool small = false;
	bool chain = false;
	const char *json_name = nullptr;
	uint32_t filter_min = 0;
	size_t only_batch = 0;
	size_t only_k = 0;
	float recall_target = 1;

	if (argc < 4)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY GROUND_TRUTH [--fp32] [--json FILE] [--quick] [--small] [--chain] [--filter-min N] "
			"[--only BATCH K]\n",
			argv[0]);
		return 2;
	}
	for (int i = 4; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--fp32") == 0)
			fp32 = true;
		else if (std::strcmp(argv[i], "--quick") == 0)
			quick = true;
		else if (std::strcmp(argv[i], "--small") == 0)
			small = true;
		else if (std::strcmp(argv[i], "--chain") == 0)
			chain = true;
		else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			json_name = argv[++i];
		else if (std::strcmp(argv[i], "--filter-min") == 0 && i + 1 < argc)
			filter_min = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strncmp(argv[i], "--recall=", 9) == 0)
			recall_target = static_cast<float>(std::atof(argv[i] + 9));
		else if (std::strcmp(argv[i], "--only") == 0 && i + 2 < argc)
		{
			only_batch = static_cast<size_t>(std::atoi(argv[++i]));
			only_k = static_cast<size_t>(std::atoi(argv[++i]));
		}
	}

	const Matrix base = read_u8bin(argv[1]);
	const Matrix queries = read_u8bin(argv[2]);
	const std::vector<char> truth = read_file(argv[3]);
	const float *true_distances =
		reinterpret_cast<const float *>(truth.data() + 8 + static_cast<size_t>(queries.n) * 100 * sizeof(uint32_t));
	std::vector<RowId> ids(base.n);
	cuda::CudaEngineOptions options;
	std::unique_ptr<cuda::CudaEngine> engine;
	engine::CopyId copy = 0;

	for (uint32_t i = 0; i < base.n; i++)
		ids[i] = i;
	options.narrow = !fp32;
	options.filter_min_queries = filter_min;
	options.n_streams = 1;
	options.one_pass = !chain;

	double start = now_ms();

	must(cuda::make_cuda_engine(options, &engine));
	std::printf("# %s; engine start with self-test %.0f ms\n", engine->description(), now_ms() - start);
	start = now_ms();
	must(engine->create({Metric::kL2, ElementType::kFloat32, base.dim}, &copy));
	must(engine->load_segment(copy, 1, {ids, base.values.data(), base.n}));
	must(engine->seal_segment(copy, 1));
	std::printf("# %u x %u, %s on the device, loaded in %.0f ms, %.0f MB\n", base.n, base.dim,
		fp32 ? "fp32" : "narrowest exact form", now_ms() - start,
		static_cast<double>(engine->stats().resident_bytes) / 1e6);

	const double row_bytes = fp32 ? base.dim * 4.0 : base.dim;
	const double floor_ms = base.n * row_bytes / kCopyBytesPerMs;
	std::FILE *json = json_name == nullptr ? nullptr : std::fopen(json_name, "a");

	std::printf("%8s %6s %12s %12s %10s %12s %9s %8s\n", "batch", "k", "median ms", "min ms", "x floor", "queries/s",
		"rescored", recall_target < 1 ? "recall" : "exact");
	for (size_t k : {10, 100, 1000})
		for (size_t batch : {1, 2, 4, 8, 16, 32, 64, 256, 1024, 10000})
		{
			if (batch > queries.n || (quick && k != 10 && batch != 1 && batch != 64 && batch != 10000))
				continue;
			if (only_batch != 0 && (batch != only_batch || k != only_k))
				continue;
			if (small && (batch > 64 || k != 10))
				continue;

			// 40 runs of a small batch are over in 4 ms: what disturbs the host or the GPU for so long is then the
			// figure.
			const int n_runs = only_batch != 0 ? 1 : batch > 1024 ? 20 : batch > 64 ? 40 : 400;
			std::vector<double> times;
			std::vector<std::vector<engine::Neighbor>> results;
			size_t wrong = 0;
			size_t n_found = 0; // results no further away than the last true one
			size_t n_true = 0;
			const uint64_t rescored_before = engine->stats().n_rescored;

			for (int run = -2; run < n_runs; run++)
			{
				std::vector<engine::SearchQuery> requests;
				const size_t first = static_cast<size_t>(run + 2) * batch % (queries.n - batch + 1);

				for (size_t i = first; i < first + batch; i++)
					requests.push_back({queries.values.data() + i * queries.dim, k, false, {}, recall_target});
				start = now_ms();
				must(engine->search(copy, requests, &results));
				if (run >= 0)
					times.push_back(now_ms() - start);
				for (size_t i = 0; i < batch; i++)
				{
					const size_t n = std::min<size_t>(k, 100);
					const float last = true_distances[(first + i) * 100 + n - 1];

					for (size_t j = 0; j < n; j++)
					{
						const float distance = static_cast<float>(std::sqrt(results[i][j].score));

						wrong += distance != true_distances[(first + i) * 100 + j];
						n_found += distance <= last;
					}
					n_true += n;
				}
			}
			std::sort(times.begin(), times.end());

			const double median = times[times.size() / 2];
			// Memory once for few queries; 4 billion bf16 products a microsecond for many (measured bf16 rate).
			const double floor = std::max(floor_ms, 2.0 * static_cast<double>(batch) * base.n * base.dim / 790e9);
			const double rescored = static_cast<double>(engine->stats().n_rescored - rescored_before) /
				(static_cast<double>(batch) * (n_runs + 2));

			const double recall = static_cast<double>(n_found) / static_cast<double>(n_true);
			char verdict[16];

			if (recall_target < 1)
				std::snprintf(verdict, sizeof(verdict), "%.4f", recall);
			else
				std::snprintf(verdict, sizeof(verdict), "%s", wrong == 0 ? "yes" : "NO");
			std::printf("%8zu %6zu %12.4f %12.4f %10.2f %12.0f %9.1f %8s\n", batch, k, median, times.front(),
				median / floor, 1000.0 * static_cast<double>(batch) / median, rescored, verdict);
			std::fflush(stdout);
			if (json != nullptr)
				std::fprintf(json,
					"{\"rows\": %u, \"dim\": %u, \"form\": \"%s\", \"batch\": %zu, \"k\": %zu, \"median_ms\": %.4f, "
					"\"min_ms\": %.4f, "
					"\"floor_ms\": %.4f, \"rescored\": %.1f, \"recall_target\": %.4f, \"recall\": %.4f, \"exact\": "
					"%s}\n",
					base.n, base.dim, fp32 ? "fp32" : "narrow", batch, k, median, times.front(), floor, rescored,
					static_cast<double>(recall_target), recall, wrong == 0 ? "true" : "false");
		}
	std::printf("# in one pass: %llu queries\n", static_cast<unsigned long long>(engine->n_one_pass()));
	if (json != nullptr)
		std::fclose(json);
	return 0;
}

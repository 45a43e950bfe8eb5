// k-means on the device: all rows of a data set, with the given clusters and iterations; the time of the seeds, the
// iterations and their parts. Prints a table; --json FILE appends a line of JSON. See README.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/build/list_builder.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;

namespace
{

using bench::must;

constexpr int kRuns = 5;

/// Median of the device's time for work on the stream, in ms.
template <class Work>
double
device_ms(const cuda::ClusterContext &context, const Work &work)
{
	cudaEvent_t start, end;
	std::vector<float> times;

	must(context.check(cudaEventCreate(&start), "create an event"));
	must(context.check(cudaEventCreate(&end), "create an event"));
	for (int run = -1; run < kRuns; run++)
	{
		float ms = 0;

		must(context.check(cudaEventRecord(start, context.stream.get()), "record"));
		work();
		must(context.check(cudaEventRecord(end, context.stream.get()), "record"));
		must(context.check(cudaEventSynchronize(end), "wait"));
		must(context.check(cudaEventElapsedTime(&ms, start, end), "read the time"));
		if (run >= 0)
			times.push_back(ms);
	}
	must(context.check(cudaEventDestroy(start), "destroy"));
	must(context.check(cudaEventDestroy(end), "destroy"));
	std::sort(times.begin(), times.end());
	return static_cast<double>(times[times.size() / 2]);
}

/// The parts of an iteration, from the centroids trained.
void
measure_parts(
	cuda::ClusterContext *context, const engine::ivf::KMeansSpec &spec, const bench::Matrix &base, const float *trained)
{
	cuda::ClusterRows rows;
	cuda::ClusterCentroids centroids;
	cuda::Held sums;
	const uint32_t n = static_cast<uint32_t>(spec.n_rows);

	must(rows.create(context, n, spec.dim, spec.n_clusters));
	must(centroids.create(context, spec.n_clusters, spec.dim));
	must(sums.allocate(context->budget, spec.n_clusters * sizeof(double), "sums"));
	must(centroids.set(trained, spec.n_clusters));
	must(rows.put(base.values.data(), base.dim, n));
	must(rows.check_finite(centroids));

	const double labels = device_ms(*context, [&] { must(rows.assign(centroids, false)); });
	const double scores = device_ms(*context, [&] { must(rows.assign(centroids, true)); }) - labels;
	const double groups = device_ms(*context, [&] { must(rows.group(centroids, sums.as<double>())); });
	const double means = device_ms(*context, [&] { must(rows.update(&centroids, false)); });
	const double refresh = device_ms(*context, [&] { must(centroids.refresh()); });
	const double products = 2.0 * n * spec.n_clusters * spec.dim;

	std::printf("labels %.3f ms (%.0f TFLOP/s), scores %.3f, groups %.3f, means %.3f, centroids %.3f\n", labels,
		products / labels / 1e9, scores, groups, means, refresh);
}

/// The engine calls of an index build, in the batches of the wire: training on 64 rows a list, labels of all rows,
/// neighbours of 260 queries.
void
measure_build(const cuda::Device &device, cuda::Budget *budget, const bench::Matrix &base)
{
	constexpr size_t kBatch = 504;
	engine::ListBuildSpec spec;
	engine::SearchControl control;
	std::unique_ptr<engine::ListBuilder> builder;
	std::vector<uint32_t> labels(kBatch);
	std::vector<float> scores(kBatch);

	spec.rows = {Metric::kL2, ElementType::kFloat32, base.dim};
	spec.n_clusters = static_cast<uint32_t>(std::sqrt(base.n));
	spec.n_training = std::min(base.n, 64 * spec.n_clusters);
	spec.n_queries = 260;
	spec.k = 12;
	spec.max_iterations = 20;
	spec.tolerance = 1e-3f;
	must(cuda::make_list_builder(spec, &device, budget, &control, &builder));

	double start = bench::now_ms();

	for (size_t i = 0; i < spec.n_training; i++)
		must(builder->add_training(base.values.data() + i * base.n / spec.n_training * base.dim, 1));
	must(builder->train());

	const double trained = bench::now_ms() - start;

	must(builder->add_queries(base.values.data(), spec.n_queries));
	start = bench::now_ms();
	for (size_t first = 0; first < base.n; first += kBatch)
		must(builder->assign(first, base.values.data() + first * base.dim, std::min<size_t>(kBatch, base.n - first),
			labels.data(), scores.data()));
	std::printf(
		"build: %u lists trained in %.0f ms (%u iterations), %u rows assigned and %u queries answered in %.0f ms\n",
		spec.n_clusters, trained, builder->report().n_iterations, base.n, spec.n_queries, bench::now_ms() - start);
}

} // namespace

int
main(int argc, char **argv)
{
	engine::ivf::KMeansSpec spec;
	engine::ivf::KMeansReport report;
	cuda::KMeansTimes times;
	cuda::Device device;
	std::FILE *json = nullptr;

	if (argc < 2)
	{
		std::fprintf(
			stderr, "usage: gpu_kmeans_bench BASE.u8bin [--clusters N] [--iterations N] [--rows N] [--json FILE]\n");
		return 2;
	}

	bench::Matrix base = bench::read_u8bin(argv[1]);

	spec.n_clusters = 4096;
	spec.max_iterations = 20;
	spec.tolerance = -1; // all iterations
	for (int i = 2; i + 1 < argc; i += 2)
		if (std::strcmp(argv[i], "--clusters") == 0)
			spec.n_clusters = static_cast<uint32_t>(std::atoi(argv[i + 1]));
		else if (std::strcmp(argv[i], "--iterations") == 0)
			spec.max_iterations = static_cast<uint32_t>(std::atoi(argv[i + 1]));
		else if (std::strcmp(argv[i], "--rows") == 0)
			base.n = std::min(base.n, static_cast<uint32_t>(std::atoi(argv[i + 1])));
		else if (std::strcmp(argv[i], "--json") == 0)
			json = std::fopen(argv[i + 1], "a");
	spec.dim = base.dim;
	spec.n_rows = base.n;
	must(cuda::Device::open(0, {}, &device));
	must(device.check(kernels::prepare_cluster_kernels(), "prepare the kernels"));
	must(device.check(kernels::prepare_select_kernels(), "prepare the kernels"));

	auto budget = std::make_unique<cuda::Budget>(&device, 0);
	cuda::ClusterContext context;
	std::vector<float> centroids(static_cast<size_t>(spec.n_clusters) * spec.dim);

	context.device = &device;
	context.budget = budget.get();
	must(context.stream.create(&device));
	std::printf("# %s; %u x %u, %u clusters, %u iterations, %u threads of the host for seeds\n",
		device.description().c_str(), base.n, base.dim, spec.n_clusters, spec.max_iterations,
		std::thread::hardware_concurrency());
	for (int run = 0; run < 3; run++)
	{
		must(cuda::train_kmeans(&context, spec, {base.values.data(), base.dim}, false,
			std::thread::hardware_concurrency(), centroids.data(), nullptr, &report, &times));
		std::printf("rows sent %.1f ms, seeds %.1f, %u iterations %.1f; mean squared error %.1f, %u splits\n",
			times.upload_ms, times.seeds_ms, report.n_iterations, times.iterations_ms, report.inertia / base.n,
			report.n_splits);
	}
	measure_parts(&context, spec, base, centroids.data());
	measure_build(device, budget.get(), base);
	if (json != nullptr)
	{
		std::fprintf(json,
			"{\"benchmark\": \"kmeans\", \"device\": \"%s\", \"rows\": %u, \"dim\": %u, \"clusters\": %u, "
			"\"iterations\": %u, \"iterations_ms\": "
			"%.3f, \"seeds_ms\": %.3f, \"upload_ms\": %.3f, \"mean_squared_error\": %.3f}\n",
			device.description().c_str(), base.n, base.dim, spec.n_clusters, report.n_iterations, times.iterations_ms,
			times.seeds_ms, times.upload_ms, report.inertia / base.n);
		std::fclose(json);
	}
	return 0;
}

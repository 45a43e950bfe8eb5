// Selection alone, in the form of Faiss's figure 3: 10,000 x 128,000 float32, the share of the memory bandwidth for one
// reading of the numbers, at several k; also 1,000 x 1,000,000, and rows in orders that defeat thresholds. Prints
// tables; --json FILE appends lines of JSON; --only K ORDER measures one case of the first table, for a profiler.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/device/device.hpp"
#include "experiments/select_rows.hpp"
#include "support/must.hpp"

using namespace vectorgpu;

namespace
{

using test::must;

constexpr size_t kMostNumbers = size_t{10000} * 128000;
constexpr uint32_t kMostRows = 10000;
constexpr double kCopyBytesPerMs = 4.25e9; // measured on an H200: device copy, read and write together
constexpr int kRuns = 7;

enum class Order
{
	kRandom,
	kAscending,
	kDescending,
	kEqual,
	kTenValues,
	kThousandValues,
	kNearFirst,
	kHalfNan,
};

constexpr const char *kOrderNames[] = {
	"random", "ascending", "descending", "all equal", "ten values", "1,000 values", "near ones first", "half NaN"};

/// Numbers of one order, made on the host in parts of rows that are sent repeatedly, shifted each time if the order is
/// none.
void
send_rows(const cuda::Device &device, const cuda::DeviceBuffer &to, uint32_t n_rows, uint32_t n_columns, Order order)
{
	const uint32_t n_part = std::max(1u, std::min(n_rows, 12800000 / n_columns));
	std::vector<float> part(static_cast<size_t>(n_part) * n_columns);
	uint64_t state = 1;

	for (size_t i = 0; i < part.size(); i++)
	{
		const uint32_t column = static_cast<uint32_t>(i % n_columns);

		state = state * 6364136223846793005u + 1442695040888963407u;

		const float number = static_cast<float>(state >> 40) * 0x1p-24f;

		switch (order)
		{
			case Order::kRandom:
				part[i] = number;
				break;
			case Order::kAscending:
				part[i] = static_cast<float>(column);
				break;
			case Order::kDescending:
				part[i] = -static_cast<float>(column);
				break;
			case Order::kEqual:
				part[i] = 1;
				break;
			case Order::kTenValues:
				part[i] = std::floor(number * 10);
				break;
			case Order::kThousandValues:
				part[i] = std::floor(number * 1000);
				break;
			case Order::kNearFirst:
				part[i] = column < n_columns / 64 ? number : 1 + number;
				break;
			case Order::kHalfNan:
				part[i] = (state >> 35) % 2 == 0 ? number : std::numeric_limits<float>::quiet_NaN();
				break;
		}
	}
	for (uint32_t row = 0; row < n_rows; row += n_part)
	{
		const size_t n = static_cast<size_t>(std::min(n_part, n_rows - row)) * n_columns;

		must(device.check(cudaMemcpy(to.as<float>() + static_cast<size_t>(row) * n_columns, part.data(), n * 4,
							  cudaMemcpyHostToDevice),
			"send"));
		if (order == Order::kRandom)
			std::rotate(part.begin(), part.begin() + 977, part.end());
	}
}

/// Median and least of kRuns, after one that does not count.
std::pair<double, double>
measure(const cuda::Device &device, const kernels::SelectRowsArgs &args, int n_runs = kRuns)
{
	cudaEvent_t start, end;
	std::vector<float> times;

	must(device.check(cudaEventCreate(&start), "create an event"));
	must(device.check(cudaEventCreate(&end), "create an event"));
	for (int run = -1; run < n_runs; run++)
	{
		float ms = 0;

		must(device.check(cudaEventRecord(start), "record"));
		must(device.check(kernels::launch_select_rows(args, nullptr), "select"));
		must(device.check(cudaEventRecord(end), "record"));
		must(device.check(cudaEventSynchronize(end), "wait"));
		must(device.check(cudaEventElapsedTime(&ms, start, end), "read the time"));
		if (run >= 0)
			times.push_back(ms);
	}
	must(device.check(cudaEventDestroy(start), "destroy"));
	must(device.check(cudaEventDestroy(end), "destroy"));
	std::partial_sort(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2 + 1), times.end());
	return {times[times.size() / 2], times.front()};
}

} // namespace

int
main(int argc, char **argv)
{
	cuda::Device device;
	cuda::DeviceBuffer values, out, columns;
	std::FILE *json = argc == 3 && std::strcmp(argv[1], "--json") == 0 ? std::fopen(argv[2], "a") : nullptr;

	must(cuda::Device::open(0, nullptr, &device));
	must(values.allocate(&device, kMostNumbers * 4, "numbers"));
	must(out.allocate(&device, static_cast<size_t>(kMostRows) * 2048 * 4, "results"));
	must(columns.allocate(&device, static_cast<size_t>(kMostRows) * 2048 * 4, "results"));

	kernels::SelectRowsArgs args = {values.as<float>(), 10000, 128000, 0, out.as<float>(), columns.as<uint32_t>()};

	if (argc == 4 && std::strcmp(argv[1], "--only") == 0)
	{
		args.k = static_cast<uint32_t>(std::atoi(argv[2]));
		send_rows(device, values, args.n_rows, args.n_columns, static_cast<Order>(std::atoi(argv[3])));
		std::printf("k %u, %s: %.3f ms\n", args.k, kOrderNames[std::atoi(argv[3])], measure(device, args, 1).first);
		return 0;
	}
	for (const auto &[n_rows, n_columns] : {std::pair{10000u, 128000u}, std::pair{1000u, 1000000u}})
	{
		const double floor_ms = static_cast<double>(n_rows) * n_columns * 4 / kCopyBytesPerMs;

		args.n_rows = n_rows;
		args.n_columns = n_columns;
		send_rows(device, values, n_rows, n_columns, Order::kRandom);
		std::printf("# %s; %u x %u float32, median of %d\n%6s %10s %10s %11s\n", device.description().c_str(), n_rows,
			n_columns, kRuns, "k", "median ms", "min ms", "of 4.25 TB/s");
		for (uint32_t k : {1u, 10u, 32u, 100u, 256u, 316u, 512u, 1000u, 2048u})
		{
			args.k = k;

			const auto [median, least] = measure(device, args);

			std::printf("%6u %10.3f %10.3f %11.0f%%\n", k, median, least, 100 * floor_ms / median);
			if (json != nullptr)
				std::fprintf(json,
					"{\"rows\": %u, \"columns\": %u, \"k\": %u, \"median_ms\": %.4f, \"fraction_of_bandwidth\": "
					"%.3f}\n",
					n_rows, n_columns, k, median, floor_ms / median);
		}
	}
	args.n_rows = 2000;
	args.n_columns = 128000;
	std::printf("# orders of numbers, %u x %u, median of 3, ms\n%-18s %10s %10s\n", args.n_rows, args.n_columns, "",
		"k = 100", "k = 1000");
	for (Order order : {Order::kAscending, Order::kDescending, Order::kEqual, Order::kTenValues, Order::kThousandValues,
			 Order::kNearFirst, Order::kHalfNan})
	{
		send_rows(device, values, args.n_rows, args.n_columns, order);
		args.k = 100;

		const double at_100 = measure(device, args, 3).first;

		args.k = 1000;
		std::printf(
			"%-18s %10.3f %10.3f\n", kOrderNames[static_cast<int>(order)], at_100, measure(device, args, 3).first);
	}
	if (json != nullptr)
		std::fclose(json);
	return 0;
}

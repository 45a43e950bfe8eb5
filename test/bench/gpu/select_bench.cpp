// Selection by itself, in the form of Faiss's figure 3: 10,000 x 128,000 float32, fraction of the memory bandwidth that one
// reading of the numbers is, at several k. Prints a table; --json FILE appends lines of JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/device.hpp"
#include "kernels/select_rows.hpp"

using namespace vectorgpu;

namespace
{

constexpr uint32_t kRows = 10000;
constexpr uint32_t kColumns = 128000;
constexpr double kCopyBytesPerMs = 4.25e9; // measured on an H200: device copy, read and write together
constexpr int kRuns = 7;

void
must(const Status &status)
{
	if (status.is_ok())
		return;
	std::fprintf(stderr, "%s\n", status.message.c_str());
	std::exit(1);
}

using Launcher = cudaError_t (*)(const kernels::SelectRowsArgs &, cudaStream_t);

void
measure(const cuda::Device &device, const char *name, Launcher launch, kernels::SelectRowsArgs args, uint32_t k, std::FILE *json)
{
	cudaEvent_t start, end;
	std::vector<float> times;

	args.k = k;
	must(device.check(cudaEventCreate(&start), "create an event"));
	must(device.check(cudaEventCreate(&end), "create an event"));
	for (int run = -1; run < kRuns; run++)
	{
		float ms = 0;

		must(device.check(cudaEventRecord(start), "record"));
		must(device.check(launch(args, nullptr), "select"));
		must(device.check(cudaEventRecord(end), "record"));
		must(device.check(cudaEventSynchronize(end), "wait"));
		must(device.check(cudaEventElapsedTime(&ms, start, end), "read the time"));
		if (run >= 0)
			times.push_back(ms);
	}
	must(device.check(cudaEventDestroy(start), "destroy"));
	must(device.check(cudaEventDestroy(end), "destroy"));
	std::sort(times.begin(), times.end());

	const double median = times[times.size() / 2];
	const double fraction = static_cast<double>(kRows) * kColumns * 4 / kCopyBytesPerMs / median;

	std::printf("%-24s %6u %10.3f %10.3f %10.0f%%\n", name, k, median, static_cast<double>(times.front()), 100 * fraction);
	if (json != nullptr)
		std::fprintf(json, "{\"selection\": \"%s\", \"k\": %u, \"median_ms\": %.4f, \"fraction_of_bandwidth\": %.3f}\n", name, k, median,
			fraction);
}

} // namespace

int
main(int argc, char **argv)
{
	cuda::Device device;
	cuda::DeviceBuffer values, out, columns;
	std::vector<float> row(static_cast<size_t>(kColumns) * 100);
	std::FILE *json = argc == 3 && std::strcmp(argv[1], "--json") == 0 ? std::fopen(argv[2], "a") : nullptr;
	uint64_t state = 1;

	must(cuda::Device::open(0, nullptr, &device));
	must(values.allocate(&device, static_cast<size_t>(kRows) * kColumns * 4, "numbers"));
	must(out.allocate(&device, static_cast<size_t>(kRows) * 2048 * 4, "results"));
	must(columns.allocate(&device, static_cast<size_t>(kRows) * 2048 * 4, "results"));
	for (float &value : row)
	{
		state = state * 6364136223846793005u + 1442695040888963407u;
		value = static_cast<float>(state >> 40) * 0x1p-24f;
	}
	for (size_t at = 0; at < values.bytes(); at += row.size() * 4) // each part shifted, so that rows differ
	{
		std::rotate(row.begin(), row.begin() + 977, row.end());
		must(device.check(cudaMemcpy(values.as<char>() + at, row.data(), row.size() * 4, cudaMemcpyHostToDevice), "send"));
	}
	std::printf("# %s; %u x %u float32, median of %d\n%-24s %6s %10s %10s %11s\n", device.description().c_str(), kRows, kColumns, kRuns,
		"selection", "k", "median ms", "min ms", "of 4.25 TB/s");

	const kernels::SelectRowsArgs args = {values.as<float>(), kRows, kColumns, 0, out.as<float>(), columns.as<uint32_t>()};

	for (uint32_t k : {1u, 10u, 100u, 256u, 512u, 1000u, 2048u})
		measure(device, "threshold and buffer", kernels::launch_select_rows, args, k, json);
	if (json != nullptr)
		std::fclose(json);
	return 0;
}

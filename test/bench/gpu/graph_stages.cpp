// The stages of searches of large batches (graph_bench.hpp).
#include "cuda/search/graph_trace.hpp"
#include "graph_bench.hpp"

namespace vectorgpu::bench
{
namespace
{

constexpr size_t kTimes = cuda::kGraphStages - 1 + cuda::kGraphMoments - 1;
constexpr int kRuns = 11;

using Times = std::array<double, kTimes>;

/// Of the device, then of the host.
Times
times_of(const cuda::GraphTrace &trace)
{
	Times times;

	for (size_t i = 1; i < cuda::kGraphStages; i++)
		times[i - 1] = trace.ms(static_cast<cuda::GraphStage>(i));
	for (size_t i = 1; i < cuda::kGraphMoments; i++)
		times[cuda::kGraphStages - 2 + i] = trace.ms(static_cast<cuda::GraphMoment>(i));
	return times;
}

double
median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

/// Times of whole searches by what an engine may choose otherwise.
void
compare_choices(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	struct Way
	{
		const char *name;
		uint32_t parts, table_bits, warps;
		std::vector<size_t> batches;
	};
	const std::vector<Way> ways = {{"1 part", 1, 0, 0, {2500, 10000}}, {"2 parts", 2, 0, 0, {2500, 10000}},
		{"3 parts", 3, 0, 0, {10000}}, {"4 parts", 4, 0, 0, {10000}}, {"8 parts", 8, 0, 0, {10000}},
		{"512 words", 1, 9, 0, {10000}}, {"1,024 words", 1, 10, 0, {10000}}, {"2,048 words", 1, 11, 0, {10000}},
		{"a warp", 1, 0, 1, {256, 512, 1000, 2000}}, {"four warps", 1, 0, 4, {256, 512, 1000, 2000}}};

	std::printf("%-12s %8s %8s %12s %12s\n", "", "batch", "width", "median ms", "min ms");
	for (const Way &way : ways)
	{
		kernels::GraphTuning tuning = asked_tuning(options);

		tuning.parts = way.parts;
		tuning.table_bits = way.table_bits;
		tuning.warps = way.warps;

		const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, tuning, false);
		const engine::CopyId copy = load(gpu.get(), base, description, options);

		for (const size_t batch : way.batches)
			for (const uint32_t width : {16, 24, 64})
			{
				const Line line = bench->run(gpu.get(), copy, batch, width, 15);

				std::printf("%-12s %8zu %8u %12.4f %12.4f\n", way.name, batch, width, line.median_ms, line.min_ms);
				std::fflush(stdout);
			}
	}
}

} // namespace

void
print_stages(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	cuda::GraphTrace trace;
	const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, asked_tuning(options), false, &trace);
	const engine::CopyId copy = load(gpu.get(), base, description, options);

	std::printf("# %s; medians of %d, ms: on the device until the queries are there, entry points scored, chosen, the "
				"graph searched, merged, read; the host's staging, launches, waiting, taking\n",
		gpu->description(), kRuns);
	std::printf("%8s %8s %8s |%8s %8s %8s %8s %8s %8s |%8s %8s %8s %8s | %8s\n", "batch", "width", "total", "sent",
		"scored", "chosen", "searched", "merged", "read", "staging", "launches", "waiting", "taking", "recall");
	for (const size_t batch : {256, 1000, 2500, 10000})
		for (const uint32_t width : {10, 16, 24, 32, 64, 128})
		{
			std::vector<double> totals;
			std::array<std::vector<double>, kTimes> parts;
			double recall = 0;

			if (options.only_batch != 0 && (batch != options.only_batch || width != options.only_width))
				continue;
			for (int run = 0; run < kRuns; run++)
			{
				const Line line = bench->run(gpu.get(), copy, batch, width, 1);
				const Times times = times_of(trace);

				totals.push_back(line.median_ms);
				recall = line.recall;
				for (size_t i = 0; i < kTimes; i++)
					parts[i].push_back(times[i]);
			}
			std::printf("%8zu %8u %8.4f |", batch, width, median(totals));
			for (size_t i = 0; i < kTimes; i++)
				std::printf("%8.4f%s", median(parts[i]), i + 2 == cuda::kGraphStages || i + 1 == kTimes ? " |" : " ");
			std::printf(" %8.4f\n", recall);
			std::fflush(stdout);
		}
	if (options.only_batch == 0)
		compare_choices(options, base, description, bench);
}

} // namespace vectorgpu::bench

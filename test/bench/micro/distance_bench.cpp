// Canonical scores over an array far larger than any cache, beside a plain sum that streams the same bytes: the ratio
// of the two bytes_per_second is how close a scan comes to the memory's speed.
#include <cstdint>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/distance/distance.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kArrayBytes = size_t{460} << 20;
constexpr size_t kBlockRows = 256; // rows per call, as a scan does

const std::vector<float> &
array()
{
	static const std::vector<float> values = []
	{
		std::mt19937 rng(1);
		std::vector<float> v(kArrayBytes / sizeof(float));

		for (float &x : v)
			x = static_cast<float>(rng() & 0xFF);
		return v;
	}();

	return values;
}

void
plain_sum(benchmark::State &state)
{
	const uint64_t *words = reinterpret_cast<const uint64_t *>(array().data());
	const size_t n = kArrayBytes / sizeof(uint64_t);

	for (auto _ : state)
	{
		uint64_t sum[8] = {};

		for (size_t i = 0; i + 8 <= n; i += 8)
			for (size_t j = 0; j < 8; j++)
				sum[j] += words[i + j];
		benchmark::DoNotOptimize(sum);
	}
	state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kArrayBytes));
}

void
scan(benchmark::State &state, Metric metric, ElementType element, SimdLevel level)
{
	if (!set_simd_level(level))
	{
		state.SkipWithError("this CPU lacks the instruction set");
		return;
	}

	const uint32_t dim = static_cast<uint32_t>(state.range(0));
	const DistanceSpec spec = {metric, element, dim};
	const size_t row_bytes = vector_bytes(element, dim);
	const size_t n = kArrayBytes / row_bytes;
	const char *rows = reinterpret_cast<const char *>(array().data());
	std::vector<Neighbor> buffer(topk_buffer_bytes(10) / sizeof(Neighbor));
	double scores[kBlockRows];
	RowId ids[kBlockRows];

	for (auto _ : state)
	{
		TopK topk;

		topk_init(&topk, 10, buffer.data(), buffer.size(), nullptr);
		for (size_t first = 0; first < n; first += kBlockRows)
		{
			const size_t block = std::min(kBlockRows, n - first);

			for (size_t i = 0; i < block; i++)
				ids[i] = first + i;
			compute_scores(spec, array().data(), rows + first * row_bytes, row_bytes, block, scores);
			topk_push(&topk, scores, ids, block, nullptr, 0);
		}
		benchmark::DoNotOptimize(topk_finish(&topk));
	}
	state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * n * row_bytes));
	set_simd_level(SimdLevel::kAuto);
}

BENCHMARK(plain_sum)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, l2_float32, Metric::kL2, ElementType::kFloat32, SimdLevel::kAuto)
	->Arg(128)
	->Arg(100)
	->Arg(784)
	->Arg(16)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, inner_product_float32, Metric::kInnerProduct, ElementType::kFloat32, SimdLevel::kAuto)
	->Arg(128)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, cosine_float32, Metric::kCosine, ElementType::kFloat32, SimdLevel::kAuto)
	->Arg(128)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, l1_float32, Metric::kL1, ElementType::kFloat32, SimdLevel::kAuto)
	->Arg(128)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, l2_float16, Metric::kL2, ElementType::kFloat16, SimdLevel::kAuto)
	->Arg(128)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, hamming_bits, Metric::kHamming, ElementType::kBit, SimdLevel::kAuto)
	->Arg(1024)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, jaccard_bits, Metric::kJaccard, ElementType::kBit, SimdLevel::kAuto)
	->Arg(1024)
	->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(scan, l2_float32_avx2, Metric::kL2, ElementType::kFloat32, SimdLevel::kAvx2)
	->Arg(128)
	->Unit(benchmark::kMillisecond);

} // namespace
} // namespace vectorgpu::engine

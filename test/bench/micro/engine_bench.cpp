// The CPU engine on 900,000 x 128 vectors: a batch through the GEMM filter beside the same queries one at a time.
// Data: clustered integers in [0, 255], or the file that VECTORGPU_U8BIN names (uint32 n, uint32 dim, n x dim uint8).
// time_per_query is what to compare; survivors is how many rows per query the filter could not rule out.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "common/half.hpp"
#include "engine/cpu/cpu_engine.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kHeldOut = 64; // the last rows are the queries

struct Vectors
{
	uint32_t dim = 128;
	std::vector<float> values;

	size_t n() const { return values.size() / dim; }
};

Vectors
clustered()
{
	std::mt19937 rng(1);
	std::normal_distribution<float> noise(0, 25);
	Vectors vectors;
	std::vector<float> centres(1000 * vectors.dim);

	for (float &x : centres)
		x = static_cast<float>(rng() % 120);
	vectors.values.resize(size_t{900000 + kHeldOut} * vectors.dim);
	for (size_t i = 0; i < vectors.n(); i++)
	{
		const float *centre = &centres[rng() % 1000 * vectors.dim];

		for (size_t j = 0; j < vectors.dim; j++)
			vectors.values[i * vectors.dim + j] = std::clamp(std::round(centre[j] + noise(rng)), 0.0f, 255.0f);
	}
	return vectors;
}

Vectors
from_file(const char *path)
{
	Vectors vectors;
	uint32_t n = 0;
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path, "rb"), fclose);

	if (file == nullptr || fread(&n, 4, 1, file.get()) != 1 || fread(&vectors.dim, 4, 1, file.get()) != 1)
		return vectors;

	std::vector<uint8_t> bytes(size_t{n} * vectors.dim);

	if (fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size())
		vectors.values.assign(bytes.begin(), bytes.end());
	return vectors;
}

const Vectors &
vectors()
{
	static const Vectors loaded = []
	{
		const char *path = std::getenv("VECTORGPU_U8BIN");

		return path != nullptr ? from_file(path) : clustered();
	}();

	return loaded;
}

void
search(benchmark::State &state, Metric metric, ElementType element)
{
	const size_t batch = static_cast<size_t>(state.range(0));
	const size_t k = static_cast<size_t>(state.range(1));
	const Vectors &data = vectors();

	if (data.n() <= kHeldOut)
	{
		state.SkipWithError("no data");
		return;
	}

	const size_t n = data.n() - kHeldOut;
	const DistanceSpec spec = {metric, element, data.dim};
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	std::vector<uint16_t> halves;
	std::vector<RowId> ids(n);
	CopyId copy = 0;
	const void *rows = data.values.data();

	if (element == ElementType::kFloat16)
	{
		halves.resize(data.values.size());
		std::transform(data.values.begin(), data.values.end(), halves.begin(), float_to_half);
		rows = halves.data();
	}
	for (size_t i = 0; i < n; i++)
		ids[i] = i;
	if (!engine->create(spec, &copy).is_ok() || !engine->load_segment(copy, 0, {ids, rows, n}).is_ok() ||
		!engine->seal_segment(copy, 0).is_ok())
	{
		state.SkipWithError("cannot load");
		return;
	}

	std::vector<SearchQuery> queries;
	std::vector<std::vector<Neighbor>> results;
	const size_t row_bytes = vector_bytes(element, data.dim);

	for (size_t i = 0; i < kHeldOut; i++)
		queries.push_back({static_cast<const char *>(rows) + (n + i) * row_bytes, k, false, {}});
	for (auto _ : state)
		for (size_t first = 0; first < kHeldOut; first += batch)
			if (!engine->search(copy, {&queries[first], std::min(batch, kHeldOut - first)}, &results).is_ok())
				state.SkipWithError("search failed");

	const double n_queries = static_cast<double>(state.iterations() * kHeldOut);

	state.counters["time_per_query"] =
		benchmark::Counter(n_queries, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
	state.counters["survivors"] = static_cast<double>(engine->stats().n_rescored) / n_queries;
}

BENCHMARK_CAPTURE(search, l2_float32, Metric::kL2, ElementType::kFloat32)
	->ArgNames({"batch", "k"})
	->Args({1, 10})
	->Args({8, 10})
	->Args({16, 10})
	->Args({64, 10})
	->Args({64, 1000})
	->Unit(benchmark::kMillisecond)
	->UseRealTime()
	->Iterations(1);
BENCHMARK_CAPTURE(search, inner_product_float32, Metric::kInnerProduct, ElementType::kFloat32)
	->ArgNames({"batch", "k"})
	->Args({1, 10})
	->Args({64, 10})
	->Unit(benchmark::kMillisecond)
	->UseRealTime()
	->Iterations(1);
BENCHMARK_CAPTURE(search, cosine_float32, Metric::kCosine, ElementType::kFloat32)
	->ArgNames({"batch", "k"})
	->Args({1, 10})
	->Args({64, 10})
	->Unit(benchmark::kMillisecond)
	->UseRealTime()
	->Iterations(1);
BENCHMARK_CAPTURE(search, l2_float16, Metric::kL2, ElementType::kFloat16)
	->ArgNames({"batch", "k"})
	->Args({1, 10})
	->Args({64, 10})
	->Unit(benchmark::kMillisecond)
	->UseRealTime()
	->Iterations(1);

} // namespace
} // namespace vectorgpu::engine

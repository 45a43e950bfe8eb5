// Exact searches of sparse vectors on the GPU, over made rows whose indices are frequent by Zipf's law, beside the CPU
// engine with the same rows: milliseconds a batch, end to end through Engine::search. Usage: README.md. Both engines
// must give the same answers, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/distance/sparse.hpp"
#include "support/same_answers.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

using vectorgpu::test::same;

constexpr uint32_t kDims = 30000;
constexpr uint32_t kDraws = 150; // of indices for a row: about a third of them come twice
constexpr size_t kNeighbors = 10;
constexpr size_t kMostQueries = 1000;
constexpr uint32_t kSlotBytes = 56;

constexpr struct
{
	Metric metric;
	const char *name;
} kMetrics[] = {{Metric::kL2, "l2"}, {Metric::kInnerProduct, "ip"}, {Metric::kCosine, "cosine"}, {Metric::kL1, "l1"}};

/// The elements of a vector, as rows and queries have them.
std::vector<uint8_t>
make_vector(std::mt19937 *rng)
{
	std::uniform_real_distribution<double> order(0, std::log(double{kDims}));
	std::uniform_real_distribution<float> size(0.1f, 3.0f);
	std::vector<int32_t> indices(kDraws);

	for (int32_t &index : indices)
		index = std::min(static_cast<int32_t>(std::exp(order(*rng))) - 1, static_cast<int32_t>(kDims) - 1);
	std::sort(indices.begin(), indices.end());
	indices.erase(std::unique(indices.begin(), indices.end()), indices.end());

	std::vector<uint8_t> bytes(indices.size() * engine::kSparseElementBytes);

	std::memcpy(bytes.data(), indices.data(), indices.size() * sizeof(int32_t));
	for (size_t i = 0; i < indices.size(); i++)
	{
		const float value = size(*rng);

		std::memcpy(bytes.data() + (indices.size() + i) * sizeof(float), &value, sizeof(value));
	}
	return bytes;
}

/// The description of a segment (engine/copies/sparse_rows.hpp), and queries as they are sent.
struct Data
{
	explicit Data(uint32_t n_rows)
	{
		std::mt19937 rng(7);
		std::vector<uint8_t> elements;
		std::vector<uint64_t> ends;

		for (uint32_t i = 0; i < n_rows; i++)
		{
			const std::vector<uint8_t> row = make_vector(&rng);

			elements.insert(elements.end(), row.begin(), row.end());
			ends.push_back(elements.size());
			ids.push_back(i);
		}
		description.resize(ends.size() * sizeof(uint64_t) + elements.size());
		std::memcpy(description.data(), ends.data(), ends.size() * sizeof(uint64_t));
		std::memcpy(description.data() + ends.size() * sizeof(uint64_t), elements.data(), elements.size());
		for (size_t i = 0; i < kMostQueries; i++)
		{
			const std::vector<uint8_t> vector = make_vector(&rng);
			const uint32_t length = static_cast<uint32_t>(vector.size());
			std::vector<uint8_t> query(sizeof(length) + vector.size());

			std::memcpy(query.data(), &length, sizeof(length));
			std::memcpy(query.data() + sizeof(length), vector.data(), vector.size());
			queries.push_back(std::move(query));
		}
	}

	std::vector<RowId> ids;
	std::vector<uint8_t> description;
	std::vector<std::vector<uint8_t>> queries;
};

/// An engine with a copy of the rows.
class Side
{
public:
	Side(engine::Engine *engine, const Data &data, Metric metric) : engine_(engine), data_(data)
	{
		must(engine_->create({{metric, ElementType::kSet, kSlotBytes}, engine::CopyKind::kSparse}, &copy_));
		must(engine_->load_segment(copy_, 1, {data.ids, nullptr, data.ids.size()}));
		must(engine_->load_structure(copy_, 1, 1, data.description));
		must(engine_->seal_segment(copy_, 1));
	}

	~Side() { (void) engine_->drop(copy_); }
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	/// The median of the runs, in ms; other queries each time, as far as there are some. *results: of the first
	/// queries.
	double measure(size_t batch, int runs, std::vector<std::vector<engine::Neighbor>> *results)
	{
		std::vector<double> times;

		for (int run = -1; run < runs; run++)
		{
			std::vector<std::vector<engine::Neighbor>> found;
			std::vector<engine::SearchQuery> requests;

			for (size_t i = 0; i < batch; i++)
			{
				const std::vector<uint8_t> &query =
					data_.queries[(static_cast<size_t>(run + 1) * batch + i) % kMostQueries];

				requests.push_back({query.data(), kNeighbors, false, {}});
				requests.back().query_bytes = query.size();
			}

			const double start = now_ms();

			must(engine_->search(copy_, requests, &found));
			if (run >= 0)
				times.push_back(now_ms() - start);
			else
				*results = std::move(found);
		}
		std::sort(times.begin(), times.end());
		return times[times.size() / 2];
	}

private:
	engine::Engine *const engine_;
	const Data &data_;
	engine::CopyId copy_ = 0;
};

/// Runs of a batch: more of small ones, which take less. The CPU engine takes seconds for a large one.
int
runs_of(size_t batch, bool on_device)
{
	if (batch == 1)
		return 51;
	return batch < 100 || on_device ? 11 : 1;
}

} // namespace

int
main(int argc, char **argv)
{
	uint32_t n_rows = 100000;
	bool has_gpu = true;

	for (int i = 1; i < argc; i++)
	{
		const std::string_view argument = argv[i];

		if (argument == "--rows" && i + 1 < argc)
			n_rows = static_cast<uint32_t>(std::max(1, std::atoi(argv[++i])));
		else if (argument == "--cpu")
			has_gpu = false;
		else
		{
			std::fprintf(stderr, "usage: gpu_sparse_bench [--rows N] [--cpu]\n");
			return 2;
		}
	}

	const Data data(n_rows);
	const size_t n_threads = std::max(1u, std::thread::hardware_concurrency());
	const std::unique_ptr<engine::Engine> host = engine::make_cpu_engine({.n_threads = n_threads});
	std::unique_ptr<cuda::CudaEngine> device;
	int n_wrong = 0;

	if (has_gpu)
	{
		cuda::CudaEngineOptions options;

		options.n_streams = 1;
		options.self_test = false;
		must(cuda::make_cuda_engine(options, &device));
	}
	std::printf("%u rows, %.0f elements each, %u dimensions; k = %zu; %s; %zu threads\n%8s %6s %10s %10s %8s %10s\n",
		n_rows,
		static_cast<double>(data.description.size() - n_rows * sizeof(uint64_t)) / engine::kSparseElementBytes / n_rows,
		kDims, kNeighbors, has_gpu ? device->description() : "no GPU", n_threads, "metric", "batch", "cuda ms",
		"cpu ms", "cpu/cuda", "rescored");
	for (const auto &[metric, name] : kMetrics)
	{
		Side on_host(host.get(), data, metric);
		std::unique_ptr<Side> on_device;

		if (has_gpu)
			on_device = std::make_unique<Side>(device.get(), data, metric);
		for (const size_t batch : {size_t{1}, size_t{64}, size_t{1000}})
		{
			if (batch > 64 && metric != Metric::kL2 && metric != Metric::kInnerProduct)
				continue;

			const double asked = static_cast<double>(batch) * (runs_of(batch, has_gpu) + 1);
			std::vector<std::vector<engine::Neighbor>> wanted, found;
			engine::Engine *const counted = has_gpu ? device.get() : host.get();
			const uint64_t before = counted->n_rescored();
			const double host_ms = on_host.measure(batch, runs_of(batch, false), &wanted);
			const double device_ms = has_gpu ? on_device->measure(batch, runs_of(batch, true), &found) : 0;
			const bool right = !has_gpu || same(wanted, found);

			std::printf("%8s %6zu %10.3f %10.3f %8.2f %10.0f%s\n", name, batch, device_ms, host_ms,
				has_gpu ? host_ms / device_ms : 0, static_cast<double>(counted->n_rescored() - before) / asked,
				right ? "" : "  WRONG");
			std::fflush(stdout);
			n_wrong += right ? 0 : 1;
		}
	}
	return n_wrong > 0 ? 1 : 0;
}

// Shared by the parts of gpu_graph_bench: a graph built as for an index, engines that hold it, and a line of a table.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/interface/graph_layout.hpp"
#include "support/same_answers.hpp"
#include "threads.hpp"
#include "u8bin.hpp"

namespace vectorgpu::bench
{

using vectorgpu::test::begin_with;
using vectorgpu::test::same;

constexpr size_t kNeighbors = 10;

/// A graph built as for an index, on the GPU and the host's threads.
struct Graph
{
	std::vector<uint8_t> description; // input of Engine::load_structure
	engine::ivf::Calibration calibration;
};

/// The time that a build spends in each of its stages, sampled by another thread.
class StageClock
{
public:
	explicit StageClock(const engine::GraphProgress &progress) : progress_(progress), thread_([this] { watch(); }) {}
	~StageClock() { stop(); }
	void stop()
	{
		stop_ = true;
		if (thread_.joinable())
			thread_.join();
	}
	/// After stop().
	double ms(engine::GraphStage stage) const { return ms_[static_cast<size_t>(stage)]; }

private:
	void watch()
	{
		double last = now_ms();

		while (!stop_)
		{
			std::this_thread::sleep_for(std::chrono::milliseconds(2));

			const double now = now_ms();

			ms_[static_cast<size_t>(progress_.stage.load())] += now - last;
			last = now;
		}
	}

	const engine::GraphProgress &progress_;
	std::array<double, 8> ms_ = {};
	std::atomic<bool> stop_ = false;
	std::thread thread_;
};

inline Graph
build(engine::Engine *gpu, const Matrix &base, uint32_t degree, const engine::NearGroupsTuning &near_groups = {})
{
	const std::unique_ptr<engine::Engine> host =
		engine::make_cpu_engine({.n_threads = n_threads, .near_groups = near_groups});
	std::unique_ptr<engine::GraphBuilder> builder;
	engine::SearchControl control;
	engine::GraphBuildSpec spec;
	Graph graph;

	spec.rows = {Metric::kL2, ElementType::kFloat32, base.dim};
	spec.n_rows = base.n;
	spec.degree = degree;
	spec.calibrate = true;
	must(host->make_graph_builder(spec, &control, gpu, &builder));
	must(builder->add_rows(base.values.data(), base.n));

	{
		const double start = now_ms();
		StageClock stages(builder->progress());

		must(builder->build());
		stages.stop();
		std::printf("# graph of %u x %u, degree %u, neighbours %s: %.0f ms; beginning %.0f, nearest rows of each on "
					"the GPU %.0f, edges on %zu threads %.0f (%u connected), recall by %u rows %.0f\n",
			base.n, base.dim, degree, builder->exact_neighbors() ? "exact" : "by the host", now_ms() - start,
			stages.ms(engine::GraphStage::kRows), stages.ms(engine::GraphStage::kNeighbors), n_threads,
			stages.ms(engine::GraphStage::kEdges), builder->report().n_connected, builder->calibration().n_queries,
			stages.ms(engine::GraphStage::kRecall));
	}

	const uint32_t n_entries = static_cast<uint32_t>(builder->entries().size());
	const engine::GraphHeader header = {degree, 1, n_entries, 0};
	const engine::GraphPartLayout part = {0, base.n, 0, n_entries};
	const auto put = [&graph](const void *data, size_t n_bytes)
	{
		const uint8_t *from = static_cast<const uint8_t *>(data);

		graph.description.insert(graph.description.end(), from, from + n_bytes);
	};

	put(&header, sizeof(header));
	put(&part, sizeof(part));
	put(builder->entries().data(), n_entries * sizeof(uint32_t));
	put(builder->edges().data(), builder->edges().size() * sizeof(uint32_t));
	graph.calibration = builder->calibration();
	return graph;
}

struct Options
{
	uint32_t degree = 32;
	bool fp32 = false;
	bool rounded = true; // float32 rows have rounded ones beside them
	bool ablation = false;
	bool blocks_by_dims = false;
	bool targets = false;
	bool hash = false;
	bool stages = false;
	bool chain = false;
	bool choice = false;
	bool batches = false;
	size_t only_batch = 0; // 0: all
	uint32_t only_width = 0;
	uint32_t steps = 0;      // 0: the engine's default
	uint32_t warps = 0;      // of a query of many; 0: as the engine chooses
	uint32_t table_bits = 0; // of its set of visited nodes; 0: by the width
	uint32_t parts = 0;  // of a large batch that are searched while others are sent; 0: as the engine chooses, 1: none
	uint32_t lanes = 0;  // of a query; 0: a warp or more
	uint32_t blocks = 0; // of each of few queries; 0: as the engine chooses
	std::FILE *json = nullptr;
};

inline engine::CopyId
load(engine::Engine *engine, const Matrix &base, const std::vector<uint8_t> &description, const Options &options,
	engine::CopyKind kind = engine::CopyKind::kGraph)
{
	engine::CopySpec spec;
	std::vector<RowId> ids(base.n);
	engine::CopyId copy = 0;

	std::iota(ids.begin(), ids.end(), 0);
	spec.distance = {Metric::kL2, ElementType::kFloat32, base.dim};
	spec.kind = kind;
	spec.rounded = options.rounded;
	must(engine->create(spec, &copy));
	must(engine->load_segment(copy, 1, {ids, base.values.data(), base.n}));
	must(engine->load_structure(copy, 1, options.degree, description));
	must(engine->seal_segment(copy, 1));
	return copy;
}

/// The measurements of a line.
struct Line
{
	double median_ms;
	double min_ms;
	double recall;
	std::vector<engine::SearchQuery> last; // batch, and its results
	std::vector<std::vector<engine::Neighbor>> results;
};

class Bench
{
public:
	/// true_distances [queries, 100]; null: set_truth is called later.
	Bench(const Matrix &queries, const float *true_distances) : queries_(queries), last_(queries.n)
	{
		for (size_t i = 0; i < queries.n && true_distances != nullptr; i++)
			last_[i] = true_distances[i * 100 + kNeighbors - 1];
	}

	/// Without the ground truth of all rows: distances of the tenth neighbours by an exact search.
	void set_truth(engine::Engine *engine, engine::CopyId copy)
	{
		std::vector<engine::SearchQuery> batch;
		std::vector<std::vector<engine::Neighbor>> results;

		for (size_t i = 0; i < queries_.n; i++)
			batch.push_back({queries_.values.data() + i * queries_.dim, kNeighbors, false, {}});
		must(engine->search(copy, batch, &results, nullptr));
		for (size_t i = 0; i < queries_.n; i++)
			last_[i] = static_cast<float>(std::sqrt(results[i].back().score));
	}

	Line run(engine::Engine *engine, engine::CopyId copy, size_t batch, uint32_t width, int n_runs)
	{
		Line line{};
		std::vector<double> times;
		size_t n_found = 0;
		size_t n_true = 0;

		probes_[0] = {1, width};
		for (int run = -2; run < n_runs; run++)
		{
			const size_t first = static_cast<size_t>(run + 2) * batch % (queries_.n - batch + 1);

			line.last.clear();
			for (size_t i = first; i < first + batch; i++)
			{
				line.last.push_back({queries_.values.data() + i * queries_.dim, kNeighbors, false, {}});
				line.last.back().probes = probes_;
			}

			const double start = now_ms();

			must(engine->search(copy, line.last, &line.results, nullptr));
			if (run >= 0)
				times.push_back(now_ms() - start);
			for (size_t i = 0; i < batch; i++)
				for (const engine::Neighbor &found : line.results[i])
					n_found += static_cast<float>(std::sqrt(found.score)) <= last_[first + i];
			n_true += batch * kNeighbors;
		}
		std::sort(times.begin(), times.end());
		line.median_ms = times[times.size() / 2];
		line.min_ms = times.front();
		line.recall = static_cast<double>(n_found) / static_cast<double>(n_true);
		return line;
	}

private:
	const Matrix &queries_;
	std::vector<float> last_; // [queries] distance of the tenth neighbour
	engine::SegmentProbes probes_[1] = {};
};

inline void
print_json(const Options &options, const Matrix &base, size_t batch, uint32_t width, const kernels::GraphTuning &tuning,
	const Line &line)
{
	if (options.json != nullptr)
		std::fprintf(options.json,
			"{\"rows\": %u, \"dim\": %u, \"degree\": %u, \"form\": \"%s\", \"batch\": %zu, \"width\": %u, \"visited\": "
			"%d, \"selected\": %d, "
			"\"deletion\": %d, \"table_bits\": %u, \"steps\": %u, \"warps\": %u, \"lanes\": %u, \"blocks\": %u, "
			"\"median_ms\": %.4f, \"min_ms\": %.4f, \"queries_per_s\": %.0f, \"recall\": %.4f}\n",
			base.n, base.dim, options.degree, options.fp32 ? "fp32" : "narrow", batch, width,
			static_cast<int>(tuning.visited), tuning.selected_insertion, tuning.visited_deletion, tuning.table_bits,
			tuning.steps, tuning.warps, tuning.lanes, tuning.blocks, line.median_ms, line.min_ms,
			1000.0 * static_cast<double>(batch) / line.median_ms, line.recall);
}

/// The tuning that the options ask for.
inline kernels::GraphTuning
asked_tuning(const Options &options)
{
	kernels::GraphTuning tuning;

	tuning.steps = options.steps;
	tuning.warps = options.warps;
	tuning.table_bits = options.table_bits;
	tuning.parts = options.parts;
	tuning.lanes = options.lanes;
	tuning.blocks = options.blocks;
	return tuning;
}

/// trace: gets the times of searches of many queries; null: none are taken.
inline std::unique_ptr<cuda::CudaEngine>
make_engine(
	const Options &options, const kernels::GraphTuning &tuning, bool self_test, cuda::GraphTrace *trace = nullptr)
{
	cuda::CudaEngineOptions engine_options;
	std::unique_ptr<cuda::CudaEngine> engine;

	engine_options.narrow = !options.fp32;
	engine_options.n_streams = 1;
	engine_options.graph = tuning;
	engine_options.graph_trace = trace;
	engine_options.self_test = self_test;
	engine_options.graph_alone = !options.chain;
	engine_options.graph_choice = options.choice;
	must(cuda::make_cuda_engine(engine_options, &engine));
	return engine;
}

/// Compare sets of visited nodes, selected insertion, visited deletion and steps (SONG, figures 7 to 9), several
/// queries in one warp (figure 8), and several blocks for each of few queries.
void ablate(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench);

/// The stages of searches of large batches: their times on the device, and the host's around them.
void print_stages(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench);

/// Compare one, two and four blocks for each of few queries, over the first dimensions of the rows, for growing numbers
/// of dimensions; recall against exact searches of those.
void compare_blocks(const Options &options, const Matrix &base, const Matrix &queries);

} // namespace vectorgpu::bench

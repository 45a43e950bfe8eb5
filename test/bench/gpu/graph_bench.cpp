// Graphs on the GPU over a real data set: the build as an index's, with neighbours from the exact search on the GPU and calibration, and recall@10 and queries/s by width,
// end to end through Engine::search.
//   gpu_graph_bench BASE.u8bin QUERY.u8bin GROUND_TRUTH.bin [--rows N] [--degree N] [--fp32] [--steps N] [--lanes N] [--blocks N] [--chain] [--choice]
//     [--ablation | --targets | --hash] [--only BATCH WIDTH] [--json FILE]
// Unless --steps says otherwise than the CPU engine, some answers of every line are compared with its. --ablation: sets of visited nodes, selected insertion, visited deletion
// and steps (SONG, figures 7 to 9), several queries in one warp (figure 8), and several blocks for each of few queries, instead. --lanes: 16 or 8 of a warp for each query. --blocks: 1, 2 or 4 for
// each of few queries. --targets: what the calibration of the
// build says for recall targets, what the queries find with it, and how far that is from the target. --hash: searches that compare codes of 32 to 512 bits (hash_bits) beside those that compare rows. --chain: without the way of a block for
// each query. --choice: queries look at all rows where the engine takes that for cheaper, as they do in a worker.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/hash.hpp"
#include "engine/graph/search.hpp"
#include "engine/graph_builder.hpp"
#include "engine/graph_layout.hpp"
#include "threads.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr size_t kNeighbors = 10;
constexpr size_t kComparedQueries = 50;

/// A graph as an index's build makes it, on the GPU and the host's threads.
struct Graph
{
	std::vector<uint8_t> description; // what Engine::load_structure wants
	engine::ivf::Calibration calibration;
};

/// How long a build is in each of its stages, looked at from a thread beside it.
class StageClock
{
public:
	explicit StageClock(const engine::GraphProgress &progress) : progress_(progress), thread_([this] { watch(); }) {}
	~StageClock() { stop(); }
	void
	stop()
	{
		stop_ = true;
		if (thread_.joinable())
			thread_.join();
	}
	/// After stop().
	double
	ms(engine::GraphStage stage) const
	{
		return ms_[static_cast<size_t>(stage)];
	}

private:
	void
	watch()
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

Graph
build(engine::Engine *gpu, const Matrix &base, uint32_t degree)
{
	const std::unique_ptr<engine::Engine> host = engine::make_cpu_engine({.n_threads = n_threads});
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
		std::printf("# graph of %u x %u, degree %u, neighbours %s: %.0f ms; beginning %.0f, nearest rows of each on the GPU %.0f, edges on %zu threads %.0f (%u connected), recall by %u rows %.0f\n",
			base.n, base.dim, degree, builder->exact_neighbors() ? "exact" : "by the host", now_ms() - start, stages.ms(engine::GraphStage::kRows),
			stages.ms(engine::GraphStage::kNeighbors), n_threads, stages.ms(engine::GraphStage::kEdges), builder->report().n_connected,
			builder->calibration().n_queries, stages.ms(engine::GraphStage::kRecall));
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

engine::CopyId
load(engine::Engine *engine, const Matrix &base, const std::vector<uint8_t> &description, uint32_t degree,
	engine::CopyKind kind = engine::CopyKind::kGraph)
{
	std::vector<RowId> ids(base.n);
	engine::CopyId copy = 0;

	std::iota(ids.begin(), ids.end(), 0);
	must(engine->create({{Metric::kL2, ElementType::kFloat32, base.dim}, kind}, &copy));
	must(engine->load_segment(copy, 1, {ids, base.values.data(), base.n}));
	must(engine->load_structure(copy, 1, degree, description));
	must(engine->seal_segment(copy, 1));
	return copy;
}

bool
same(const std::vector<engine::Neighbor> &a, const std::vector<engine::Neighbor> &b)
{
	return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
									   [](const engine::Neighbor &x, const engine::Neighbor &y)
									   { return std::memcmp(&x.score, &y.score, sizeof(double)) == 0 && x.row == y.row; });
}

/// What a line measures.
struct Line
{
	double median_ms;
	double min_ms;
	double recall;
	std::vector<engine::SearchQuery> last; // batch, and what it gave
	std::vector<std::vector<engine::Neighbor>> results;
};

class Bench
{
public:
	/// true_distances [queries, 100]; null: set_truth comes.
	Bench(const Matrix &queries, const float *true_distances) : queries_(queries), last_(queries.n)
	{
		for (size_t i = 0; i < queries.n && true_distances != nullptr; i++)
			last_[i] = true_distances[i * 100 + kNeighbors - 1];
	}

	/// Without the ground truth of all rows: distances of the tenth neighbours by an exact search.
	void
	set_truth(engine::Engine *engine, engine::CopyId copy)
	{
		std::vector<engine::SearchQuery> batch;
		std::vector<std::vector<engine::Neighbor>> results;

		for (size_t i = 0; i < queries_.n; i++)
			batch.push_back({queries_.values.data() + i * queries_.dim, kNeighbors, false, {}});
		must(engine->search(copy, batch, &results, nullptr));
		for (size_t i = 0; i < queries_.n; i++)
			last_[i] = static_cast<float>(std::sqrt(results[i].back().score));
	}

	Line
	run(engine::Engine *engine, engine::CopyId copy, size_t batch, uint32_t width, int n_runs)
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

struct Options
{
	uint32_t degree = 32;
	bool fp32 = false;
	bool ablation = false;
	bool targets = false;
	bool hash = false;
	bool chain = false;
	bool choice = false;
	size_t only_batch = 0; // 0: all
	uint32_t only_width = 0;
	uint32_t steps = 0; // 0: the engine's default
	uint32_t lanes = 0; // of a query; 0: a warp or more
	uint32_t blocks = 0; // of each of few queries; 0: as the engine chooses
	std::FILE *json = nullptr;
};

void
print_json(const Options &options, const Matrix &base, size_t batch, uint32_t width, const kernels::GraphTuning &tuning, const Line &line)
{
	if (options.json != nullptr)
		std::fprintf(options.json,
			"{\"rows\": %u, \"dim\": %u, \"degree\": %u, \"form\": \"%s\", \"batch\": %zu, \"width\": %u, \"visited\": %d, \"selected\": %d, "
			"\"deletion\": %d, \"table_bits\": %u, \"steps\": %u, \"warps\": %u, \"lanes\": %u, \"blocks\": %u, \"median_ms\": %.4f, \"min_ms\": %.4f, \"queries_per_s\": %.0f, \"recall\": %.4f}\n",
			base.n, base.dim, options.degree, options.fp32 ? "fp32" : "narrow", batch, width, static_cast<int>(tuning.visited),
			tuning.selected_insertion, tuning.visited_deletion, tuning.table_bits, tuning.steps, tuning.warps, tuning.lanes, tuning.blocks, line.median_ms, line.min_ms,
			1000.0 * static_cast<double>(batch) / line.median_ms, line.recall);
}

std::unique_ptr<cuda::CudaEngine>
make_engine(const Options &options, const kernels::GraphTuning &tuning, bool self_test)
{
	cuda::CudaEngineOptions engine_options;
	std::unique_ptr<cuda::CudaEngine> engine;

	engine_options.narrow = !options.fp32;
	engine_options.n_streams = 1;
	engine_options.graph = tuning;
	engine_options.self_test = self_test;
	engine_options.graph_alone = !options.chain;
	engine_options.graph_choice = options.choice;
	must(cuda::make_cuda_engine(engine_options, &engine));
	return engine;
}

void
measure(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	kernels::GraphTuning tuning;

	tuning.steps = options.steps;
	tuning.lanes = options.lanes;
	tuning.blocks = options.blocks;

	const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, tuning, false);
	const std::unique_ptr<engine::Engine> cpu = engine::make_cpu_engine({.n_threads = n_threads});
	double start = now_ms();
	const engine::CopyId copy = load(gpu.get(), base, description, options.degree);

	std::printf("# %s; %s, loaded in %.0f ms, %.0f MB\n", gpu->description(), options.fp32 ? "fp32" : "narrowest exact form", now_ms() - start,
		static_cast<double>(gpu->stats().resident_bytes) / 1e6);

	const engine::CopyId cpu_copy = load(cpu.get(), base, description, options.degree);

	std::printf("%8s %8s %12s %12s %12s %10s %12s\n", "batch", "width", "median ms", "min ms", "queries/s", "recall@10", "as the CPU");
	for (const size_t batch : {1, 64, 1000, 10000})
		for (const uint32_t width : {10, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512})
		{
			if (options.only_batch != 0 && (batch != options.only_batch || width != options.only_width))
				continue;

			const Line line = bench->run(gpu.get(), copy, batch, width, batch >= 10000 ? 7 : batch >= 64 ? 20 : 50);
			std::vector<std::vector<engine::Neighbor>> expected;

			must(cpu->search(cpu_copy, std::span(line.last).first(std::min(batch, kComparedQueries)), &expected, nullptr));
			std::printf("%8zu %8u %12.4f %12.4f %12.0f %10.4f %12s\n", batch, width, line.median_ms, line.min_ms,
				1000.0 * static_cast<double>(batch) / line.median_ms, line.recall,
				options.choice || (options.steps != 0 && options.steps != engine::graph::kSearchSteps) ? "-" : std::equal(expected.begin(), expected.end(), line.results.begin(), same) ? "yes" : "NO");
			std::fflush(stdout);
			print_json(options, base, batch, width, tuning, line);
		}
}

/// A graph's description with codes of so many bits.
std::vector<uint8_t>
add_codes(const Matrix &base, std::vector<uint8_t> description, uint32_t bits)
{
	constexpr uint32_t kPiece = 4096;
	const engine::DistanceSpec distance = {Metric::kL2, ElementType::kFloat32, base.dim};
	const engine::graph::GraphRows rows = {distance, base.values.data(), base.dim * sizeof(float), base.n};
	const size_t code_bytes = engine::graph::hash_code_bytes(bits);
	std::vector<float> thresholds(bits);
	std::vector<uint8_t> codes(base.n * code_bytes);
	engine::graph::HashModel model;
	engine::GraphHashHead head;
	engine::GraphHeader header;
	std::atomic<uint32_t> next{0};
	const auto put = [&description](const void *data, size_t n_bytes)
	{
		const uint8_t *from = static_cast<const uint8_t *>(data);

		description.insert(description.end(), from, from + n_bytes);
	};

	model.spec = {distance, bits, head.seed};
	model.thresholds = thresholds.data();

	std::vector<float> work(engine::graph::hash_work_floats(model.spec));

	engine::graph::hash_train(model.spec, rows, &model.bound, thresholds.data(), work.data());

	std::vector<std::thread> threads;

	for (size_t t = 0; t < n_threads; t++)
		threads.emplace_back(
			[&]
			{
				std::vector<float> own(work.size());

				for (uint32_t first; (first = next.fetch_add(kPiece)) < base.n;)
					engine::graph::hash_rows(model,
						{distance, base.values.data() + size_t{first} * base.dim, base.dim * sizeof(float), std::min(kPiece, base.n - first)},
						codes.data() + first * code_bytes, own.data());
			});
	for (std::thread &thread : threads)
		thread.join();
	std::memcpy(&header, description.data(), sizeof(header));
	header.hash_bits = bits;
	std::memcpy(description.data(), &header, sizeof(header));
	head.bound = model.bound;
	put(&head, sizeof(head));
	put(thresholds.data(), thresholds.size() * sizeof(float));
	put(codes.data(), codes.size());
	return description;
}

/// By bits of a code, 0 for rows: recall and time by width, and what of the copy lies on the device.
void
measure_codes(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, {}, false);
	const std::unique_ptr<engine::Engine> cpu = engine::make_cpu_engine({.n_threads = n_threads});

	std::printf("# %s\n%6s %8s %8s %12s %12s %12s %10s %12s\n", gpu->description(), "bits", "batch", "width", "median ms", "min ms", "queries/s", "recall@10",
		"as the CPU");
	for (const uint32_t bits : {0, 32, 64, 128, 256, 512})
	{
		const engine::CopyKind kind = bits == 0 ? engine::CopyKind::kGraph : engine::CopyKind::kHashedGraph;
		const double start = now_ms();
		const std::vector<uint8_t> coded = bits == 0 ? description : add_codes(base, description, bits);
		const double made = now_ms();
		const engine::CopyId copy = load(gpu.get(), base, coded, options.degree, kind);
		const engine::CopyId cpu_copy = load(cpu.get(), base, coded, options.degree, kind);

		std::printf("# %u bits: codes made in %.0f ms; on the GPU %.0f MB\n", bits, made - start, static_cast<double>(gpu->stats().resident_bytes) / 1e6);
		for (const size_t batch : {1, 64, 1000})
			for (const uint32_t width : bits == 0 ? std::vector<uint32_t>{16, 32, 64, 128, 256, 512} : std::vector<uint32_t>{64, 128, 256, 512, 1024, 2048, 4096})
			{
				if (options.only_batch != 0 && (batch != options.only_batch || width != options.only_width))
					continue;

				const uint64_t before = gpu->n_hashed();
				const Line line = bench->run(gpu.get(), copy, batch, width, batch == 1 ? 30 : batch == 64 ? 10 : 5);
				const bool by_codes = gpu->n_hashed() > before;
				std::vector<std::vector<engine::Neighbor>> expected;

				must(cpu->search(cpu_copy, std::span(line.last).first(std::min(batch, kComparedQueries)), &expected, nullptr));
				std::printf("%6u %8zu %8u %12.4f %12.4f %12.0f %10.4f %12s\n", bits, batch, width, line.median_ms, line.min_ms,
					1000.0 * static_cast<double>(batch) / line.median_ms, line.recall,
					bits != 0 && !by_codes ? "all rows" : std::equal(expected.begin(), expected.end(), line.results.begin(), same) ? "yes" : "NO");
				std::fflush(stdout);
			}
		must(gpu->drop(copy));
		must(cpu->drop(cpu_copy));
	}
}

/// For each recall target the width that the build's calibration says, what the queries of the data set find with it, how far that is from the target,
/// and the time, with a block for each query and in a chain of launches.
void
reach_targets(const Options &options, const Matrix &base, const Graph &graph, Bench *bench)
{
	const std::vector<uint8_t> &description = graph.description;
	const engine::ivf::Calibration &calibration = graph.calibration;
	Options chain = options;

	chain.chain = true;

	const std::unique_ptr<cuda::CudaEngine> engines[] = {make_engine(options, {}, false), make_engine(chain, {}, false)};
	const engine::CopyId copies[] = {load(engines[0].get(), base, description, options.degree), load(engines[1].get(), base, description, options.degree)};

	for (uint32_t i = 0; i < calibration.n_points; i++)
		std::printf("# width %u: %.4f, the queries %.4f\n", calibration.probes[i], static_cast<double>(calibration.recall[i]),
			bench->run(engines[0].get(), copies[0], 10000, calibration.probes[i], 1).recall);
	std::printf("%8s %8s %12s %12s %12s %12s %12s %12s\n", "target", "width", "recall@10", "difference", "1 query ms", "chain ms", "64 ms", "chain ms");
	for (const double target : {0.8, 0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999})
	{
		const uint32_t width = std::max<uint32_t>(kNeighbors, static_cast<uint32_t>(std::lround(engine::ivf::fractional_probes_for(calibration, target))));

		double ms[2][2];

		for (const size_t i : {0, 1})
			for (const size_t e : {0, 1})
				ms[i][e] = bench->run(engines[e].get(), copies[e], i == 0 ? 1 : 64, width, i == 0 ? 200 : 50).median_ms;

		const double found = bench->run(engines[0].get(), copies[0], 10000, width, 1).recall;

		std::printf("%8.3f %8u %12.4f %12.4f %12.4f %12.4f %12.4f %12.4f\n", target, width, found, std::fabs(found - target), ms[0][0], ms[0][1], ms[1][0],
			ms[1][1]);
	}
}

void
ablate(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	using kernels::GraphVisited;
	struct Way
	{
		const char *name;
		kernels::GraphTuning tuning;
		std::vector<size_t> batches;
	};
	std::vector<Way> ways;
	const auto add = [&ways](const char *name, GraphVisited visited, bool selected, bool deletion, uint32_t bits, uint32_t steps, uint32_t warps = 0,
						 uint32_t lanes = 0) { ways.push_back({name, {visited, selected, deletion, bits, steps, warps, lanes}, {1, 10000}}); };

	add("list alone", GraphVisited::kNone, false, false, 0, 1);
	for (const uint32_t bits : {0u, 8u, 9u, 10u, 11u})
	{
		add("hash", GraphVisited::kHash, false, false, bits, 1);
		if (bits > 9)
			continue;
		add("hash, selected", GraphVisited::kHash, true, false, bits, 1);
		add("hash, selected, deletion", GraphVisited::kHash, true, true, bits, 1);
	}
	for (const uint32_t bits : {7u, 9u})
	{
		add("Bloom", GraphVisited::kBloom, false, false, bits, 1);
		add("Bloom, selected", GraphVisited::kBloom, true, false, bits, 1);
	}
	for (const uint32_t bits : {9u, 11u})
	{
		add("cuckoo", GraphVisited::kCuckoo, false, false, bits, 1);
		add("cuckoo, selected", GraphVisited::kCuckoo, true, false, bits, 1);
	}
	for (const uint32_t steps : {2u, 4u, 8u})
		add("hash", GraphVisited::kHash, false, false, 0, steps);
	for (const uint32_t warps : {1u, 4u, 8u})
		for (const uint32_t steps : {1u, 2u, 4u})
			add(warps == 1 ? "hash, one warp" : warps == 4 ? "hash, four warps" : "hash, eight warps", GraphVisited::kHash, false, false, 0, steps, warps);
	for (const uint32_t lanes : {16u, 8u}) // beside "hash, one warp"
	{
		for (const uint32_t steps : {1u, 2u, 4u})
			add(lanes == 16 ? "hash, two queries a warp" : "hash, four queries a warp", GraphVisited::kHash, false, false, 0, steps, 0, lanes);
		add(lanes == 16 ? "list alone, two queries" : "list alone, four queries", GraphVisited::kNone, false, false, 0, 1, 0, lanes);
	}
	for (const uint32_t blocks : {1u, 2u, 4u})
	{
		kernels::GraphTuning tuning;

		tuning.blocks = blocks;
		ways.push_back({blocks == 1 ? "hash, one block" : blocks == 2 ? "hash, two blocks" : "hash, four blocks", tuning, {1, 16, 64}});
	}
	std::printf("%-28s %6s %6s %8s %8s %12s %12s %10s\n", "visited", "bits", "steps", "width", "batch", "median ms", "queries/s", "recall@10");
	for (const Way &way : ways)
	{
		const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, way.tuning, false);
		const engine::CopyId copy = load(gpu.get(), base, description, options.degree);

		for (const size_t batch : way.batches)
			for (const uint32_t width : {32, 64})
			{
				if ((batch == 1 && (way.tuning.visited != GraphVisited::kHash || way.tuning.lanes != 0)) || (batch > 1 && way.tuning.warps == 8)) // few searches only
					continue;

				const uint64_t before = gpu->n_graph_clusters();
				const Line line = bench->run(gpu.get(), copy, batch, width, batch == 1 ? 30 : batch <= 64 ? 20 : 5);

				if (way.tuning.blocks > 1 && gpu->n_graph_clusters() == before)
					std::printf("# the device has no clusters of %u such blocks:\n", way.tuning.blocks);
				std::printf("%-28s %6u %6u %8u %8zu %12.4f %12.0f %10.4f\n", way.name, way.tuning.table_bits, way.tuning.steps, width, batch,
					line.median_ms, 1000.0 * static_cast<double>(batch) / line.median_ms, line.recall);
				std::fflush(stdout);
				print_json(options, base, batch, width, way.tuning, line);
			}
	}
}

} // namespace

int
main(int argc, char **argv)
{
	Options options;
	uint32_t n_rows = 0;

	if (argc < 4)
	{
		std::fprintf(stderr, "usage: %s BASE QUERY GROUND_TRUTH [--rows N] [--degree N] [--fp32] [--steps N] [--lanes N] [--blocks N] [--chain] [--choice] [--ablation | --targets | --hash] [--only BATCH WIDTH] [--json FILE]\n", argv[0]);
		return 2;
	}
	for (int i = 4; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--fp32") == 0)
			options.fp32 = true;
		else if (std::strcmp(argv[i], "--ablation") == 0)
			options.ablation = true;
		else if (std::strcmp(argv[i], "--targets") == 0)
			options.targets = true;
		else if (std::strcmp(argv[i], "--hash") == 0)
			options.hash = true;
		else if (std::strcmp(argv[i], "--chain") == 0)
			options.chain = true;
		else if (std::strcmp(argv[i], "--choice") == 0)
			options.choice = true;
		else if (std::strcmp(argv[i], "--rows") == 0 && i + 1 < argc)
			n_rows = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--degree") == 0 && i + 1 < argc)
			options.degree = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
			options.steps = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--lanes") == 0 && i + 1 < argc)
			options.lanes = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--blocks") == 0 && i + 1 < argc)
			options.blocks = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--only") == 0 && i + 2 < argc)
		{
			options.only_batch = static_cast<size_t>(std::atoi(argv[++i]));
			options.only_width = static_cast<uint32_t>(std::atoi(argv[++i]));
		}
		else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			options.json = std::fopen(argv[++i], "a");
	}

	Matrix base = read_u8bin(argv[1]);
	const Matrix queries = read_u8bin(argv[2]);
	const std::vector<char> truth = read_file(argv[3]);
	const float *true_distances =
		reinterpret_cast<const float *>(truth.data() + 8 + static_cast<size_t>(queries.n) * 100 * sizeof(uint32_t));
	const bool whole = n_rows == 0 || n_rows >= base.n;

	if (!whole)
	{
		base.n = n_rows;
		base.values.resize(size_t{n_rows} * base.dim);
	}

	Bench bench(queries, whole ? true_distances : nullptr);
	Graph graph;

	{
		const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, {}, true);

		graph = build(gpu.get(), base, options.degree);
		if (!whole)
			bench.set_truth(gpu.get(), load(gpu.get(), base, graph.description, options.degree));
	}
	if (options.targets)
		reach_targets(options, base, graph, &bench);
	else if (options.hash)
		measure_codes(options, base, graph.description, &bench);
	else if (options.ablation)
		ablate(options, base, graph.description, &bench);
	else
		measure(options, base, graph.description, &bench);
	if (options.json != nullptr)
		std::fclose(options.json);
	return 0;
}

// Graphs on the GPU over a real data set: the build as for an index, with neighbours from the exact search on the GPU
// and calibration, and recall@10 and queries/s by width, end to end through Engine::search.
//   gpu_graph_bench BASE QUERY GROUND_TRUTH.bin [--rows N] [--degree N] [--fp32] [--canonical] [--batches]
//   [--steps N] [--warps N] [--table-bits N] [--parts N] [--lanes N] [--blocks N] [--chain]
//   [--choice]
//   [--ablation | --blocks-by-dims | --targets | --hash | --stages] [--only BATCH WIDTH] [--json FILE]
// BASE, QUERY: .u8bin, .f16bin or .f32bin; GROUND_TRUTH: - for an exact search by the engine, as with --fp32. --fp32: a
// third of all elements, which no narrower form holds. --canonical: float32 rows have no rounded rows beside them.
// --batches: only batches of 1, 64 and 10,000, without 1,000. Unless --steps differs from the CPU engine's, some
// answers of every line are compared with the CPU engine.
// --ablation: instead, compare sets of visited nodes, selected insertion, visited deletion and steps (SONG, figures 7
// to 9), several queries in one warp (figure 8), and several blocks for each of few queries. --lanes: 16 or 8 lanes of
// a warp for each query. --blocks: 1, 2 or 4 for each of few queries. --blocks-by-dims: instead, compare these over the
// first 128, 256, … dimensions of the rows. --targets: the widths that the calibration of the build gives for recall
// targets, the recall of the queries with them, and its difference from the target. --hash: searches that compare codes
// of 32 to 512 bits (hash_bits), and of RaBitQ of 1, 2 and 4, beside those that compare rows. --stages: instead, the
// times of the stages of large batches. --warps: 1 or 4 for each query of these; --table-bits: of the set of visited
// nodes of each; --parts: of these batches, searched while others are sent (1: none; stages are timed with 1). --chain:
// without a block for each query. --choice: queries look at all rows if the engine finds that cheaper, as in a worker.
#include <cstdlib>
#include <optional>
#include <span>

#include "engine/graph/codes/codes.hpp"
#include "engine/graph/search.hpp"
#include "graph_bench.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr size_t kComparedQueries = 50;
constexpr uint32_t kMostBatch = 10000;

void
measure(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	const kernels::GraphTuning tuning = asked_tuning(options);
	const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, tuning, false);
	const std::unique_ptr<engine::Engine> cpu = engine::make_cpu_engine({.n_threads = n_threads});
	double start = now_ms();
	const engine::CopyId copy = load(gpu.get(), base, description, options);

	std::printf("# %s; %s, loaded in %.0f ms, %.0f MB\n", gpu->description(),
		options.fp32 ? "fp32" : "narrowest exact form", now_ms() - start,
		static_cast<double>(gpu->stats().resident_bytes) / 1e6);

	const engine::CopyId cpu_copy = load(cpu.get(), base, description, options);

	std::printf("%8s %8s %12s %12s %12s %10s %12s\n", "batch", "width", "median ms", "min ms", "queries/s", "recall@10",
		"as the CPU");
	for (const size_t batch :
		options.batches ? std::vector<size_t>{1, 64, 10000} : std::vector<size_t>{1, 64, 1000, 10000})
		for (const uint32_t width : {10, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512})
		{
			if (options.only_batch != 0 && (batch != options.only_batch || width != options.only_width))
				continue;

			const Line line = bench->run(gpu.get(), copy, batch, width, batch >= 10000 ? 7 : batch >= 64 ? 20 : 50);
			std::vector<std::vector<engine::Neighbor>> expected;

			must(cpu->search(
				cpu_copy, std::span(line.last).first(std::min(batch, kComparedQueries)), &expected, nullptr));
			std::printf("%8zu %8u %12.4f %12.4f %12.0f %10.4f %12s\n", batch, width, line.median_ms, line.min_ms,
				1000.0 * static_cast<double>(batch) / line.median_ms, line.recall,
				options.choice || (options.steps != 0 && options.steps != engine::graph::kSearchSteps) ? "-"
					: begin_with(line.results, expected)                                               ? "yes"
																									   : "NO");
			std::fflush(stdout);
			print_json(options, base, batch, width, tuning, line);
		}
}

/// A graph's description with codes of this many bits.
std::vector<uint8_t>
add_codes(const Matrix &base, std::vector<uint8_t> description, uint32_t bits)
{
	constexpr uint32_t kPiece = 4096;
	const engine::DistanceSpec distance = {Metric::kL2, ElementType::kFloat32, base.dim};
	const engine::graph::GraphRows rows = {distance, base.values.data(), base.dim * sizeof(float), base.n};
	const size_t code_bytes = engine::graph::code_bytes(bits, base.dim);
	std::vector<float> thresholds(engine::graph::code_model_floats(bits, base.dim));
	std::vector<uint8_t> codes(base.n * code_bytes);
	engine::graph::CodeModel model;
	engine::GraphHashHead head;
	engine::GraphHeader header;
	std::atomic<uint32_t> next{0};
	const auto put = [&description](const void *data, size_t n_bytes)
	{
		const uint8_t *from = static_cast<const uint8_t *>(data);

		description.insert(description.end(), from, from + n_bytes);
	};

	model.spec = {distance, bits, head.seed};
	model.floats = thresholds.data();

	std::vector<float> work(engine::graph::code_work_floats(model.spec));

	engine::graph::train_codes(model.spec, rows, &model.bound, thresholds.data(), work.data());

	std::vector<std::thread> threads;

	for (size_t t = 0; t < n_threads; t++)
		threads.emplace_back(
			[&]
			{
				std::vector<float> own(work.size());

				for (uint32_t first; (first = next.fetch_add(kPiece)) < base.n;)
					engine::graph::make_codes(model,
						{distance, base.values.data() + size_t{first} * base.dim, base.dim * sizeof(float),
							std::min(kPiece, base.n - first)},
						codes.data() + first * code_bytes, own.data());
			});
	for (std::thread &thread : threads)
		thread.join();
	std::memcpy(&header, description.data(), sizeof(header));
	header.code_bits = bits;
	std::memcpy(description.data(), &header, sizeof(header));
	head.bound = model.bound;
	put(&head, sizeof(head));
	put(thresholds.data(), thresholds.size() * sizeof(float));
	put(codes.data(), codes.size());
	return description;
}

/// By bits of a code, 0 for rows: recall and time by width, and the copy's bytes on the device.
void
measure_codes(const Options &options, const Matrix &base, const std::vector<uint8_t> &description, Bench *bench)
{
	const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, {}, false);
	const std::unique_ptr<engine::Engine> cpu = engine::make_cpu_engine({.n_threads = n_threads});

	std::printf("# %s\n%6s %8s %8s %12s %12s %12s %10s %12s\n", gpu->description(), "bits", "batch", "width",
		"median ms", "min ms", "queries/s", "recall@10", "as the CPU");
	for (const uint32_t bits : {0, 32, 64, 128, 256, 512, 1, 2, 4})
	{
		const engine::CopyKind kind = bits == 0 ? engine::CopyKind::kGraph : engine::CopyKind::kHashedGraph;
		const double start = now_ms();
		const std::vector<uint8_t> coded = bits == 0 ? description : add_codes(base, description, bits);
		const double made = now_ms();
		const engine::CopyId copy = load(gpu.get(), base, coded, options, kind);
		const engine::CopyId cpu_copy = load(cpu.get(), base, coded, options, kind);

		std::printf("# %u bits: codes made in %.0f ms; on the GPU %.0f MB\n", bits, made - start,
			static_cast<double>(gpu->stats().resident_bytes) / 1e6);
		for (const size_t batch : {1, 64, 1000})
			for (const uint32_t width : bits == 0 || engine::graph::codes_are_rabitq(bits)
					? std::vector<uint32_t>{16, 32, 64, 128, 256, 512}
					: std::vector<uint32_t>{64, 128, 256, 512, 1024, 2048, 4096})
			{
				if (options.only_batch != 0 && (batch != options.only_batch || width != options.only_width))
					continue;

				const uint64_t before = gpu->n_hashed();
				const Line line = bench->run(gpu.get(), copy, batch, width, batch == 1 ? 30 : batch == 64 ? 10 : 5);
				const bool by_codes = gpu->n_hashed() > before;
				std::vector<std::vector<engine::Neighbor>> expected;

				must(cpu->search(
					cpu_copy, std::span(line.last).first(std::min(batch, kComparedQueries)), &expected, nullptr));
				std::printf("%6u %8zu %8u %12.4f %12.4f %12.0f %10.4f %12s\n", bits, batch, width, line.median_ms,
					line.min_ms, 1000.0 * static_cast<double>(batch) / line.median_ms, line.recall,
					bits != 0 && !by_codes                   ? "all rows"
						: begin_with(line.results, expected) ? "yes"
															 : "NO");
				std::fflush(stdout);
			}
		must(gpu->drop(copy));
		must(cpu->drop(cpu_copy));
	}
}

/// For each recall target: the width given by the build's calibration, the recall of the data set's queries with it,
/// its difference from the target, and the time, with a block for each query and by a chain of launches.
void
reach_targets(const Options &options, const Matrix &base, const Graph &graph, Bench *bench)
{
	const std::vector<uint8_t> &description = graph.description;
	const engine::ivf::Calibration &calibration = graph.calibration;
	Options chain = options;

	chain.chain = true;

	const std::unique_ptr<cuda::CudaEngine> engines[] = {
		make_engine(options, {}, false), make_engine(chain, {}, false)};
	const engine::CopyId copies[] = {
		load(engines[0].get(), base, description, options), load(engines[1].get(), base, description, options)};

	for (uint32_t i = 0; i < calibration.n_points; i++)
		std::printf("# width %u: %.4f, the queries %.4f\n", calibration.probes[i],
			static_cast<double>(calibration.recall[i]),
			bench->run(engines[0].get(), copies[0], 10000, calibration.probes[i], 1).recall);
	std::printf("%8s %8s %12s %12s %12s %12s %12s %12s\n", "target", "width", "recall@10", "difference", "1 query ms",
		"chain ms", "64 ms", "chain ms");
	for (const double target : {0.8, 0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999})
	{
		const uint32_t width = std::max<uint32_t>(
			kNeighbors, static_cast<uint32_t>(std::lround(engine::ivf::fractional_probes_for(calibration, target))));

		double ms[2][2];

		for (const size_t i : {0, 1})
			for (const size_t e : {0, 1})
				ms[i][e] = bench->run(engines[e].get(), copies[e], i == 0 ? 1 : 64, width, i == 0 ? 200 : 50).median_ms;

		const double found = bench->run(engines[0].get(), copies[0], 10000, width, 1).recall;

		std::printf("%8.3f %8u %12.4f %12.4f %12.4f %12.4f %12.4f %12.4f\n", target, width, found,
			std::fabs(found - target), ms[0][0], ms[0][1], ms[1][0], ms[1][1]);
	}
}

} // namespace

static int
usage(const char *program)
{
	std::fprintf(stderr,
		"usage: %s BASE QUERY GROUND_TRUTH [--rows N] [--degree N] [--fp32] [--canonical] [--batches] [--steps N] "
		"[--warps N] [--table-bits N] [--parts N] [--lanes N] [--blocks N] [--chain] [--choice] [--ablation | "
		"--blocks-by-dims | "
		"--targets | --hash | --stages] [--only BATCH WIDTH] [--json FILE]\n",
		program);
	return 2;
}

/// *n_rows: rows of the base, 0: all. False: an unknown or a wrong argument.
static bool
parse(int argc, char **argv, Options *options, uint32_t *n_rows)
{
	for (int i = 4; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--fp32") == 0)
			options->fp32 = true;
		else if (std::strcmp(argv[i], "--canonical") == 0)
			options->rounded = false;
		else if (std::strcmp(argv[i], "--batches") == 0)
			options->batches = true;
		else if (std::strcmp(argv[i], "--ablation") == 0)
			options->ablation = true;
		else if (std::strcmp(argv[i], "--blocks-by-dims") == 0)
			options->blocks_by_dims = true;
		else if (std::strcmp(argv[i], "--targets") == 0)
			options->targets = true;
		else if (std::strcmp(argv[i], "--hash") == 0)
			options->hash = true;
		else if (std::strcmp(argv[i], "--stages") == 0)
			options->stages = true;
		else if (std::strcmp(argv[i], "--chain") == 0)
			options->chain = true;
		else if (std::strcmp(argv[i], "--choice") == 0)
			options->choice = true;
		else if (std::strcmp(argv[i], "--rows") == 0 && i + 1 < argc)
			*n_rows = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--degree") == 0 && i + 1 < argc)
			options->degree = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
			options->steps = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--warps") == 0 && i + 1 < argc)
			options->warps = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--parts") == 0 && i + 1 < argc)
			options->parts = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--table-bits") == 0 && i + 1 < argc)
			options->table_bits = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--lanes") == 0 && i + 1 < argc)
			options->lanes = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--blocks") == 0 && i + 1 < argc)
			options->blocks = static_cast<uint32_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--only") == 0 && i + 2 < argc)
		{
			options->only_batch = static_cast<size_t>(std::atoi(argv[++i]));
			options->only_width = static_cast<uint32_t>(std::atoi(argv[++i]));
		}
		else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
			options->json = std::fopen(argv[++i], "a");
		else
			return false;
	}
	return (options->blocks <= 2 || options->blocks == 4) &&
		(options->lanes == 0 || options->lanes == 8 || options->lanes == 16);
}

/// The queries again and again, until there are as many as the largest batch has.
static void
repeat(Matrix *queries, uint32_t n_least)
{
	const size_t n = queries->values.size();

	for (size_t i = 0; queries->n < n_least; i += queries->dim, queries->n++)
		for (uint32_t e = 0; e < queries->dim; e++)
			queries->values.push_back(queries->values[i % n + e]);
}

int
main(int argc, char **argv)
{
	Options options;
	uint32_t n_rows = 0;

	if (argc < 4 || !parse(argc, argv, &options, &n_rows))
		return usage(argv[0]);

	Matrix base = read_rows(argv[1]);
	Matrix queries = read_rows(argv[2]);
	const std::optional<Truth> truth = options.fp32 || std::strcmp(argv[3], "-") == 0
		? std::nullopt
		: std::optional<Truth>(std::in_place, argv[3], queries.n);
	const bool whole = truth && (n_rows == 0 || n_rows >= base.n);

	if (!truth)
		repeat(&queries, kMostBatch);
	if (options.fp32)
		for (std::vector<float> *values : {&base.values, &queries.values})
			for (float &value : *values)
				value /= 3;

	if (n_rows != 0 && n_rows < base.n)
	{
		base.n = n_rows;
		base.values.resize(size_t{n_rows} * base.dim);
	}

	if (options.blocks_by_dims)
	{
		compare_blocks(options, base, queries);
		return 0;
	}

	Bench bench(queries, whole ? truth->distances() : nullptr);
	Graph graph;

	{
		const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, {}, true);

		graph = build(gpu.get(), base, options.degree);
		if (!whole)
			bench.set_truth(gpu.get(), load(gpu.get(), base, graph.description, options));
	}
	if (options.targets)
		reach_targets(options, base, graph, &bench);
	else if (options.hash)
		measure_codes(options, base, graph.description, &bench);
	else if (options.stages)
		print_stages(options, base, graph.description, &bench);
	else if (options.ablation)
		ablate(options, base, graph.description, &bench);
	else
		measure(options, base, graph.description, &bench);
	if (options.json != nullptr)
		std::fclose(options.json);
	return 0;
}

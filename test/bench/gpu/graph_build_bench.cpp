// Builds of graphs over made rows like embeddings (made_embeddings.hpp), as for an index: the time of each stage, and
// recall@10 by queries of the same law.
//   gpu_graph_build_bench [--rows N] [--dims N] [--groups N] [--runs N] [--all] [--share X] [--group-rows N]
//   [--cluster-rows N] [--near-clusters N]
// --all: nearest rows are looked for among all rows, not among those of near clusters; the others: how
// (src/engine/cpu/near_groups_tuning.hpp).
#include <limits>

#include "engine/cpu/near_groups_tuning.hpp"
#include "graph_bench.hpp"
#include "made_embeddings.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

struct Asked
{
	uint32_t rows = 1000000;
	uint32_t dims = 768;
	uint32_t groups = 2000;
	uint32_t runs = 2;
	engine::NearGroupsTuning near_groups;
};

constexpr uint32_t kQueries = 4096;

bool
parse(int argc, char **argv, Asked *asked)
{
	for (int i = 1; i < argc; i++)
	{
		const std::string_view name = argv[i];

		if (name == "--all")
			asked->near_groups.least_products = std::numeric_limits<double>::infinity();
		else if (i + 1 == argc)
			return false;
		else if (name == "--share")
			asked->near_groups.share = std::atof(argv[++i]);
		else if (uint32_t *const number = name == "--rows" ? &asked->rows
				: name == "--dims"                         ? &asked->dims
				: name == "--groups"                       ? &asked->groups
				: name == "--runs"                         ? &asked->runs
				: name == "--group-rows"                   ? &asked->near_groups.group_rows
				: name == "--cluster-rows"                 ? &asked->near_groups.cluster_rows
				: name == "--near-clusters"                ? &asked->near_groups.near_clusters
														   : nullptr;
			number != nullptr)
			*number = static_cast<uint32_t>(std::atoi(argv[++i]));
		else
			return false;
	}
	return asked->rows > 0 && asked->dims > 0 && asked->groups > 0;
}

Matrix
made(const Asked &asked, uint64_t first, uint32_t n)
{
	const MadeEmbeddings law(asked.dims, asked.groups);
	Matrix matrix;

	matrix.n = n;
	matrix.dim = asked.dims;
	matrix.values.resize(size_t{n} * asked.dims);
	law.make(first, n, matrix.values.data(), n_threads);
	return matrix;
}

} // namespace

int
main(int argc, char **argv)
{
	Asked asked;

	if (!parse(argc, argv, &asked))
	{
		std::fprintf(stderr,
			"usage: %s [--rows N] [--dims N] [--groups N] [--runs N] [--all] [--share X] [--group-rows N] "
			"[--cluster-rows N] [--near-clusters N]\n",
			argv[0]);
		return 2;
	}

	const Matrix base = made(asked, 0, asked.rows);
	const Matrix queries = made(asked, asked.rows, kQueries);
	std::unique_ptr<cuda::CudaEngine> gpu;
	Bench bench(queries, nullptr);
	Graph graph;

	cuda::CudaEngineOptions engine_options;

	engine_options.self_test = false;
	must(cuda::make_cuda_engine(engine_options, &gpu));
	std::printf("# %s; %u groups\n", gpu->description(), asked.groups);
	for (uint32_t run = 0; run < asked.runs; run++)
		graph = build(gpu.get(), base, 32, asked.near_groups);
	std::printf("# %.2f M queries of %u builds were rows of the copy that the GPU took from there\n",
		static_cast<double>(gpu->n_own_rows()) / 1e6, asked.runs);

	const Options options;
	const engine::CopyId copy = load(gpu.get(), base, graph.description, options);

	bench.set_truth(gpu.get(), copy);
	for (const uint32_t width : {10, 16, 32, 64, 128})
		std::printf("# width %u: recall@10 %.4f\n", width, bench.run(gpu.get(), copy, kQueries, width, 1).recall);
	for (uint32_t i = 0; i < graph.calibration.n_points; i++)
		std::printf("# measured at width %u: %.4f\n", graph.calibration.probes[i],
			static_cast<double>(graph.calibration.recall[i]));
	return 0;
}

// Comparison of alternatives of the search of a graph (graph_bench.hpp).
#include "graph_bench.hpp"

namespace vectorgpu::bench
{

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
	const auto add = [&ways](const char *name, GraphVisited visited, bool selected, bool deletion, uint32_t bits,
						 uint32_t steps, uint32_t warps = 0, uint32_t lanes = 0)
	{ ways.push_back({name, {visited, selected, deletion, bits, steps, warps, lanes}, {1, 10000}}); };

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
			add(warps == 1       ? "hash, one warp"
					: warps == 4 ? "hash, four warps"
								 : "hash, eight warps",
				GraphVisited::kHash, false, false, 0, steps, warps);
	for (const uint32_t lanes : {16u, 8u}) // the same as "hash, one warp"
	{
		for (const uint32_t steps : {1u, 2u, 4u})
			add(lanes == 16 ? "hash, two queries a warp" : "hash, four queries a warp", GraphVisited::kHash, false,
				false, 0, steps, 0, lanes);
		add(lanes == 16 ? "list alone, two queries" : "list alone, four queries", GraphVisited::kNone, false, false, 0,
			1, 0, lanes);
	}
	for (const uint32_t blocks : {1u, 2u, 4u})
	{
		kernels::GraphTuning tuning;

		tuning.blocks = blocks;
		ways.push_back({blocks == 1 ? "hash, one block"
				: blocks == 2       ? "hash, two blocks"
									: "hash, four blocks",
			tuning, {1, 16, 64}});
	}
	std::printf("%-28s %6s %6s %8s %8s %12s %12s %10s\n", "visited", "bits", "steps", "width", "batch", "median ms",
		"queries/s", "recall@10");
	for (const Way &way : ways)
	{
		const std::unique_ptr<cuda::CudaEngine> gpu = make_engine(options, way.tuning, false);
		const engine::CopyId copy = load(gpu.get(), base, description, options);

		for (const size_t batch : way.batches)
			for (const uint32_t width : {32, 64})
			{
				if ((batch == 1 && (way.tuning.visited != GraphVisited::kHash || way.tuning.lanes != 0)) ||
					(batch > 1 && way.tuning.warps == 8)) // few searches only
					continue;

				const uint64_t before = gpu->n_graph_blocks() - gpu->n_graph_alone();
				const Line line = bench->run(gpu.get(), copy, batch, width, batch == 1 ? 30 : batch <= 64 ? 20 : 5);

				if (way.tuning.blocks > 1 && gpu->n_graph_blocks() - gpu->n_graph_alone() == before)
					std::printf("# the device has no clusters of %u such blocks:\n", way.tuning.blocks);
				std::printf("%-28s %6u %6u %8u %8zu %12.4f %12.0f %10.4f\n", way.name, way.tuning.table_bits,
					way.tuning.steps, width, batch, line.median_ms,
					1000.0 * static_cast<double>(batch) / line.median_ms, line.recall);
				std::fflush(stdout);
				print_json(options, base, batch, width, way.tuning, line);
			}
	}
}

namespace
{

/// The first `dim` values of each row.
Matrix
first_dims(const Matrix &rows, uint32_t dim)
{
	Matrix cut;

	cut.n = rows.n;
	cut.dim = dim;
	cut.values.reserve(size_t{cut.n} * dim);
	for (size_t i = 0; i < rows.n; i++)
		cut.values.insert(cut.values.end(), rows.values.begin() + static_cast<ptrdiff_t>(i * rows.dim),
			rows.values.begin() + static_cast<ptrdiff_t>(i * rows.dim + dim));
	return cut;
}

} // namespace

void
compare_blocks(const Options &options, const Matrix &base, const Matrix &queries)
{
	constexpr std::array<uint32_t, 3> kBlocks = {1, 2, 4};
	std::vector<uint32_t> dims;

	for (uint32_t dim = 128; dim < base.dim; dim += 128)
		dims.push_back(dim);
	dims.push_back(base.dim);
	for (const uint32_t dim : dims)
	{
		const Matrix rows = first_dims(base, dim);
		const Matrix asked = first_dims(queries, dim);
		Bench bench(asked, nullptr);
		std::array<std::unique_ptr<cuda::CudaEngine>, kBlocks.size()> engines;
		std::array<engine::CopyId, kBlocks.size()> copies;
		Graph graph;

		for (size_t i = 0; i < kBlocks.size(); i++)
		{
			kernels::GraphTuning tuning;

			tuning.blocks = kBlocks[i];
			engines[i] = make_engine(options, tuning, false);
			if (i == 0)
				graph = build(engines[i].get(), rows, options.degree);
			copies[i] = load(engines[i].get(), rows, graph.description, options);
		}
		bench.set_truth(engines[0].get(), copies[0]);
		std::printf("%8s %8s %8s %12s %12s %12s %10s %8s\n", "dims", "width", "batch", "1 block ms", "2", "4",
			"recall@10", "alike");
		for (const uint32_t width : {32, 64})
			for (const size_t batch : {1, 16, 32, 64})
			{
				std::array<Line, kBlocks.size()> lines;
				bool alike = true;

				for (size_t i = 0; i < kBlocks.size(); i++)
				{
					lines[i] = bench.run(engines[i].get(), copies[i], batch, width, 100);
					alike = alike && same(lines[i].results, lines[0].results);
				}
				std::printf("%8u %8u %8zu %12.4f %12.4f %12.4f %10.4f %8s\n", dim, width, batch, lines[0].median_ms,
					lines[1].median_ms, lines[2].median_ms, lines[0].recall, alike ? "yes" : "NO");
				std::fflush(stdout);
			}
		if (engines[1]->n_graph_blocks() == engines[1]->n_graph_alone())
			std::printf("# the device has no clusters: all by one block\n");
	}
}

} // namespace vectorgpu::bench

// Searches with conditions and the device's memory: what is kept goes with the conditions, and a full budget is no
// error.
#include "passing_world.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

TEST(Passing, MemoryIsGivenBackWithTheConditions)
{
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(
			engine::CopySpec({Metric::kL2, ElementType::kFloat32, 32}, kind), Values::kReal, {4000, 700, 300}, 43);
		const auto look = [&]
		{
			const auto listed = world.passing(random_condition(.05, 1));
			const auto masked = world.passing(random_condition(.5, 1));
			const uint64_t before = world.engine()->stats().resident_bytes;
			uint64_t kept = 0;

			for (const auto *passing : {listed.get(), masked.get()})
				for (const auto &segment : passing->segments)
					kept += segment->listed ? segment->n_pass * sizeof(uint32_t)
											: (segment->n_rows + 7) / 8 +
							(kind == CopyKind::kLists ? (PassingWorld::Sizes().n_lists + 1) * sizeof(uint32_t) : 0);
			for (int round = 0; round < 3; round++)
			{
				ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({listed.get(), masked.get()}, 6, 10)));
				EXPECT_EQ(world.engine()->stats().resident_bytes, before + kept);
				if (round == 1)
					world.kill_rows(); // what is kept is made anew
			}
		};

		world.kill_rows();
		{
			const auto first = world.passing(random_condition(.05, 9)); // the places of rows with lists stay

			ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({first.get()}, 1, 10)));
		}

		const uint64_t before = world.engine()->stats().resident_bytes;

		ASSERT_NO_FATAL_FAILURE(look());
		EXPECT_EQ(world.engine()->stats().resident_bytes, before);
	}
}

TEST(Passing, ABudgetWithoutRoom)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.memory_bytes = size_t{8} << 20;
	options.workspace_bytes = size_t{256} << 20;
	options.self_test = false;
	ASSERT_OK(make_cuda_engine(options, &engine));
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		PassingWorld world(engine::CopySpec({Metric::kL1, ElementType::kFloat32, 32}, kind), Values::kReal,
			{3000, 700, 300}, 47, engine.get());
		Rows filling(world.delta().spec);
		const auto listed = world.passing(random_condition(.05, 1));
		const auto masked = world.passing(random_condition(.5, 1));
		const std::vector<SearchQuery> queries = world.batch({listed.get(), masked.get()}, 6, 10);
		std::vector<std::vector<Neighbor>> found;
		SegmentId segment = 3;

		// Segments that are not sealed take the rest of the memory, the last ones row by row.
		filling.add_random(4000, Data::kGaussian, world.rng(), 5000001);
		for (const size_t n : {4000, 256, 1})
			while (engine->load_segment(world.copy(), segment, filling.block(0, n)).is_ok())
				segment++;
		ASSERT_OK(engine->search(world.copy(), queries, &found, nullptr));
		for (size_t i = 0; i < queries.size(); i++)
			ASSERT_NO_FATAL_FAILURE(expect_same(found[i], world.nearest(queries[i])));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test

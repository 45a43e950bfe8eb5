// Copies of kind kMatch in the CUDA engine: segments on the device, delta and tombstones, against the definition.
#include <gtest/gtest.h>

#include "cuda/cuda_engine.hpp"
#include "match/copies.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using vectorgpu::test::match_spec;
using vectorgpu::test::MatchRows;

TEST(MatchCopy, EqualsTheDefinition)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;
	MatchRows rows(7, 70000, 400, 150);
	engine::CopyId copy = 0;

	options.self_test = false;
	ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
	const uint64_t before = engine->stats().resident_bytes;

	ASSERT_TRUE(engine->create(match_spec(), &copy).is_ok());
	ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	EXPECT_GT(engine->stats().resident_bytes, before);
	ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	ASSERT_TRUE(engine->drop(copy).is_ok());
	EXPECT_EQ(engine->stats().resident_bytes, before);
}

// Bounds of edit distances: few rows are found by the device's counts, many by the host.
TEST(MatchCopy, BoundsEqualTheDefinition)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;
	MatchRows rows(8, 70000, 400, 150, Metric::kEdit);
	engine::CopyId copy = 0;

	options.self_test = false;
	ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
	ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());
	ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
	ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
	ASSERT_TRUE(engine->drop(copy).is_ok());
}

} // namespace
} // namespace vectorgpu::cuda::test

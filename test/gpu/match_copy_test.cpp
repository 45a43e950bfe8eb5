// Copies of kind kMatch in the CUDA engine: segments on the device, delta and tombstones, against the definition.
#include <gtest/gtest.h>

#include "cuda/cuda_engine.hpp"
#include "cuda/self_test.hpp"
#include "match/copies.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using vectorgpu::test::match_spec;
using vectorgpu::test::MatchRows;
using vectorgpu::test::TextRows;

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

// More rows than a tile of marks of 8 bits (no long text), of 16 bits, and characters of which there are too many for the device; queries on both
// sides of the words of 32 and 64 bits, and longer ones, which the host answers.
TEST(MatchCopy, EditDistancesEqualTheDefinition)
{
	struct
	{
		size_t n_rows;
		uint32_t alphabet;
		size_t long_size;
	} const cases[] = {{70000, 5, 40}, {70000, 4, 300}, {1, 5, 14}, {31, 5, 14}, {33, 5, 14}, {3000, 400, 300}, {3000, 200, 14}};

	for (const auto &one : cases)
	{
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		TextRows rows(8, one.n_rows, 400, 150, one.alphabet, one.long_size);
		engine::CopyId copy = 0;

		SCOPED_TRACE(testing::Message() << one.n_rows << " rows, " << one.alphabet << " characters, up to " << one.long_size);
		options.self_test = false;
		ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());
		ASSERT_TRUE(engine->create(match_spec(Metric::kEdit), &copy).is_ok());

		const uint64_t before = engine->stats().resident_bytes;

		ASSERT_NO_FATAL_FAILURE(rows.load(engine.get(), copy));
		EXPECT_GT(engine->stats().resident_bytes, before + (one.alphabet < 254 ? one.n_rows * 8 : 0)); // the texts are on the device
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.kill(engine.get(), copy));
		ASSERT_NO_FATAL_FAILURE(rows.expect_answers(engine.get(), copy));
		ASSERT_TRUE(engine->drop(copy).is_ok());
	}
}

// The self-test itself, and that it finds the device's counts and distances right.
TEST(MatchCopy, TheSelfTestPasses)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.self_test = false;
	ASSERT_TRUE(make_cuda_engine(options, &engine).is_ok());

	const Status status = self_test_matches(engine.get());

	EXPECT_TRUE(status.is_ok()) << status.message;
}

} // namespace
} // namespace vectorgpu::cuda::test

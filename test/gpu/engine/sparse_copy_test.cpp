// Copies of kind kSparse in the CUDA engine: segments on the device, delta, tombstones and conditions, against the
// definition, bit for bit.
#include <array>

#include <gtest/gtest.h>

#include "cuda/cuda_engine.hpp"
#include "cuda/selftest/self_test.hpp"
#include "engine/sparse_copy.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::test::expect_sparse_answers;
using engine::test::expect_sparse_batch;
using engine::test::full_sparse;
using engine::test::sparse_spec;
using engine::test::SparseCopy;
using engine::test::SparseRow;

constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};

std::unique_ptr<CudaEngine>
make_engine(uint64_t memory_bytes = 0, size_t pinned_bytes = size_t{64} << 20)
{
	std::unique_ptr<CudaEngine> made;
	CudaEngineOptions options;

	options.self_test = false;
	options.memory_bytes = memory_bytes;
	options.pinned_bytes = pinned_bytes;

	make_or_throw(options, &made);
	return made;
}

TEST(SparseCopyOfTheDevice, EqualsTheDefinition)
{
	constexpr uint32_t kDims[] = {30, 30000, 1000000000, 30000};

	for (size_t i = 0; i < std::size(kMetrics); i++)
	{
		std::unique_ptr<CudaEngine> made = make_engine();
		CudaEngine *const cuda = made.get();
		const uint64_t before = cuda->stats().resident_bytes;
		SparseCopy held(std::move(made), kMetrics[i], kDims[i], 3, {7000, 250, 90});

		SCOPED_TRACE(testing::Message() << "metric " << static_cast<int>(kMetrics[i]));
		EXPECT_GT(cuda->stats().resident_bytes, before);
		ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, kDims[i]));
		EXPECT_GT(cuda->n_sparse(), 0u);
		EXPECT_GT(cuda->n_rescored(), 0u);
		ASSERT_TRUE(cuda->drop(held.copy).is_ok());
		EXPECT_EQ(cuda->stats().resident_bytes, before);
	}
}

// Rows and queries of some thousand elements; more queries than a launch takes.
TEST(SparseCopyOfTheDevice, LongRowsAndLargeBatches)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct})
	{
		SparseCopy held(make_engine(), metric, 200000, 5, {300, 20, 5}, 16000);

		ASSERT_NO_FATAL_FAILURE(expect_sparse_batch(&held, {held.rows.begin(), held.rows.begin() + 150}, 7));
	}
}

// Rows and queries of the most elements: the tables of a query take a megabyte, those of all queries several chunks.
TEST(SparseCopyOfTheDevice, TheLongestRowsAndQueries)
{
	constexpr uint32_t kMost = 16000;

	for (const Metric metric : kMetrics)
		for (const uint32_t dim : {16000u, 1000000000u})
		{
			std::unique_ptr<CudaEngine> made = make_engine(0, 8 << 20);
			CudaEngine *const cuda = made.get();
			SparseCopy held(std::move(made), metric, dim, 12, {12, 9, 3}, kMost, true);
			std::vector<SparseRow> vectors = {{}};

			SCOPED_TRACE(testing::Message() << "metric " << static_cast<int>(metric) << " dim " << dim);
			for (int i = 0; i < 40; i++)
				vectors.push_back(full_sparse(held.rng, i % 4 == 0 ? kMost : kMost / 2 + 1, dim));
			ASSERT_NO_FATAL_FAILURE(expect_sparse_batch(&held, vectors, 5));
			EXPECT_EQ(cuda->n_sparse(), 2 * vectors.size());
		}
}

// Pinned memory for some queries at a time, and for the bounds of a part of a segment. Queries whose tables do not fit
// are the host's.
TEST(SparseCopyOfTheDevice, SeveralTilesOfRows)
{
	constexpr uint32_t kDim = 30000;

	for (const Metric metric : kMetrics)
	{
		std::unique_ptr<CudaEngine> made = make_engine(0, 128 << 10);
		CudaEngine *const cuda = made.get();
		SparseCopy held(std::move(made), metric, kDim, 3, {9000, 250, 90});
		std::vector<SparseRow> vectors;

		SCOPED_TRACE(testing::Message() << "metric " << static_cast<int>(metric));
		for (int i = 0; i < 100; i++)
			vectors.push_back(engine::test::random_sparse(held.rng, 40, kDim));
		ASSERT_NO_FATAL_FAILURE(expect_sparse_batch(&held, vectors, 10));
		EXPECT_EQ(cuda->n_sparse(), 2 * vectors.size());
		ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, kDim));

		const uint64_t bounded = cuda->n_sparse();

		ASSERT_NO_FATAL_FAILURE(expect_sparse_batch(&held, {full_sparse(held.rng, 16000, kDim)}, 10));
		EXPECT_EQ(cuda->n_sparse(), bounded);
	}
}

// A segment for which the device has no room is searched by the host; without any part on the device, too.
TEST(SparseCopyOfTheDevice, WithoutRoomAndDetached)
{
	std::unique_ptr<CudaEngine> made = make_engine(200000);
	CudaEngine *const cuda = made.get();
	const uint64_t before = cuda->stats().resident_bytes;
	SparseCopy held(std::move(made), Metric::kL2, 30000, 6, {7000, 250, 90});

	EXPECT_TRUE(cuda->keeps_on_host(engine::CopyKind::kSparse));
	EXPECT_LE(cuda->stats().resident_bytes, 200000u);
	ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, 30000));

	const uint64_t bounded = cuda->n_sparse();

	EXPECT_GT(bounded, 0u); // the second segment fits
	ASSERT_TRUE(cuda->detach(held.copy).is_ok());
	EXPECT_EQ(cuda->stats().resident_bytes, before);
	ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, 30000));
	EXPECT_EQ(cuda->n_sparse(), bounded);
	(void) cuda->attach(held.copy); // the first segment has no room
	ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, 30000));
	EXPECT_GT(cuda->n_sparse(), bounded);
}

TEST(SparseCopyOfTheDevice, IsCheckedAndRefusesWhatIsNone)
{
	std::unique_ptr<CudaEngine> made = make_engine();
	CudaEngine *const cuda = made.get();
	SparseCopy held(std::move(made), Metric::kCosine, 30000, 7);
	std::vector<std::vector<engine::Neighbor>> results;
	const std::array<uint8_t, 12> bad = {8, 0, 0, 0, 255, 255, 255, 255, 0, 0, 128, 63}; // index -1
	engine::SearchQuery query = {bad.data(), 3, false, {}};
	uint64_t n_different = 1;
	uint64_t n_searches = 0;
	engine::CopyId copy;

	ASSERT_TRUE(cuda->check_derived(held.copy, 1, 3, 690, &n_different).is_ok());
	EXPECT_EQ(n_different, 0u);
	query.query_bytes = bad.size();
	EXPECT_EQ(cuda->search(held.copy, {&query, 1}, &results, nullptr).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(cuda->create(sparse_spec(Metric::kHamming), &copy).code, StatusCode::kUnsupported);
	EXPECT_TRUE(self_test_sparse(cuda, &n_searches).is_ok());
	EXPECT_EQ(cuda->n_sparse(), n_searches);
}

} // namespace
} // namespace vectorgpu::cuda::test

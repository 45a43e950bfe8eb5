// Segments nearly as large as the budget: their blocks and the joined rows have no room beside each other, so that some
// blocks wait in host memory while the segment is sealed.
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr uint32_t kDim = 64;
constexpr size_t kRows = 60000;
constexpr size_t kBlock = 5000;
constexpr size_t kRowBytes = kDim * 4 + sizeof(RowId) + sizeof(float); // with what the filter needs

std::unique_ptr<CudaEngine>
engine_of(uint64_t bytes)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;

	options.workspace_bytes = size_t{256} << 20;
	options.pinned_bytes = size_t{16} << 20;
	options.self_test = false;
	options.filter_min_queries = 2;
	options.memory_bytes = bytes;

	make_or_throw(options, &engine);
	return engine;
}

void
add_rows(Rows *rows, size_t n, bool whole, std::mt19937 &rng)
{
	std::vector<float> row(kDim);

	if (!whole)
		return rows->add_random(n, Data::kGaussian, rng, 1);
	for (size_t i = 0; i < n; i++)
	{
		for (float &x : row)
			x = static_cast<float>(rng() % 200);
		rows->add(i + 1, reinterpret_cast<const uint8_t *>(row.data()));
	}
}

/// whole: numbers, which are joined as bytes.
void
expect_joined(bool whole, double budget)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, kDim};
	const auto engine = engine_of(static_cast<uint64_t>(budget * kRows * kRowBytes));
	std::mt19937 rng(6);
	Rows rows(spec);
	Rows asked(spec);
	Both both(spec, engine.get());

	add_rows(&rows, kRows, whole, rng);
	add_rows(&asked, 40, whole, rng);
	for (size_t first = 0; first < kRows; first += kBlock)
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.load_segment(c, 1, rows.block(first, kBlock)); }));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.prepare_segment(c, 1); }));
	ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.seal_segment(c, 1); }));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(asked, 1, 20));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(asked, 40, 20));

	std::vector<RowId> ids(kRows);
	std::vector<float> vectors(kRows * kDim);

	ASSERT_OK(engine->read_rows(both.cuda_copy(), 1, 0, kRows, ids.data(), vectors.data()));
	EXPECT_EQ(ids, rows.ids);
	EXPECT_EQ(memcmp(vectors.data(), rows.vector(0), vectors.size() * sizeof(float)), 0);
	EXPECT_LE(engine->stats().resident_bytes, engine->stats().budget_bytes);
}

TEST(Join, ASegmentNearlyAsLargeAsTheBudget)
{
	for (const double budget : {2.5, 1.6, 1.2})
		for (const bool whole : {false, true})
			ASSERT_NO_FATAL_FAILURE(expect_joined(whole, budget)) << "budget " << budget << " whole " << whole;
}

TEST(Join, ASegmentLargerThanTheBudgetIsRefusedAndStaysAsItWas)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, kDim};
	const auto engine = engine_of(kRows / 2 * kRowBytes);
	std::mt19937 rng(6);
	Rows rows(spec);
	CopyId copy = 0;
	size_t n = 0;
	Status status;

	rows.add_random(kRows, Data::kGaussian, rng, 1);
	ASSERT_OK(engine->create(spec, &copy));
	while (status.is_ok() && n < kRows)
		if ((status = engine->load_segment(copy, 1, rows.block(n, kBlock))).is_ok())
			n += kBlock;
	EXPECT_EQ(status.code, StatusCode::kOutOfMemory);

	// The blocks fit, but not the joined rows: they have a number more each.
	const Status sealed = engine->seal_segment(copy, 1);
	std::vector<RowId> ids(n);
	std::vector<float> vectors(n * kDim);

	EXPECT_TRUE(sealed.is_ok() || sealed.code == StatusCode::kOutOfMemory) << sealed.message;
	ASSERT_OK(engine->read_rows(copy, 1, 0, n, ids.data(), vectors.data()));
	EXPECT_EQ(memcmp(vectors.data(), rows.vector(0), vectors.size() * sizeof(float)), 0);
}

} // namespace
} // namespace vectorgpu::cuda::test

// Codes of key columns on the device beside the memory of copies, and their checks.
#include "key_areas.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

std::unique_ptr<CudaEngine>
small_engine(size_t memory_bytes)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.memory_bytes = memory_bytes;
	options.workspace_bytes = size_t{256} << 20;
	options.least_key_rows = 1;
	options.self_test = false;

	make_or_throw(options, &engine);
	return engine;
}

TEST(KeyCodesMemory, CodesGiveWayToRows)
{
	constexpr size_t kRows = 500000;
	const std::unique_ptr<CudaEngine> engine = small_engine(size_t{8} << 20);
	const std::vector<Column> columns = numbered(kRows);
	const Area area(columns, kRows);
	std::shared_ptr<KeyCodes> held;
	std::vector<uint8_t> bytes;
	const Opened opened = range(&bytes, 5, 90000);
	Rows rows(DistanceSpec{Metric::kL1, ElementType::kFloat32, 64});
	std::mt19937 random(3);

	rows.add_random(8000, Data::kGaussian, random, 1); // 2 MB
	{
		Copy copy(engine.get());
		PassingSegment found;
		SegmentId segment = 1;
		uint64_t n_different = 0;

		ASSERT_OK(engine->hold_key_codes(copy.id, area.view(), &held));
		EXPECT_GE(engine->stats().resident_bytes, area.bytes.size());
		ASSERT_OK(held->find_rows(opened.program, &found));
		EXPECT_EQ(found.n_pass, 89996u);
		PassingSegment none;

		for (; segment <= 3; segment++)
			ASSERT_OK(engine->load_segment(copy.id, segment, rows.block()));
		EXPECT_EQ(held->find_rows(opened.program, &none).code, StatusCode::kOutOfMemory);
		EXPECT_EQ(none.n_rows, 0u);
		EXPECT_EQ(none.n_pass, 0u);
		EXPECT_TRUE(none.rows.empty() && none.bits.empty());
		EXPECT_EQ(held->check(area.view(), 0, 8, &n_different).code, StatusCode::kOutOfMemory);
	}
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
	held.reset();
}

TEST(KeyCodesMemory, AQuarterStaysFree)
{
	const std::unique_ptr<CudaEngine> engine = small_engine(size_t{1} << 20);
	Copy copy(engine.get());

	for (const size_t n_rows : {100000, 250000}) // 400 kB, 1 MB
	{
		const std::vector<Column> columns = numbered(n_rows);
		const Area area(columns, n_rows);
		std::shared_ptr<KeyCodes> held;
		const Status status = engine->hold_key_codes(copy.id, area.view(), &held);

		EXPECT_EQ(status.code, n_rows == 100000 ? StatusCode::kOk : StatusCode::kOutOfMemory);
		EXPECT_EQ(held != nullptr, n_rows == 100000);
		held.reset();
		EXPECT_EQ(engine->stats().resident_bytes, 0u);
	}
}

TEST(KeyCodesMemory, CopiesThatTheHostSearchesHaveNone)
{
	const std::vector<Column> columns = numbered(3000);
	const Area area(columns, 3000);

	for (const auto kind : {engine::CopyKind::kRows, engine::CopyKind::kLists, engine::CopyKind::kGraph,
			 engine::CopyKind::kHashedGraph, engine::CopyKind::kCodes})
	{
		Copy copy(key_engine(), kind);
		std::shared_ptr<KeyCodes> held;
		const bool searched = kind != engine::CopyKind::kHashedGraph && kind != engine::CopyKind::kCodes;

		EXPECT_EQ(key_engine()->hold_key_codes(copy.id, area.view(), &held).code,
			searched ? StatusCode::kOk : StatusCode::kUnsupported)
			<< static_cast<int>(kind);
	}

	std::shared_ptr<KeyCodes> held;

	EXPECT_EQ(key_engine()->hold_key_codes(0, area.view(), &held).code, StatusCode::kNotFound);
	// Of few rows: the host is as fast.
	Copy copy(cuda_engine());

	EXPECT_EQ(cuda_engine()->hold_key_codes(copy.id, area.view(), &held).code, StatusCode::kUnsupported);
}

TEST(KeyCodesMemory, ChecksCompareCodesAndZones)
{
	constexpr size_t kRows = 5000;
	Copy copy(key_engine());
	std::vector<Column> columns = numbered(kRows);
	Area area(columns, kRows);
	std::shared_ptr<KeyCodes> held;
	uint64_t n_different = 7;

	ASSERT_OK(key_engine()->hold_key_codes(copy.id, area.view(), &held));
	ASSERT_OK(held->check(area.view(), 0, area.bytes.size(), &n_different));
	EXPECT_EQ(n_different, 0u);
	area.bytes[777] ^= 1;
	area.bytes[1777] ^= 1;
	ASSERT_OK(held->check(area.view(), 0, area.bytes.size(), &n_different));
	EXPECT_EQ(n_different, 2u);
	ASSERT_OK(held->check(area.view(), 1000, 4000, &n_different));
	EXPECT_EQ(n_different, 1u);
	ASSERT_OK(held->check(area.view(), 2000, 4000, &n_different));
	EXPECT_EQ(n_different, 0u);
	columns[0].zones[3].least ^= 1;
	ASSERT_OK(held->check(area.view(), 1778, 100, &n_different));
	EXPECT_EQ(n_different, 0u);
	ASSERT_OK(held->check(area.view(), 0, 8, &n_different)); // the zones, too
	EXPECT_EQ(n_different, 1u);
	EXPECT_EQ(held->check(area.view(), area.bytes.size(), 1, &n_different).code, StatusCode::kInvalidArgument);
	EXPECT_EQ(held->check(area.view(), 1, UINT64_MAX, &n_different).code, StatusCode::kInvalidArgument);
	area.n_rows--;
	EXPECT_EQ(held->check(area.view(), 0, 8, &n_different).code, StatusCode::kInvalidArgument);
}

} // namespace
} // namespace vectorgpu::cuda::test

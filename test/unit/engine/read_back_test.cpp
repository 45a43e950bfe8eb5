// The CPU engine's data read back for checks: tombstones, and the norms of rows, which it compares itself.
#include <functional>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/graph_rows.hpp"
#include "engine/list_rows.hpp"

namespace vectorgpu::engine::test
{
namespace
{

/// Bits [first, first + n) of a bitmap whose bit 0 has the number bits_first.
Bytes
piece(const Bytes &bits, uint64_t bits_first, uint64_t first, size_t n)
{
	Bytes out((n + 7) / 8);

	for (size_t i = 0; i < n; i++)
		if (const uint64_t bit = first + i - bits_first;
			first + i >= bits_first && bit / 8 < bits.size() && (bits[bit / 8] >> bit % 8 & 1) != 0)
			out[i / 8] = static_cast<uint8_t>(out[i / 8] | 1 << (i % 8));
	return out;
}

TEST(ReadBack, TombstonesOfAnyRange)
{
	constexpr uint64_t kTrimmed = 30;
	std::mt19937 rng(3);
	Rows rows({Metric::kL2, ElementType::kFloat32, 5});
	Rows delta(rows.spec);

	rows.add_random(701, Data::kGaussian, rng, 1);
	delta.add_random(200, Data::kGaussian, rng, 5001);

	const ListRows lists(rows, 9, rng); // tombstones are by number, vectors by place
	const std::unique_ptr<Engine> engine = make_cpu_engine({});

	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists})
	{
		const Bytes dead = random_bits(rows.n(), rng);
		const Bytes delta_dead = random_bits(96, rng); // not for all rows, and for some that were trimmed
		CopyId copy = 0;

		ASSERT_OK(engine->create({rows.spec, kind}, &copy));
		if (kind == CopyKind::kRows)
		{
			ASSERT_OK(engine->load_segment(copy, 1, rows.block()));
			ASSERT_OK(engine->seal_segment(copy, 1));
		}
		else
			ASSERT_OK(lists.load(engine.get(), copy, 1));
		ASSERT_OK(engine->append_delta(copy, 0, delta.block()));
		for (const bool marked : {false, true})
		{
			if (marked)
			{
				ASSERT_OK(engine->set_tombstones(copy, 1, dead));
				ASSERT_OK(engine->set_delta_tombstones(copy, 16, delta_dead));
				ASSERT_OK(engine->trim_delta(copy, kTrimmed));
			}
			for (int i = 0; i < 200; i++)
			{
				const uint64_t first = rng() % rows.n();
				const size_t n = rng() % (rows.n() - first + 1);
				const uint64_t delta_first = kTrimmed + rng() % (delta.n() - kTrimmed);
				const size_t delta_n = rng() % (delta.n() - delta_first + 1);
				Bytes read((n + 7) / 8, 0xFF);
				Bytes delta_read((delta_n + 7) / 8, 0xFF);

				ASSERT_OK(engine->read_tombstones(copy, 1, first, n, read.data()));
				ASSERT_EQ(read, piece(marked ? dead : Bytes(), 0, first, n)) << first << " " << n;
				ASSERT_OK(engine->read_tombstones(copy, kDeltaSegment, delta_first, delta_n, delta_read.data()));
				ASSERT_EQ(delta_read, piece(marked ? delta_dead : Bytes(), 16, delta_first, delta_n))
					<< delta_first << " " << delta_n;
			}
		}

		uint8_t bits[100];
		uint64_t n_different = 0;

		EXPECT_EQ(engine->read_tombstones(copy, 1, 700, 2, bits).code, StatusCode::kInvalidArgument);
		EXPECT_EQ(engine->read_tombstones(copy, 2, 0, 1, bits).code, StatusCode::kNotFound);
		EXPECT_EQ(
			engine->read_tombstones(copy, kDeltaSegment, kTrimmed - 1, 2, bits).code, StatusCode::kInvalidArgument);
		EXPECT_EQ(engine->read_tombstones(copy + 1, 1, 0, 1, bits).code, StatusCode::kNotFound);
		EXPECT_EQ(engine->check_derived(copy, 1, 700, 2, &n_different).code, StatusCode::kInvalidArgument);
		EXPECT_EQ(engine->check_derived(copy, 2, 0, 1, &n_different).code, StatusCode::kNotFound);
		ASSERT_OK(engine->drop(copy));
	}
}

TEST(ReadBack, ADamagedNormIsCounted)
{
	for (const auto &[metric, element] : {std::pair{Metric::kL2, ElementType::kFloat32},
			 {Metric::kCosine, ElementType::kFloat16}, {Metric::kInnerProduct, ElementType::kFloat32},
			 {Metric::kL1, ElementType::kFloat32}, {Metric::kHamming, ElementType::kBit}})
	{
		const DistanceSpec spec = {metric, element, 40};
		const bool has_norms = metric != Metric::kL1 && metric != Metric::kHamming;
		std::mt19937 rng(4);
		Rows rows(spec);
		CpuCopy copy(spec);
		uint64_t n_different = 0;

		rows.add_random(3000, element == ElementType::kBit ? Data::kGaussian : Data::kExtremes, rng,
			1); // some norms are NaN
		ASSERT_OK(copy.load_segment(1, rows.block(0, 2000)));
		ASSERT_OK(copy.check_derived(1, 0, 2000, &n_different)); // not sealed yet
		EXPECT_EQ(n_different, 0u);
		ASSERT_OK(copy.seal_segment(1));
		ASSERT_OK(copy.append_delta(0, rows.block(2000, 1000)));
		for (const SegmentId segment : {SegmentId{1}, kDeltaSegment})
		{
			const std::shared_ptr<const Snapshot> snapshot = copy.snapshot();
			const RowListView &held = segment == kDeltaSegment ? snapshot->delta.rows : snapshot->segments[0]->rows;
			const double *norms = held.chunks[0]->square_norms();

			ASSERT_OK(copy.check_derived(segment, 0, held.last, &n_different));
			EXPECT_EQ(n_different, 0u);
			ASSERT_EQ(norms != nullptr, has_norms);
			if (!has_norms)
				continue;
			reinterpret_cast<uint8_t *>(const_cast<double *>(norms + 77))[0] ^= 1; // as a broken chip does
			ASSERT_OK(copy.check_derived(segment, 0, held.last, &n_different));
			EXPECT_EQ(n_different, 1u);
			ASSERT_OK(copy.check_derived(segment, 77, 1, &n_different));
			EXPECT_EQ(n_different, 1u);
			ASSERT_OK(copy.check_derived(segment, 78, held.last - 78, &n_different));
			EXPECT_EQ(n_different, 0u);
		}
	}
}

} // namespace
} // namespace vectorgpu::engine::test

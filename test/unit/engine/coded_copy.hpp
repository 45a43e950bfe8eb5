// A copy of lists with codes, parameterised by the kind of codes. For tests of copies with vectors and without.
#pragma once

#include <cstring>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "engine/coded_rows.hpp"

namespace vectorgpu::engine::test
{

struct CodesCase
{
	ivf::CodeKind kind;
	uint32_t pq_m;
	uint32_t bits;
	bool opq;
};

inline constexpr CodesCase kCodes[] = {
	{ivf::CodeKind::kHalves, 0, 0, false},
	{ivf::CodeKind::kSq8, 0, 0, false},
	{ivf::CodeKind::kPq, 5, 8, false},
	{ivf::CodeKind::kPq, 7, 4, false},
	{ivf::CodeKind::kPq, 4, 8, true},
	{ivf::CodeKind::kRabitq, 0, 1, false},
	{ivf::CodeKind::kRabitq, 0, 4, false},
	{ivf::CodeKind::kRabitq, 0, 8, false},
};

inline constexpr ElementType kCodedElements[] = {ElementType::kFloat32, ElementType::kFloat16};

/// A copy of two segments, of 700 and 301 rows in 20 and 7 lists, and a delta. kind: kCodedLists, or kCodes, in which
/// every fifth row of a segment repeats the one before it, so that estimates are equal.
template <CopyKind kKind>
struct CodedCopy
{
	CodedCopy(const DistanceSpec &spec, const CodesCase &codes, uint32_t seed, const CpuEngineOptions &options = {})
		: rng(seed), first(coded(spec, codes, 700, 20, 1)), second(coded(spec, codes, 301, 7, 1001)), delta(spec),
		  engine(make_cpu_engine(options))
	{
		delta.add_random(50, Data::kGaussian, rng, 5001);
		EXPECT_TRUE(engine->create({spec, kKind}, &copy).is_ok());
		EXPECT_TRUE(load(first, 1).is_ok());
		EXPECT_TRUE(load(second, 2).is_ok());
		EXPECT_TRUE(engine->append_delta(copy, 0, delta.block()).is_ok());
	}

	CodedRows coded(const DistanceSpec &spec, const CodesCase &codes, size_t n, uint32_t n_lists, RowId first_id)
	{
		Rows rows(spec);

		rows.add_random(n, Data::kGaussian, rng, first_id);
		if (kKind == CopyKind::kCodes)
			for (size_t i = 4; i < n; i += 5)
				std::memcpy(rows.vectors.data() + i * rows.row_bytes, rows.vectors.data() + (i - 1) * rows.row_bytes,
					rows.row_bytes);
		return CodedRows(ListRows(rows, n_lists, rng), codes.kind, codes.pq_m, codes.bits, codes.opq);
	}

	Status load(const CodedRows &rows, SegmentId segment)
	{
		return kKind == CopyKind::kCodes ? rows.load_codes(engine.get(), copy, segment)
										 : rows.load_coded(engine.get(), copy, segment);
	}

	/// Kill every third row of the first segment. Return their ids.
	std::set<RowId> kill_some()
	{
		std::set<RowId> dead;
		Bytes bits(700 / 8 + 1);

		for (size_t i = 0; i < 700; i += 3)
		{
			bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
			dead.insert(first.rows.ids[i]);
		}
		EXPECT_TRUE(engine->set_tombstones(copy, 1, bits).is_ok());
		return dead;
	}

	std::mt19937 rng;
	CodedRows first;
	CodedRows second;
	Rows delta;
	std::unique_ptr<Engine> engine;
	CopyId copy = 0;
};

struct CodedTypes : testing::TestWithParam<std::tuple<Metric, ElementType, CodesCase>>
{
	DistanceSpec spec(uint32_t dim) const { return {std::get<0>(GetParam()), std::get<1>(GetParam()), dim}; }
	CodesCase codes() const { return std::get<2>(GetParam()); }
};

} // namespace vectorgpu::engine::test

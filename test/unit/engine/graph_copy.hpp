// A CPU engine's copy of segments with graphs, for the tests of searches by vectors and by codes.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "engine/graph_rows.hpp"

namespace vectorgpu::engine::test
{

/// A copy of two segments with graphs, one of them in two parts, and a delta. bits: of the rows' codes; 0: none.
struct GraphCopy
{
	GraphCopy(
		const DistanceSpec &spec, Data data, uint32_t seed, const CpuEngineOptions &options = {}, uint32_t bits = 0)
		: rng(seed), first(random_rows(spec, data, 1200, 1), 16, 1, edges_for(data)),
		  second(random_rows(spec, data, 500, 2001), 8, 2, edges_for(data)), delta(spec),
		  engine(make_cpu_engine(options))
	{
		if (bits > 0)
		{
			first.add_codes(bits, 1);
			second.add_codes(bits, 7);
		}
		delta.add_random(50, data, rng, 5001);
		EXPECT_TRUE(engine->create({spec, bits > 0 ? CopyKind::kHashedGraph : CopyKind::kGraph}, &copy).is_ok());
		EXPECT_TRUE(first.load(engine.get(), copy, 1).is_ok());
		EXPECT_TRUE(second.load(engine.get(), copy, 2).is_ok());
		EXPECT_TRUE(engine->append_delta(copy, 0, delta.block()).is_ok());
	}

	static Edges edges_for(Data data) { return data == Data::kGaussian ? Edges::kBuilt : Edges::kRandom; }

	Rows random_rows(const DistanceSpec &spec, Data data, size_t n, RowId first_id)
	{
		Rows rows(spec);

		rows.add_random(n, data, rng, first_id);
		return rows;
	}

	/// Kill two of three rows of the first segment, and one of the delta. Return them.
	std::set<RowId> kill_some()
	{
		Bytes bits((first.rows.n() + 7) / 8);
		std::set<RowId> dead;

		for (size_t i = 0; i < first.rows.n(); i++)
			if (i % 3 != 0)
			{
				bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
				dead.insert(first.rows.ids[i]);
			}
		dead.insert(delta.ids[2]);
		EXPECT_TRUE(engine->set_tombstones(copy, 1, bits).is_ok());
		EXPECT_TRUE(engine->set_delta_tombstones(copy, 0, Bytes{4}).is_ok());
		return dead;
	}

	std::vector<Neighbor> nearest(const void *query, size_t k, std::array<uint32_t, 2> widths,
		const Neighbor *after = nullptr, const std::set<RowId> &dead = {}) const
	{
		return nearest_in_graphs({{&first, widths[0]}, {&second, widths[1]}}, &delta, query, k, after, dead);
	}

	std::mt19937 rng;
	GraphedRows first;
	GraphedRows second;
	Rows delta;
	std::unique_ptr<Engine> engine;
	CopyId copy = 0;
};

/// Compare searches of several widths, and continue them from the middle.
inline void
expect_answers(const GraphCopy &held, const Rows &queries, const std::set<RowId> &dead = {})
{
	constexpr std::array<uint32_t, 2> kChoices[] = {{1, 1}, {30, 20}, {0, 0}, {149, 62}, {150, 10}, {1000, 1000}};
	const auto is_part = [&](const std::array<uint32_t, 2> &widths, const void *query)
	{ return widths[0] != 1000 && !std::isnan(oracle_score(queries.spec, query, query)); };

	expect_choices(held, queries, kChoices, is_part, dead);
}

} // namespace vectorgpu::engine::test

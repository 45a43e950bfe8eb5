// Builds of graphs whose nearest rows another engine finds, and the comparison of two. Shared by the tests of the
// engines.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/held_rows.hpp"
#include "engine/interface/graph_builder.hpp"

namespace vectorgpu::engine::test
{

struct HelpedBuild
{
	std::vector<uint32_t> edges;
	std::vector<uint32_t> entries;
	ivf::Calibration calibration;
	ivf::DepthCalibration depths;
	Status status;
};

/// Rows in groups of about 60, larger than lists of degree 8, so that searches need entry points of their own; noise:
/// of a row where a centre has 1.
inline Rows
grouped_rows(const DistanceSpec &spec, size_t n, float noise = 0.1f, uint32_t copies_every = 0)
{
	std::mt19937 rng(11);
	std::normal_distribution<float> normal(0, 1);
	Rows rows(spec);
	std::vector<float> centres(n / 60 * spec.dim);
	Bytes vector(rows.row_bytes);

	for (float &x : centres)
		x = normal(rng);
	for (size_t i = 0; i < n; i++)
	{
		const size_t group = rng() % (n / 60);

		if (spec.element != ElementType::kFloat32)
			random_vector(spec, Data::kGaussian, rng, vector.data());
		else if (copies_every == 0 || i % copies_every != 0)
			for (uint32_t d = 0; d < spec.dim; d++)
			{
				const float x = centres[group * spec.dim + d] + noise * normal(rng);

				memcpy(vector.data() + d * sizeof(float), &x, sizeof(x));
			}
		rows.add(i, vector.data());
	}
	return rows;
}

inline HelpedBuild
build_helped(
	const Rows &rows, Engine *searcher, uint32_t degree = 8, const NearGroupsTuning &tuning = {}, size_t n_threads = 2)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = n_threads, .near_groups = tuning});
	SearchControl control;
	GraphBuildSpec spec;
	std::unique_ptr<GraphBuilder> builder;
	HelpedBuild built;

	spec.rows = rows.spec;
	spec.n_rows = static_cast<uint32_t>(rows.n());
	spec.degree = degree;
	spec.calibrate = true;
	built.status = engine->make_graph_builder(spec, &control, searcher, &builder);
	if (built.status.is_ok())
		built.status = builder->add_rows(rows.vectors.data(), rows.n());
	if (built.status.is_ok())
		built.status = builder->build();
	if (!built.status.is_ok())
		return built;
	EXPECT_EQ(builder->exact_neighbors(), searcher != nullptr);
	built.edges = builder->edges();
	built.entries = builder->entries();
	built.calibration = builder->calibration();
	built.depths = builder->depths();
	return built;
}

inline void
expect_same_build(const HelpedBuild &got, const HelpedBuild &want)
{
	ASSERT_TRUE(got.status.is_ok()) << got.status.message;
	ASSERT_TRUE(want.status.is_ok()) << want.status.message;
	EXPECT_EQ(got.edges, want.edges);
	EXPECT_EQ(got.entries, want.entries);
	ASSERT_EQ(got.calibration.n_points, want.calibration.n_points);
	EXPECT_EQ(got.calibration.n_queries, want.calibration.n_queries);
	for (uint32_t i = 0; i < want.calibration.n_points; i++)
	{
		EXPECT_EQ(got.calibration.probes[i], want.calibration.probes[i]) << i;
		EXPECT_EQ(got.calibration.recall[i], want.calibration.recall[i]) << i;
	}
	ASSERT_EQ(got.depths.n_depths, want.depths.n_depths);
	for (uint32_t d = 0; d < want.depths.n_depths; d++)
		for (uint32_t i = 0; i < want.calibration.n_points; i++)
			EXPECT_EQ(got.depths.recall[d][i], want.depths.recall[d][i]) << d << " " << i;
}

} // namespace vectorgpu::engine::test

// One graph in CUDA engines of several tunings (GraphTuning). All must answer alike, bit for bit, and, except by
// cosine, where nodes are told apart by rounded scores, as the CPU engine does. Shared by the tests of those tunings.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "answers.hpp"
#include "engine/graph_rows.hpp"

namespace vectorgpu::cuda::test
{

/// alone: few searches have blocks of their own (cuda/search/graph_alone.hpp).
inline std::unique_ptr<CudaEngine>
make_tuned_engine(const kernels::GraphTuning &tuning, bool narrow, bool alone)
{
	CudaEngineOptions options;
	std::unique_ptr<CudaEngine> engine;

	options.narrow = narrow;
	options.n_streams = 1;
	options.workspace_bytes = size_t{128} << 20;
	options.graph = tuning;
	options.graph_alone = alone;
	options.graph_choice = false;
	options.self_test = false;

	make_or_throw(options, &engine);
	return engine;
}

/// Engines for n values of a tuning, narrow or not, made once each.
template <size_t n>
class TunedEngines
{
public:
	/// make(value, narrow).
	template <class Make>
	std::vector<CudaEngine *> of(const std::array<uint32_t, n> &values, bool narrow, Make make)
	{
		std::vector<CudaEngine *> engines;

		for (size_t i = 0; i < n; i++)
		{
			if (engines_[narrow][i] == nullptr)
				engines_[narrow][i] = make(values[i], narrow);
			engines.push_back(engines_[narrow][i].get());
		}
		return engines;
	}

private:
	std::array<std::array<std::unique_ptr<CudaEngine>, n>, 2> engines_;
};

class TunedGraph
{
public:
	/// The engines outlive it.
	TunedGraph(std::span<CudaEngine *const> engines, const Rows &rows, uint32_t degree, uint32_t n_parts = 1,
		Edges edges = Edges::kBuilt)
		: graph(rows, degree, n_parts, edges)
	{
		for (CudaEngine *engine : engines)
			both.push_back(std::make_unique<Both>(engine::CopySpec(rows.spec, engine::CopyKind::kGraph), engine));
		change([this](Engine &e, CopyId c) { return graph.load(&e, c, 1); });
	}

	template <class Work>
	void change(Work work)
	{
		for (const std::unique_ptr<Both> &each : both)
			ASSERT_NO_FATAL_FAILURE(each->change(work));
	}

	/// The first n queries, each with another k and a width from `width` on; beyond the last they begin again.
	void expect_batch(const Rows &queries, size_t n, size_t k, uint32_t width, bool with_after = false)
	{
		std::vector<engine::SegmentProbes> probes(n);
		std::vector<SearchQuery> requests;

		for (size_t i = 0; i < n; i++)
		{
			probes[i] = {1, width + static_cast<uint32_t>(i * 7 % 23)};
			requests.push_back({queries.vector(i % queries.n()), k + i % 3, false, {}});
			requests.back().probes = {&probes[i], 1};
			if (with_after && i % 2 == 0)
			{
				requests.back().has_after = true;
				requests.back().after = {
					oracle_score(queries.spec, requests.back().query, graph.rows.vector(17)), graph.rows.ids[17]};
			}
		}
		expect_same_answers(requests);
	}

	void expect_same_answers(const std::vector<SearchQuery> &requests)
	{
		std::vector<std::vector<std::vector<Neighbor>>> found(both.size());
		std::vector<std::vector<Neighbor>> on_cpu;
		const DistanceSpec &spec = graph.rows.spec;

		for (size_t i = 0; i < both.size(); i++)
			ASSERT_OK(both[i]->cuda()->search(both[i]->cuda_copy(), requests, &found[i], nullptr));
		ASSERT_OK(both[0]->cpu()->search(both[0]->cpu_copy(), requests, &on_cpu, nullptr));
		for (size_t q = 0; q < requests.size(); q++)
		{
			SCOPED_TRACE(testing::Message()
				<< metric_name(spec.metric) << " element " << static_cast<int>(spec.element) << " dim " << spec.dim
				<< ", query " << q << " of " << requests.size() << ", k " << requests[q].k << ", width "
				<< (requests[q].probes.empty() ? 0 : requests[q].probes[0].probes));
			if (spec.metric != Metric::kCosine)
			{
				ASSERT_NO_FATAL_FAILURE(test::expect_same(found[0][q], on_cpu[q]));
			}
			for (size_t i = 1; i < both.size(); i++)
			{
				SCOPED_TRACE(testing::Message() << "engine " << i);
				ASSERT_NO_FATAL_FAILURE(test::expect_same(found[i][q], found[0][q]));
			}
		}
	}

	GraphedRows graph;
	std::vector<std::unique_ptr<Both>> both;
};

inline Rows
make_rows(const DistanceSpec &spec, Values values, size_t n, unsigned seed, RowId first_id = 1)
{
	std::mt19937 rng(seed);
	Rows rows(spec);

	add_values(&rows, values, 30, n, rng, first_id);
	return rows;
}

} // namespace vectorgpu::cuda::test

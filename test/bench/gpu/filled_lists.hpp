// Inverted lists of a data set, made on the CPU and loaded into an engine as an index is.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "coded_lists.hpp"
#include "engine/interface/engine.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "support/same_answers.hpp"
#include "threads.hpp"
#include "u8bin.hpp"

namespace vectorgpu::bench
{

using vectorgpu::test::begin_with;
using vectorgpu::test::same;

/// Input of Engine::load_segment and load_structure.
struct InvertedLists
{
	std::vector<uint8_t> description;
	std::vector<float> vectors;    // by place
	std::vector<uint64_t> offsets; // [n_lists + 1]

	uint32_t n_lists() const { return static_cast<uint32_t>(offsets.size() - 1); }
};

inline std::vector<float>
train(const Matrix &base, uint32_t n_lists)
{
	const uint64_t n = std::min<uint64_t>(base.n, uint64_t{n_lists} * engine::ivf::kTrainingRowsPerCluster);
	const size_t stride = base.n / n * base.dim;
	engine::ivf::KMeansSpec spec;
	engine::ivf::KMeansReport report;
	engine::ivf::Call call;
	std::vector<float> centroids(size_t{n_lists} * base.dim);

	spec.dim = base.dim;
	spec.n_clusters = n_lists;
	spec.n_rows = n;
	spec.n_threads = call.n_threads = n_threads;
	call.parallel = in_threads;

	std::vector<uint8_t> work(engine::ivf::kmeans_work_bytes(spec));

	must(engine::ivf::kmeans_train(
		spec, {base.values.data(), stride}, centroids.data(), nullptr, &report, work.data(), work.size(), call));
	return centroids;
}

/// Put the rows into the lists of the nearest centroids.
inline InvertedLists
fill(const Matrix &base, const std::vector<float> &centroids, uint32_t n_lists)
{
	std::vector<uint8_t> memory(engine::ivf::coarse_bytes(base.dim, n_lists));
	engine::ivf::Coarse coarse;
	engine::ivf::Call call;
	std::vector<uint32_t> labels(base.n);
	std::vector<uint32_t> numbers(base.n);
	InvertedLists lists;

	must(engine::ivf::coarse_init(centroids.data(), n_lists, base.dim, memory.data(), memory.size(), &coarse));
	call.n_threads = n_threads;
	call.parallel = in_threads;

	std::vector<uint8_t> work(engine::ivf::coarse_assign_work_bytes(coarse, n_threads));

	must(engine::ivf::coarse_assign(
		coarse, base.values.data(), base.dim, base.n, labels.data(), nullptr, work.data(), work.size(), call));
	std::iota(numbers.begin(), numbers.end(), 0);
	std::stable_sort(numbers.begin(), numbers.end(), [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
	lists.offsets.resize(n_lists + 1);
	for (const uint32_t label : labels)
		lists.offsets[label + 1]++;
	std::partial_sum(lists.offsets.begin(), lists.offsets.end(), lists.offsets.begin());
	lists.vectors.reserve(base.values.size());
	for (const uint32_t number : numbers)
		lists.vectors.insert(lists.vectors.end(),
			base.values.begin() + static_cast<ptrdiff_t>(size_t{number} * base.dim),
			base.values.begin() + static_cast<ptrdiff_t>((size_t{number} + 1) * base.dim));

	const auto put = [&lists](const auto &values)
	{
		const uint8_t *from = reinterpret_cast<const uint8_t *>(values.data());

		lists.description.insert(lists.description.end(), from, from + values.size() * sizeof(values[0]));
	};

	put(lists.offsets);
	put(centroids);
	put(numbers);
	return lists;
}

/// Append codes to the description.
inline void
add_codes(const engine::CodesHead &head, uint32_t dim, const std::vector<float> &centroids, InvertedLists *lists)
{
	const std::vector<uint8_t> codes =
		describe_codes({head, n_threads, in_threads}, dim, lists->vectors, centroids, lists->offsets);

	lists->description.insert(lists->description.end(), codes.begin(), codes.end());
}

/// Load as a copy of this kind. A row's id is its number.
inline engine::CopyId
load(engine::Engine *engine, uint32_t dim, const InvertedLists &lists, engine::CopyKind kind,
	Metric metric = Metric::kL2)
{
	const size_t n = lists.vectors.size() / dim;
	std::vector<RowId> ids(n);
	engine::CopyId copy = 0;

	std::iota(ids.begin(), ids.end(), 0);
	must(engine->create({{metric, ElementType::kFloat32, dim}, kind}, &copy));
	must(engine->load_segment(copy, 1, {ids, lists.vectors.data(), n}));
	must(engine->load_structure(copy, 1, lists.n_lists(), lists.description));
	must(engine->seal_segment(copy, 1));
	return copy;
}

} // namespace vectorgpu::bench

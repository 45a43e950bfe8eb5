// Data of the benchmarks of graphs: the files that VECTORGPU_U8BIN and VECTORGPU_U8QUERIES name (uint32 n, uint32 dim,
// n x dim uint8), of the former the first VECTORGPU_ROWS; true neighbours are found by exact search here.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

constexpr size_t kQueries = 500;
constexpr size_t kTrueNeighbors = 10;

struct Vectors
{
	uint32_t dim = 0;
	std::vector<float> values;

	GraphRows rows() const
	{
		return {{Metric::kL2, ElementType::kFloat32, dim}, values.data(), dim * sizeof(float),
			static_cast<uint32_t>(dim == 0 ? 0 : values.size() / dim)};
	}
};

inline Vectors
from_file(const char *variable, size_t most)
{
	const char *path = std::getenv(variable);
	const std::unique_ptr<FILE, int (*)(FILE *)> file(path == nullptr ? nullptr : fopen(path, "rb"), fclose);
	Vectors vectors;
	uint32_t header[2];

	if (file == nullptr || fread(header, 4, 2, file.get()) != 2)
		return vectors;
	std::vector<uint8_t> bytes(std::min<size_t>(header[0], most) * header[1]);

	vectors.dim = header[1];
	if (fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size())
		vectors.values.assign(bytes.begin(), bytes.end());
	return vectors;
}

inline const Vectors &
base()
{
	const char *most = std::getenv("VECTORGPU_ROWS");
	static const Vectors loaded = from_file("VECTORGPU_U8BIN", most == nullptr ? SIZE_MAX : std::stoul(most));

	return loaded;
}

inline const Vectors &
queries()
{
	static const Vectors loaded = from_file("VECTORGPU_U8QUERIES", kQueries);

	return loaded;
}

/// Scores of the kTrueNeighbors-th nearest row of each vector, `own` of them its own row.
inline std::vector<double>
last_scores(const Vectors &vectors, size_t own)
{
	const GraphRows rows = base().rows();
	std::vector<double> scores(rows.n_rows);
	std::vector<double> last;

	for (size_t q = 0; q < vectors.rows().n_rows; q++)
	{
		compute_scores(rows.spec, vectors.rows().row(static_cast<uint32_t>(q)), rows.rows, rows.row_stride, rows.n_rows,
			scores.data());
		std::nth_element(scores.begin(), scores.begin() + kTrueNeighbors + own - 1, scores.end());
		last.push_back(scores[kTrueNeighbors + own - 1]);
	}
	return last;
}

inline bool
has_data(benchmark::State &state)
{
	if (base().dim != 0 && queries().dim == base().dim)
		return true;
	state.SkipWithError("VECTORGPU_U8BIN and VECTORGPU_U8QUERIES name no data");
	return false;
}

} // namespace vectorgpu::engine::graph

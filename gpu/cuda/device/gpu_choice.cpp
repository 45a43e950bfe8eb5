// See gpu_choice.hpp. Times are of batches of 16, as in engine/graph/gpu_times.hpp for graphs. Measurements (one H200,
// `gpu_search_bench`, test/gpu/REPORT.md), microseconds, k = 10:
//   rows                 1 query   16    64   model
//   SIFT, bytes             58     71   104    70
//   SIFT, fp32             144    157   172   157
//   fashion-mnist, bytes    40     53    81    54
//   fashion-mnist, fp32     94    109   136   109
// and between batches of 1 and 64 as above 35 more for k = 100 and 205 more for k = 1000 (SIFT, bytes).
#include "cuda/device/gpu_choice.hpp"

#include <algorithm>
#include <cmath>

#include "engine/graph/gpu_times.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr double kBytesPassUs = 43;    // a pass over bytes, and the way to the device and back
constexpr double kPassUs = 46;         // a pass over other rows
constexpr double kPassDimUs = 0.024;   // for each dimension of those: more of their rows are rescored
constexpr double kBytesPerUs = 4.25e6; // read by an H200
constexpr double kMeasuredK = 10;
constexpr double kDecadeOfKUs = 18;  // for ten times as many results,
constexpr double kEachOfKUs = 0.175; // and for each
constexpr double kExactAhead = 4;    // factor of an exact search that was not measured: over bytes the direct way took
									 // three times as long

} // namespace

double
more_results_us(uint64_t k)
{
	const double more = std::max(static_cast<double>(k), kMeasuredK) / kMeasuredK;

	return kDecadeOfKUs * std::log10(more) + kEachOfKUs * kMeasuredK * (more - 1);
}

double
exact_pass_us(const GraphChoice &rows, uint64_t k)
{
	return (rows.is_byte ? kBytesPassUs : kPassUs + kPassDimUs * rows.dim) + more_results_us(k);
}

double
exact_rows_us(const GraphChoice &rows)
{
	return static_cast<double>(rows.n_rows) * rows.row_bytes / kBytesPerUs;
}

uint64_t
choose_exact(std::span<const GraphChoice> graphs, uint64_t k, const Passes &passes)
{
	double pass = 0; // this and the next two: of graphs that share a pass
	double gain = 0;
	uint64_t together = 0;
	uint64_t alone = 0;

	for (size_t i = 0; i < graphs.size(); i++)
	{
		const GraphChoice &rows = graphs[i];
		const double factor = rows.measured ? 1 : kExactAhead;
		const double by_graph = engine::graph::gpu_graph_us(rows.width, rows.dim, rows.n_entries);
		const double all = factor * exact_rows_us(rows);
		const double begin = factor * exact_pass_us(rows, k);

		if (passes.shared && rows.measured)
		{
			if (all >= by_graph)
				continue;
			together |= uint64_t{1} << i;
			gain += by_graph - all;
			pass = passes.begun ? 0 : std::max(pass, begin);
		}
		else if (all + begin <= by_graph)
			alone |= uint64_t{1} << i;
	}
	return alone | (gain >= pass ? together : 0);
}

} // namespace vectorgpu::cuda
